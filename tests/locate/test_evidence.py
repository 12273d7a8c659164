from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.importers import transcript_writers as write

from rightful import limits, times
from rightful.locate.evidence import FileEvidence, Sentinel, evidence_of, hashed

A = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
B = "203a971d-e91f-4c53-bc91-065beaa5b283"
AT = "2026-08-01T10:15:00.250Z"
AT_US = times.us_from(AT)
MARK = Sentinel(
    id="789183b7-e986-46c1-9d5f-0544c8f3c4c9", session="41c2", backend="codex", ts="2026-08-01T10:15:00Z", leads=True
)


def seen(path: Path) -> FileEvidence:
    found = evidence_of(path)
    assert found is not None
    return found


@pytest.mark.parametrize("tool", ["claude-code", "codex", "copilot", "gptme"])
def test_each_tools_file_shows_its_id_start_folder_and_first_marker(tool: str, tmp_path: Path) -> None:
    prompt = write.marker("41c2", "codex") + "Fix it"
    name = A if tool != "gptme" else "2026-08-01-running-blue-fox"
    writer: Any = {"claude-code": write.claude, "codex": write.codex, "copilot": write.copilot, "gptme": write.gptme}
    found = seen(writer[tool](tmp_path, name, AT, prompt))
    assert (found.tool, found.native_id, found.started_at_us, found.cwd) == (tool, name, AT_US, write.CWD)
    assert (found.sentinel, found.is_stub, found.inherits, found.is_local) == (MARK, False, None, False)


def test_a_stream_log_says_whose_it_is_and_grok_says_nothing(tmp_path: Path) -> None:
    log = seen(write.stream(tmp_path / "cc-session-20260801-1015.log", A))
    assert (log.tool, log.form, log.native_id, log.cwd, log.started_at_us) == (
        "claude-code", "stream", A, write.CWD, None,
    )  # fmt: skip
    grok = seen(write.grok(tmp_path, "41c2"))
    assert (grok.tool, grok.native_id, grok.started_at_us, grok.cwd, grok.is_stub) == ("grok", None, None, None, False)


def test_the_files_time_is_never_its_start(tmp_path: Path) -> None:
    path = write.grok(tmp_path, "41c2")
    os.utime(path, (1, 1))
    assert seen(path).started_at_us is None


def test_a_marker_in_a_later_turn_is_a_quotation(tmp_path: Path) -> None:
    path = write.claude(tmp_path, A, AT, "Read the log")
    second = {
        "type": "user",
        "sessionId": A,
        "uuid": "u2",
        "message": {"role": "user", "content": write.marker("x", "y")},
    }
    path.write_text(path.read_text() + json.dumps(second) + "\n")
    assert seen(path).sentinel is None


@pytest.mark.parametrize("mark", ["isMeta", "isSidechain", "isCompactSummary"])
def test_a_marker_that_no_user_gave_is_none(mark: str, tmp_path: Path) -> None:
    path = write.claude(tmp_path, A, AT, "Read the log")
    meta = {"type": "user", "sessionId": A, mark: True, "message": {"role": "user", "content": write.marker("x", "y")}}
    body = path.read_text().splitlines()
    path.write_text("\n".join([body[0], body[2], json.dumps(meta), body[1]]) + "\n")
    assert seen(path).sentinel is None


def test_a_tools_answer_is_no_turn_of_the_user(tmp_path: Path) -> None:
    block = [
        {"type": "tool_result", "content": write.marker("x", "y")},
        {"type": "text", "text": write.marker("x", "y")},
    ]
    path = write.lines(
        tmp_path / f"{A}.jsonl",
        {"type": "user", "sessionId": A, "message": {"role": "user", "content": block}},
        {"type": "user", "sessionId": A, "message": {"role": "user", "content": "hello"}},
    )
    assert seen(path).sentinel is None


def test_only_the_first_marker_of_the_turn_counts_and_only_if_it_is_whole(tmp_path: Path) -> None:
    twice = write.marker("41c2", "codex") + write.marker("36d9", "codex")
    assert seen(write.codex(tmp_path / "a", A, AT, twice)).sentinel == MARK
    broken = "<!-- BOB_SESSION_SENTINEL=oops -->\n" + write.marker("36d9", "codex")
    assert seen(write.codex(tmp_path / "b", A, AT, broken)).sentinel is None


def test_a_marker_behind_other_words_does_not_lead(tmp_path: Path) -> None:
    found = seen(write.copilot(tmp_path, A, AT, "What is this? " + write.marker("41c2", "codex"))).sentinel
    assert found is not None
    assert not found.leads


def test_what_codex_injects_before_the_first_turn_is_none(tmp_path: Path) -> None:
    """`codex` of the helper writes an environment context first; its marker would else be missed."""
    assert seen(write.codex(tmp_path, A, AT, write.marker("41c2", "codex"))).sentinel == MARK


def test_a_fork_and_a_resumed_file_say_whose_beginning_they_copied(tmp_path: Path) -> None:
    assert seen(write.codex(tmp_path, B, AT, forked_from_id=A)).inherits == A
    resumed = write.claude(tmp_path, B, AT, session=A)
    assert (seen(resumed).inherits, seen(resumed).agrees) == (A, False)
    resumed.write_text(resumed.read_text() + json.dumps({"type": "mode", "sessionId": B}) + "\n")
    assert (seen(resumed).ids, seen(resumed).agrees) == ((A, B), True)


def test_the_own_lines_of_a_long_copy_are_found_at_its_end(tmp_path: Path) -> None:
    path = write.claude(tmp_path, B, AT, session=A)
    filler = json.dumps({"type": "progress", "sessionId": A, "data": "x" * 1000}) + "\n"
    own = json.dumps({"type": "mode", "sessionId": B}) + "\n"
    path.write_text(path.read_text() + filler * 200 + own)
    assert seen(path).agrees is True


