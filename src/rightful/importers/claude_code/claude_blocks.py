"""Convert the content blocks of a Claude Code line into messages, thoughts, tool calls and results.

Claude Code writes one line per content block, and a stream log has the same blocks with fewer other fields. So an
event has only the fields of both forms; the rest is a separate event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rightful import limits
from rightful.content import json_type
from rightful.errors import InvalidEventError
from rightful.importers.claude_code.claude_files import Owner
from rightful.importers.engine.formats import Wire
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.importers.sources.text_files import Problem

AT_REST = ("[Request interrupted by user", "<local-command-stdout>", "<local-command-stderr>")
"""Prefixes of messages that Claude Code writes in the user's name while the model is idle."""

SYNTHETIC = "<synthetic>"
"""The `model` of messages that Claude Code writes itself in the model's name."""

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_MARKS = (
    ("isMeta", "meta"),
    ("isSynthetic", "meta"),
    ("isCompactSummary", "summary"),
    ("isVisibleInTranscriptOnly", "hidden"),
    ("isVisibleInTranscriptOnly", "meta"),  # a stream log has `isSynthetic` for this and for `isMeta`
)
_FAILED = "API Error"


class Line(NamedTuple):
    """One line to convert into events.

    Attributes:
        number: Its number in the file, from 1.
        value: Its object.
        owner: Its session.
        ident: Its id: its `uuid`, or a digest of it if it has none.
        common: The fields that all its events have.
    """

    number: int
    value: Mapping[str, Any]
    owner: Owner
    ident: str
    common: Wire

    @property
    def is_of_log(self) -> bool:
        """Whether it is from a stream log, which lacks some fields of a transcript."""
        return "sessionId" not in self.value

    def event(self, kind: str, *part: str | int, **fields: Any) -> Wire:  # noqa: ANN401 - an event's fields
        """Return an event of one part of the line."""
        return self.common | {"type": kind, "key": key_of(self.owner.value, self.ident, *part)} | fields


def message_of(line: Line) -> Mapping[str, Any]:
    """Return the message of a line.

    Raises:
        InvalidEventError: It has none.
    """
    message = line.value.get("message")
    if not isinstance(message, dict):
        raise InvalidEventError(f"Expected `object`, got `{json_type(message)}`", "$.message")
    return message


def of_assistant(line: Line, message: Mapping[str, Any]) -> Iterator[Wire | Problem]:
    """Yield the events of the model's message, block by block."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        raise InvalidEventError(f"Expected `str` or `array`, got `{json_type(blocks)}`", "$.message.content")
    of = message.get("id")
    extra = {"extra": {"message_id": of}} if isinstance(of, str) else {}
    failed = has_failed(line.value, message)
    for place, block in enumerate(blocks):
        try:
            yield _failure(line, place, block) if failed else _block(line, place, block, extra)
        except InvalidEventError as error:
            yield Problem(line.number, str(error))


def _block(line: Line, place: int, block: Any, extra: Wire) -> Wire:  # noqa: ANN401 - a JSON value, checked here
    where = f"$.message.content[{place}]"
    match block:
        case {"type": "text", "text": str() as text}:
            return line.event("message.recorded", place, role="assistant", content=text, **extra)
        case {"type": "thinking", "thinking": str() as text}:
            return line.event("thought.recorded", place, content=text, **_with(extra, block, "signature"))
        case {"type": "redacted_thinking"}:
            return line.event("thought.recorded", place, content=None, **_with(extra, block, "data"))
        case {"type": str() as kind} if kind in _CALLS:
            return _call(line, place, block, extra, where)
        case {"type": str() as kind, "tool_use_id": _} if kind.endswith("_tool_result"):
            return _result(line, place, block, where)
        case {"type": "text" | "thinking" as kind}:
            raise InvalidEventError(f"Expected `str`, got `{json_type(block.get(kind))}`", f"{where}.{kind}")
        case {"type": str() as kind}:
            return line.event("data.recorded", place, name=kind[: limits.WORD_CHARS] or "block", data=block)
        case _:
            raise InvalidEventError("Expected an object with a `type`", where)


def _with(extra: Wire, block: Mapping[str, Any], name: str) -> Wire:
    said = block.get(name)
    return {"extra": extra.get("extra", {}) | {name: said}} if said else extra


def _call(line: Line, place: int, block: Mapping[str, Any], extra: Wire, where: str) -> Wire:
    name = block.get("name")
    if name is not None and not isinstance(name, str):
        raise InvalidEventError(f"Expected `str`, got `{json_type(name)}`", f"{where}.name")
    call = _word(block.get("id"), f"{where}.id")
    arguments = _object(block.get("input"))
    return line.event("tool_call.snapshotted", place, call=call, name=name, arguments=arguments, complete=True, **extra)


def _object(arguments: object) -> object:
    """Return arguments as an object, parsing them if they are JSON text."""
    if isinstance(arguments, str) and arguments.startswith("{"):
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _result(line: Line, place: int, block: Mapping[str, Any], where: str) -> Wire:
    return line.event(
        "tool_result.snapshotted",
        place,
        call=_word(block.get("tool_use_id"), f"{where}.tool_use_id"),
        output=block.get("content"),
        is_error=block.get("is_error") is True,
        complete=True,
    )


def has_failed(value: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Return whether a line in the model's name reports that the model could not be reached."""
    if value.get("isApiErrorMessage") is True:
        return True
    return message.get("model") == SYNTHETIC and text_of(message.get("content")).startswith(_FAILED)


