from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer, said

from rightful.events import ExposureRecorded, SessionEnded
from rightful.field_types import ArmShown
from rightful.identity import composite_key, event_id
from rightful.importers.lesson_hook import lesson_lines as lesson_events
from rightful.importers.shared.foreign_fields import digest
from rightful.ledger import Ledger

START = "2026-08-01T10:00:00+00:00"
W = f"workspace:7c1d@{START}"
CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"


def shown(lesson: str = "x.md", minute: int = 5, **fields: Any) -> dict[str, Any]:
    when = f"2026-08-01T10:{minute:02}:00Z"
    return {"lesson_file": lesson, "timestamp_inject": when, "match_type": "keyword", "sequence_order": 0} | fields


def row(*events: Any, **fields: Any) -> dict[str, Any]:
    base = {
        "session_id": "7c1d",
        "start_time": START,
        "timestamp": "2026-08-01T10:30:00+00:00",
        "trajectory_grade": 0.8,
    }
    return base | {"lesson_events": list(events)} | fields


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def exposures(ledger: Ledger) -> list[ExposureRecorded]:
    return [one.event for one in ledger.read() if isinstance(one.event, ExposureRecorded)]


def means(ledger: Ledger) -> dict[str, tuple[float, int]]:
    return {arm: (one.alpha, one.n) for arm, one in ledger.posteriors().arms.items()}


def test_lesson_events_of_a_record_are_exposures_at_their_own_times(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    events = [shown(), shown("y.md", 6)]

    [report] = imported("session-records", write(tmp_path / "r.jsonl", row(*events)))

    first, second = exposures(ledger)
    assert report.problems == []
    assert (first.producer, first.session, first.alias) == ("session-records", W, False)
    assert (first.arms, second.arms) == ((ArmShown("x.md"),), (ArmShown("y.md"),))
    assert second.at == datetime(2026, 8, 1, 10, 6, tzinfo=UTC)
    assert first.extra == {"match_type": "keyword", "sequence_order": 0}
    assert first.id == event_id("session-records", composite_key(W, "exposure.recorded", digest(events[0]), 1))
    assert means(ledger) == {"x.md": (1.8, 1), "y.md": (1.8, 1)}


def test_they_stay_in_what_the_end_of_the_session_says(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """So a ledger that was filled by an earlier version gets the exposures, and nothing a second time."""
    imported("session-records", write(tmp_path / "r.jsonl", row(shown())))

    [ended] = [one.event for one in ledger.read() if isinstance(one.event, SessionEnded)]
    assert ended.extra == {"lesson_events": [shown()]}


def test_a_record_that_comes_again_with_more_adds_what_is_new(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    imported("session-records", write(path, row(shown(), shown())))

    [report] = imported("session-records", write(path, row(shown(), shown(), shown("y.md"), shown())))

    assert report.kinds == {"exposure.recorded": 2, "session.ended": 1}
    assert [event.arms[0].arm for event in exposures(ledger)] == ["x.md", "x.md", "y.md", "x.md"]


def test_the_hooks_own_lesson_events_of_the_same_run_are_credited_once(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    own = write(tmp_path / f"cc-session-{CC}-lessons.jsonl", shown())
    path = f"/home/dev/.claude/projects/-p/{CC}.jsonl"

    imported("lesson-hook", own)
    imported("session-records", write(tmp_path / "r.jsonl", row(shown(), trajectory_path=path)))

    assert len(exposures(ledger)) == 2
    assert means(ledger) == {"x.md": (1.8, 1)}


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"lesson": "x.md"}, "Object missing required field `lesson_file` - at `$.lesson_events[1]`"),
        (shown(lesson_file=7), "Expected `str`, got `int` - at `$.lesson_events[1].lesson_file`"),
        (shown(timestamp_inject="now"), "Expected a time, got 'now' - at `$.lesson_events[1].timestamp_inject`"),
        ("x.md", "Expected `object`, got `str` - at `$.lesson_events[1]`"),
        (shown(""), "Expected `str` of length >= 1 - at `$.lesson_events[1].lesson_file`"),
    ],
)
def test_malformed_lesson_event_is_a_problem_and_loses_no_neighbour(
    ledger: Ledger, imported: Importer, tmp_path: Path, bad: object, what: str
) -> None:
    [report] = imported("session-records", write(tmp_path / "r.jsonl", row(shown("a.md"), bad, shown("b.md"))))

    assert [(one.line, one.what) for one in report.problems] == [(1, what)]
    assert [event.arms[0].arm for event in exposures(ledger)] == ["a.md", "b.md"]
    assert means(ledger) == {"a.md": (1.8, 1), "b.md": (1.8, 1)}


def test_lesson_events_that_are_no_list_are_a_problem(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    [report] = imported("session-records", write(tmp_path / "r.jsonl", row(lesson_events={"a": 1})))

    assert [one.what for one in report.problems] == ["Expected `array`, got `object` - at `$.lesson_events`"]
    assert exposures(ledger) == []


@pytest.mark.parametrize("nothing", [None, []])
def test_a_record_without_lesson_events_says_nothing_of_them(
    ledger: Ledger, imported: Importer, tmp_path: Path, nothing: object
) -> None:
    [report] = imported("session-records", write(tmp_path / "r.jsonl", row(lesson_events=nothing)))

    assert (said(report)["problems"], exposures(ledger)) == ([], [])


def test_as_many_as_gptme_sessions_keeps_are_worth_a_note(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """The earliest 500 are kept, so a record that has as many may have lost the latest."""
    most = [shown(sequence_order=at) for at in range(lesson_events.KEPT)]

    [below] = imported("session-records", write(tmp_path / "a.jsonl", row(*most[1:])))
    [full] = imported("session-records", write(tmp_path / "b.jsonl", row(*most)))

    what = "note: `lesson_events` has 500 entries: gptme-sessions stores the first 500, so later ones may be missing"
    assert (lesson_events.KEPT, below.problems) == (500, [])
    assert [one.what for one in full.problems] == [what]
