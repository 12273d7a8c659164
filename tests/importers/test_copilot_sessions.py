"""Whose the records of a file are, and how its lines are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer
from tests.importers.copilot_lines import SESSION, SID, answer, asked, read, record, start
from tests.importers.reading_lines import SAMPLES, notes, of, told, written

from rightful.errors import InvalidEventError
from rightful.ledger import Ledger

MESSAGE = "message.recorded"
AT_US = 1_785_579_300_000_000  # 2026-08-01T10:15:00Z


def test_a_file_that_does_not_begin_whole_is_its_folders() -> None:
    assert told(read(asked("u1", "hi"), whole=True), MESSAGE, "session") == [SESSION]


@pytest.mark.parametrize("path", ["/tmp/events.jsonl", "-"])
def test_records_before_any_start_in_an_unnamed_folder_have_no_session(path: str) -> None:
    with pytest.raises(InvalidEventError, match="its session is unknown"):
        read(asked("u1", "hi"), path=path, whole=True)


def test_the_folder_in_which_a_pipe_is_read_names_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / SID).mkdir()
    monkeypatch.chdir(tmp_path / SID)

    assert told(read(asked("u1", "hi"), path="events.jsonl", whole=True), MESSAGE, "session") == [SESSION]
    with pytest.raises(InvalidEventError, match="its session is unknown"):
        read(asked("u1", "hi"), path="-", whole=True)


def test_another_session_in_the_same_file_is_said() -> None:
    events = read(start("s1", sessionId="other"), asked("u2", "hi"))

    assert notes(events) == [f"another session starts in this file; what follows was stored as {SID}'s"]
    assert {one["session"] for one in of(events)} == {SESSION}


def test_a_session_that_was_forked_or_copied_conflicts_with_nothing(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """The same records stand under a name of their own; a plain copy of the folder is the same session."""
    other = "0f0f0f0f-1111-4222-8333-444444444444"
    said = [asked("u1", "hi"), answer("a2", "Hello"), record("session.compaction_complete", "k3", summaryContent="s")]
    reports = []
    for folder, first in ((SID, start()), ("copy", start()), (other, start(sessionId=other))):
        path = tmp_path / folder / "events.jsonl"
        path.parent.mkdir()
        path.write_bytes(written([first, *said]))
        reports += imported("copilot", path)

    assert [(one.appended, one.duplicate, one.exit_code) for one in reports] == [(4, 0, 0), (0, 4, 0), (4, 0, 0)]
    assert [one.content for one in ledger.transcript(f"copilot:{other}").entries if one.kind == "message"] == [
        one.content for one in ledger.transcript(SESSION).entries if one.kind == "message"
    ]


def test_objects_glued_on_a_line_and_a_line_separator_in_a_text_are_read(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """github/copilot-cli's issues 4098 and 2490."""
    path = tmp_path / SID / "events.jsonl"
    path.parent.mkdir()
    rows = [start(), asked("u1", "a\u2028b\u0085c"), asked("u2", "d")]
    path.write_bytes(written(rows[:1]) + written(rows[1:]).replace(b"\n", b"") + b"\n")

    [report] = imported("copilot", path)

    spoken = [one.event.content for one in ledger.read() if one.type == MESSAGE]  # type: ignore[union-attr]
    assert spoken == ["a\u2028b\u0085c", "d"]
    assert [(one.line, one.what) for one in report.problems] == [
        (2, "note: several objects share this line; read from it: 2")
    ]


def test_the_sample_tells_its_conversation(imported: Importer, ledger: Ledger) -> None:
    [report] = imported("copilot", SAMPLES / "copilot" / "session-state" / SID / "events.jsonl")

    assert (report.appended, report.problems) == (14, [])
    events: list[Any] = [one.event for one in ledger.read()]
    assert {one.session for one in events} == {SESSION}
    assert [(one.role, one.content) for one in events if hasattr(one, "role")] == [
        ("user", "Fix the path bug"),
        ("assistant", "Running the tests."),
        ("user", "line sep \u2028 inside"),
    ]
    assert [(one.call, one.name) for one in events if hasattr(one, "arguments")] == [("call_C1", "bash")]
    assert [(one.call, one.output) for one in events if hasattr(one, "output")] == [("call_C1", "1 passed")]
    [compacted] = [one for one in events if hasattr(one, "covers")]
    assert compacted.items == [{"role": "user", "content": "invented"}]


@pytest.mark.parametrize(("rest", "end"), [
    ([], 3), ([record("session.resume", "e4"), asked("u5", "again")], None),
    ([record("session.resume", "e4"), asked("u5", "again"), record("session.shutdown", "e6")], 6),
])  # fmt: skip
def test_resumed_session_has_the_end_of_its_last_run(
    ledger: Ledger, imported: Importer, tmp_path: Path, rest: list[Any], end: int | None
) -> None:
    path = tmp_path / SID / "events.jsonl"
    path.parent.mkdir()
    path.write_bytes(written([start(), asked("u1", "hi"), answer("a2", "Hello"), record("session.shutdown", "e3")]))
    imported("copilot", path)
    with path.open("ab") as file:
        file.write(written(rest))
    imported("copilot", path)

    ended = ledger.transcript(SESSION).ended

    assert (None if ended is None else ended.at_us) == (None if end is None else AT_US + end * 1_000_000)
