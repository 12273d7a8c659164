"""Parity: a log recorded call by call gives the numbers of the bandit whose calls they were, bit for bit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests import amounts
from tests.bandit import Arm, Bandit, Context
from tests.log.memory import MemoryRecorder

from rightful import times
from rightful.importers.bandits.updater_calls import BanditCalls
from rightful.log.log import Log
from rightful.policies import PRESETS
from rightful.projections.arithmetic.sums import Key
from rightful.projections.arithmetic.tallies import tallies
from rightful.projections.credit.posteriors import Posterior
from rightful.projections.projected import Projected

GPTME = PRESETS["gptme"]
GOLDEN = Path(__file__).parents[1] / "golden" / "bandit-state.json"
STREAMS = 300
ARMS = [f"lessons/{name}.md" for name in ("git", "tools", "a", "z", "quote-paths")]
CONTEXTS: list[Context | None] = [None, None, ("code", "opus"), ("code", None), ("triage",), ()]
GAMMAS = [None, None, 0.99, 0.5, 1.0, 0.123456789]
NUMBERS = (0.0, 1.0, 0.5, 0.1, 0.2, 0.3, 0.7, 5e-324, 0.9999999999999999)

Row = tuple[str, str, int, int, str]
"""alpha and beta in hexadecimal, selections, successes, last update."""


class Stream:
    """A bandit that is driven at random, and the log of its calls."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.at = datetime(2026, 8, 1, 10, 15, tzinfo=UTC)
        self.disk: dict[str, str] = {}
        self.bandit = self.loaded()
        self.log = Log(MemoryRecorder(), clock=lambda: times.us_of(self.at))
        self.calls = BanditCalls(self.log, "gptme-sessions")
        self.unsaved: list[Callable[[], Any]] = []
        self.number = count()
        self.by_name = False

    def loaded(self) -> Bandit:
        return Bandit(self.disk, lambda: self.at)

    def tick(self) -> None:
        days = self.rng.choice([0, 0, 0, 1, 40])
        self.at += timedelta(days=days, seconds=self.rng.randint(1, 5_000), microseconds=self.rng.randint(0, 999_999))

    def record(self, method: Callable[..., Any], *said: Any, saved: bool = True, **more: Any) -> None:
        """Record a call once it is saved, behind what was in memory before it; some of them twice."""
        at, call = self.at, f"call {next(self.number)}"
        self.unsaved.append(lambda: method(*said, call=call, at=at, **more))
        if saved:
            for one in self.unsaved:
                for _ in range(self.rng.choice([1, 1, 2])):
                    one()
            self.unsaved.clear()

    def reward(self) -> float:
        return self.rng.choice([*NUMBERS, self.rng.random(), self.rng.random()])

    def drawn(self) -> dict[str, Any]:
        arms = self.rng.choices(ARMS, k=self.rng.choice([0, 1, 1, 2, 3, 5]))
        own = {arm: self.reward() for arm in self.rng.sample(ARMS, self.rng.choice([0, 0, 1, 2]))}
        word = self.rng.choice(["productive", "noop", "violated_policy"])
        outcome: float | str = word if self.rng.random() < 0.5 else self.reward()
        if set(arms) <= own.keys() and self.rng.random() < 0.5:
            outcome = self.rng.choice([7.0, float("nan"), -1.0])
        context, gamma = self.rng.choice(CONTEXTS), self.rng.choice(GAMMAS)
        return {"arms": arms, "outcome": outcome, "context": context, "per_arm_rewards": own, "decay_rate": gamma}

    def step(self) -> None:
        self.tick()
        act = self.rng.choices(
            [self.update, self.refused_word, self.refused_reward, self.decay, self.forget, self.prune, self.reload],
            [12, 1, 1, 2, 1, 1, 3],
        )[0]
        act()

    def update(self) -> None:
        said = self.drawn()
        self.bandit.update(**said)
        session = self.rng.choice([None, None, "gptme:2026-08-01-running-blue-fox"])
        self.record(self.calls.update, said.pop("arms"), said.pop("outcome"), session=session, **said)

    def refused_word(self) -> None:
        """Its decay stays in memory."""
        gamma = self.rng.choice(GAMMAS)
        with pytest.raises(ValueError, match="odd"):
            self.bandit.update(["lessons/a.md"], "odd", decay_rate=gamma)
        if gamma is not None:
            self.record(self.calls.decay, gamma, saved=False)

    def refused_reward(self) -> None:
        """The arms before it have changed in memory; a new arm stands at the prior, and is never selected."""
        said, bad = self.drawn(), self.rng.choice([*ARMS, f"bad {next(self.number)}"])
        if not isinstance(said["outcome"], float) or not 0.0 <= said["outcome"] <= 1.0:
            said["outcome"] = 0.25
        before = [arm for arm in said["arms"] if arm != bad]
        said["per_arm_rewards"] = {**said["per_arm_rewards"], bad: self.rng.choice([1.5, -0.1, float("nan")])}
        if bad in ARMS and bad not in self.bandit.arms:
            return
        with pytest.raises(ValueError, match=r"1\.5|-0\.1|nan"):
            self.bandit.update(**{**said, "arms": [*before, bad, "lessons/z.md"]})
        said["arms"] = before
        if not before:
            if said["decay_rate"] is not None:
                self.record(self.calls.decay, said["decay_rate"], saved=False)
            return
        self.record(self.calls.update, said.pop("arms"), said.pop("outcome"), saved=False, **said)

    def decay(self) -> None:
        gamma = self.rng.choice([0.99, 0.9, 0.3])
        self.bandit.decay(gamma)
        self.record(self.calls.decay, gamma)

    def forget(self) -> None:
        self.bandit.forget(0.75)
        self.record(self.calls.decay, 0.75, saved=False)

    def prune(self) -> None:
        arms, inside = self.bandit.prune(self.rng.choice([0, 0, 1, 3]), self.rng.choice([30, 90]))
        self.record(self.calls.pruned, arms, inside)

    def reload(self) -> None:
        """What was not saved is gone; an old file names its arms by another key."""
        if self.rng.random() < 0.3 and "file" in self.disk:
            self.disk["file"] = self.disk["file"].replace('"arm_id"', '"lesson_path"')
        self.bandit = self.loaded()
        self.unsaved.clear()
        self.check()

    def check(self) -> None:
        """The state on the disk is what the log gives."""
        on_disk = self.loaded()
        wanted = [(name, told(one)) for name, one in on_disk.arms.items() if one.total_selections]
        inside = [(name, context, told(one)) for name, of in on_disk.contextual.items() for context, one in of.items()]
        assert_same(self.replayed(), wanted, inside, by_name=self.by_name)

    def replayed(self) -> tuple[list[tuple[str, Row]], list[tuple[str, Context, Row]]]:
        asked = Projected(self.log)
        found = asked.posteriors(GPTME)
        beliefs: dict[Key, Posterior] = {(arm, None): one for arm, one in found.arms.items()}
        beliefs.update({(one.arm, one.context): one for one in found.contexts})
        counted = tallies(asked.facts, asked.settle(GPTME, found.through), GPTME, found.through)
        assert counted.keys() == beliefs.keys()
        rows: dict[Any, Row] = {}
        for key, tally in counted.items():
            assert tally.n == beliefs[key].n
            last = "" if tally.last_us is None else times.at_of(tally.last_us).isoformat()
            rows[key] = (beliefs[key].alpha.hex(), beliefs[key].beta.hex(), tally.n, tally.rewards, last)
        inside = [(arm, context, row) for (arm, context), row in rows.items() if context is not None]
        return [(arm, row) for (arm, context), row in rows.items() if context is None], inside


