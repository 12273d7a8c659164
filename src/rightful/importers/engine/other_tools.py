"""Recognise files of agent tools that are not imported, so that the report can name what was skipped.

The shapes are those that the tools write (background: `agent-tool-formats`). A list, or an object whose keys are
lessons, has no distinctive shape; such a file is recognised by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Shape = Callable[[Mapping[str, Any]], bool]


def described(name: str, values: Iterable[Mapping[str, Any]]) -> str | None:
    """Return a description of a file, with its article; None if it is not recognised.

    Args:
        name: The file's own name.
        values: Its first objects.
    """
    return next((what for value in values if (what := shape_of(value)) is not None), _NAMES.get(name))


def shape_of(value: Mapping[str, Any]) -> str | None:
    """Return a description, with its article, if the object was written by a tool that is not imported."""
    return next((what for what, fits in _SHAPES if fits(value)), None)


def _has(*keys: str) -> Shape:
    wanted = frozenset(keys)
    return lambda value: wanted <= value.keys()


def _typed(types: str, *keys: str) -> Shape:
    """Return a test: the `type` matches the pattern fully, and at least one of the keys exists, if any are given."""
    form = re.compile(types)

    def fits(value: Mapping[str, Any]) -> bool:
        kind = value.get("type")
        return isinstance(kind, str) and bool(form.fullmatch(kind)) and (not keys or not value.keys().isdisjoint(keys))

    return fits


def _with_message(key: str, *others: str) -> Shape:
    """Return a test: the object has a `message` with this key, and has the other keys itself."""

    def fits(value: Mapping[str, Any]) -> bool:
        message = value.get("message")
        return isinstance(message, dict) and key in message and value.keys() >= set(others)

    return fits


def _is_of_cursor(value: Mapping[str, Any]) -> bool:
    return value.keys() == {"role", "message"} and _with_message("content")(value)


_QWEN, _DROID, _PI = "a session of Qwen Code", "a session of Droid", "a session of Pi"
_GEMINI, _OPENCODE = "a session of Gemini CLI", "a part of a session of OpenCode"

_SHAPES: tuple[tuple[str, Shape], ...] = (
    ("a prediction model of the lesson hook", _has("model_version", "co_occurrence")),
    ("leave-one-out results of lessons", lambda value: _is_loo(value.get("results"))),
    ("a log of credited sessions (lesson-thompson)", _has("session_id", "base_reward", "lessons")),
    ("the statistics of gptme's lesson tracker", _has("lesson_stats")),
    (_QWEN, _with_message("parts", "sessionId", "uuid")),
    (_QWEN, _has("sessionId", "systemPayload")),
    (_QWEN, _has("session_id", "qwen_code_version")),
    (_DROID, lambda value: _typed("session_start", "sessionTitle", "owner")(value) and "id" in value),
    (_DROID, lambda value: _typed("tool_call|tool_result", "toolCallId")(value) and "session_id" in value),
    (_DROID, lambda value: _typed("message|completion", "text", "finalText")(value) and "session_id" in value),
    (_PI, lambda value: _typed("session", "cwd")(value) and value.keys() >= {"version", "id", "timestamp"}),
    (_GEMINI, _has("sessionId", "projectHash")),
    (_OPENCODE, _has("id", "sessionID")),
    (_OPENCODE, _has("id", "projectID", "directory")),
    ("a conversation of Kiro", _has("conversation_id", "history")),
    ("a transcript of Cursor", _is_of_cursor),
    ("an input of a hook, for `rightful hook run`", _has("session_id", "hook_event_name")),
    ("a status line input of Claude Code", _has("session_id", "transcript_path", "workspace")),
    ("events of a ledger, for `rightful ingest`", lambda value: _typed(r"\w+\.\w+")(value) and "producer" in value),
)

_NAMES = {"loo-results.json": "leave-one-out results of lessons"}


def _is_loo(results: object) -> bool:
    return isinstance(results, list) and all(isinstance(result, dict) and "delta" in result for result in results)
