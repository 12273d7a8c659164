"""Transcripts of Claude Code grow while they are read, and the reader may die: the ledger is the same."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest
from tests.importers.claude_lines import A, boundary, call, in_log, model, result, user
from tests.importers.conftest import Importer
from tests.importers.growing import same_after_kills, same_by_cuts, same_by_prefixes
from tests.importers.import_files import import_paths

from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.checkpoints import Checkpoints
from rightful.importers.shared.file_order import FileOrder
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


@pytest.mark.parametrize("reader", [None, 2])
def test_log_that_was_imported_before_its_transcript_gives_the_right_history(
    reader: int | None, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log lacks the prompt, which the compaction covers. Reader 2 left the log's items before the prompt."""
    spoken = [model("a2", "u1", "Done", stop="end_turn"), boundary("b3", "a2"), model("a5", "u4", "Fine")]
    summary = user("u4", "b3", "so far", isCompactSummary=True)
    log, transcript = tmp_path / "cc-session-1.log", tmp_path / NAME
    log.write_bytes(written(*map(in_log, spoken[:1]), in_log(spoken[1]) | {"compact_metadata": {}}, in_log(spoken[2])))
    transcript.write_bytes(written(user("u1", None, "Fix it"), *spoken[:2], summary, *spoken[2:]))
    kept = Checkpoints(tmp_path / "imports", "ledger", ledger.log)

    def import_both() -> None:
        list(import_paths(ledger.log, [ClaudeCode()], [str(log), str(transcript)], stdin=BytesIO(), checkpoints=kept))

    if reader is not None:
        with monkeypatch.context() as patched:
            patched.setattr(ClaudeCode, "READER_VERSION", reader)
            patched.setattr(FileOrder, "moves", lambda *_: [])
            import_both()
    import_both()

    texts = [item["content"] for item in ledger.history(f"claude-code:{A}").items]
    assert texts == ["so far", "Fine"]
    entries = ledger.transcript(f"claude-code:{A}").entries
    assert [entry.text for entry in entries if entry.kind == "message"] == ["Fix it", "Done", "so far", "Fine"]
    head = ledger.log.head()
    import_both()
    kept.again = True
    import_both()
    assert ledger.log.head() == head
