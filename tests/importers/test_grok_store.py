"""Grok's own session store: what its lines become, whose they are, and when they happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer

from rightful.errors import InvalidEventError
from rightful.events import SessionStarted
from rightful.importers.engine.formats import Origin
from rightful.importers.grok.grok_stream import Grok
from rightful.importers.sources.text_files import Found
from rightful.ledger import Ledger

ID = "019f75d0-ebe1-7db0-a59a-60af9ffa9e71"
CALL = {"id": "call_1", "name": "run_terminal_cmd", "arguments": '{"command":"ls"}'}
ROWS: list[dict[str, Any]] = [
    {"type": "system", "content": "You are an agent."},
    {"type": "user", "content": [{"type": "text", "text": "<user_info/>"}], "synthetic_reason": "user_info"},
    {"type": "user", "content": [{"type": "text", "text": "List the files."}], "prompt_index": 0},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I list."}], "encrypted_content": "x"},
    {"type": "assistant", "content": "One moment.", "model_id": "grok-4.5", "tool_calls": [CALL]},
    {"type": "tool_result", "tool_call_id": "call_1", "content": "a.py"},
    {"type": "assistant", "content": "", "model_id": "grok-4.5", "tool_calls": [CALL | {"id": "call_2"}]},
    {"type": "tool_result", "tool_call_id": "call_2", "content": "a.py"},
    {"type": "assistant", "content": "a.py", "model_id": "grok-4.5"},
    {"type": "backend_tool_call", "kind": "web_search"},
]


def put(folder: Path, rows: list[dict[str, Any]] = ROWS, summary: dict[str, Any] | None = None) -> Path:
    path = folder / "%2Fhome%2Fdev%2Fproj" / ID / "chat_history.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if summary is not None:
        (path.parent / "summary.json").write_text(json.dumps(summary))
    return path


def test_a_session_of_the_store_is_recorded_whole(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    put(tmp_path / "sessions", summary={"created_at": "2026-08-01T10:00:00Z"})

    reports = imported("auto", tmp_path / "sessions")

    assert [report.kinds for report in reports if report.is_read] == [
        {"session.started": 2, "message.recorded": 5, "thought.recorded": 1, "tool_call.snapshotted": 2,
         "tool_result.snapshotted": 2, "data.recorded": 1}
    ]  # fmt: skip
    transcript = ledger.transcript(f"grok:{ID}").as_dict()
    assert [(entry["kind"], entry.get("role"), entry.get("text")) for entry in transcript["entries"]] == [
        ("message", "system", "You are an agent."),
        ("message", "user", "<user_info/>"),
        ("message", "user", "List the files."),
        ("thought", None, "I list."),
        ("message", "assistant", "One moment."),
        ("tool_call", None, None),
        ("tool_call", None, None),
        ("message", "assistant", "a.py"),
        ("data", None, None),
    ]
    calls = [entry for entry in transcript["entries"] if entry["kind"] == "tool_call"]
    assert [(call["call"], call["arguments"], call["output"]) for call in calls] == [
        ("call_1", {"command": "ls"}, "a.py"),
        ("call_2", {"command": "ls"}, "a.py"),
    ]
    assert (transcript["entries"][1]["extra"], transcript["entries"][1]["meta"]) == (
        {"synthetic_reason": "user_info"},
        True,
    )
    started = transcript["started"]
    assert (started["model"], started["cwd"]) == ("grok-4.5", "/home/dev/proj")
    first = next(ledger.read(session=f"grok:{ID}"))
    assert isinstance(first.event, SessionStarted)
    assert first.event.at.isoformat() == "2026-08-01T10:00:00+00:00"


def test_a_store_that_grows_gives_the_same_as_one_reading(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    for count in range(1, len(ROWS) + 1):
        put(tmp_path / "sessions", ROWS[:count])
        imported("grok", tmp_path / "sessions")
    before = ledger.log.head()

    put(tmp_path / "other" / "sessions")
    imported("grok", tmp_path / "other")

    assert ledger.log.head() == before == 13


def test_the_same_line_twice_is_two_messages(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    again = {"type": "user", "content": "yes", "synthetic_reason": None}
    put(tmp_path, [again, again])

    imported("grok", tmp_path)

    assert [entry.text for entry in ledger.transcript(f"grok:{ID}").entries] == ["yes", "yes"]


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"content": "x"}, "$.type"),
        ({"type": "user", "content": None}, "$.content"),
        ({"type": "tool_result", "content": "x"}, "$.tool_call_id"),
        ({"type": "assistant", "content": "", "tool_calls": {}}, "$.tool_calls"),
        ({"type": "assistant", "content": "", "tool_calls": [5]}, "$.tool_calls[0]"),
        ({"type": "assistant", "content": "", "tool_calls": [{"name": "x"}]}, "$.tool_calls[0].id"),
    ],
)
def test_a_line_of_the_wrong_shape_says_where(row: dict[str, Any], place: str) -> None:
    reader = Grok().reader(Origin(f"/sessions/%2Fp/{ID}/chat_history.jsonl", 1))

    with pytest.raises(InvalidEventError) as caught:
        list(reader.events(Found(1, row)))

    assert caught.value.place == place


@pytest.mark.parametrize(
    ("row", "is_grok"),
    [
        (ROWS[2], True),
        (ROWS[1], True),
        (ROWS[4], True),
        ({"type": "user", "content": "x"}, False),
        ({"type": "assistant", "content": "x"}, False),
        ({"type": "system", "content": "x"}, False),
        ({"type": "tool_result", "tool_call_id": "x", "content": "y"}, False),
    ],
)
def test_a_line_proves_the_store_by_what_only_grok_writes(row: dict[str, Any], *, is_grok: bool) -> None:
    assert Grok().recognises(row) is is_grok
