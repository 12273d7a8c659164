"""A batch of items as events: one, or as many as the size of an event's body asks for."""

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
"""Room for the names and the punctuation of a body."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Body(msgspec.Struct):
    items: msgspec.Raw
    extra: Any = None


def encoded_items(items: list[Any]) -> bytes:
    """Return items as they are stored.

    Raises:
        InvalidEventError: One is no content.
    """
    return _encode(content.escape(items, "$.items")[0])


def events_of(
    session: str, items: list[Any], run: str, said: Batch, read: HistoryRead | None, *, producer: str, at: datetime
) -> list[HistoryAppended]:
    """Return the events of a batch, to be written in one append.

    A batch of several says in each of them of how many it is, so that a part of it is not the same batch.

    Args:
        session: Whose history.
        items: What is appended, at least one.
        run: The key of the run, or one made for this call.
        said: What is known of the items; agent and usage stand in the first event.
        read: What was read before.
        producer: Who writes.
        at: When.

    Raises:
        InvalidEventError: An item is no content, or is larger than an event can be.
    """
    parts = list(_split(items, said, read))
    extra = None if len(parts) == 1 else {"parts": len(parts)}
    return [
        HistoryAppended(
            producer=producer,
            key=composite_key(session, "extend", run, said.ordinal or 0, number),
            session=session,
            at=at,
            items=part,
            run=said.run,
            ordinal=said.ordinal,
            response_id=said.response_id,
            agent=said.agent if number == 0 else None,
            usage=said.usage if number == 0 else None,
            read=read if number == 0 else None,
            extra=extra,
        )
        for number, part in enumerate(parts)
    ]


def is_same(event: HistoryAppended, body: bytes) -> bool:
    """Whether an event appends what a stored one does; what is known beside the items does not matter."""
    found = msgspec.json.decode(body, type=_Body)
    return bytes(found.items) == encoded_items(event.items) and (found.extra or None) == event.extra


def _split(items: list[Any], said: Batch, read: HistoryRead | None) -> Iterator[list[Any]]:
    whole = len(encoded_items(items))
    beside = len(_encode([content.escape(said.usage)[0], read])) + 6 * len(said.agent or "") + _HEAD_BYTES
    if whole + beside <= limits.EVENT_BYTES:
        yield items
        return
    part: list[Any] = []
    size = beside
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
        UsageError: It is one item outside a list.
    """
    if type(items) is not list and isinstance(items, str | bytes | Mapping):  # an ABC is slow to ask
        raise UsageError("Expected a list of items, got one item. Nothing was written. Put the item in a list.")
    return list(items)
