"""Replay: from the first row, under another policy, and after a few new events."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count, islice
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import lmdb
import numpy as np
from benchmarks.generator import Wire, events
from benchmarks.harness import Result, Setting, in_turn, watch
from benchmarks.stores import append, build

import rightful
from rightful import limits
from rightful.encoding.envelope import SALT_BYTES, body_kind, decode
from rightful.encoding.merkle import HASH_BYTES, LEAF
from rightful.events import TYPES
from rightful.ledger import Ledger
from rightful.projections.credit.posteriors import Posteriors

NEW_EVENTS = 100
WHAT_IF_PAIRS = 3
"""Pairs of each kind of what-if: there are many kinds, and each turn replays cold."""

POLICIES: tuple[dict[str, Any] | str, ...] = (
    {"credit": "split"},
    {"revision": "additive"},
    {"decay": {"mode": "time", "half_life": 604_800}},
    {"graders": ["judge/*", "*/overall"]},
    "historical-newest",
    "gptme",
)
"""Each is asked once, so that none is answered from what was kept for it."""


class Seen(NamedTuple):
    """What the bare scan found, to see that it read everything."""

    rows: int
    rewards: int
    total: float


def replay(setting: Setting) -> Iterator[Result]:
    """Cold replay to posteriors, beside a bare scan that checks and decodes the same rows."""
    size = setting.events(1_000_000, 2_000)
    path = setting.folder / "ledger"
    build(path, events(size))
    wanted = expected(events(size))
    with rightful.open(path) as ledger:
        answer = ledger.posteriors()

    def floor() -> float:
        seconds, seen = scan(path)
        assert seen == wanted
        return size / seconds

    def ours(*, store: bool = False) -> float:
        seconds, found = cold(path, store=store)
        same(found, answer)
        return size / seconds

    pairs = in_turn(ours, floor, setting.pairs)
    what = "bare scan, row check and msgspec decode of the same rows"
    storing = in_turn(lambda: ours(store=True), floor, setting.pairs)
    detail = {"ratio_storing": round(median(pair.ours / pair.floor for pair in storing), 4)}
    yield Result("replay-cold", what, "events/s", 0.5, size, pairs, detail=detail)


def another_policy(setting: Setting) -> Iterator[Result]:
    """The same question under another policy with the projection loaded, beside a cold replay."""
    size = setting.events(1_000_000, 2_000)
    path = setting.folder / "ledger"
    build(path, events(size))
    policies = iter(POLICIES)
    with rightful.open(path) as ledger:
        bound = ledger.posteriors()

        def ours() -> float:
            with watch() as taken:
                found = ledger.posteriors(next(policies))
            assert found.through == size
            assert found.policy != bound.policy
            assert found.arms
            return taken.seconds

        pairs = in_turn(ours, lambda: _cold_again(path, ledger, bound), min(setting.pairs, len(POLICIES) - 1))
    names = [policy if isinstance(policy, str) else next(iter(policy)) for policy in POLICIES[1:]]
    yield Result("replay-another-policy", "cold replay", "s", 10, size, pairs, inverse=True, detail={"policies": names})


def what_if(setting: Setting) -> Iterator[Result]:
    """One thing changed in the default policy, with the projection loaded, beside a cold replay; a row each.

    Each turn asks for another session, arm or number, so that none is answered from what was kept.
    """
    size = setting.events(1_000_000, 2_000)
    path = setting.folder / "ledger"
    build(path, events(size))
    with rightful.open(path) as ledger:
        bound = ledger.posteriors()
        sessions, names = _graded_sessions(ledger, setting.pairs + 1), list(bound.arms)
        for kind, change in WHAT_IFS.items():
            turns = count()

            def ours(change: Change = change, turns: Iterator[int] = turns) -> float:
                with watch() as taken:
                    found = ledger.posteriors(change(next(turns), sessions, names))
                assert found.through == size
                assert found.policy != bound.policy
                return taken.seconds

            pairs = in_turn(ours, lambda: _cold_again(path, ledger, bound), min(setting.pairs, WHAT_IF_PAIRS))
            yield Result(f"what-if-{kind}", "cold replay", "s", 10, size, pairs, inverse=True)


Change = Callable[[int, list[str], list[str]], dict[str, Any]]
"""A policy of a turn, from its number, sessions and arms of the ledger."""

WHAT_IFS: dict[str, Change] = {
    "without-session": lambda turn, sessions, arms: {"without_sessions": [sessions[turn]]},
    "without-grader": lambda turn, sessions, arms: {"without_graders": ["human/overall", f"nobody/{turn}"]},
    "arm-alias": lambda turn, sessions, arms: {"arm_aliases": {arms[turn + 1]: arms[0]}},
    "credit": lambda turn, sessions, arms: {"credit": "split", "skew_s": float(turn)},
    "revision": lambda turn, sessions, arms: {"revision": "additive", "skew_s": float(turn)},
    "decay-time": lambda turn, sessions, arms: {"decay": {"mode": "time", "half_life": 604_800.0 + turn}},
    "decay-session": lambda turn, sessions, arms: {"decay": {"mode": "session", "gamma": 0.99 - turn / 1_000}},
    "balances": lambda turn, sessions, arms: {"balances": [f"{turn}"]},
    "join": lambda turn, sessions, arms: {"join": "newest", "revision": "additive", "skew_s": float(turn)},
}


def _graded_sessions(ledger: Ledger, wanted: int) -> list[str]:
    """Return some sessions that were shown arms and are graded, from all over the ledger."""
    facts = ledger.projected().facts
    both = np.intersect1d(facts.shown["name"], facts.grades["name"])
    return [facts.names.text(number) for number in both[:: max(len(both) // wanted, 1)].tolist()]


def new_events(setting: Setting) -> Iterator[Result]:
    """Posteriors after 100 new events in process, beside a cold replay of all."""
    size = setting.events(1_000_000, 2_000)
    path = setting.folder / "ledger"
    wires = events(size + NEW_EVENTS * (setting.pairs + 1))
    build(path, islice(wires, size))
    with rightful.open(path) as ledger:
        ledger.posteriors()
        found = [ledger.posteriors()]

        def ours() -> float:
            append(ledger, list(islice(wires, NEW_EVENTS)))
            with watch() as taken:
                found[0] = ledger.posteriors()
            assert found[0].through == ledger.log.head()
            return taken.seconds

        pairs = in_turn(ours, lambda: _cold_again(path, ledger, found[0]), setting.pairs)
    yield Result("replay-100-new-events", "cold replay", "s", 100, size, pairs, inverse=True)


def cold(path: Path, *, store: bool = False) -> tuple[float, Posteriors]:
    """Open the ledger, ask, and close, with nothing stored before; return seconds and answer.

    Args:
        path: The ledger.
        store: Store the projections for the next time too.
    """
    shutil.rmtree(path / "projections", ignore_errors=True)
    with watch() as taken, rightful.open(path, readonly=not store) as ledger:
        found = ledger.posteriors()
    assert (path / "projections").exists() == store
    return taken.seconds, found


def _cold_again(path: Path, ledger: Ledger, answer: Posteriors) -> float:
    """Replay cold while the ledger stays open; the answer must be the same."""
    assert ledger.log.head() == answer.through
    seconds, found = cold(path)
    same(found, answer)
    return seconds


def same(found: Posteriors, answer: Posteriors) -> None:
    """See that two replays gave the same answer."""
    assert found.through == answer.through
    assert found.arms == answer.arms
    assert found.counters == answer.counters


def scan(path: Path) -> tuple[float, Seen]:
    """Read every row by bare LMDB: leaf hash, commitment, envelope and body; return seconds and what was seen."""
    with watch() as taken:
        env = lmdb.open(
            str(path / "store"),
            readonly=True,
            map_size=limits.MAP_BYTES,
            max_readers=limits.MAX_READERS,
            max_dbs=8,
            lib_version=0,
        )
        try:
            seen = _scan(env)
        finally:
            env.close()
    return taken.seconds, seen


def _scan(env: lmdb.Environment) -> Seen:
    rows, payloads = (env.open_db(name, create=False) for name in (b"rows", b"payloads"))
    decoders = {name: body_kind(kind).decode for name, kind in TYPES.items()}
    count, rewards = 0, []
    with env.begin() as txn, txn.cursor(db=rows) as envelopes, txn.cursor(db=payloads) as bodies:
        for (key, value), (place, payload) in zip(envelopes.iternext(), bodies.iternext(), strict=True):
            record = value[HASH_BYTES:]
            assert key == place
            assert sha256(LEAF + record).digest() == value[:HASH_BYTES]
            envelope = decode(record)
            assert sha256(payload).hexdigest() == envelope.commitment
            body = decoders[envelope.type](payload[SALT_BYTES:])
            count += 1
            if envelope.type == "grade.recorded" and body.reward is not None:
                rewards.append(body.reward)
    return Seen(count, len(rewards), fsum(rewards))


def expected(wires: Iterator[Wire]) -> Seen:
    """Return what a scan of these events must see."""
    rows, rewards = 0, []
    for wire in wires:
        rows += 1
        if wire["type"] == "grade.recorded" and "reward" in wire:
            rewards.append(wire["reward"])
    return Seen(rows, len(rewards), fsum(rewards))
