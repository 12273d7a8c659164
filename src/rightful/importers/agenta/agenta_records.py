"""The session records of Agenta: the JSON bodies of its ingest endpoint, one a line.

An answer of its query endpoint (`{"count", "records"}`) and exported rows are read too.

| `record_type` | becomes |
|---|---|
| `message` | `message.recorded`: `user` if its source is, else `assistant`; `attachments` in `extra` |
| `thought`, `error`, `usage` | `thought.recorded`, `error.recorded`, `usage.recorded` of the turn |
| `tool_call`, `tool_result` | `tool_call.snapshotted`, `tool_result.snapshotted`; never `complete`, for they grow |
| `interaction_request`, `interaction_response` | `interaction.requested`, `interaction.answered` |
| `done` | `turn.ended`; its index counts the turn |
| `data` | `data.recorded` with its name; a transient one is skipped, as in Agenta's store |
| any other | `data.recorded` named by the type |

The output of a result is in `output`, else in `data`; if it has both, `data` is in `extra`, as are all attributes
without an event field. A record that the store truncated has `extra.truncated`. Arguments stay unchanged, since text
that is still growing is not valid JSON yet.

**Ids.** `record_id` is the event's id. The runner derives it only for calls, results and interactions, from session,
logical id, type and turn (earlier: without the turn). For all others its API generates a random one at each delivery,
so in rows of the store it does not identify a fact. For these, and for records without one, the id is derived from
session, turn, index, type and content, so that a retry is a duplicate. Without turn and index nothing is merged: the
same content again in a file is another event.

**Time** is that of the last delivery, since each retry has a new time; it is not part of the content.
The OpenTelemetry span belongs to the turn, and is only in `extra` of its end.

**Completeness.** Each delivery has its own index. The ledger stores no repeat, so a repeat under another index leaves
a `data.recorded` named `repeated` in its place. For rows of the store the reader records that their store overwrites.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rightful import limits, times
from rightful.errors import InvalidEventError
from rightful.events.transcript_events import OVERWRITING, REPEATED
from rightful.identity import canonical_id, event_id
from rightful.importers.agenta.agenta_fields import fields_of
from rightful.importers.engine.formats import Origin, Reader, Wire
from rightful.importers.shared.foreign_fields import below, digest, key_of, moment_us, session_of, shaped
from rightful.importers.sources.text_files import Problem

if TYPE_CHECKING:
    from rightful.importers.sources.text_files import Found
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

PRODUCER = "agenta"
"""The producer of the events."""

NAMESPACE = "agenta"
"""The namespace of its sessions."""

RECORDS = uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_DNS, "agenta"), "records")
"""The UUID namespace of its record ids: a230b2a3-94c0-52bc-89bf-5e8a71b6056d."""

NAMED = frozenset({"tool_call", "tool_result", "interaction_request", "interaction_response"})
"""The types whose id the runner derives."""

_ROW = frozenset({"created_at", "project_id"})  # fields that the store adds to a body
_DRAWN = 4  # the version of a random UUID
_MANY = 2e10  # a number of seconds beyond which it is one of milliseconds, as pydantic reads it


class _Record(msgspec.Struct):
    session_id: str
    record_id: str | None = None
    record_index: Annotated[int, msgspec.Meta(ge=0, le=limits.SEQ_MAX)] | None = None
    timestamp: str | float | None = None
    created_at: str | float | None = None
    record_type: str | None = None
    record_source: str | None = None
    attributes: dict[str, Any] | None = None
    turn_id: str | None = None
    span_id: str | None = None


def record_id(session_id: str, key: str, record_type: str, turn_id: str | None) -> str:
    """Return the id that the runner derives for a record.

    Args:
        session_id: The session.
        key: The id of the tool call or of the interaction.
        record_type: The record's type.
        turn_id: The turn, if it has one.
    """
    return str(uuid.uuid5(RECORDS, f"{session_id}:{key}:{record_type}:{turn_id or ''}"))


def legacy_record_id(session_id: str, key: str, record_type: str) -> str:
    """Return the id in its older form, without the turn."""
    return str(uuid.uuid5(RECORDS, f"{session_id}:{key}:{record_type}"))


class Agenta:
    """The kind `agenta`.

    Attributes:
        ANSWERS: Each record gets a receipt in the answer.
    """

    NAME = "agenta"
    ANSWERS = True

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a record, or an answer of records."""
        records = value.get("records")
        if isinstance(records, list) and "count" in value:
            return not records or (isinstance(records[0], dict) and _is_record(records[0]))
        return _is_record(value)

    def reader(self, origin: Origin) -> AgentaReader:
        """Return the reader of one file."""
        return AgentaReader(origin)


def _is_record(value: Mapping[str, Any]) -> bool:
    return "session_id" in value and ("record_type" in value or "record_index" in value)


