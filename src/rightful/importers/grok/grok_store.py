"""Grok's own session store: `sessions/<working folder>/<session id>/chat_history.jsonl`, below `~/.grok`.

| line | events |
|---|---|
| `system`, `user` | a message; one that Grok wrote in the user's name (`synthetic_reason`) is marked as context |
| `assistant` | a message, and each of its `tool_calls` |
| `reasoning` | a thought |
| `tool_result` | the result of a call |
| any other (`backend_tool_call` ...) | data |

The folder names the session; the folder above it is the working folder, percent-encoded. No line has a time.
`summary.json` next to the file has the session's creation time, which is the time of its start; all other times are
the file's. The form is that of `chat_format_version` 1 (jazzyalex/agent-sessions pull request 55, 141 real sessions).

The key of an event is the line's content and how often the same content precedes it, since Grok rewrites the file when
it compacts or rewinds a session. The earlier content stays in the ledger, which a note reports.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from rightful import content, limits, times
from rightful.content import json_type
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import End, GrowingReader, Origin, Wire
from rightful.importers.shared.foreign_fields import digest, key_of, moment_us, session_of
from rightful.importers.shared.record_parts import Part, arguments_of, data, extra, without, word
from rightful.importers.sources.text_files import Found, Problem, opened

MAIN = "chat_history.jsonl"
"""The file of a session."""

NAMESPACE = "grok"

_SUMMARY = "summary.json"
_DIGITS = 16  # of a digest, by which repeats of a line are counted
_REWRITTEN = "the file was rewritten; its earlier content stays in the ledger and in the session's history"


def proves(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a line that only this store has."""
    match value.get("type"):
        case "user":
            is_marked = "prompt_index" in value or "synthetic_reason" in value
            return is_marked and isinstance(value.get("content"), list | str)
        case "assistant":
            return "model_id" in value and isinstance(value.get("content"), str)
        case _:
            return False


class StoreReader(GrowingReader):
    """Reads one session of the store.

    Args:
        origin: The file; its folders name the session and the working folder.

    Raises:
        InvalidEventError: Its folder does not name a session.
    """

    def __init__(self, origin: Origin) -> None:
        folder, _, self._value = os.path.dirname(os.path.realpath(origin.path)).rpartition("/")  # noqa: PTH120 - text is cut, no path is built
        self._session = session_of(NAMESPACE, self._value, "$")
        self._folder = f"{folder}/{self._value}"
        cwd = unquote(folder.rpartition("/")[2])
        self._facts: dict[str, Any] = {"harness": "grok"} | ({"cwd": cwd} if cwd.startswith("/") else {})
        self._at = {"at": times.text_of(origin.mtime_us or 0), "at_basis": "file"}
        self._seen: Counter[str] = Counter()
        self._has_begun = self._has_model = self._is_rewritten = False

    def state(self) -> dict[str, Any]:
        """Return the lines that were read, and whether the model is known."""
        return {"seen": dict(self._seen), "begun": self._has_begun, "model": self._has_model}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._seen, self._has_begun, self._has_model = Counter(state["seen"]), state["begun"], state["model"]

    def restart(self, state: Mapping[str, Any]) -> None:
        """Read a rewritten file from its beginning."""
        del state
        self._is_rewritten = True

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one line.

        Raises:
            InvalidEventError: It has no type, or does not have the form of its type.
        """
        value = found.value
        kind = value.get("type")
        if not isinstance(kind, str) or not kind:
            raise InvalidEventError("Expected the type of a line", "$.type")
        if not self._has_begun:
            self._has_begun = True
            yield self._started(self._facts) | (_created(self._folder) or self._at)
        model = value.get("model_id")
        if not self._has_model and isinstance(model, str) and model:
            self._has_model = True
            yield self._started(self._facts | {"model": model}) | self._at
        mark = digest(value)
        count = self._seen[mark[:_DIGITS]]
        self._seen[mark[:_DIGITS]] += 1
        for part in _parts(kind, value):
            yield self._wire(part, mark, count) | self._at

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield a note if the file was rewritten."""
        del end
        if self._is_rewritten:
            yield Problem(None, _REWRITTEN, lost=False)

    def _started(self, facts: dict[str, Any]) -> Wire:
        return self._wire(Part("session.started", ("session.started",), facts), digest(facts), 0)

    def _wire(self, part: Part, mark: str, count: int) -> Wire:
        key = key_of(self._value, "chat", mark, count, *part.key)
        return {"type": part.type, "producer": NAMESPACE, "key": key, "session": self._session, **part.fields}


