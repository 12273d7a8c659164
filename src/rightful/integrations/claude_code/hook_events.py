"""Events from the input of Claude Code's hooks.

| hook event | event | key |
|---|---|---|
| `SessionStart` | `session.started` | session, `SessionStart`, source, digest of the input; nonce, unless `startup` |
| `SessionEnd` | `session.ended` | session, `SessionEnd`, reason, digest of the input, nonce |
| `PreToolUse` | `tool_call.snapshotted` | session, `call`, `tool_use_id` |
| `PostToolUse`, `PostToolUseFailure` | `tool_result.snapshotted` | session, `result`, `tool_use_id` |

A key holds a nonce only where the input does not identify the fact: a session may be resumed and
end more than once with the same words. A call of a version that gives no `tool_use_id` is named by
the digest of its tool and input, which its result can compute too, and its key has a nonce.

Source: code.claude.com/docs/en/hooks (events and fields as of Claude Code 2.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rightful import content, limits, times
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import digest, key_of, session_of

AGENT = "claude-code"
"""What the command line calls it; the namespace of its sessions, and the harness of their starts."""

PRODUCER = "claude-code-hook"
"""The producer of its events. Exposures keep the producers of the import `lesson-hook`."""

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
)
"""The hook events to install. All of them look for exposures; two of them do only that."""

Wire = dict[str, Any]

_OF_EVERY_CALL = frozenset({"session_id", "hook_event_name", "transcript_path", "cwd", "permission_mode"})
_DIGEST_DIGITS = 32
_TRANSCRIPT = re.compile(r"(?:\A|/)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl\Z")


def input_of(raw: bytes) -> dict[str, Any]:
    """Return the input object of a hook.

    Raises:
        InvalidEventError: It is too long, or is not a JSON object.
    """
    if len(raw) > limits.HOOK_INPUT_BYTES:
        raise InvalidEventError(f"Expected input of at most {limits.HOOK_INPUT_BYTES} bytes")
    value = content.parse_line(raw)
    if not isinstance(value, dict):
        raise InvalidEventError(f"Expected `object`, got `{content.json_type(value)}`")
    return value


def session_id_of(value: Mapping[str, Any]) -> str:
    """Return the session's id, exactly as Claude Code writes it.

    Raises:
        InvalidEventError: It is missing, or is not a valid session id.
    """
    raw = value.get("session_id")
    if not isinstance(raw, str):
        raise InvalidEventError("Expected a session id", "$.session_id")
    session_of(AGENT, raw, "$.session_id")
    return raw


def contradicts(value: Mapping[str, Any]) -> bool:
    """Return whether the path of the transcript names another session than `session_id` (claude-code issue 8564)."""
    path = value.get("transcript_path")
    named = _TRANSCRIPT.search(path) if isinstance(path, str) else None
    return named is not None and named[1] != value.get("session_id")


def events_of(value: Mapping[str, Any], at_us: int, nonce: str) -> list[Wire]:
    """Return the events of one hook call, in wire form; none for a hook event without facts.

    Args:
        value: The hook's input.
        at_us: When the hook was called; microseconds since 1970, UTC.
        nonce: A random value of this call, stored with it.

    Raises:
        InvalidEventError: It names no session, or lacks what its hook event must have.
    """
    raw = session_id_of(value)
    name = value.get("hook_event_name")
    if not isinstance(name, str):
        raise InvalidEventError("Expected the name of a hook event", "$.hook_event_name")
    common = {"producer": PRODUCER, "session": f"{AGENT}:{raw}", "at": times.text_of(at_us)}
    match name:
        case "SessionStart":
            return [common | _start_event(value, raw, nonce)]
        case "SessionEnd":
            key = key_of(raw, name, _text_or_none(value.get("reason")), digest(value), nonce)
            return [common | {"type": "session.ended", "key": key, "extra": _other_fields(value, {"cwd"})}]
        case "PreToolUse":
            return [common | _call_event(value, raw, nonce)]
        case "PostToolUse" | "PostToolUseFailure":
            return [common | _result_event(value, raw, nonce, failed=name == "PostToolUseFailure")]
        case _:
            return []


def _start_event(value: Mapping[str, Any], raw: str, nonce: str) -> Wire:
    source = _text_or_none(value.get("source"))
    nonce_part = None if source == "startup" else nonce
    stated = {name: value[name] for name in ("model", "cwd") if isinstance(value.get(name), str)}
    return stated | {
        "type": "session.started",
        "key": key_of(raw, "SessionStart", source, digest(value), nonce_part),
        "harness": AGENT,
        "extra": _other_fields(value, stated),
    }


def _call_event(value: Mapping[str, Any], raw: str, nonce: str) -> Wire:
    call, nonce_part = _call(value, nonce)
    return {
        "type": "tool_call.snapshotted",
        "key": key_of(raw, "call", call, *nonce_part),
        "call": call,
        "name": _tool(value),
        "arguments": value.get("tool_input"),
        "complete": True,
    } | _extra(value, "tool_name", "tool_input", "tool_use_id")


def _result_event(value: Mapping[str, Any], raw: str, nonce: str, *, failed: bool) -> Wire:
    call, nonce_part = _call(value, nonce)
    field = "error" if failed and "tool_response" not in value else "tool_response"
    return {
        "type": "tool_result.snapshotted",
        "key": key_of(raw, "result", call, *nonce_part),
        "call": call,
        "output": value.get(field),
        "is_error": failed,
        "complete": True,
    } | _extra(value, "tool_input", "tool_use_id", field)


def _tool(value: Mapping[str, Any]) -> str:
    name = value.get("tool_name")
    if not isinstance(name, str) or not name:
        raise InvalidEventError("Expected the name of a tool", "$.tool_name")
    return name


def _call(value: Mapping[str, Any], nonce: str) -> tuple[str, tuple[str, ...]]:
    """Return the id of a call, and what its key needs in addition."""
    own = value.get("tool_use_id")
    if isinstance(own, str) and 0 < len(own) <= limits.WORD_CHARS:
        return own, ()
    return "input:" + digest([_tool(value), value.get("tool_input")])[:_DIGEST_DIGITS], (nonce,)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _other_fields(value: Mapping[str, Any], stated: Mapping[str, Any] | set[str]) -> dict[str, Any]:
    """Return the other fields of a start or an end, including those that newer versions of Claude Code add."""
    return {name: item for name, item in value.items() if name not in {"session_id", "hook_event_name", *stated}}


def _extra(value: Mapping[str, Any], *stated: str) -> dict[str, Any]:
    """Return the other fields of a tool's event, without those that every call repeats.

    The path of the transcript is kept where it names another session than the call does.
    """
    extra = {name: item for name, item in value.items() if name not in _OF_EVERY_CALL and name not in stated}
    if contradicts(value):
        extra["transcript_path"] = value["transcript_path"]
    return {"extra": extra} if extra else {}
