"""A new file has its arms in the order in which the real bandit, called in time, would have made them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import bytes_of, ledger_with, written
from tests.bandit import Bandit
from tests.projections.telling import exposed, graded

ARMS = [
    f"/ws/lessons/{name}.md"
    for name in ["zebra", "yak", "wolf", "viper", "urchin", "tiger", "snake", "rook", "quail", "python"]
]
CONTEXTS = [("code", "opus"), ("docs", None), ("code", None)]
REWARDS = [0.0, 0.25, 0.5, 0.75, 1.0]  # exact in binary: the sums are equal whatever their order

Session = tuple[str, list[str], tuple[str | None, ...] | None, float, int]


def sessions(seed: int) -> list[Session]:
    """Return sessions by the time of their grade: name, arms as they were listed, context, reward, time."""
    dice = random.Random(seed)
    found: list[Session] = []
    for number in range(dice.randint(2, 20)):
        arms = dice.sample(ARMS, dice.randint(1, 4))
        context = dice.choice([None, *CONTEXTS])
        found.append((f"t:{seed}-{number}", arms, context, dice.choice(REWARDS), 1_000 + 100 * number))
    return found


def events(told: list[Session], dice: random.Random) -> list[Any]:
    """Return the exposures and grades of sessions, in an order that has nothing to do with their times."""
    found = []
    for name, arms, context, reward, at in told:
        more: dict[str, Any] = {} if context is None else {"context": list(context)}
        cut = dice.randint(0, len(arms))  # shown at once, or in two exposures
        for number, part in enumerate((arms[:cut] and [arms[:cut], arms[cut:]]) or [arms]):
            if part:
                found.append(exposed(name, *part, at=at - 50 + number, **more))
        found.append(graded(name, reward, at=at))
    dice.shuffle(found)
    return found


def real(told: list[Session]) -> Bandit:
    now = [datetime(1970, 1, 1, tzinfo=UTC)]
    bandit = Bandit({}, lambda: now[0])
    for _, arms, context, reward, at in told:
        now[0] = datetime.fromtimestamp(at, UTC)
        bandit.update(arms, reward, context=context)
    return bandit


def drawn(arms: dict[str, Any], seed: int) -> dict[str, float]:
    """As `sample --seed` of gptme-sessions: a draw of each arm, in the order of the file."""
    dice = random.Random(seed)
    return {name: dice.betavariate(one["alpha"], one["beta"]) for name, one in arms.items()}


@pytest.mark.parametrize("seed", range(20))
def test_arms_and_contexts_have_the_order_of_their_first_use(tmp_path: Path, seed: int) -> None:
    told = sessions(seed)
    path = ledger_with(tmp_path, events(told, random.Random(seed)))
    bandit = real(told)

    document = json.loads(bytes_of(path, tmp_path / "new.json"))

    assert list(document["arms"]) == list(bandit.arms)
    assert {arm: list(inside) for arm, inside in document.get("contextual_arms", {}).items()} == {
        arm: [json.dumps(list(context)) for context in inside] for arm, inside in bandit.contextual.items()
    }
    assert list(document.get("contextual_arms", {})) == list(bandit.contextual)
    theirs = {name: {"alpha": one.alpha, "beta": one.beta} for name, one in bandit.arms.items()}
    assert drawn(document["arms"], seed) == drawn(theirs, seed)


def test_regrade_leaves_an_arm_its_first_use(tmp_path: Path) -> None:
    told = [
        exposed("t:a", ARMS[5], at=10),
        exposed("t:b", ARMS[2], at=20),
        graded("t:a", 0.5, at=30),
        graded("t:b", 0.5, at=40),
        graded("t:a", 1.0, at=50, seq=2),
    ]

    document = json.loads(bytes_of(ledger_with(tmp_path, told), tmp_path / "new.json"))

    assert list(document["arms"]) == [ARMS[5], ARMS[2]]


def test_new_arms_follow_those_of_the_file_in_the_order_of_their_use(tmp_path: Path) -> None:
    told = sessions(7)
    path = ledger_with(tmp_path, events(told, random.Random(7)))
    old = {name: {"alpha": 2.0, "beta": 1.0} for name in (ARMS[3], "/ws/lessons/old.md")}
    target = written(tmp_path / "b.json", {"arms": old})

    arms = list(json.loads(bytes_of(path, target, "gptme-hybrid"))["arms"])

    assert arms[:2] == list(old)
    assert arms[2:] == [name for name in real(told).arms if name not in old]
