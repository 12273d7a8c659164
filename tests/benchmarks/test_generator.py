"""The generator's events are many, distinct, mixed as it says, and always the same."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest
from benchmarks.generator import ARMS, MAX_EVENTS, arms, events

import rightful

SIZE = 20_000


def mix(size: int = SIZE) -> tuple[Counter[str], int]:
    wires = list(events(size))
    kinds = Counter(f"{wire['type']} {wire['producer']} {wire.get('seq', '')}".strip() for wire in wires)
    return kinds, len({json.loads(wire["key"])[0] for wire in wires} - {"decayed"})


def test_the_same_seed_gives_the_same_events() -> None:
    assert list(events(500, 7)) == list(events(500, 7))
    assert list(events(500, 7)) != list(events(500, 8))


def test_more_events_begin_with_the_same_ones() -> None:
    assert list(events(100)) == list(islice(events(300), 100))


def test_the_ledger_takes_every_event_as_a_new_row(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        receipts = ledger.append(events(5_000)) + ledger.append(events(2_000, 2))

    assert {receipt.outcome for receipt in receipts} == {"appended"}
    assert [receipt.position for receipt in receipts] == list(range(1, 7_001))


def test_a_session_writes_what_the_table_says() -> None:
    kinds, sessions = mix()
    a_session = {kind: count / sessions for kind, count in kinds.items()}

    assert a_session == pytest.approx(
        {
            "session.started runner": 0.80,
            "session.linked runner": 0.33,
            "exposure.recorded claude-code-hook": 1.20,
            "grade.recorded session-records 1": 0.85,
            "grade.recorded judge 1": 0.35,
            "grade.recorded human 1": 0.05,
            "grade.recorded session-records 2": 0.15,
            "grade.retracted judge 2": 0.03,
            "session.ended runner": 0.80,
            "bandit.decayed updater": 0.01,
        },
        rel=0.06,
        abs=0.005,
    )


def test_sessions_are_interleaved_and_some_grades_come_late() -> None:
    runs = [json.loads(wire["key"])[0] for wire in events(SIZE)]
    last = {run: at for at, run in enumerate(runs)}
    spans = sorted(last[run] - runs.index(run) for run in runs[:2_000])

    neighbours = sum(one == other for one, other in pairwise(runs))
    assert neighbours < 0.1 * SIZE
    assert spans[len(spans) // 2] > 50
    assert spans[-1] > 2_000


def test_few_arms_are_shown_often_and_most_seldom() -> None:
    shown = Counter(one["arm"] for wire in events(SIZE) for one in wire.get("arms", ()))

    assert ARMS == len(arms) > 0.9 * len(shown) > 0.8 * ARMS
    assert shown[arms[0]] > 5 * shown[arms[20]] > 5 * shown[arms[200]]


def test_exposures_withhold_have_contexts_and_say_how_likely_they_were() -> None:
    exposures = [wire for wire in events(SIZE) if wire["type"] == "exposure.recorded"]

    assert {len(wire["arms"]) for wire in exposures} == {1, 2, 3, 4, 5}
    assert sum("withheld" in wire for wire in exposures) / len(exposures) == pytest.approx(0.3, abs=0.02)
    assert sum("context" in wire for wire in exposures) / len(exposures) == pytest.approx(0.6, abs=0.02)
    assert {one["p_inject"] for wire in exposures for one in [*wire["arms"], *wire.get("withheld", ())]} == {0.8}


def test_times_never_go_back() -> None:
    times = [wire["at"] for wire in events(2_000)]

    assert len(set(times)) == 2_000
    assert times == sorted(times, key=lambda at: at.ljust(33))


def test_a_size_beyond_what_the_mix_is_made_for_is_refused() -> None:
    with pytest.raises(ValueError, match="5000000"):
        events(MAX_EVENTS + 1)
