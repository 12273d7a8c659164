"""A lesson hook's state file and lesson events: what their importer stores is unchanged, an alias."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app
from rightful.events import ExposureRecorded

NAME = "aaaaaaaa-0000-4000-8000-000000000001"
LESSON = "/ws/lessons/git.md"
STARTED_S = 1_785_578_400  # 2026-08-01T10:00:00Z


@pytest.fixture
def workspace(here: Path) -> Path:
    """A state file of the hook, two seconds after its session began, and the session's record."""
    state = here / "tmp" / "claude-lesson-match" / f"{NAME}.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"injected": [LESSON], "last_pretool": 0}))
    os.utime(state, (STARTED_S + 2, STARTED_S + 2))
    row = {
        "session_id": "7c1d",
        "timestamp": "2026-08-01T10:00:00+00:00",
        "duration_seconds": 1800,
        "trajectory_path": f"/home/dev/.claude/projects/-ws/{NAME}.jsonl",
        "trajectory_grade": 1.0,
    }
    records = here / "state" / "sessions" / "session-records.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text(json.dumps(row) + "\n")
    return here


def test_state_file_is_stored_as_an_alias_still(ledger: Path, run: Run, workspace: Path) -> None:
    """A ledger of an earlier version has that event: another body under its id would be a conflict."""
    shown = {
        "type": "exposure.recorded",
        "producer": "lesson-hook-state",
        "key": json.dumps([NAME, LESSON], separators=(",", ":")),
        "session": f"claude-code:{NAME}",
        "at": "2026-08-01T10:00:02Z",
        "at_basis": "file",
        "alias": True,
        "arms": [{"arm": LESSON}],
    }
    with app.open(ledger) as opened:
        [before] = opened.append([shown])

    [report] = run("import", "lesson-hook", "tmp", "--json").document

    assert (report["appended"], report["duplicate"], report["problems"]) == (0, 1, [])
    with app.open(ledger) as opened:
        [row] = opened.read()
    assert isinstance(row.event, ExposureRecorded)
    assert (row.id, row.event.alias) == (before.id, True)


def test_lesson_events_are_stored_as_an_alias_still(ledger: Path, run: Run, workspace: Path) -> None:
    (workspace / "tmp" / "claude-lesson-match" / f"{NAME}.json").unlink()
    event = {"lesson_name": "git", "lesson_file": LESSON, "timestamp_inject": "2026-08-01T10:00:02Z"}
    (workspace / "tmp" / f"cc-session-{NAME}-lessons.jsonl").write_text(json.dumps(event) + "\n")

    run("import", "auto", "tmp", "state")

    with app.open(ledger) as opened:
        events = [row.event for row in opened.read()]
    assert [event.alias for event in events if isinstance(event, ExposureRecorded)] == [True]
