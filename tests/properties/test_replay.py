"""Replay, held against an oracle and against itself, on random logs and policies."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.amounts import examples
from tests.oracle import BINS, replay
from tests.oracle_facts import Answer, Key, Line
from tests.projections.fake import FakeLog
from tests.strategies import START_S, Wire

import rightful
from rightful.identity import event_id
from rightful.policies import Policy, policy_of
from rightful.projections.credit import settle
from rightful.projections.credit.posteriors import Posteriors
from rightful.projections.projected import Projected
from rightful.projections.store import Store
from rightful.times import text_of

ROOT = Path(__file__).parents[2]
SLOW = [HealthCheck.too_slow]
MANY = settings(max_examples=examples(250), deadline=None, suppress_health_check=SLOW)
SOME = settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
FEW = settings(max_examples=examples(25), deadline=None, suppress_health_check=SLOW)

policies_asked = st.lists(strategies.kept_up_policies | strategies.policies, min_size=1, max_size=3)


def log_of(events: list[Wire], page: int = 5) -> FakeLog:
    log = FakeLog(page=page)
    log.append(events)
    return log


def projected(log: FakeLog, store: Store | None = None) -> Projected:
    return Projected(log, store)  # type: ignore[arg-type]


def said(posteriors: Posteriors) -> bytes:
    return msgspec.json.encode(posteriors.as_dict())


def answers(projection: Projected, wires: list[Wire]) -> list[bytes]:
    return [said(projection.posteriors(policy_of(wire))) for wire in wires]


def beliefs_of(got: Posteriors) -> dict[Key, tuple[float, float, int, float]]:
    found: dict[Key, tuple[float, float, int, float]] = {
        (arm, None): (one.alpha, one.beta, one.n, one.mass) for arm, one in got.arms.items()
    }
    return found | {(one.arm, one.context): (one.alpha, one.beta, one.n, one.mass) for one in got.contexts}


def assert_agree(got: Posteriors, want: Answer, policy: Policy) -> None:
    assert dict(got.counters) == want.counters
    assert sum(got.counters.get(f"{name}_grades", 0) for name in BINS) == want.units
    found = beliefs_of(got)
    assert found.keys() == want.beliefs.keys()
    rounded_once = policy.arithmetic == "sequential" or (policy.credit == "full" and policy.decay is None)
    for key, (alpha, beta, n, mass) in found.items():
        belief = want.beliefs[key]
        wanted = (float(belief.alpha), float(belief.beta), float(belief.mass))
        assert n == belief.n
        assert (alpha, beta, mass) == (wanted if rounded_once else pytest.approx(wanted, rel=0, abs=1e-12))


@MANY
@given(
    events=strategies.logs(),
    wire=strategies.policies,
    cut=st.none() | st.integers(0, 24),
    erased=st.just([]) | st.lists(st.integers(1, 24), max_size=2),
    page=st.sampled_from([1, 5, 1_024]),
    block=st.sampled_from([1 << 18, 3]),
    decay_at=st.none() | st.integers(START_S, START_S + 20),
)
def test_the_code_agrees_with_the_oracle(
    events: list[Wire], wire: Wire, cut: int | None, erased: list[int], page: int, block: int, decay_at: int | None
) -> None:
    """Counters are equal; sums that need no division or decay are the oracle's fraction, rounded once."""
    log, policy = log_of(events, page), policy_of(wire)
    for position in erased:
        if position <= log.head():
            log.erase(position)
    through = log.head() if cut is None else min(cut, log.head())

    with mock.patch.object(settle, "BLOCK_ROWS", block):
        got = projected(log).posteriors(policy, as_of=through, decay_at=decay_at)

    decay_at_us = None if decay_at is None else decay_at * 1_000_000
    assert_agree(got, replay(log.lines[:through], policy, decay_at_us), policy)


@MANY
@given(strategies.logs(), policies_asked, st.lists(st.integers(0, 24), max_size=5), st.sampled_from([1, 5]))
def test_questions_in_between_change_no_byte(events: list[Wire], wires: list[Wire], cuts: list[int], page: int) -> None:
    """Sums kept up row by row are those of a replay from the first row."""
    log = FakeLog(page=page)
    kept = projected(log)
    start = 0
    for cut in [*sorted(cuts), len(events)]:
        log.append(events[start:cut])
        start = max(start, cut)
        assert answers(kept, wires) == answers(projected(log), wires)


def apart(events: list[Wire]) -> list[Wire]:
    """The same events, each at a time of its own, so that no tie is left to the order of arrival."""
    return [
        {**event, "at": event["at"].replace("Z", f".{place:06d}Z"), "turn": None} for place, event in enumerate(events)
    ]


order_free = strategies.weighed(
    (6, strategies.exposures),
    (6, strategies.grades),
    (2, strategies.links),
    (1, strategies.retractions),
    (1, strategies.starts),
    (1, strategies.messages),
    (1, strategies.balances),
    (1, strategies.publications),
    (3, strategies.own_withdrawals),
)


def names_a_revision(event: Wire) -> bool:
    """Whether a withdrawal is of an id that may be in conflict, or is under one: arrival numbers its revisions."""
    ids = {event_id(producer, key) for producer in strategies.PRODUCERS for key in strategies.SHARED_KEYS}
    ids |= {event_id("stranger", key) for key in strategies.SHARED_KEYS}
    return event["type"] == "event.withdrawn" and (event["id"] in ids or event["key"] in strategies.SHARED_KEYS)


