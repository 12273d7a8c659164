"""Transcripts of Claude Code grow while they are read, and the reader may die: the ledger is the same."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importers.claude_lines import A, boundary, call, model, result, user
from tests.importers.conftest import Importer
from tests.importers.growing import same_after_kills, same_by_cuts, same_by_prefixes

from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.ledger import Ledger

NAME = f"{A}.jsonl"
SAMPLES = Path(__file__).parents[1] / "samples"
PROJECT = SAMPLES / "claude" / "projects" / "-home-dev-my-proj"


def written(*rows: object) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def everything() -> bytes:
    """A session with calls, a title twice, a user who goes back, a compaction, and a copy of what was said."""
    title = {"type": "ai-title", "aiTitle": "Fix", "sessionId": A}
    turn = [
        user("u1", None, "go"),
        model("a2", "u1", "ready", stop="end_turn", usage={"output_tokens": 3}),
        user("u3", "a2", "Fix it"),
        model("a31", "u3", "Look.", of="msg_2", stop="tool_use", usage={"output_tokens": 9}),
        model("a4", "a31", call("t", command="ls"), of="msg_2", stop="tool_use", usage={"output_tokens": 9}),
        result("u5", "a4", "t", toolUseResult={"exitCode": 1}),
        model("a6", "u5", "Fixed.", of="msg_3", stop="end_turn"),
    ]
    more = [user("u7", "a2", "Rather explain it"), boundary("b8", "u7"), user("u9", "b8", "so far", isMeta=True)]
    return written(title, *turn, title, *more, *turn, user("u10", None, "aside", isSidechain=True))


def test_a_transcript_that_grows_byte_by_byte_is_imported_as_if_at_once(tmp_path: Path) -> None:
    data = written({"type": "mode", "mode": "x", "sessionId": A}, user("u1", None, "é"), model("a2", "u1", call("t")))

    report = same_by_prefixes(ClaudeCode(), NAME, data, tmp_path)

    assert report.kinds == {"data.recorded": 1, "session.started": 2, "message.recorded": 1, "tool_call.snapshotted": 1}


def test_a_transcript_with_everything_may_be_cut_anywhere(tmp_path: Path) -> None:
    report = same_by_cuts(ClaudeCode(), NAME, everything(), tmp_path, examples=12)

    assert report.kinds["history.popped"] == report.kinds["history.compacted"] == 1
    assert report.problems == []


def test_the_sample_of_a_session_may_be_cut_anywhere(tmp_path: Path) -> None:
    data = (PROJECT / NAME).read_bytes()

    assert same_by_cuts(ClaudeCode(), NAME, data, tmp_path, examples=8).appended == 26


def test_an_import_that_is_killed_anywhere_changes_nothing(tmp_path: Path) -> None:
    kind = "rightful.importers.claude_code.claude_transcript:ClaudeCode"
    data = b"".join(everything().splitlines(keepends=True)[:10])

    assert same_after_kills(kind, NAME, data, tmp_path, grown=[900]) >= 10


def test_the_samples_give_the_golden_ids(ledger: Ledger, imported: Importer, golden: Path) -> None:
    """Event ids are for ever: a changed id would import everything a second time."""
    reports = imported("claude-code", SAMPLES / "claude", SAMPLES / "tmp" / "cc-session-20260801-1015.log")

    assert [report.conflicts for report in reports] == [0] * 6
    ids = {row.id: [row.type, row.session] for row in ledger.read()}
    assert ids == json.loads((golden / "claude-code.ids").read_text())
