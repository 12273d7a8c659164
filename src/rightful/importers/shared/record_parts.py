"""The parts of a tool's record: each becomes one event, once its session is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from rightful import content, limits
from rightful.errors import InvalidEventError

ITEMS = frozenset({"message.recorded", "thought.recorded", "tool_call.snapshotted", "tool_result.snapshotted"})
"""The types whose events are items of a session's history; the item of one has the id [event id, 0]."""

_HEADER_LINES = 8  # of an output; the tool's own lines before the output are few
_EXITED = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,9})\Z")


class Part(NamedTuple):
    """One event of a record, before its session, time and turn are known.

    Attributes:
        type: The event's type.
        key: Its key within its turn.
        fields: The fields of its type, and `extra`.
        twin: For a part that a file has in two forms, the digest of the content that both forms have.
        asks: Whether it is a message of the user that begins a turn.
        leads: Whether it is context that the tool put before a message of the user.
    """

    type: str
    key: tuple[str | int | None, ...]
    fields: dict[str, Any]
    twin: str | None = None
    asks: bool = False
    leads: bool = False


def data(name: str, value: object, *key: str | int | None) -> Part:
    """Return content of a record that is not part of the conversation, as data.

    Args:
        name: Its type, as the tool names it.
        value: The content.
        key: Its key, after the name.
    """
    return Part("data.recorded", (name, *key), {"name": word(name), "data": value})


def withdrawn(event_id: str) -> Part:
    """Return the withdrawal of an event that was undone in the tool's file, such as a compaction."""
    return Part("event.withdrawn", ("undone", event_id), {"id": event_id, "revision": 1})


def word(text: object, otherwise: str = "record") -> str:
    """Return a text if it is valid as a short word of an event; else the alternative."""
    return text if isinstance(text, str) and 0 < len(text) <= limits.WORD_CHARS else otherwise


def arguments_of(value: object) -> object:
    """Return a call's arguments: the parsed object if they are JSON text of one, else unchanged."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(InvalidEventError):
            return content.parse_json(value)
    return value


def exit_code_of(output: object) -> int | None:
    """Return the exit code in the lines that a shell tool puts before its output; None if there is none."""
    if not isinstance(output, str):
        return None
    for line in output[:1024].split("\n")[:_HEADER_LINES]:
        if line.startswith("Output:"):
            return None
        if found := _EXITED.match(line.rstrip()):
            return int(found[1])
    return None


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the other fields of an object, without null values."""
    return {name: one for name, one in value.items() if name not in names and one is not None}


def extra(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field `extra`, if there is anything in it."""
    return {"extra": dict(fields)} if fields else {}


def numbers(value: object) -> dict[str, Any]:
    """Return the numeric fields of an object, which are the counts of a usage."""
    if not isinstance(value, Mapping):
        return {}
    return {name: item for name, item in value.items() if isinstance(item, int | float) and not isinstance(item, bool)}