@MANY
@given(strategies.logs(order_free), st.randoms(use_true_random=False))
def test_the_order_of_arrival_decides_nothing_by_default(events: list[Wire], chance: random.Random) -> None:
    events = [event for event in apart(events) if not names_a_revision(event)]
    shuffled = events.copy()
    chance.shuffle(shuffled)
    log, other = log_of(events), log_of(shuffled)

    assert answers(projected(other), [{}]) == answers(projected(log), [{}])


crowded = strategies.weighed(
    (4, strategies.exposures),
    (3, strategies.grades),
    (6, strategies.merged(strategies.grades, st.fixed_dictionaries({"exposure_session": strategies.sessions}))),
    (2, strategies.links),
    (1, strategies.retractions),
)
"""Graders that speak of each other's runs."""

RANKS: list[Wire] = [{}, {"graders": ["judge/*", "*/overall"]}, {"graders": ["*/*"]}]


@MANY
@given(strategies.logs(crowded), st.randoms(use_true_random=False), st.sampled_from(RANKS))
def test_graders_are_ranked_alike_in_every_order(events: list[Wire], chance: random.Random, wire: Wire) -> None:
    """Row A7: what each grader says is settled in its own run first, and then ranked in the run that it names."""
    events = apart(events)
    shuffled = events.copy()
    chance.shuffle(shuffled)
    log = log_of(events)
    got = projected(log).posteriors(policy_of(wire))

    assert_agree(got, replay(log.lines, policy_of(wire)), policy_of(wire))
    assert answers(projected(log_of(shuffled)), [wire]) == [said(got)]


@MANY
@given(strategies.logs(), strategies.policies)
def test_a_position_in_the_past_is_a_ledger_with_just_that_prefix(events: list[Wire], wire: Wire) -> None:
    log = log_of(events)
    whole, policy = projected(log), policy_of(wire)
    prefix = FakeLog()
    for position, row in enumerate(log.stored, 1):
        prefix.stored.append(row)
        assert said(whole.posteriors(policy, as_of=position)) == said(projected(prefix).posteriors(policy))


@SOME
@given(strategies.logs(), st.integers(START_S - 1, START_S + 13))
def test_a_time_means_the_longest_prefix_recorded_by_then(events: list[Wire], second: int) -> None:
    log = log_of(events)
    recorded = [row.envelope.recorded_at_us <= second * 1_000_000 for row in log.stored]

    through = projected(log).posteriors(Policy(), as_of=text_of(second * 1_000_000)).through

    assert through == sum(recorded)
    assert all(recorded[:through])


@SOME
@given(strategies.logs(), policies_asked, st.lists(st.integers(0, 24), max_size=2))
def test_saving_and_loading_in_between_changes_no_byte(events: list[Wire], wires: list[Wire], cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, store = FakeLog(page=5), Store(Path(folder) / "projections", "one ledger")
        start = 0
        for cut in [*sorted(cuts), len(events)]:
            log.append(events[start:cut])
            start = max(start, cut)
            loaded = projected(log, store)
            assert answers(loaded, wires) == answers(projected(log), wires)
            loaded.save()
        assert store.watermark() == log.head()


@FEW
@given(strategies.logs(), policies_asked)
def test_a_real_ledger_answers_as_the_oracle_does(events: list[Wire], wires: list[Wire]) -> None:
    with tempfile.TemporaryDirectory() as folder, rightful.open(Path(folder) / "ledger", create=True) as ledger:
        ledger.append(events)
        stored = (row.envelope for page in ledger.log.scan() for row in page)
        lines = [Line(row, one.at_us, one.producer) for row, one in zip(ledger.read(), stored, strict=True)]
        for wire in wires:
            policy = policy_of(wire)
            assert_agree(ledger.posteriors(policy), replay(lines, policy), policy)


REPLAY = """
import sys, pathlib, msgspec
sys.path.insert(0, sys.argv[1])
from rightful.policies import policy_of
from rightful.projections.projected import Projected
from tests.projections.fake import FakeLog

for events, wires in msgspec.json.decode(pathlib.Path(sys.argv[2]).read_bytes()):
    log = FakeLog(page=5)
    log.append(events)
    asked = Projected(log)
    for wire in wires:
        print(msgspec.json.encode(asked.posteriors(policy_of(wire)).as_dict()).decode())
"""


def test_two_processes_that_hash_differently_say_the_same_bytes(tmp_path: Path) -> None:
    drawn: list[tuple[list[Wire], list[Wire]]] = []

    @settings(max_examples=examples(200), deadline=None, database=None, suppress_health_check=SLOW)
    @given(strategies.logs(), policies_asked)
    def collect(events: list[Wire], wires: list[Wire]) -> None:
        drawn.append((events, wires))

    collect()
    (tmp_path / "drawn.json").write_text(json.dumps(drawn))
    outputs = [
        subprocess.run(
            [sys.executable, "-c", REPLAY, str(ROOT), str(tmp_path / "drawn.json")],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert len(drawn) >= examples(200)
    assert outputs[0].count(b"\n") == sum(len(wires) for _, wires in drawn)
    assert outputs[0] == outputs[1]
