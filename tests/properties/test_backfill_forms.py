"""A file that a tool wrote comes back byte for byte where the log adds nothing, and is added to where it does."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.backfilling import asked
from tests.log.memory import MemoryRecorder
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import Bandit
from tests.strategies import Wire

from rightful.backfill.planning import Books, make_plan
from rightful.log.log import Log
from rightful.projections.projected import Projected

SOME = settings(max_examples=examples(60), deadline=None)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
rewards = st.floats(0, 1)
entries = st.fixed_dictionaries(
    {
        "alpha": st.floats(1, 1e6),
        "beta": st.floats(1, 1e6),
        "total_selections": st.integers(0, 10**6),
        "total_rewards": st.integers(0, 10**6),
    }
)
states = st.dictionaries(names, entries, max_size=5)


def books_of(events: list[Wire]) -> Books:
    log = Log(MemoryRecorder())
    log.append(events)
    return Books(Projected(log), Path("nowhere"), "memory")


def text_of(arms: dict[str, dict[str, Any]], sessions: int) -> bytes:
    times = {"created": "1970-01-01T01:00:00.000005+00:00", "last_updated": "1970-01-01T02:00:00+00:00"}
    at = "1970-01-01T01:30:00+00:00"
    every = {
        arm: {
            "arm_id": arm, "alpha": one["alpha"], "beta": one["beta"], "total_selections": one["total_selections"],
            "total_rewards": one["total_rewards"], "last_updated": at,
        }
        for arm, one in arms.items()
    }  # fmt: skip
    document: dict[str, Any] = {"arms": every, "total_sessions": sessions, **times}
    if every:
        document["contextual_arms"] = {arm: {'["code", null]': one} for arm, one in every.items()}
    return (json.dumps(document, indent=2) + "\n").encode()


@SOME
@given(states, st.integers(0, 10**6))
def test_a_state_that_the_log_adds_nothing_to_comes_back_byte_for_byte(arms: Any, sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "bandit-state.json"
        target.write_bytes(text_of(arms, sessions))

        for reader in ("gptme-sessions", "lesson-hook", "gptme-hybrid"):
            assert make_plan(books_of([]), asked(target, reader)).data == target.read_bytes()


@SOME
@given(states, st.dictionaries(names, rewards, max_size=4))
def test_what_the_log_credits_is_added_and_the_rest_stays(arms: Any, graded_arms: dict[str, float]) -> None:
    events = [exposed(f"t:{at}", arm, at=20_000) for at, arm in enumerate(graded_arms)]
    events += [graded(f"t:{at}", reward, at=20_001) for at, reward in enumerate(graded_arms.values())]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "bandit-state.json"
        target.write_bytes(text_of(arms, 3))
        plan, data, _ = make_plan(books_of(events), asked(target))
        target.write_bytes(data)
        found = Bandit(target)

    assert {one.arm for one in plan.changes} == {arm for arm in graded_arms if _moves(arms, arm, graded_arms[arm])}
    assert list(found.arms) == [*arms, *sorted(graded_arms.keys() - arms.keys())]
    assert found.total_sessions == 3 + len(graded_arms)
    for arm, one in found.arms.items():
        old = arms.get(arm, {"alpha": 1.0, "beta": 1.0, "total_selections": 0})
        reward = graded_arms.get(arm)
        assert one.total_selections == old["total_selections"] + (reward is not None)
        up, down = (0.0, 0.0) if reward is None else (reward, 1.0 - reward)
        assert abs(one.alpha - old["alpha"] - up) <= 1e-9
        assert abs(one.beta - old["beta"] - down) <= 1e-9


def _moves(arms: dict[str, dict[str, Any]], arm: str, reward: float) -> bool:
    """A reward next to 0 or 1 beside a large number changes no float; a new arm is a change all the same."""
    old = arms.get(arm)
    return old is None or old["alpha"] + reward != old["alpha"] or old["beta"] + (1.0 - reward) != old["beta"]