class AgentaReader(Reader):
    """Reads one file.

    Args:
        origin: The file; its time is used for records before the first one with a time.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._last_us: int | None = None
        self._occurred: Counter[str] = Counter()
        self._stores: dict[str, Wire] = {}
        self._told_of_stores = 0
        self._told_of_loose = False

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the event of each record, or its problem."""
        records = found.value.get("records")
        if not isinstance(records, list) or "session_id" in found.value:
            yield from self._record(found.value, found.line, is_row=not _ROW.isdisjoint(found.value))
            return
        for number, value in enumerate(records):
            place = f"$.records[{number}]"
            try:
                if not isinstance(value, dict):
                    raise InvalidEventError("Expected `object`")  # noqa: TRY301 - told as all that is wrong
                yield from self._record(value, found.line, is_row=True)
            except InvalidEventError as error:
                yield Problem(found.line, str(below(place, error)))

    def _record(self, value: Mapping[str, Any], line: int, *, is_row: bool) -> Iterator[Wire | Problem]:
        record: _Record = shaped(value, _Record)
        attributes = record.attributes or {}
        kind = record.record_type or attributes.get("type")
        kind = kind if isinstance(kind, str) and kind else "record"
        if kind == "data" and attributes.get("transient") is True:
            yield Problem(line, "a transient `data` record was skipped; Agenta does not store it either", lost=False)
            return
        turn = record.turn_id or None
        said = fields_of(kind, attributes, record.record_source, turn=turn, span=record.span_id)
        common: Wire = {"producer": PRODUCER, "session": session_of(NAMESPACE, record.session_id, "$.session_id")}
        common |= self._at(record, line) | {"turn": turn, "index": record.record_index}
        if is_row:
            self._stores.setdefault(common["session"], common)
        for what in [*said.notes, *self._notes(record, kind, said.logical_id)]:
            yield Problem(line, what, lost=False)
        event_id_ = self._id(record, kind, said.fields, is_row=is_row)
        yield {**common, **said.fields, "id": event_id_, **({said.own_id: event_id_} if said.own_id else {})}

    def _at(self, record: _Record, line: int) -> Wire:
        for name in ("timestamp", "created_at"):
            at = getattr(record, name)
            if at is not None:
                self._last_us = _time_us(at, f"$.{name}")
                break
        if self._last_us is not None:
            return {"at": times.text_of(self._last_us)}
        if self._origin.mtime_us is None:
            raise InvalidEventError(f"Expected a time; line {line} has none, and stdin has none", "$.timestamp")
        return {"at": times.text_of(self._origin.mtime_us), "at_basis": "file"}

    def _notes(self, record: _Record, kind: str, logical: str | None) -> Iterator[str]:
        turn, given = record.turn_id or None, record.record_id
        if given is not None and kind in NAMED and logical is not None:
            derived = {record_id(record.session_id, logical, kind, turn_id) for turn_id in (turn, None)}
            if _given(given) not in derived | {legacy_record_id(record.session_id, logical, kind)}:
                yield f"`record_id` {given[:64]!r} is not what Agenta derives for this {kind}; it was kept as the id"
        if given is None and not self._told_of_loose and (turn is None or record.record_index is None):
            self._told_of_loose = True
            yield "records without an id, a turn or an index cannot be distinguished from retries; all were stored"

    def _id(self, record: _Record, kind: str, said: Mapping[str, Any], *, is_row: bool) -> str:
        """Return the event's id: the record's own, or one that a retry also gets."""
        given = None if record.record_id is None else _given(record.record_id)
        turn, index = record.turn_id or None, record.record_index
        is_placed = turn is not None and index is not None
        was_drawn = is_row and is_placed and kind not in NAMED and given and uuid.UUID(given).version == _DRAWN
        if given is not None and not was_drawn:
            return given
        parts = [record.session_id, turn, index, kind, digest(said)]
        if is_placed:
            return event_id(PRODUCER, key_of(*parts))
        key = key_of(*parts)
        self._occurred[key] += 1
        return event_id(PRODUCER, key_of(*parts, self._occurred[key]))

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return placeholders for repeats that have their own index, and a record for each store that overwrites."""
        stores = [*self._stores.values()][self._told_of_stores :]
        self._told_of_stores = len(self._stores)
        return [_overwriting(common) for common in stores] + [
            _repeated(event, receipt.id)
            for event, receipt in zip(events, receipts, strict=True)
            if receipt.id is not None
            and receipt.outcome in {"duplicate", "stale", "conflict"}
            and None not in (place := (event["turn"], event["index"]))
            and event["session"] not in self._stores  # their rows keep the index of their first state
            and place not in {(row.envelope.turn, row.envelope.index) for row in log.of_id(receipt.id)}
        ]


def _given(record_id_: str) -> str:
    try:
        return canonical_id(record_id_)
    except InvalidEventError as error:
        raise InvalidEventError(error.what, "$.record_id") from None


def _time_us(at: str | float, place: str) -> int:
    if isinstance(at, str):
        return moment_us(at, place)[0]
    at_us = at * (1_000 if abs(at) > _MANY else 1_000_000)
    if not limits.AT_MIN_US <= at_us <= limits.AT_MAX_US:
        raise InvalidEventError(f"Expected a time from 1970 to 2200, got {at}", place)
    return round(at_us)


def _overwriting(common: Wire) -> Wire:
    """Return the event that marks a session's records as coming from a store that overwrites."""
    told = {name: common[name] for name in ("producer", "session", "at", "at_basis") if name in common}
    return told | {"type": "data.recorded", "key": key_of(common["session"], OVERWRITING), "name": OVERWRITING}


def _repeated(event: Wire, of: str) -> Wire:
    told = {name: event[name] for name in ("producer", "session", "at", "at_basis", "turn", "index") if name in event}
    key = key_of(event["session"], event["turn"], event["index"], REPEATED, of)
    return told | {"type": "data.recorded", "key": key, "name": REPEATED, "data": {"id": of}}
