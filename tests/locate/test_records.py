from __future__ import annotations

import json
from pathlib import Path

from tests.importers import transcript_writers as write

from rightful import times
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.ranks import Rank
from rightful.locate.record_lines import rows_of, workspace_of

UUID = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"


def test_a_row_tells_its_times_its_tool_its_names_and_its_workspace() -> None:
    row = {
        "session_id": "7c1d9e02", "start_time": "2026-08-01T10:15:00.5+00:00", "end_time": "2026-08-01T10:30:00+00:00",
        "timestamp": "2026-08-01T10:31:00+00:00", "harness": "claude-code", "session_label": "36d9",
        "trajectory_path": f"/home/dev/.claude/projects/-x/{UUID}.jsonl",
        "journal_path": "/home/dev/my.proj/journal/2026-08-01/autonomous-session-41c2.md",
    }  # fmt: skip
    [read] = rows_of(json.dumps(row).encode(), "/ws/state/sessions/session-records.jsonl").rows
    one = read.session
    assert one is not None
    assert one.name == "workspace:7c1d9e02@2026-08-01T10:15:00.5+00:00"
    assert (one.tool, one.ids) == ("claude-code", {"7c1d9e02", "36d9", "41c2"})
    assert (one.start_us, one.end_us) == (
        times.us_from("2026-08-01T10:15:00.5Z"), times.us_from("2026-08-01T10:31:00Z"),
    )  # fmt: skip
    assert (one.cwd, one.workspace, one.is_exact) == (None, "/home/dev/my.proj", True)
    assert (one.natives, one.paths) == ({f"claude-code:{UUID}": Rank.POINTER}, {row["trajectory_path"]})


def test_a_start_is_computed_from_the_duration_where_none_is_written() -> None:
    text = b'{"session_id": "a", "timestamp": "2026-08-01T10:15:10Z", "duration_seconds": 7}'
    [read] = rows_of(text, "x").rows
    assert read.session is not None
    assert (read.session.start_us, read.session.is_exact) == (times.us_from("2026-08-01T10:15:03Z"), False)


def test_rows_of_one_id_are_distinguished_by_their_start() -> None:
    rows = [{"session_id": "a", "start_time": f"2026-08-01T10:1{n}:00Z"} for n in (5, 6)]
    read = rows_of("\n".join(map(json.dumps, rows)).encode(), "x").rows
    assert [row.session.name for row in read if row.session] == [
        "workspace:a@2026-08-01T10:15:00Z",
        "workspace:a@2026-08-01T10:16:00Z",
    ]


def test_records_of_one_name_that_tell_of_two_runs_own_nothing(tmp_path: Path) -> None:
    uuid = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
    path = write.codex(tmp_path, UUID, "2026-08-01T10:15:02Z", write.marker(uuid, "codex"))
    row = {"session_id": uuid, "start_time": "2026-08-01T10:15:00Z", "harness": "codex"}

    def owner(**other: str) -> str | None:
        data = "\n".join(map(json.dumps, [row | other, row])).encode()
        where = find_transcripts.search_folders([str(tmp_path)], {}, tmp_path)
        [found] = find_transcripts.find_missing(LedgerSessions(), rows_of(data, "x").rows, where).answers.values()
        return None if found.owner is None else found.owner.file.path

    assert owner() == str(path)
    assert owner(harness="gptme") is None
    row["end_time"] = "2026-08-01T10:16:00Z"
    assert owner(timestamp="2026-08-01T10:17:00Z") == str(path)
    assert owner(end_time="2026-08-01T10:18:00Z") is None


def test_what_is_broken_is_told_with_its_line_and_its_neighbours_are_read() -> None:
    text = (
        b'\n{"session_id": "a"}\n{"session_id": "to\n[]\n{"harness": "x"}\n{"session_id": 5}{"session_id": "unknown"}'
    )
    read = rows_of(text, "x")
    assert [(row.line, row.session and row.session.name, row.span is None) for row in read.rows] == [
        (2, "workspace:a", False), (5, None, False), (6, None, True), (6, None, True),
    ]  # fmt: skip
    assert [one.line for one in read.problems] == [3, 4]


def test_the_span_of_a_row_is_its_line() -> None:
    data = b'{"session_id": "a"}\r\n\n{"session_id": "b"}'
    assert [data[slice(*row.span)] for row in rows_of(data, "x").rows if row.span] == [
        b'{"session_id": "a"}\r', b'{"session_id": "b"}',
    ]  # fmt: skip


def test_a_row_misses_its_transcript_where_no_file_stands(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    rows = [
        {"session_id": "a"},
        {"session_id": "b", "trajectory_path": str(tmp_path / "there")},
        {"session_id": "c", "trajectory_path": str(tmp_path / "gone")},
        {"session_id": "d", "journal_path": str(tmp_path / "there")},
        {"session_id": "e", "journal_path": "/x/j.md"},
        {"session_id": "f", "trajectory_path": "a\0b"},
        {"session_id": "g", "trajectory_path": str(tmp_path)},
    ]
    read = rows_of("\n".join(map(json.dumps, rows)).encode(), "x").rows
    assert [row.is_missing for row in read] == [True, False, True, False, True, True, True]


def test_the_workspace_of_a_file_is_the_folder_around_its_state() -> None:
    assert workspace_of("/ws/state/sessions/session-records.jsonl") == "/ws"
    assert workspace_of("/home/dev/.local/share/gptme-sessions/session-records.jsonl") is None
