"""The evidence in the lines of a transcript, by tool; see `evidence`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rightful import limits, times
from rightful.importers.engine.other_tools import shape_of

Line = Mapping[str, Any]

_GPTME_ROLES = frozenset({"system", "user", "assistant", "tool"})
_GROK_SURE = {"available_commands": "commands", "tool_call": "toolCallId", "tool_call_update": "toolCallId"}
_GROK_TYPES = frozenset({"available_commands", "thought", "text", "tool_call", "tool_call_update", "usage", "end"})
_STREAM_TYPES = frozenset({"system", "assistant", "user", "result"})
_DOTTED = re.compile(r"\w+\.\w+")
_LOCAL_COMMAND = re.compile(r"\s*(?:<local-command-|<command-name>/clear<|Caveat: The messages below were generated)")
_INJECTED = re.compile(r"\s*(?:<[a-z_]+[ >]|# AGENTS\.md instructions)")  # what Codex puts before the first turn


class PartialEvidence:
    """The evidence in a file so far.

    Attributes:
        tool: The tool that wrote it; None until a line shows it.
        is_stream: Whether it is the output of Claude Code, and not its own transcript.
        ids: Session ids, in order.
        cwd: The working folder.
        started_us: The first time; microseconds since 1970, UTC.
        is_local: Whether that time had no offset.
        prompt: The text of the user's first turn.
        has_spoken: Whether it contains a message or a call.
        forked_from: The session that it was forked from, as it states.
        is_sidechain: Whether it begins as a subagent's file.
        is_unsupported: Whether it begins as a file of a tool that is not imported.
    """

    def __init__(self) -> None:
        self.tool: str | None = None
        self.is_stream = False
        self.ids: list[str] = []
        self.cwd: str | None = None
        self.started_us: int | None = None
        self.is_local = False
        self.prompt: str | None = None
        self.has_spoken = False
        self.forked_from: str | None = None
        self.is_sidechain = False
        self.is_unsupported = False

    @property
    def is_known(self) -> bool:
        """Whether the beginning of the file is read far enough."""
        return self.prompt is not None or (self.has_spoken and (self.is_stream or self.tool == "grok"))

    def add_id(self, value: object) -> None:
        """Add a session id."""
        if isinstance(value, str) and value and value not in self.ids and len(self.ids) < limits.EVIDENCE_OBJECTS:
            self.ids.append(value)

    def add_cwd(self, value: object) -> None:
        """Set the working folder; the first one counts."""
        if self.cwd is None and isinstance(value, str) and value:
            self.cwd = value

    def add_time(self, value: object) -> None:
        """Set the start time; the first valid one counts."""
        if self.started_us is not None or not isinstance(value, str):
            return
        try:
            at = datetime.fromisoformat(value)
            at_us = times.us_of(at if at.tzinfo else at.astimezone())
        except (ValueError, OverflowError, OSError):
            return
        if limits.AT_MIN_US <= at_us <= limits.AT_MAX_US:
            self.started_us, self.is_local = at_us, at.tzinfo is None

    def add_prompt(self, content: object) -> None:
        """Set the first user text; the first one counts."""
        self.has_spoken = True
        if self.prompt is None:
            self.prompt = _text(content)


def add_line(seen: PartialEvidence, line: Line) -> None:
    """Add one object of a file; objects of another tool than the first are skipped."""
    if seen.tool is None and shape_of(line) is not None:
        seen.is_unsupported = True
    tool = None if seen.is_unsupported else _tool_of(line)
    if tool is None or seen.tool not in {None, tool}:
        return
    seen.tool = tool
    _READERS[tool](seen, line)


def _tool_of(line: Line) -> str | None:
    kind = line.get("type")
    if isinstance(kind, str):
        if isinstance(line.get("payload"), dict) and "timestamp" in line:
            return "codex"
        if _DOTTED.fullmatch(kind):
            return "copilot" if isinstance(line.get("data"), dict) and "id" in line else None
        if "sessionId" in line or kind == "file-history-snapshot" or (kind == "summary" and "leafUuid" in line):
            return "claude-code"
        if kind in _STREAM_TYPES and "session_id" in line:
            return "claude-code"
        return "grok" if _is_grok(kind, line) else None
    role = line.get("role")
    if isinstance(role, str) and role in _GPTME_ROLES and "content" in line and "timestamp" in line:
        return "gptme"
    return None


def _is_grok(kind: str, line: Line) -> bool:
    if kind in _GROK_SURE:
        return _GROK_SURE[kind] in line
    return kind in _GROK_TYPES and not line.keys() & {"session_id", "message", "uuid", "id", "role"}


def _claude_code(seen: PartialEvidence, line: Line) -> None:
    kind = line["type"]
    if "session_id" in line and "sessionId" not in line:
        _stream(seen, line)
        return
    seen.add_id(line.get("sessionId"))
    seen.add_cwd(line.get("cwd"))
    seen.add_time(line.get("timestamp"))
    if kind not in {"user", "assistant"}:
        return
    if not seen.has_spoken:
        seen.is_sidechain = line.get("isSidechain") is True
    seen.has_spoken = True
    if kind == "user" and not any(line.get(mark) is True for mark in ("isSidechain", "isMeta", "isCompactSummary")):
        content = _content(line)
        if not _is_result(content) and not _LOCAL_COMMAND.match(_text(content)):
            seen.add_prompt(content)


def _stream(seen: PartialEvidence, line: Line) -> None:
    seen.is_stream = True
    if not line.get("parent_tool_use_id"):
        seen.add_id(line.get("session_id"))
    seen.add_cwd(line.get("cwd"))
    seen.add_time(line.get("timestamp"))
    if line["type"] == "system":
        return
    seen.has_spoken = True
    content = _content(line)
    if line["type"] == "user" and not line.get("parent_tool_use_id") and not _is_result(content):
        seen.add_prompt(content)


def _codex(seen: PartialEvidence, line: Line) -> None:
    payload = line["payload"]
    kind, what = line["type"], payload.get("type")
    if kind == "session_meta":
        if not seen.ids and isinstance(payload.get("forked_from_id"), str):
            seen.forked_from = payload["forked_from_id"]
        elif seen.ids and seen.forked_from is None and payload.get("id") != seen.ids[0] and not seen.has_spoken:
            seen.forked_from = payload.get("id") if isinstance(payload.get("id"), str) else None
        seen.add_id(payload.get("id"))
        seen.add_cwd(payload.get("cwd"))
        seen.add_time(payload.get("timestamp"))
    seen.add_time(line.get("timestamp"))
    if kind == "event_msg" and what == "user_message":
        seen.add_prompt(payload.get("message"))
    elif kind == "response_item":
        seen.has_spoken = True
        is_users = what == "message" and payload.get("role") == "user"
        if is_users and not _INJECTED.match(_text(payload.get("content"))):
            seen.add_prompt(payload.get("content"))


def _copilot(seen: PartialEvidence, line: Line) -> None:
    data, kind = line["data"], line["type"]
    if kind == "session.start":
        context = data.get("context")
        seen.add_id(data.get("sessionId"))
        seen.add_cwd(context.get("cwd") if isinstance(context, dict) else None)
        seen.add_time(data.get("startTime"))
    seen.add_time(line.get("timestamp"))
    if kind == "user.message":
        seen.add_prompt(data.get("content"))
    elif not kind.startswith("session."):
        seen.has_spoken = True


def _gptme(seen: PartialEvidence, line: Line) -> None:
    seen.add_time(line["timestamp"])
    if line["role"] == "user":
        seen.add_prompt(line["content"])
    elif line["role"] == "assistant":
        seen.has_spoken = True


def _grok(seen: PartialEvidence, line: Line) -> None:
    seen.add_time(line.get("timestamp"))
    if line["type"] not in {"available_commands", "usage", "end"}:
        seen.has_spoken = True


_READERS: dict[str, Callable[[PartialEvidence, Line], None]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "copilot": _copilot,
    "gptme": _gptme,
    "grok": _grok,
}


def _content(line: Line) -> object:
    message = line.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _is_result(content: object) -> bool:
    """Return whether a user record contains tool results."""
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )


def _text(content: object) -> str:
    """Return the text of a message, or the texts of its parts, one per line."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
