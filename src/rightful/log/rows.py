"""What the ledger gives back: receipts for what was sent, and recorded events for what stands."""

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
"""What stands in the place of an erased payload. A payload that is not there at all is damage."""


class Receipt(NamedTuple):
    """The ledger's answer for one event that was sent.

    Attributes:
        id: The event id; None when the event is invalid.
        outcome: `appended`, `refined`, `reemitted`, `stale`, `conflict` (stored now or before),
            `duplicate` (it stands there already) or `invalid` (not stored).
        position: Where it stands; for a duplicate, where it stood already; None when it is invalid.
        first: The position of the id's first row.
        reason: Why it is stale, a conflict or invalid; None otherwise.
    """

    id: str | None
    outcome: str
    position: int | None
    first: int | None
    reason: str | None = None


def valid(receipt: Receipt) -> Receipt:
    """Return a receipt that is not of an invalid event.

    Raises:
        InvalidEventError: It is; nothing was written.
    """
    if receipt.outcome == "invalid":
        what, _, place = (receipt.reason or "").rpartition(" - at `")
        raise InvalidEventError(what, place.rstrip("`"))
    return receipt


class Stored(NamedTuple):
    """One row as it is stored, whose payload fits its commitment.

    Attributes:
        position: Its place: 1, 2, 3 …
        envelope: What the ledger states about it for ever.
        payload: Salt (32 bytes) and canonical body; None once it is erased.
    """

    position: int
    envelope: Envelope
    payload: bytes | None

    @property
    def body(self) -> bytes | None:
        """The canonical body; None once it is erased."""
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
    """An event that stands in the ledger. Only the ledger makes one.

    Attributes:
        position: Its place: 1, 2, 3 …
        recorded_at: When the ledger wrote it; never before that of the position before it.
        outcome: How it was classified when it came. Rows that are `stale` or `conflict` are
            kept, and shown to nobody but the reader of the whole log.
        event: The event; a `RawEvent` when it is newer than this program; None once it is erased.
        revision: Which row of its id it is, from 1.
        first: The position of the id's first row.
        id: The event id.
        type: The event's type, also when it is erased.
        session: The session's name, where the type has one, also when it is erased.
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
    """Consecutive rows as columns; the form in which projections read them.

    Attributes:
        after: The position before the first row.
        envelopes: What the ledger states about each.
        payloads: Salt and body of each, which fit its commitment; None where it was erased.
    """

    after: int
    envelopes: list[Envelope]
    payloads: list[bytes | None]

    @property
    def last(self) -> int:
        """The position of the last row."""
        return self.after + len(self.envelopes)

    def until(self, position: int) -> Page:
        """Return its rows up to a position."""
        count = max(position - self.after, 0)
        return Page(self.after, self.envelopes[:count], self.payloads[:count])

    def rows(self) -> list[Stored]:
        """Return the rows."""
        return list(map(Stored, range(self.after + 1, self.last + 1), self.envelopes, self.payloads))


def page_of(after: int, records: list[bytes], payloads: list[bytes | None], path: str) -> Page:
    """Return rows decoded, each payload checked against its commitment.

    Args:
        after: The position before the first row.
        records: Stored envelopes that fit their leaf hash.
        payloads: Their payloads; `ERASED` in the place of one that was erased.
        path: The ledger, for the error.

    Raises:
        DamagedRowError: An envelope cannot be read, a payload does not fit its commitment, or one
            is missing although nothing erased it.
    """
    positions = range(after + 1, after + 1 + len(records))
    return Page(after, *_fitting(positions, records, payloads, path))


def checked(rows: Sequence[Row], path: str) -> list[Stored]:
    """Return rows decoded and checked, as `page_of` does; they need not stand one after the other."""
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
    """Yield pages of the rows that fit a query, not yet checked; each of at most so many rows and bytes."""
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
    """Return a stored row as its reader sees it.

    Raises:
        DamagedRowError: The body is not of its type.
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