def told(one: Arm) -> Row:
    return one.alpha.hex(), one.beta.hex(), one.total_selections, one.total_rewards, one.last_updated


def assert_same(got: tuple[list[Any], list[Any]], wanted: list[Any], inside: list[Any], *, by_name: bool) -> None:
    if by_name:  # a balance is an object, and has no order
        assert (sorted(got[0]), sorted(got[1], key=repr)) == (sorted(wanted), sorted(inside, key=repr))
    else:
        assert got == (wanted, inside)


@pytest.mark.sweep
@pytest.mark.parametrize("tenth", range(10))
def test_a_log_recorded_call_by_call_gives_the_bandits_numbers_bit_for_bit(tenth: int) -> None:
    """300 streams of updates, decays, prunes, refused calls and reloads; order and times included."""
    for seed in range(tenth, STREAMS, 10):
        stream = Stream(seed)
        for _ in range(40):
            stream.step()
        stream.reload()


def opened(stream: Stream) -> dict[str, Any]:
    """What an import of the file that is on the disk says."""
    state = json.loads(stream.disk["file"])
    inside = [one for of in state.get("contextual_arms", {}).values() for one in of.values()]
    newest = max(one["last_updated"] for one in [state, *state["arms"].values(), *inside])  # a refused call's too
    through = {"through": newest} if newest else {}
    return {
        "type": "balance.opened", "producer": "import", "key": "balance", "at": stream.at.isoformat(),
        "source": "/ws/state/bandit/bandit-state.json", "sha256": "0" * 64, **through,
        "arms": {name: held(one) for name, one in state["arms"].items() if one["total_selections"]},
        "contexts": [
            {"arm": name, "context": json.loads(context), **held(one)}
            for name, of in state.get("contextual_arms", {}).items()
            for context, one in of.items()
        ],
    }  # fmt: skip


