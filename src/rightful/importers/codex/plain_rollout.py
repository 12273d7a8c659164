"""Lines of rollouts that Codex wrote until autumn 2025: without `payload`, and with a time only in the first line.

| line | read as |
|---|---|
| `{"id", "timestamp", "instructions", "git"}`, the first | `session_meta` |
| `{"type": "message" ...}`, an item of the Responses API | `response_item` |
| `{"record_type": "state"}` | nothing; data if it has other fields |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_META = frozenset({"id", "timestamp", "instructions"})
_STATE = "record_type"
_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "local_shell_call",
        "custom_tool_call",
        "custom_tool_call_output",
        "web_search_call",
    }
)


def proves(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a line that only these rollouts have; an item of the API is not one."""
    if _STATE in value:
        return value[_STATE] == "state" and "session_id" not in value
    return value.keys() >= _META and "type" not in value and isinstance(value["id"], str)


def modern(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a line in the form that Codex writes today; None for a line without content."""
    if "payload" in value:
        return value
    if value.keys() >= _META and "type" not in value:
        return {"type": "session_meta", "timestamp": value["timestamp"], "payload": dict(value)}
    if _STATE in value:
        return {"type": "state", "payload": dict(value)} if len(value) > 1 else None
    if isinstance(value.get("type"), str) and value["type"] in _ITEMS:
        return {"type": "response_item", "timestamp": value.get("timestamp"), "payload": dict(value)}
    return value
