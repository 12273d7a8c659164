"""The times of session records: which are taken, and which become part of a session's name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import MTIME_S, Importer, said
from tests.importers.test_session_records import CC, TIMELESS, grades, row, write

from rightful.events import ExposureRecorded, GradeRecorded, SessionEnded, SessionStarted
from rightful.events.base import Event
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.ledger import Ledger

BEYOND = "- at `$.start_time`; with `duration_seconds` the end is out of range"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "session-records.jsonl"


def test_a_row_without_a_time_has_the_files_and_says_so(ledger: Ledger, imported: Importer, records: Path) -> None:
    path = write(records, {"session_id": "g1", "trajectory_grade": 0.5})
    os.utime(path, (MTIME_S, MTIME_S))

    [report] = imported("session-records", path)

    assert said(report) == {"appended": 2, "duplicate": 0, "problems": [{"line": 1, "what": TIMELESS}]}
    assert report.exit_code == 0
    for one in ledger.read():
        assert (one.session, one.event.at.timestamp(), one.event.at_basis) == ("workspace:g1", MTIME_S, "file")  # type: ignore[union-attr]


def test_a_row_without_a_time_from_a_pipe_is_a_problem(imported: Importer) -> None:
    [report] = imported("session-records", "-", stdin=b'{"session_id": "g1", "outcome": "noop"}\n')

    what = "Expected `timestamp`: the row has no time, and stdin has none - at `$.timestamp`"
    assert said(report) == {"appended": 0, "duplicate": 0, "problems": [{"line": 1, "what": what}]}


def at_of(ledger: Ledger, kind: type[Event] = GradeRecorded) -> list[tuple[str, str | None]]:
    """Return the time of each event of a type as UTC text, and its basis."""
    events = [row.event for row in ledger.read() if isinstance(row.event, kind)]
    return [(event.at.astimezone(UTC).strftime("%m-%dT%H:%M:%S"), event.at_basis) for event in events]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the zone of this machine."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "started", "short"),
    [
        ("UTC", "08-01T10:00:00", "UTC"),
        ("America/New_York", "08-01T14:00:00", "EDT"),
        ("Asia/Kolkata", "08-01T04:30:00", "IST"),
    ],
)
def test_a_time_without_offset_is_local_and_said_once(
    ledger: Ledger, imported: Importer, records: Path, zone: Callable[[str], None], name: str, started: str, short: str
) -> None:
    zone(name)
    naive = {"start_time": "2026-08-01T10:00:00", "timestamp": "2026-08-01T10:30:00"}

    [report] = imported("session-records", write(records, row(**naive), row(**naive, session_id="b")))

    what = "note: `start_time` has no UTC offset; such times in this file were read as local time of this machine"
    assert said(report)["problems"] == [{"line": 1, "what": f"{what} ({short} in this row)"}]
    assert report.exit_code == 0
    assert next(iter(ledger.read())).session == "workspace:7c1d@2026-08-01T10:00:00"
    assert at_of(ledger, SessionStarted)[0] == (started, None)


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "span",
    [
        ("2026-08-01T10:00:00.250000", "2026-08-01T10:20:00.5", 1200),
        ("2026-03-08T01:50:00", "2026-03-08T03:10:00", 4800),  # by the clock face, as gptme-sessions counts
        ("2026-11-01T00:50:00", "2026-11-01T01:10:00", 1200),
    ],
)
def test_gptme_conversation_and_its_record_agree_on_local_times(
    ledger: Ledger,
    imported: Importer,
    tmp_path: Path,
    zone: Callable[[str], None],
    name: str,
    span: tuple[str, str, int],
) -> None:
    """gptme-sessions copies the first message's time without an offset: both are read by one rule."""
    zone(name)
    began, shown, seconds = span
    folder = tmp_path / "logs" / "2026-08-01-running-blue-fox"
    folder.mkdir(parents=True)
    lesson = "# Relevant Lessons\n\n## Git\n\n*Path: lessons/git.md*\n\n*Category: tools*\n\nText."
    messages = [
        {"role": "user", "content": "hello", "timestamp": began},
        {"role": "system", "content": lesson, "hide": True, "timestamp": shown},
    ]
    write(folder / "conversation.jsonl", *messages)
    path = str(folder / "conversation.jsonl")
    record = {"session_id": "a", "timestamp": began, "duration_seconds": seconds, "trajectory_path": path}

    imported("gptme", tmp_path / "logs")
    imported("session-records", write(tmp_path / "session-records.jsonl", record | {"trajectory_grade": 1.0}))

    [(exposed, _)] = at_of(ledger, ExposureRecorded)
    [(graded, basis)] = at_of(ledger)
    assert timedelta(0) <= _moment(graded) - _moment(exposed) <= timedelta(seconds=1)
    assert basis is None
    assert ledger.posteriors().arms["lessons/git.md"].alpha == 2.0


