"""Convert a record of Agenta into the fields of an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import below, shaped

Fields = dict[str, Any]
Attributes = Mapping[str, Any]

_TRUNCATED = ("_truncated", "_original_bytes")
_SOURCES = frozenset({None, "user", "agent"})


class RecordFields(NamedTuple):
    """A record as event fields.

    Attributes:
        fields: The event's type and the fields of its body.
        logical_id: The id of the call or the interaction, if it has one.
        own_id: The field that gets the event's id, if the record has no logical id.
        notes: Notes on the record.
    """

    fields: Fields
    logical_id: str | None = None
    own_id: str | None = None
    notes: tuple[str, ...] = ()


class _Identified(msgspec.Struct):
    id: str | None = None


class _Call(_Identified):
    name: str | None = None


class _Result(_Identified):
    isError: bool | None = None  # noqa: N815 - the record's own name


class _Interaction(_Identified):
    kind: str | None = None


class _Error(msgspec.Struct):
    message: str | None = None


def fields_of(
    kind: str, attributes: Attributes, source: str | None, *, turn: str | None, span: str | None
) -> RecordFields:
    """Return a record as event fields.

    Args:
        kind: Its type.
        attributes: The event as the runner sent it.
        source: The record's own name of its source.
        turn: Its turn; without one a `done` ends nothing.
        span: The span of its turn.

    Raises:
        InvalidEventError: It does not have the form of its type.
    """
    try:
        said = _MAKERS.get(kind, _other)(kind, attributes) if kind != "done" or turn else _other(kind, attributes)
    except InvalidEventError as error:
        raise below("$.attributes", error) from None
    fields, notes = said.fields, said.notes
    extra = fields.pop("extra", {})
    if fields["type"] == "message.recorded":
        fields["role"] = "user" if source == "user" else "assistant"
    if fields["type"] == "turn.ended" and span is not None:
        extra["span_id"] = span
    if source not in _SOURCES:
        extra["source"] = source
    if cut := {name.lstrip("_"): attributes[name] for name in _TRUNCATED if name in attributes}:
        extra = {name: value for name, value in extra.items() if name not in _TRUNCATED} | {"truncated": cut}
        notes = (*notes, "the store truncated this record; the rest is lost")
    return said._replace(fields=fields | ({"extra": extra} if extra else {}), notes=notes)


def _message(_: str, attributes: Attributes) -> RecordFields:
    return RecordFields({"type": "message.recorded", "content": attributes.get("text")} | _rest(attributes, "text"))


def _thought(_: str, attributes: Attributes) -> RecordFields:
    return RecordFields({"type": "thought.recorded", "content": attributes.get("text")} | _rest(attributes, "text"))


def _error(_: str, attributes: Attributes) -> RecordFields:
    message = shaped(attributes, _Error).message
    return RecordFields({"type": "error.recorded", "message": message} | _rest(attributes, "message"))


def _usage(_: str, attributes: Attributes) -> RecordFields:
    counts = {name: value for name, value in attributes.items() if name not in {"type", *_TRUNCATED}}
    return RecordFields({"type": "usage.recorded", "counts": counts})


def _call(_: str, attributes: Attributes) -> RecordFields:
    found = shaped(attributes, _Call)
    fields = {"type": "tool_call.snapshotted", "name": found.name, "arguments": attributes.get("input")}
    return _named(fields | _rest(attributes, "id", "name", "input"), "call", found.id)


def _result(_: str, attributes: Attributes) -> RecordFields:
    found = shaped(attributes, _Result)
    output, data = attributes.get("output"), attributes.get("data")
    is_both = output is not None and data is not None
    fields = {
        "type": "tool_result.snapshotted",
        "output": data if output is None else output,
        "is_error": bool(found.isError),
    }
    taken = ("id", "output", "isError") if is_both else ("id", "output", "data", "isError")
    return _named(fields | _rest(attributes, *taken), "call", found.id)


def _interaction(kind: str, attributes: Attributes) -> RecordFields:
    found = shaped(attributes, _Interaction)
    event_type = "interaction.requested" if kind == "interaction_request" else "interaction.answered"
    fields = {"type": event_type, "kind": found.kind or None, "payload": attributes.get("payload")}
    return _named(fields | _rest(attributes, "id", "kind", "payload"), "interaction", found.id)


def _ended(_: str, attributes: Attributes) -> RecordFields:
    reason = attributes.get("stopReason")
    if not _is_word(reason):
        return RecordFields({"type": "turn.ended"} | _rest(attributes))
    return RecordFields({"type": "turn.ended", "stop_reason": reason} | _rest(attributes, "stopReason"))


def _data(kind: str, attributes: Attributes) -> RecordFields:
    name = attributes.get("name")
    if not _is_word(name):
        return _other(kind, attributes)
    fields = {"type": "data.recorded", "name": name, "data": attributes.get("data")}
    return RecordFields(fields | _rest(attributes, "name", "data", "transient"))


def _other(kind: str, attributes: Attributes) -> RecordFields:
    data = {name: value for name, value in attributes.items() if name not in {"type", *_TRUNCATED}}
    return RecordFields({"type": "data.recorded", "name": kind, "data": data})


_MAKERS: dict[str, Callable[[str, Attributes], RecordFields]] = {
    "message": _message,
    "thought": _thought,
    "error": _error,
    "usage": _usage,
    "tool_call": _call,
    "tool_result": _result,
    "interaction_request": _interaction,
    "interaction_response": _interaction,
    "done": _ended,
    "data": _data,
}


def _named(fields: Fields, name: str, logical: str | None) -> RecordFields:
    """Return a record that is identified by a call or an interaction."""
    if logical:
        return RecordFields(fields | {name: logical}, logical)
    return RecordFields(
        fields, None, name, (f"this {fields['type'].partition('.')[0]} has no id, so it cannot be paired",)
    )


def _rest(attributes: Attributes, *taken: str) -> Fields:
    """Return the attributes without an event field, as `extra`."""
    rest = {name: value for name, value in attributes.items() if name != "type" and name not in taken}
    return {"extra": rest}


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= limits.WORD_CHARS
