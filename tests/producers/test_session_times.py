"""The times of session records: which are taken, and which become part of a session's name."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.producers.conftest import MTIME_S, Importer, said
from tests.producers.test_session_records import TIMELESS, grades, row, write

from rightful.app import Ledger


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
    [report] = imported("session-records", "-", stdin=b'{"session_id": "g1"}\n')

    what = "Expected `timestamp`: the row gives no time, and a pipe has none - at `$.timestamp`"
    assert said(report) == {"appended": 0, "duplicate": 0, "problems": [{"line": 1, "what": what}]}


def test_a_time_without_offset_is_read_as_utc_and_said_once(ledger: Ledger, imported: Importer, records: Path) -> None:
    naive = {"start_time": "2026-08-01T10:00:00", "timestamp": "2026-08-01T10:30:00"}

    [report] = imported("session-records", write(records, row(**naive), row(**naive, session_id="b")))

    what = "note: `start_time` has no offset; such times of this file were read as UTC"
    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert report.exit_code == 0
    first = next(iter(ledger.read()))
    assert first.session == "workspace:7c1d@2026-08-01T10:00:00"
    assert first.event.at == datetime(2026, 8, 1, 10, 0, tzinfo=UTC)  # type: ignore[union-attr]


def test_a_time_that_is_none_is_said_and_the_others_are_taken(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    [report] = imported("session-records", write(records, row(end_time="soon")))

    what = "note: Expected a time, got 'soon' - at `$.end_time`; it was not used"
    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert grades(ledger) == [(1, 0.6, None)]


@pytest.mark.parametrize(
    ("times", "name", "notes"),
    [
        (
            {"start_time": "yesterday"},
            "workspace:cc@2026-08-01T10:30:00+00:00",
            ["Expected a time, got 'yesterday' - at `$.start_time`; it was not used, and is no part of the"],
        ),
        (
            {"start_time": None, "timestamp": "yesterday"},
            "workspace:cc",
            ["Expected a time, got 'yesterday' - at `$.timestamp`; it was not used, and is no part of the", TIMELESS],
        ),
        (
            {"start_time": None, "timestamp": None, "end_time": "2026-08-01T11:00:00Z"},
            "workspace:cc",
            ["the row gives no start: the session's name has none in it"],
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