def _moment(text: str) -> datetime:
    return datetime.strptime(f"2026-{text}", "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"start_time": None, "timestamp": "2026-08-01T10:00:00Z", "duration_seconds": 1800}, "08-01T10:30:00"),
        ({"start_time": None, "timestamp": "2026-08-01T10:00:00.2Z", "duration_seconds": 1800}, "08-01T10:30:01"),
        ({"start_time": None, "timestamp": "2026-08-01T10:00:00Z", "duration_seconds": 1800.5}, "08-01T10:30:01"),
        ({"duration_seconds": 600}, "08-01T10:10:00"),
        ({"duration_seconds": 600, "end_time": "2026-08-01T10:20:00Z"}, "08-01T10:20:00"),
        ({"duration_seconds": 600, "end_time": "soon"}, "08-01T10:10:00"),
        ({"timestamp": "2026-08-03T08:00:00Z", "end_time": "2026-08-01T10:20:00Z"}, "08-01T10:20:00"),
        ({"start_time": "2026-08-01T12:00:00+02:00", "duration_seconds": 60}, "08-01T10:01:00"),
    ],
)
def test_grade_is_given_at_the_end_of_its_session(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any], ended: str
) -> None:
    imported("session-records", write(records, row(exit_code=0, **{"timestamp": "2026-08-01T10:30:00Z"} | fields)))

    assert at_of(ledger) == at_of(ledger, SessionEnded) == [(ended, None)]


@pytest.mark.parametrize("fields", [{}, {"duration_seconds": 0}, {"duration_seconds": None}])
def test_end_that_no_row_gives_has_the_files_time_as_a_bound(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any]
) -> None:
    path = write(records, row(exit_code=0, **fields))
    os.utime(path, (MTIME_S, MTIME_S))

    [report] = imported("session-records", path)

    bound = datetime.fromtimestamp(MTIME_S, UTC).strftime("%m-%dT%H:%M:%S")
    assert at_of(ledger) == at_of(ledger, SessionEnded) == [(bound, "file")]
    assert at_of(ledger, SessionStarted) == [("08-01T10:00:00", None)]
    assert (report.problems, report.exit_code) == ([], 0)


def test_end_that_a_piped_row_does_not_give_is_bounded_by_its_reading(ledger: Ledger, imported: Importer) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    imported("session-records", "-", stdin=json.dumps(row()).encode())

    [grade] = [one.event for one in ledger.read() if isinstance(one.event, GradeRecorded)]
    assert before <= grade.at <= datetime.now(UTC)
    assert grade.at_basis == "file"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("long", "Expected a duration in seconds, got 'long' - at `$.duration_seconds`; it was ignored"),
        (True, "Expected a duration in seconds, got 'True' - at `$.duration_seconds`; it was ignored"),
        (-5, "Expected a duration in seconds, got '-5' - at `$.duration_seconds`; it was ignored"),
        (1e300, "Expected a duration in seconds, got '1e+300' - at `$.duration_seconds`; it was ignored"),
        (7_000_000_000, f"Expected a time from 1970 to 2200, got '2026-08-01T10:00:00+00:00' {BEYOND}"),
    ],
)
def test_duration_that_is_not_valid_is_noted_and_costs_no_grade(
    ledger: Ledger, imported: Importer, records: Path, value: object, what: str
) -> None:
    [report] = imported("session-records", write(records, row(duration_seconds=value)))

    assert [(one.line, one.what) for one in report.problems] == [(1, f"note: {what}")]
    assert (grades(ledger), at_of(ledger)[0][1]) == ([(1, 0.6, None)], "file")