def _parts(kind: str, value: Mapping[str, Any]) -> Iterator[Part]:
    match kind:
        case "system" | "user":
            context = {"meta": True} if value.get("synthetic_reason") is not None else {}
            more = extra(without(value, "type", "content") | context)
            yield Part("message.recorded", ("message",), {"role": kind, "content": _said(value), **more})
        case "assistant":
            if _said(value) not in ("", []):
                more = extra(without(value, "type", "content", "tool_calls"))
                yield Part("message.recorded", ("message",), {"role": kind, "content": _said(value), **more})
            yield from _calls(value.get("tool_calls"))
        case "reasoning":
            more = extra(without(value, "type", "summary", "content"))
            yield Part("thought.recorded", ("thought",), {"content": _thought(value), **more})
        case "tool_result":
            fields = {"call": call_id(value, "tool_call_id"), "output": value.get("content"), "complete": True}
            more = extra(without(value, "type", "tool_call_id", "content"))
            yield Part("tool_result.snapshotted", ("result",), {**fields, **more})
        case _:
            yield data(word(kind), dict(value))


def _calls(calls: object) -> Iterator[Part]:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise InvalidEventError(f"Expected `array`, got `{json_type(calls)}`", "$.tool_calls")
    for place, call in enumerate(calls):
        if not isinstance(call, dict):
            raise InvalidEventError(f"Expected `object`, got `{json_type(call)}`", f"$.tool_calls[{place}]")
        name = call.get("name")
        ident = call_id(call, "id", f"$.tool_calls[{place}]")
        fields = {"call": ident, "arguments": arguments_of(call.get("arguments"))}
        named = {"name": name} if isinstance(name, str) else {}
        more = extra(without(call, "id", "name", "arguments"))
        yield Part("tool_call.snapshotted", ("call", place), {**fields, **named, "complete": True, **more})


def _said(value: Mapping[str, Any]) -> object:
    """Return the content of a line: its text if it has one part of text, else its parts."""
    match value.get("content"):
        case [{"type": "text", "text": str() as text}]:
            return text
        case str() | list() as said:
            return said
        case said:
            raise InvalidEventError(f"Expected `str` or `array`, got `{json_type(said)}`", "$.content")


def _thought(value: Mapping[str, Any]) -> str | None:
    """Return the readable part of a thought; None if all of it is encrypted."""
    said = value.get("summary", value.get("content"))
    if isinstance(said, str):
        return said
    texts = [part.get("text") for part in said if isinstance(part, dict)] if isinstance(said, list) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def call_id(value: Mapping[str, Any], name: str, place: str = "$") -> str:
    """Return the id of a call.

    Raises:
        InvalidEventError: There is none.
    """
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidEventError("Expected the id of a call", f"{place}.{name}")
    return found


def _created(folder: str) -> dict[str, Any] | None:
    """Return the session's creation time from `summary.json` next to its file; None if it has none."""
    try:
        with opened(f"{folder}/{_SUMMARY}", follow=False) as file:
            value = content.parse_json(file.stream.read(limits.EVENT_BYTES))
        created = value["created_at"] if isinstance(value, dict) else None
        return {"at": times.text_of(moment_us(created, "$.created_at")[0])} if isinstance(created, str) else None
    except (OSError, KeyError, InvalidEventError):
        return None
