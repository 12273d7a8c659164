"""Recognise objects that were written by Claude Code.

Other tools write lines with the same `type`, `sessionId`, `uuid` and `parentUuid` (Qwen Code), or `type` and
`session_id` (Droid, Cursor, Gemini CLI). So neither a type nor a session id proves anything: a line counts only if it
has a field or a message form that no other tool writes. A file needs one such line; its other lines may be of types
that are not listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MARKS = {
    "summary": "leafUuid",
    "file-history-snapshot": "isSnapshotUpdate",
    "queue-operation": "operation",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
    "last-prompt": "lastPrompt",
    "agent-name": "agentName",
    "agent-color": "agentColor",
    "permission-mode": "permissionMode",
    "mode": "mode",
    "pr-link": "prUrl",
    "tag": "tag",
    "worktree-state": "worktreeSession",
}
"""For types of lines outside of the conversation, the field that the type has in Claude Code."""

_SPOKEN = frozenset({"user", "assistant"})
_NO_SESSION = frozenset({"summary", "file-history-snapshot"})  # these lines name no session
_FOREIGN = frozenset({"qwen_code_version", "systemPayload"})


def is_claude_code(value: Mapping[str, Any]) -> bool:
    """Return whether an object has fields that only Claude Code writes."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return kind is None and "agentType" in value and ("spawnDepth" in value or "toolUseId" in value)
    if not _FOREIGN.isdisjoint(value):
        return False
    if isinstance(value.get("sessionId"), str) or kind in _NO_SESSION:
        return _is_of_transcript(kind, value)
    return isinstance(value.get("session_id"), str) and _is_of_stream_log(kind, value)


def _is_of_transcript(kind: str, value: Mapping[str, Any]) -> bool:
    if kind in _MARKS:
        return _MARKS[kind] in value
    if "isSidechain" in value and "uuid" in value:  # every line of a conversation, since the first version
        return kind not in _SPOKEN or _is_message(value)
    return kind in _SPOKEN and "uuid" in value and _is_message(value)


def _is_of_stream_log(kind: str, value: Mapping[str, Any]) -> bool:
    match kind:
        case "user" | "assistant":
            return "parent_tool_use_id" in value and _is_message(value)
        case "stream_event":
            return "parent_tool_use_id" in value and isinstance(value.get("event"), dict)
        case "system":
            is_init = value.get("subtype") == "init" and isinstance(value.get("tools"), list)
            return is_init or (value.get("subtype") == "compact_boundary" and "compact_metadata" in value)
        case "result":
            return "num_turns" in value or "total_cost_usd" in value
        case _:
            return False


def _is_message(value: Mapping[str, Any]) -> bool:
    """Return whether a line has a message in the form of Anthropic's API: with `content`, and not with `parts`."""
    message = value.get("message")
    return isinstance(message, dict) and isinstance(message.get("content"), str | list) and "parts" not in message