def _failure(line: Line, place: int, block: object) -> Wire:
    text = block.get("text") if isinstance(block, dict) else None
    if not isinstance(text, str):
        raise InvalidEventError("Expected a text", f"$.message.content[{place}]")
    return line.event("error.recorded", place, message=text)


def of_user(line: Line, message: Mapping[str, Any]) -> Iterator[Wire | Problem]:
    """Yield the events of a line in the user's name: one message, and the results of tools."""
    content = message.get("content")
    parts: list[Any] = []
    first = 0
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    elif not isinstance(content, list):
        raise InvalidEventError(f"Expected `str` or `array`, got `{json_type(content)}`", "$.message.content")
    else:
        for place, block in enumerate(content):
            try:
                if isinstance(block, dict) and str(block.get("type")).endswith("tool_result"):
                    result = _result(line, place, block, f"$.message.content[{place}]")
                    yield result
                    yield from _told(line, place, result)
                else:
                    first = first if parts else place
                    parts.append(block)
            except InvalidEventError as error:
                yield Problem(line.number, str(error))
    if parts:
        yield said_by_user(line, first, parts)


def said_by_user(line: Line, place: int, content: object) -> Wire:
    """Return the message of a line in the user's name.

    Args:
        line: The line.
        place: The place of its first block.
        content: A text, or blocks.
    """
    match content:
        case [{"type": "text", "text": str() as text}]:
            content = text
        case _:
            pass
    marks = {mark: True for name, mark in _MARKS if line.value.get(name) is True}
    fields = {"extra": marks} if marks else {}
    return line.event("message.recorded", place, role="user", content=content, **fields)


def _told(line: Line, place: int, result: Wire) -> Iterator[Wire]:
    """Yield the structured data that Claude Code stores with a result, if it adds to the text.

    It is a separate event: a stream log has the same result without it.
    """
    told = line.value.get("toolUseResult")
    if not isinstance(told, dict | list) or place != 0 or len(line.value["message"]["content"]) > 1:
        return  # a text repeats the output; with several results it is unknown which one it belongs to
    output = text_of(result["output"])
    rest = _beyond_text(told, output)
    if rest is not None:
        data = {"call": result["call"], "result": rest}
        yield line.event("data.recorded", "told", digest(data), name="tool-use-result", data=data)


def _beyond_text(told: object, output: str) -> Any:  # noqa: ANN401 - JSON
    """Return the data of a result beyond its text; for a file that was read, the range of lines and their total."""
    match told:
        case {"type": "text", "file": {"numLines": int() as lines, "totalLines": int() as total} as file}:
            rest = {name: item for name, item in file.items() if name not in {"content", "filePath"}}
            return None if lines == total else {"file": rest}
        case _:
            return _beyond(told, output)


def _beyond(value: object, output: str) -> Any:  # noqa: ANN401 - JSON
    """Return the part of a value that is not in a text; None if there is none."""
    match value:
        case dict():
            kept = {name: more for name, item in value.items() if (more := _beyond(item, output)) is not None}
            return kept or None
        case list():
            items = [_beyond(item, output) for item in value]
            return value if any(item is not None for item in items) else None
        case str():
            return None if value in output or value.strip() in output else value
        case _:
            return None if value is None or value is False else value


def is_prompt(event: Wire) -> bool:
    """Return whether an event is a prompt of the user."""
    if event["type"] != "message.recorded" or event["role"] != "user" or "extra" in event:
        return False
    return not text_of(event["content"]).startswith(AT_REST)


def text_of(content: object) -> str:
    """Return the text of a message's or a result's content, in any of its forms."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _word(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidEventError(f"Expected `str`, got `{json_type(value)}`", place)
    if not 0 < len(value) <= limits.WORD_CHARS:
        raise InvalidEventError(f"Expected `str` of length 1 to {limits.WORD_CHARS}", place)
    return value
