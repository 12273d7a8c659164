"""What the record of a tool says, in parts: each becomes one event, once it is known whose it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from rightful import content, limits
from rightful.errors import InvalidEventError

ITEMS = frozenset({"message.recorded", "thought.recorded", "tool_call.snapshotted", "tool_result.snapshotted"})
"""The types whose events are items of a session's history; the item of one has the id [event id, 0]."""

_HEADER_LINES = 8  # of an output; what comes before it are a few lines of the tool's own
_EXITED = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,9})\Z")


class Part(NamedTuple):
    """One event of a record, before its session, time and turn are known.

    Attributes:
        type: The event's type.
        key: What tells it apart among all that its turn says.
        fields: The fields of its type, and `extra`.
        twin: Of what a file tells twice, in two forms: what both forms have in common.
        asks: It is what a person said to begin a turn.
        leads: It is context that the tool put before what a person says.
    """

    type: str
    key: tuple[str | int | None, ...]
    fields: dict[str, Any]
    twin: str | None = None
    asks: bool = False
    leads: bool = False


def data(name: str, value: object, *key: str | int | None) -> Part:
    """Return what a record holds that is no part of the conversation.

    Args:
        name: What it is, in the tool's word.
        value: What it says.
        key: What tells it apart, behind its name.
    """
    return Part("data.recorded", (name, *key), {"name": word(name), "data": value})


def withdrawn(event_id: str) -> Part:
    """Return that an event of the tool's file was undone there, such as a compaction: what it covered is back."""
    return Part("event.withdrawn", ("undone", event_id), {"id": event_id, "revision": 1})


def word(text: object, otherwise: str = "record") -> str:
    """Return a text where it can be a short word of an event, and another one where it cannot."""
    return text if isinstance(text, str) and 0 < len(text) <= limits.WORD_CHARS else otherwise


def arguments_of(value: object) -> object:
    """Return a call's arguments: the object where they are the JSON text of one, else as they are."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(InvalidEventError):
            return content.parse_json(value)
    return value


def exit_code_of(output: object) -> int | None:
    """Return the exit code in the lines that a shell tool puts before its output; None where there is none."""
    if not isinstance(output, str):
        return None
    for line in output[:1024].split("\n")[:_HEADER_LINES]:
        if line.startswith("Output:"):
            return None
        if found := _EXITED.match(line.rstrip()):
            return int(found[1])
    return None


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return what an object says beside some fields; what is null says nothing."""
    return {name: one for name, one in value.items() if name not in names and one is not None}


def extra(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field `extra`, if there is anything in it."""
    return {"extra": dict(fields)} if fields else {}


def numbers(value: object) -> dict[str, Any]:
    """Return the numbers of an object by name, which are what a usage counts."""
    if not isinstance(value, Mapping):
        return {}
    return {name: item for name, item in value.items() if isinstance(item, int | float) and not isinstance(item, bool)}
