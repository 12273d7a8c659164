"""Convert a batch of items to events: one event, or several if the batch exceeds the size of an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from rightful import content, limits
from rightful.errors import InvalidEventError, UsageError
from rightful.events import HistoryAppended
from rightful.field_types import HistoryRead
from rightful.identity import composite_key
from rightful.tokens import Batch

_HEAD_BYTES = 4_096
"""Space for the field names and the punctuation of a body."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Body(msgspec.Struct):
    items: msgspec.Raw
    extra: Any = None


def encoded_items(items: list[Any]) -> bytes:
    """Return the stored encoding of items.

    Raises:
        InvalidEventError: An item is not a JSON value.
    """
    return _encode(content.escape(items, "$.items")[0])


def events_of(
    session: str, items: list[Any], run: str, batch: Batch, read: HistoryRead | None, *, producer: str, at: datetime
) -> list[HistoryAppended]:
    """Return the events of a batch, to be written in one append.

    If a batch has several events, each contains their number. So a part of a batch never equals the whole one.

    Args:
        session: The session of the history.
        items: The items to append, at least one.
        run: The key of the run, or a key generated for this call.
        batch: The facts about the items; agent and usage are stored in the first event.
        read: The preceding read.
        producer: The producer's name.
        at: The time of the events.

    Raises:
        InvalidEventError: An item is not a JSON value, or exceeds the size of an event.
    """
    parts = list(_split(items, batch, read))
    extra = None if len(parts) == 1 else {"parts": len(parts)}
    return [
        HistoryAppended(
            producer=producer,
            key=composite_key(session, "extend", run, batch.ordinal or 0, number),
            session=session,
            at=at,
            items=part,
            run=batch.run,
            ordinal=batch.ordinal,
            response_id=batch.response_id,
            agent=batch.agent if number == 0 else None,
            usage=batch.usage if number == 0 else None,
            read=read if number == 0 else None,
            extra=extra,
        )
        for number, part in enumerate(parts)
    ]


def is_same(event: HistoryAppended, body: bytes) -> bool:
    """Return whether an event appends the same items as a stored one. The facts about the items are ignored."""
    found = msgspec.json.decode(body, type=_Body)
    return bytes(found.items) == encoded_items(event.items) and (found.extra or None) == event.extra


def _split(items: list[Any], batch: Batch, read: HistoryRead | None) -> Iterator[list[Any]]:
    whole = len(encoded_items(items))
    facts_bytes = len(_encode([content.escape(batch.usage)[0], read])) + 6 * len(batch.agent or "") + _HEAD_BYTES
    if whole + facts_bytes <= limits.EVENT_BYTES:
        yield items
        return
    part: list[Any] = []
    size = facts_bytes
    for at, item in enumerate(items):
        more = len(_encode(content.escape(item)[0])) + 1
        if more + _HEAD_BYTES > limits.EVENT_BYTES:
            raise InvalidEventError(
                f"Expected an item of at most {limits.EVENT_BYTES} bytes, got {more}", f"$.items[{at}]"
            )
        if size + more > limits.EVENT_BYTES:
            yield part
            part, size = [], _HEAD_BYTES
        part.append(item)
        size += more
    yield part


def as_list(items: Iterable[Any]) -> list[Any]:
    """Return items as a list.

    Raises:
        UsageError: The argument is a single item and not a list.
    """
    if type(items) is not list and isinstance(items, str | bytes | Mapping):  # `isinstance` with an ABC is slow
        raise UsageError("Expected a list of items, got one item. Nothing was written. Put the item in a list.")
    return list(items)
