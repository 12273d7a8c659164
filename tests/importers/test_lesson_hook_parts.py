"""One bad lesson of a line or a message costs itself, and none of its neighbours."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importers.conftest import Importer

from rightful.events import ExposureRecorded
from rightful.field_types import ArmShown
from rightful.ledger import Ledger


def only(ledger: Ledger) -> ExposureRecorded:
    [event] = [row.event for row in ledger.read() if isinstance(row.event, ExposureRecorded)]
    return event


def test_a_bad_lesson_of_a_trajectory_costs_itself(ledger: Ledger, imported: Importer) -> None:
    bad = ["x.md", {"title": "no path"}, {"path": "a\u0000b"}, {"path": 5}]
    lessons = [{"path": "x.md", "title": "X"}, *bad, {"path": "y.md", "title": "Y"}]
    line = {"ts": 5.0, "session_id": "s", "lessons": lessons, "tool_seq": []}

    [report] = imported("lesson-hook", "-", stdin=json.dumps(line).encode())

    assert [one.what for one in report.problems] == [
        "Expected `object`, got `str` - at `$.lessons[1]`",
        "Object missing required field `path` - at `$.lessons[2]`",
        "Expected an arm without control characters - at `$.lessons[3].path`",
        "Expected `str`, got `int` - at `$.lessons[4].path`",
    ]
    assert only(ledger).arms == (ArmShown("x.md"), ArmShown("y.md"))
    assert only(ledger).extra == {"lessons": [{"title": "X"}, {"title": "Y"}], "tool_seq": []}
    assert {one.line for one in report.problems} == {1}


def test_a_bad_chance_of_a_dropout_costs_its_lesson(ledger: Ledger, imported: Importer) -> None:
    withheld = [
        {"path": "x.md", "effective_epsilon": 0.25},
        {"path": "y.md", "effective_epsilon": 7},
        {"path": "z.md"},
        {"path": "w.md"},
    ]
    line = {"ts": 5.0, "session_id": "s", "withheld": withheld, "epsilon": 1.5}

    [report] = imported("lesson-hook", "-", stdin=json.dumps(line).encode())

    assert [one.what for one in report.problems] == [
        "Expected a probability from 0 to 1, got 7 - at `$.withheld[1].effective_epsilon`",
        "Expected a probability from 0 to 1, got 1.5 - at `$.epsilon`",
    ]
    assert only(ledger).withheld == (ArmShown("x.md", 0.75),)


def test_a_bad_lesson_of_a_message_costs_itself(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    def header(path: str) -> str:
        return f"\n## Title of {path[:1]}\n\n*Path: {path}*\n\n*Category: tools*\n\n"

    content = "# Relevant Lessons\n" + header("x.md") + header("b\x1b[0m.md") + header("y.md")
    message = {"role": "system", "hide": True, "timestamp": "2026-08-01T10:00:00Z", "content": content}
    path = tmp_path / "fox" / "conversation.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(message))

    [report] = imported("gptme", path)

    assert [(one.line, one.what) for one in report.problems] == [
        (1, "Expected an arm without control characters, of the lesson 'Title of b' - at `$.content`")
    ]
    assert only(ledger).arms == (ArmShown("x.md"), ArmShown("y.md"))
    assert [one["title"] for one in (only(ledger).extra or {})["lessons"]] == ["Title of x", "Title of y"]


def test_bad_lesson_of_a_lesson_event_is_reported_with_its_place(imported: Importer, tmp_path: Path) -> None:
    event = {"lesson_file": "", "timestamp_inject": "2026-08-01T10:00:00Z"}
    record = {"session_id": "s", "start_time": "2026-08-01T10:00:00Z", "harness": "x", "lesson_events": [event]}
    path = tmp_path / "cc-session-a-lessons.jsonl"
    path.write_text(json.dumps(event))

    [alone] = imported("lesson-hook", path)
    [inside] = imported("session-records", "-", stdin=json.dumps(record).encode())

    what = "Expected `str` of length >= 1 - at `$"
    assert [one.what for one in alone.problems] == [f"{what}.lesson_file`"]
    assert [one.what for one in inside.problems] == [f"{what}.lesson_events[0].lesson_file`"]


def test_a_name_that_programs_print_for_none_is_kept_and_noted(ledger: Ledger, imported: Importer) -> None:
    line = {"ts": 5.0, "session_id": "null"}
    lines = [line | {"lessons": [{"path": "x.md"}], "tool_seq": []}, line | {"withheld": [{"path": "x.md"}]}]

    [report] = imported("lesson-hook", "-", stdin="".join(json.dumps(one) + "\n" for one in lines).encode())

    what = "note: 'null' looks like a placeholder for an unknown session; it was kept - at `$.session_id`"
    assert [(one.line, one.what) for one in report.problems] == [(1, what), (2, what)]
    assert {row.session for row in ledger.read()} == {"claude-code:null"}
    assert (report.appended, report.exit_code) == (2, 0)