def test_exposure_within_the_session_is_not_late(ledger: Ledger, imported: Importer, records: Path) -> None:
    """The row gives its beginning and its length: an exposure two seconds in belongs to it."""
    fields = {"start_time": None, "timestamp": "2026-08-01T10:00:00Z", "duration_seconds": 1800}
    imported("session-records", write(records, row(**fields, trajectory_path=f"/x/{CC}.jsonl")))
    shown = {"type": "exposure.recorded", "producer": "hook", "key": "1", "session": f"claude-code:{CC}"}

    ledger.append([shown | {"at": "2026-08-01T10:00:02Z", "arms": [{"arm": "a"}]}])

    posteriors = ledger.posteriors()
    assert (posteriors.counters["credited_grades"], posteriors.arms["a"].alpha) == (1, 1.6)


def test_a_time_that_is_none_is_said_and_the_others_are_taken(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    [report] = imported("session-records", write(records, row(end_time="soon")))

    what = "note: Expected a time, got 'soon' - at `$.end_time`; it was ignored"
    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert grades(ledger) == [(1, 0.6, None)]


@pytest.mark.parametrize(
    ("times", "name", "notes"),
    [
        (
            {"start_time": "yesterday"},
            "workspace:cc@2026-08-01T10:30:00+00:00",
            ["Expected a time, got 'yesterday' - at `$.start_time`; it was ignored, and is not part of the"],
        ),
        (
            {"start_time": None, "timestamp": "yesterday"},
            "workspace:cc",
            ["Expected a time, got 'yesterday' - at `$.timestamp`; it was ignored, and is not part of the", TIMELESS],
        ),
        (
            {"start_time": None, "timestamp": None, "end_time": "2026-08-01T11:00:00Z"},
            "workspace:cc",
            ["the row has no start time, so the session's name does not include one"],
        ),
    ],
)
def test_what_is_no_time_is_no_part_of_a_sessions_name(
    ledger: Ledger, imported: Importer, records: Path, times: dict[str, Any], name: str, notes: list[str]
) -> None:
    [report] = imported("session-records", write(records, row(session_id="cc") | times))

    assert {one.session for one in ledger.read()} == {name}
    assert (report.exit_code, len(report.problems)) == (0, len(notes))
    for problem, note in zip(report.problems, notes, strict=True):
        assert problem.what.removeprefix("note: ").startswith(note.removeprefix("note: "))


def earlier(row: dict[str, Any], at: str, seq: int = 1) -> dict[str, Any]:
    """Return the overall grade of a row as earlier versions imported it: at the row's latest time, by UTC."""
    session = f"workspace:{row['session_id']}@{row.get('start_time') or row['timestamp']}"
    last = max(row.get(field) or "" for field in ("start_time", "timestamp", "end_time"))
    said = {"reward": row["trajectory_grade"]}
    return {
        "type": "grade.recorded",
        "producer": "session-records",
        "key": key_of(session, "grade.recorded", "overall", digest([said, last])),
        "session": session,
        "at": at,
        "seq": seq,
        **said,
    }


WRONG = {
    "the start, where a duration is given": (
        {"start_time": None, "timestamp": "2026-08-01T10:00:00Z", "duration_seconds": 1800},
        "2026-08-01T10:00:00Z",
        "2026-08-01T10:30:00Z",
    ),
    "the row's creation, days after the end": (
        {"timestamp": "2026-08-03T08:00:00Z", "end_time": "2026-08-01T10:20:00Z"},
        "2026-08-03T08:00:00Z",
        "2026-08-01T10:20:00Z",
    ),
    "a time of no end, taken for one": ({}, "2026-08-01T10:30:00Z", None),
    "local time, read as UTC": (
        {"start_time": "2026-08-01T10:00:00", "timestamp": "2026-08-01T10:30:00", "end_time": "2026-08-01T10:30:00"},
        "2026-08-01T10:30:00Z",
        "2026-08-01T14:30:00Z",
    ),
}


@pytest.mark.parametrize(("fields", "stored", "right"), WRONG.values(), ids=WRONG)
def test_grade_with_the_wrong_time_of_old_versions_is_imported_again_once(
    ledger: Ledger, imported: Importer, records: Path, zone: Callable[[str], None],
    fields: dict[str, Any], stored: str, right: str | None,
) -> None:  # fmt: skip
    zone("America/New_York")
    path = write(records, row(trajectory_path=f"/x/{CC}.jsonl", **fields))
    shown = {"type": "exposure.recorded", "producer": "hook", "key": "1", "session": f"claude-code:{CC}"}
    ledger.append([earlier(row(**fields), stored), shown | {"at": "2026-08-01T10:00:00Z", "arms": [{"arm": "a"}]}])

    [report] = imported("session-records", path)
    again = [imported("session-records", path)[0] for _ in range(2)]

    [note] = [one.what for one in report.problems if "earlier version" in one.what]
    assert note.startswith("note: grades that an earlier version imported with a wrong time (not that of the session's")
    assert note.endswith("which were imported again: 1")
    assert [(one.appended, one.duplicate > 0, one.exit_code) for one in again] == [(0, True, 0)] * 2
    assert grades(ledger) == [(1, 0.6, None), (2, 0.6, None)]
    last = [one.event for one in ledger.read() if isinstance(one.event, GradeRecorded)][-1]
    assert (last.at_basis, last.extra and last.extra["corrects"]) == ("file" if right is None else None, 1)
    if right is not None:
        assert last.at == datetime.fromisoformat(right)
    for policy in ("bound", "historical-newest"):  # under `additive` too it counts once
        assert ledger.posteriors(policy).arms["a"].n == 1


def test_superseded_grade_with_a_wrong_time_is_left_unchanged(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    old, new = row(duration_seconds=600), row(duration_seconds=600, trajectory_grade=0.9)
    ledger.append([earlier(old, "2026-08-01T10:30:00Z"), earlier(new, "2026-08-01T10:30:00Z", 2)])

    imported("session-records", write(records, old, new))
    imported("session-records", records)

    assert grades(ledger) == [(1, 0.6, None), (2, 0.9, None), (3, 0.9, None)]


def test_grade_written_just_after_the_end_is_not_imported_again(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    """gptme-sessions creates its record some milliseconds after the end that it writes into it."""
    fields = {"timestamp": "2026-08-01T10:30:00.004Z", "end_time": "2026-08-01T10:30:00.001Z"}
    ledger.append([earlier(row(**fields), fields["timestamp"])])

    [report] = imported("session-records", write(records, row(**fields)))

    assert (grades(ledger), report.problems) == ([(1, 0.6, None)], [])


def test_zones_that_alternate_add_one_grade(
    ledger: Ledger, imported: Importer, records: Path, zone: Callable[[str], None]
) -> None:
    path = write(records, row(start_time="2026-08-01T10:00:00", timestamp="2026-08-01T10:00:00", duration_seconds=60))
    appended = []
    for name in ("UTC", "Asia/Kolkata", "UTC", "Asia/Kolkata"):
        zone(name)
        [report] = imported("session-records", path)
        appended.append(report.appended)

    assert appended == [3, 1, 0, 0]