def test_ids_at_the_end_are_sought_in_so_many_bytes(tmp_path: Path) -> None:
    def agrees(behind: int) -> bool | None:
        """The own line is the first one that is seen whole, or the one before it."""
        path = write.claude(tmp_path, B, AT, session=A)
        filler = json.dumps({"type": "progress", "sessionId": A}) + "\n"
        own = json.dumps({"type": "mode", "sessionId": B}) + "\n"
        rest = json.dumps({"type": "x", "data": "x" * (behind - len(own) - 26)}) + "\n"
        assert len(own + rest) == behind
        path.write_text(path.read_text() + filler * 200 + own + rest)
        return seen(path).agrees

    assert agrees(limits.EVIDENCE_TAIL_BYTES - 1) is True
    assert agrees(limits.EVIDENCE_TAIL_BYTES) is False  # its first line may be the rest of one


def test_a_file_in_which_nobody_spoke_is_a_stub(tmp_path: Path) -> None:
    stub = write.lines(tmp_path / f"{A}.jsonl", {"type": "queue-operation", "timestamp": AT, "sessionId": A})
    assert (seen(stub).is_stub, seen(stub).started_at_us) == (True, AT_US)


def test_a_subagents_file_is_no_session(tmp_path: Path) -> None:
    line = {"type": "user", "isSidechain": True, "sessionId": A, "message": {"role": "user", "content": "look"}}
    found = seen(write.lines(tmp_path / A / "subagents" / "agent-a1.jsonl", line))
    assert (found.form, found.native_id, found.parent) == ("subagent", None, A)


def test_a_branch_belongs_to_its_conversation_and_is_not_it(tmp_path: Path) -> None:
    row = {"role": "user", "content": "x", "timestamp": "2026-08-01T10:15:00"}
    found = seen(write.lines(tmp_path / "fox" / "branches" / "main-undo-0.jsonl", row))
    assert (found.form, found.native_id, found.is_local) == ("branch", "fox", True)


def test_torn_glued_and_wide_text_is_read(tmp_path: Path) -> None:
    path = write.claude(tmp_path, A, AT)
    path.write_bytes(b'\xef\xbb\xbf{"type": "mo\n' + path.read_bytes() + b'{"type":"user","sess')
    assert (seen(path).native_id, seen(path).agrees, seen(path).started_at_us) == (A, True, AT_US)


def test_binary_empty_missing_and_other_files_are_no_transcripts(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 4_000)
    (tmp_path / "empty").touch()
    write.lines(tmp_path / "rows", {"session_id": "a", "outcome": "noop"}, {"event": "x", "session_id": "b"})
    assert [evidence_of(tmp_path / name) for name in ("noise", "empty", "rows", "missing")] == [None] * 4
    assert evidence_of(tmp_path) is None
    assert evidence_of(f"{tmp_path}/a\0b") is None


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    assert evidence_of(tmp_path / "fifo.jsonl") is None


def test_a_link_is_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    path = write.claude(tmp_path, A, AT)
    (tmp_path / "link.jsonl").symlink_to(path)
    assert evidence_of(tmp_path / "link.jsonl") is not None
    assert evidence_of(tmp_path / "link.jsonl", follow=False) is None


def test_no_more_is_read_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write.codex(tmp_path, A, AT)
    first = len(path.read_bytes().split(b"\n")[0]) + 1
    monkeypatch.setattr(limits, "EVIDENCE_BYTES", first)
    assert (seen(path).native_id, seen(path).is_stub) == (A, False)
    monkeypatch.setattr(limits, "EVIDENCE_BYTES", first - 2)
    assert evidence_of(path) is None


def test_ids_are_sought_so_many_objects_behind_the_first_turn(tmp_path: Path) -> None:
    def found_behind(count: int) -> tuple[str, ...]:
        path = write.codex(tmp_path / str(count), A, AT)
        line = {"timestamp": AT, "type": "event_msg", "payload": {"type": "x"}}
        meta = {"timestamp": AT, "type": "session_meta", "payload": {"id": B}}
        text = json.dumps(line) + "\n"
        path.write_text(path.read_text() + text * count + json.dumps(meta) + "\n")
        return seen(path).ids

    assert found_behind(limits.EVIDENCE_OBJECTS - 1) == (A, B)
    assert found_behind(limits.EVIDENCE_OBJECTS) == (A,)


def test_a_file_of_so_many_broken_lines_is_given_up(tmp_path: Path) -> None:
    good = write.codex(tmp_path, A, AT)
    text = good.read_text()
    good.write_text("broken\n" * limits.EVIDENCE_BROKEN + text)
    assert seen(good).native_id == A
    good.write_text("broken\n" * (limits.EVIDENCE_BROKEN + 1) + text)
    assert evidence_of(good) is None


def test_the_hash_is_of_the_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abcdef")
    assert hashed(tmp_path / "x", 3) == (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    assert hashed(tmp_path / "x").bytes == 6
    assert hashed(tmp_path / "x", 9).bytes == 6


@pytest.mark.parametrize(
    "name",
    [
        "01-qwen-code-taken-for-claude/qwen-code.jsonl",
        "02-droid-stream-taken-for-claude/droid-stream.jsonl",
        "11-unsupported/pi-session.jsonl",
        "11-unsupported/droid-session.jsonl",
        "other-tools/qwen-stream.jsonl",
    ],
)
def test_a_transcript_of_a_tool_that_is_not_imported_is_no_evidence(name: str) -> None:
    assert evidence_of(str(Path(__file__).parents[1] / "outside" / name)) is None
