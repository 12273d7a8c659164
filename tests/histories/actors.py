"""Short ways of keeping histories in a ledger in memory."""

from __future__ import annotations

from typing import Any

from tests.log.memory import MemoryRecorder

from rightful.histories.service import Histories
from rightful.log.log import Log
from rightful.times import text_of

S = "t:a"


def histories(recorder: MemoryRecorder | None = None, *, ledger_id: str = "here") -> Histories:
    return Histories(Log(recorder or MemoryRecorder(), entropy=bytes), ledger_id=ledger_id)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "ls", "arguments": "{}"}


def output(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": f"out {name}"}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": text, "summary": []}


def wire(kind: str, key: str, session: str = S, **said: Any) -> dict[str, Any]:
    return {"type": kind, "producer": "p", "key": key, "session": session, "at": text_of(10**15), **said}


def texts(kept: Histories, session: str = S, **how: Any) -> list[Any]:
    """What a history shows, each item by the word that tells it from others."""
    return [word(item) for item in kept.history(session, **how).items]


def word(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    kind = item.get("type", "")
    if kind.endswith("_output"):
        return f"out {item['call_id']}"
    return f"call {item['call_id']}" if kind.endswith("_call") else item.get("content", item.get("id"))
