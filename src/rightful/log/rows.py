"""The values that the ledger returns: receipts for proposed events, and recorded events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, cast

import msgspec
from eventsourcing.dcb.api import DCBQuery

from rightful import limits, times
from rightful.encoding import envelope as envelopes
from rightful.encoding.envelope import SALT_BYTES, Envelope
from rightful.errors import DamagedRowError, InvalidEventError, UpgradeError
from rightful.events import Event
from rightful.storage.port import LedgerRecorder, Row, size_of

ERASED = b""
"""Stored in place of an erased payload. A payload that is missing is damage."""


class Receipt(NamedTuple):
    """The ledger's result for one proposed event.

    Attributes:
        id: The event id; None if the event is invalid.
        outcome: `appended`, `refined`, `reemitted`, `stale`, `conflict` (stored now or before),
            `duplicate` (already stored) or `invalid` (not stored).
        position: The position of its row; of the existing row for a duplicate; None if it is invalid.
        first: The position of the id's first row.
        reason: Why it is stale, a conflict or invalid; None otherwise.
    """

    id: str | None
    outcome: str
    position: int | None
    first: int | None
    reason: str | None = None


def valid(receipt: Receipt) -> Receipt:
    """Return a receipt, or raise if its event is invalid.

    Raises:
        InvalidEventError: The event is invalid. Nothing was written.
    """
    if receipt.outcome == "invalid":
        what, _, place = (receipt.reason or "").rpartition(" - at `")
        raise InvalidEventError(what, place.rstrip("`"))
    return receipt


class Stored(NamedTuple):
    """One stored row whose payload matches its commitment.

    Attributes:
        position: Its position: 1, 2, 3 …
        envelope: The permanent record of the event.
        payload: Salt (32 bytes) and canonical body; None after an erasure.
    """

    position: int
    envelope: Envelope
    payload: bytes | None

    @property
    def body(self) -> bytes | None:
        """The canonical body; None after an erasure."""
        return None if self.payload is None else self.payload[SALT_BYTES:]


class RawEvent(msgspec.Struct, frozen=True):
    """An event of a type or version that is newer than this program.

    Attributes:
        type: The type as stored.
        schema: The version as stored.
        body: The canonical body's bytes.
    """

    type: str
    schema: int
    body: bytes


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the ledger. Only the log creates one.

    Attributes:
        position: Its position: 1, 2, 3 …
        recorded_at: When the ledger wrote it; never earlier than the row before it.
        outcome: How it was classified. Rows that are `stale` or `conflict` are
            kept; only a read of the whole log returns them.
        event: The event; a `RawEvent` if it is newer than this program; None after an erasure.
        revision: The number of its row among those of its id, from 1.
        first: The position of the id's first row.
        id: The event id.
        type: The event's type, also after an erasure.
        session: The session's name, if the type has one, also after an erasure.
    """

    position: int
    recorded_at: datetime
    outcome: str
    event: Event | RawEvent | None
    revision: int
    first: int
    id: str
    type: str
    session: str | None


class Page(msgspec.Struct, frozen=True):
    """Consecutive rows as columns, the format that projections read.

    Attributes:
        after: The position before the first row.
        envelopes: The envelope of each row.
        payloads: Salt and body of each row, checked against its commitment; None after an erasure.
    """

    after: int
    envelopes: list[Envelope]
    payloads: list[bytes | None]

    @property
    def last(self) -> int:
        """The position of the last row."""
        return self.after + len(self.envelopes)

    def until(self, position: int) -> Page:
        """Return the rows up to a position."""
        count = max(position - self.after, 0)
        return Page(self.after, self.envelopes[:count], self.payloads[:count])

    def rows(self) -> list[Stored]:
        """Return the rows."""
        return list(map(Stored, range(self.after + 1, self.last + 1), self.envelopes, self.payloads))


def page_of(after: int, records: list[bytes], payloads: list[bytes | None], path: str) -> Page:
    """Return decoded rows, each payload checked against its commitment.

    Args:
        after: The position before the first row.
        records: Stored envelopes that match their leaf hash.
        payloads: Their payloads; `ERASED` for an erased one.
        path: The ledger, for the error.

    Raises:
        DamagedRowError: An envelope cannot be read, a payload does not match its commitment, or one
            is missing without an erasure.
    """
    positions = range(after + 1, after + 1 + len(records))
    return Page(after, *_fitting(positions, records, payloads, path))


def checked(rows: Sequence[Row], path: str) -> list[Stored]:
    """Return decoded and checked rows, as `page_of` does; they need not be consecutive."""
    positions = [row.position for row in rows]
    found, payloads = _fitting(positions, [row.envelope for row in rows], [row.payload for row in rows], path)
    return list(map(Stored, positions, found, payloads))


def _fitting(
    positions: Sequence[int], records: list[bytes], payloads: list[bytes | None], path: str
) -> tuple[list[Envelope], list[bytes | None]]:
    decode, sha256 = envelopes.decoder(), hashlib.sha256
    try:
        found = [decode(record) for record in records]
    except msgspec.DecodeError:
        raise _unreadable(positions, records, path) from None
    if None in payloads:
        raise DamagedRowError(path, positions[payloads.index(None)], "its payload is missing without an erasure")
    kept = [sha256(payload).hexdigest() for payload in cast("list[bytes]", payloads)]
    if kept == [envelope.commitment for envelope in found]:
        return found, payloads
    for position, envelope, payload, fits in zip(positions, found, payloads, kept, strict=True):
        if payload != ERASED and fits != envelope.commitment:
            raise DamagedRowError(path, position, "its payload does not match its commitment")
    return found, [payload or None for payload in payloads]


def found_by(recorder: LedgerRecorder, query: DCBQuery, after: int = 0) -> Iterator[list[Row]]:
    """Yield pages of the rows that match a query, unchecked; each limited in rows and bytes."""
    is_more = True
    while is_more:
        rows, left = list[Row](), limits.PAGE_BYTES
        for found in recorder.read(query, after=after, limit=limits.PAGE_ROWS):
            rows.append(Row(found.position, found.event.data, getattr(found.event, "payload", None)))
            left -= size_of(found.event)
            if left <= 0:
                break
        is_more = left <= 0 or len(rows) == limits.PAGE_ROWS
        if rows:
            after = rows[-1].position
            yield rows


def _unreadable(positions: Sequence[int], records: list[bytes], path: str) -> DamagedRowError:
    for position, record in zip(positions, records, strict=True):
        try:
            envelopes.decode(record)
        except msgspec.DecodeError as error:
            return DamagedRowError(path, position, f"its envelope cannot be read ({error})")
    raise AssertionError("at least one row is unreadable")


def recorded(row: Stored, path: str) -> Recorded:
    """Return a stored row as a `Recorded`.

    Raises:
        DamagedRowError: The body does not fit its type.
    """
    position, envelope, _ = row
    return Recorded(
        position=position,
        recorded_at=times.at_of(envelope.recorded_at_us),
        outcome=envelope.outcome,
        event=_event(row, path),
        revision=envelope.revision,
        first=envelope.first or position,
        id=envelope.id,
        type=envelope.type,
        session=envelope.session,
    )


def _event(row: Stored, path: str) -> Event | RawEvent | None:
    body = row.body
    if body is None:
        return None
    try:
        return envelopes.event_of(row.envelope, body, row.position)
    except UpgradeError:
        return RawEvent(row.envelope.type, row.envelope.schema, body)
    except msgspec.DecodeError as error:
        raise DamagedRowError(path, row.position, f"its body is not a valid {row.envelope.type} ({error})") from None
