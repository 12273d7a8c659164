"""Lines as Codex writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.importers import reading_lines
from tests.importers.reading_lines import Row

from rightful.importers.codex.rollout import Codex

BASE_MS = 1_785_579_300_000  # 2026-08-01T10:15:00Z


def v7(ms: int, tail: str) -> str:
    """A UUID of version 7 of a time; the tail tells those of one time apart."""
    digits = f"{BASE_MS + ms:012x}7{tail:0<3.3}8{tail:0<15.15}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


PARENT, CHILD = v7(0, "a"), v7(7_200_000, "b")
TURN, LATER, OWN = v7(1_000, "1"), v7(60_000, "2"), v7(7_201_000, "3")
V4 = ["5f0c3f5e-7b5a-4d55-9c1e-1f7d2f1a0b0c", "9a1d4c3b-2e6f-4f0a-8b7c-6d5e4f3a2b1c"]
NAME = f"rollout-2026-08-01T10-15-00-{PARENT}.jsonl"


def line(kind: str, payload: object, second: float = 0) -> Row:
    minute, rest = divmod(second, 60)
    hour, minute = divmod(int(minute), 60)
    at = f"2026-08-01T{10 + hour:02d}:{minute:02d}:{rest:06.3f}Z"
    return {"timestamp": at, "type": kind, "payload": payload}


def meta(thread: str = PARENT, second: float = 0, **fields: Any) -> Row:
    said = {"id": thread, "timestamp": "2026-08-01T10:15:00.000Z", "cwd": "/w", "originator": "codex-tui"}
    return line("session_meta", said | {"cli_version": "0.99.0", "source": "cli"} | fields, second)


def item(kind: str, second: float = 0, **fields: Any) -> Row:
    return line("response_item", {"type": kind} | fields, second)


def event(kind: str, second: float = 0, **fields: Any) -> Row:
    return line("event_msg", {"type": kind} | fields, second)


def said(text: str, role: str = "assistant", second: float = 0, **fields: Any) -> Row:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return item("message", second, role=role, content=[part], **fields)


def began(turn: str = TURN, second: float = 0, **fields: Any) -> Row:
    return event("task_started", second, turn_id=turn, **fields)


def ended(turn: str = TURN, second: float = 0, **fields: Any) -> Row:
    return event("task_complete", second, turn_id=turn, **fields)


def called(call: str, name: str = "exec_command", second: float = 0, **arguments: Any) -> Row:
    return item("function_call", second, call_id=call, name=name, arguments=json.dumps(arguments))


def answered(call: str, output: object, second: float = 0) -> Row:
    return item("function_call_output", second, call_id=call, output=output)


def read(*rows: Mapping[str, Any], name: str | None = None, whole: bool = False) -> list[Any]:
    """What is read of lines; of a session's own first lines only where the whole is asked for.

    Without a name the file is named after the thread of its first line, as Codex does.
    """
    if name is None:
        begins = whole and rows and rows[0].get("type") == "session_meta"
        name = NAME.replace(PARENT, str(rows[0]["payload"].get("id"))) if begins else NAME
    kept: Iterable[Mapping[str, Any]] = rows if whole else [meta(), began(), *rows]
    said_of = reading_lines.read(Codex(), f"/s/{name}", kept)
    return said_of if whole else said_of[3:]
