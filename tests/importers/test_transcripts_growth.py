"""Transcripts of Codex, Copilot CLI and Grok grow while they are read, and the reader may die: all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.importers import codex_lines as codex
from tests.importers import copilot_lines as copilot
from tests.importers.growing import kind_of, same_after_kills, same_by_cuts, same_by_prefixes
from tests.importers.reading_lines import SAMPLES, written

pytestmark = pytest.mark.slow

CODEX, COPILOT, GROK = (
    "rightful.importers.codex.rollout:Codex",
    "rightful.importers.copilot.copilot_session:Copilot",
    "rightful.importers.grok.grok_stream:Grok",
)
STREAM = "grok-trajectories/41c2.jsonl"
FORK = "rollout-2026-08-01T12-15-00-019fbd3f-c1a0-7c4d-881b-c6bee1919a76.jsonl"
ROLLOUTS = SAMPLES / "codex" / "sessions" / "2026" / "08" / "01"
EVENTS = f"{copilot.SID}/events.jsonl"


def of_codex() -> bytes:
    """A thread with both forms of a message in either order, a compaction, a rollback, and a turn without an item."""
    rows: list[Any] = [
        codex.meta(),
        codex.began(),
        codex.said("é one", "user", 2),
        codex.event("user_message", 2, message="é one"),
        codex.event("agent_message", 3, message="One."),
        codex.said("One.", second=3, phase="final_answer"),
        codex.called("c", second=4, cmd="ls"),
        codex.answered("c", "x", 5),
        codex.ended(second=6),
        codex.line("compacted", {"message": "so far", "replacement_history": []}, 7),
        codex.began(codex.LATER, 8),
        codex.event("user_message", 8, message="two"),
        codex.ended(codex.LATER, 9, last_agent_message="Two."),
        codex.event("thread_rolled_back", 10, num_turns=1),
    ]
    return written(rows)


def of_copilot() -> bytes:
    """A session with a stream, a subagent, a compaction and a rewind; two records stand on one line."""
    rows = [
        copilot.start(),
        copilot.asked("u1", "é\u2028"),
        copilot.turn("t2"),
        copilot.record("assistant.message_delta", "d3", messageId=copilot.uid("m-a4"), deltaContent="Hel"),
        copilot.answer("a4", "Hello", copilot.request("c", command="ls"), reasoningText="hm", outputTokens=3),
        copilot.started("x5", "c", command="ls"),
        copilot.record("subagent.started", "g6", agent="ag", toolCallId="c"),
        copilot.answer("a7", "aside", agent="ag"),
        copilot.completed("x8", "c"),
        copilot.turned("t9"),
        copilot.record("session.compaction_start", "k10"),
        copilot.asked("u11", "next"),
        copilot.record("session.compaction_complete", "k12", success=True, summaryContent="so far"),
        copilot.record("session.snapshot_rewind", "w13", upToEventId=copilot.uid("u11"), eventsRemoved=2),
    ]
    return written(rows[:9]) + written(rows[9:11]).replace(b"\n", b"") + b"\n" + written(rows[11:])


def of_grok() -> bytes:
    """A stream with pieces of text, and a call whose input and output come late."""
    rows = [
        {"type": "available_commands", "commands": []},
        *({"type": "thought", "data": piece} for piece in ("h", "m", ", é")),
        {"type": "tool_call", "toolCallId": "g", "toolName": "bash", "kind": "execute"},
        {"type": "tool_call_update", "toolCallId": "g", "status": "pending", "rawInput": {"command": "ls"}},
        {"type": "tool_call_update", "toolCallId": "g", "status": "in_progress", "rawOutput": "my"},
        {"type": "tool_call_update", "toolCallId": "g", "status": "completed", "rawOutput": "my file"},
        *({"type": "text", "data": f"word {number} "} for number in range(12)),
        {"type": "end", "stopReason": "end_turn", "modelUsage": {"grok-x": {"outputTokens": 2}}},
    ]
    return written(rows)


FILES = {
    "codex": (CODEX, codex.NAME, of_codex()),
    "copilot": (COPILOT, EVENTS, of_copilot()),
    "grok": (GROK, STREAM, of_grok()),
}


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [
        ("codex", {"message.recorded": 5, "history.compacted": 1, "history.popped": 1, "turn.ended": 2}),
        ("copilot", {"message.recorded": 5, "history.compacted": 1, "history.popped": 1, "session.linked": 1}),
        (
            "grok",
            {"message.recorded": 8, "thought.recorded": 3, "tool_call.snapshotted": 2, "tool_result.snapshotted": 2},
        ),
    ],
)
def test_a_transcript_that_grows_byte_by_byte_is_imported_as_if_at_once(
    tmp_path: Path, tool: str, kinds: dict[str, int]
) -> None:
    kind, name, data = FILES[tool]

    report = same_by_prefixes(kind_of(kind), name, data, tmp_path)

    assert {one: report.kinds.get(one) for one in kinds} == kinds
    assert (report.lost, report.conflicts) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "path", "name", "appended"),
    [
        (CODEX, ROLLOUTS / FORK, FORK, 25),
        (COPILOT, SAMPLES / "copilot" / "session-state" / EVENTS, EVENTS, 14),
        (GROK, SAMPLES / "grok" / STREAM, STREAM, 9),
    ],
)
def test_each_sample_may_be_cut_anywhere(tmp_path: Path, kind: str, path: Path, name: str, appended: int) -> None:
    assert same_by_cuts(kind_of(kind), name, path.read_bytes(), tmp_path, examples=8).appended == appended


@pytest.mark.parametrize(("tool", "lines"), [("codex", 6), ("copilot", 5), ("grok", 8)])
def test_an_import_that_is_killed_anywhere_changes_nothing(tmp_path: Path, tool: str, lines: int) -> None:
    """Of the first lines, since each step of their import is the death of a process."""
    kind, name, data = FILES[tool]
    first = b"".join(data.splitlines(keepends=True)[:lines])

    assert same_after_kills(kind, name, first, tmp_path) >= 10
