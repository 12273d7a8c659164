"""Convert events to records and back.

In a ledger the record is the envelope, which names its type and tags. In a plain store it
is a MessagePack array of type, tags and data.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from eventsourcing.dcb.api import DCBEvent
from eventsourcing.persistence import ProgrammingError

from rightful.encoding.envelope import read_head
from rightful.storage.port import LedgerEvent

_plain = msgspec.msgpack.Decoder(tuple[str, list[str], bytes])


class Codec(Protocol):
    """Converts the events of one kind of store to records and back."""

    def pack(self, event: DCBEvent) -> bytes:
        """Return the record of an event."""

    def unpack(self, record: bytes, payload: bytes | None) -> DCBEvent:
        """Return the event of a record."""

    def words(self, record: bytes) -> tuple[str, list[str]]:
        """Return the type and the tags of a record."""

    def trace(self, tag: str) -> bytes:
        """Return bytes that occur in every record that has the tag, and in few others."""


class LedgerCodec:
    """The record is the envelope; type and tags are read from it."""

    def pack(self, event: DCBEvent) -> bytes:
        """Return the envelope."""
        if not isinstance(event, LedgerEvent):
            msg = f"a ledger stores envelopes; use Ledger.append. Nothing was written: {event.type}"
            raise ProgrammingError(msg)
        return event.data

    def unpack(self, record: bytes, payload: bytes | None) -> LedgerEvent:
        """Return the event with the type and tags that its envelope names."""
        kind, tags = read_head(record)
        return LedgerEvent(type=kind, data=record, tags=tags, payload=payload)

    def words(self, record: bytes) -> tuple[str, list[str]]:
        """Return the type and the tags that the envelope names."""
        return read_head(record)

    def trace(self, tag: str) -> bytes:
        """Return the part of the tag after its prefix, as the envelope's JSON encodes it."""
        return msgspec.json.encode(tag.partition(":")[2])


class PlainCodec:
    """The record holds type, tags and data."""

    def pack(self, event: DCBEvent) -> bytes:
        """Return type, tags and data as a MessagePack array."""
        return msgspec.msgpack.encode((event.type, event.tags, event.data))

    def unpack(self, record: bytes, payload: bytes | None) -> DCBEvent:
        """Return the event as it was appended."""
        kind, tags, data = _plain.decode(record)
        if payload is None:
            return DCBEvent(type=kind, data=data, tags=tags)
        return LedgerEvent(type=kind, data=data, tags=tags, payload=payload)

    def words(self, record: bytes) -> tuple[str, list[str]]:
        """Return the type and the tags of the record."""
        kind, tags, _ = _plain.decode(record)
        return kind, tags

    def trace(self, tag: str) -> bytes:
        """Return the tag, encoded as MessagePack."""
        return tag.encode()