def held(one: dict[str, Any]) -> dict[str, Any]:
    n, rewards = one["total_selections"], one["total_rewards"]
    last = {"last_updated": one["last_updated"]} if one["last_updated"] else {}
    return {"alpha": one["alpha"], "beta": one["beta"], "n": n, "rewards": rewards, **last}


@pytest.mark.parametrize("known", [True, False], ids=["whose calls are in the log", "whose calls nobody recorded"])
def test_file_imported_midway_and_recorded_on_has_the_exact_numbers(known: bool) -> None:
    for seed in range(1_000, 1_000 + amounts.examples(60)):
        stream = Stream(seed)
        for _ in range(20):
            stream.step()
        if "file" not in stream.disk:
            continue
        stream.reload()
        if not known:
            stream.log = Log(MemoryRecorder(), clock=lambda at=stream: times.us_of(at.at))  # type: ignore[misc]
            stream.calls = BanditCalls(stream.log, "gptme-sessions")
        [receipt] = stream.log.append([opened(stream)])
        assert receipt.outcome == "appended"
        stream.by_name = True
        for _ in range(20):
            stream.step()
        stream.reload()


def test_the_oracle_writes_the_file_that_gptme_sessions_wrote() -> None:
    """The golden file is by gptme_sessions itself (gptme-contrib aabb1db1), with a clock that ticks once a reading."""
    seconds = count(2)  # its first reading was for `created`
    now = lambda: datetime(2026, 8, 1, 10, 15, 0, 5, tzinfo=UTC) + timedelta(seconds=next(seconds))  # noqa: E731
    disk: dict[str, str] = {}
    quote, small = (f"/home/dev/my.proj/lessons/{name}.md" for name in ("tools/quote-paths", "workflow/small-commits"))

    bandit = Bandit(disk, now)
    bandit.update([quote], 0.55)
    bandit.update([quote, small], "productive", context=("code", "opus"))
    bandit.update([small], 0.4, context=("code", None), decay_rate=0.99, per_arm_rewards={small: 0.31})

    golden = GOLDEN.read_text("utf-8")
    assert disk["file"] == golden.replace(json.loads(golden)["created"], "2026-01-01T00:00:00+00:00")


def met(row: Any) -> set[str]:
    event, named = row.event, ("per_arm", "decay_rate", "exposure_session", "extra", "contexts")
    arms = getattr(event, "arms", ())
    return {row.type, *(name for name in named if getattr(event, name, None))} | (
        {"twice"} if len(set(arms)) < len(arms) else set()
    )


def test_the_streams_meet_everything_that_a_bandit_can_do() -> None:
    """Else they would prove less than they say."""
    lengths, kinds = [], set()
    for seed in range(0, STREAMS, 10):
        stream = Stream(seed)
        for _ in range(40):
            stream.step()
        rows = list(stream.log.read())
        lengths.append(len(rows))
        kinds |= {kind for row in rows for kind in met(row)}

    assert kinds == {
        "exposure.recorded", "grade.recorded", "bandit.decayed", "bandit.pruned",
        "per_arm", "decay_rate", "exposure_session", "extra", "twice", "contexts",
    }  # fmt: skip
    assert min(lengths) > 20
