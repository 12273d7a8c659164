"""The log: append with a receipt for each event, read, follow.

Works on the recorder port: one append is one decision in one write transaction. Everything that does not
depend on other rows (validation, ids, bodies, salts, commitments) is done before the lock.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem

from rightful import limits
from rightful.encoding import envelope as envelopes
from rightful.encoding import wire
from rightful.encoding.envelope import SALT_BYTES, SCHEMAS, Envelope
from rightful.errors import ConditionFailedError, InvalidEventError, OutcomeUnknownError, UsageError
from rightful.events import TYPES, Event
from rightful.log.classify import NEW, Candidate, Verdict, classify
from rightful.log.rows import Page, Receipt, Recorded, Stored, checked, found_by, page_of, recorded
from rightful.storage.port import LedgerEvent, LedgerRecorder, Row, View

if TYPE_CHECKING:
    from rightful.log.follow import Following

_CANNOT_STAND = "[\ud800-\udfff]"  # lone surrogates: no stored name contains one, nor can a key of an index

TAGS: dict[type[Event], str] = {kind: tag for tag, kind in TYPES.items()}
"""The type name of each struct."""

Clock = Callable[[], int]
"""Returns the time; microseconds since 1970, UTC."""


def now_us() -> int:
    """Return the system's time; microseconds since 1970, UTC."""
    return time.time_ns() // 1_000


class _RecordedAt(msgspec.Struct):
    recorded_at_us: int


_recorded_at = msgspec.json.Decoder(_RecordedAt)


class _Prepared(Candidate, frozen=True, gc=False):
    """A valid event, with everything that does not depend on other rows."""

    producer: str
    at_us: int
    at_basis: str | None
    escaped: bool
    payload: bytes
    commitment: str


class Log:
    """Events in the order in which they were written, on any recorder.

    Args:
        recorder: Stores the rows.
        path: The name of the log in errors.
        clock: Returns the time at which a row is written.
        entropy: Returns the given number of random bytes, for salts.
    """

    def __init__(
        self,
        recorder: LedgerRecorder,
        *,
        path: str = "the ledger",
        clock: Clock = now_us,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.recorder = recorder
        self.path = path
        self._clock = clock
        self._entropy = entropy

    def now_us(self) -> int:
        """Return the time by the log's clock; microseconds since 1970, UTC."""
        return self._clock()

    def append(
        self,
        events: Iterable[Event | Mapping[str, Any]],
        *,
        unless: DCBQuery | None = None,
        after: int | None = None,
        all_new: bool = False,
        timeout_s: float | None = limits.WAIT_S,
        wrote: list[Stored] | None = None,
        inline: bool = False,
    ) -> list[Receipt]:
        """Append events in one transaction and return a receipt for each, in order.

        An invalid event gets a receipt with its place and does not affect the others. Sending a batch
        again is safe, however often.

        Args:
            events: Structs or wire objects, at most `limits.BATCH_EVENTS`.
            unless: Write nothing if a row matches this query. Ids are looked up first: if all
                events are stored already, their receipts report that, and the condition is not checked.
            after: Only rows after this position count for `unless`.
            all_new: Write nothing if any of the ids is stored; like `unless` with these ids, without more lookups.
            timeout_s: How long to wait for other writers; seconds. None waits forever.
            wrote: A list to which the written rows are added, once they are durable.
            inline: Commit in the calling thread if the write lock is free; as `LedgerRecorder.decide`.

        Raises:
            UsageError: There are more events than the limit of one transaction, or a single event is passed
                without a list. Nothing was written.
            ConditionFailedError: A row matches `unless`, or an id of `all_new` is stored. Nothing was
                written. Read the new rows and retry.
            BusyError: Another writer had the write lock for that long. Nothing was written.
            OutcomeUnknownError: It is not known whether it was written. Send the same events again.
            StorageError: The store failed. Nothing was written.
        """
        timeout_s = _seconds(timeout_s)
        if type(events) is not list and isinstance(events, Mapping | Event | str | bytes):  # an ABC check is slow
            raise UsageError("Expected a list of events, got one event. Nothing was written. Put the event in a list.")
        batch = list(events)
        if len(batch) > limits.BATCH_EVENTS:
            raise UsageError(
                f"Too many events: {len(batch)}. One append takes at most {limits.BATCH_EVENTS}. Nothing was written. "
                "Send fewer at once."
            )
        ready, invalid = self._prepare(batch)
        decision = _Decision(ready, self._clock, unless, after, self.path, all_new)
        if ready:
            try:
                self.recorder.decide(decision, timeout_s=timeout_s, inline=inline)
            except OutcomeUnknownError as error:
                ids = tuple(candidate.id for candidate in ready)
                raise OutcomeUnknownError(error.path, ids, error.why) from error
        if wrote is not None:
            wrote += decision.rows
        receipts = decision.receipts
        for at, receipt in invalid:
            receipts.insert(at, receipt)
        return receipts

    def _prepare(self, batch: Sequence[Event | Mapping[str, Any]]) -> tuple[list[_Prepared], list[tuple[int, Receipt]]]:
        """Return the valid events, and the places and receipts of the others."""
        salts = self._entropy(SALT_BYTES * len(batch))
        ready, invalid = list[_Prepared](), list[tuple[int, Receipt]]()
        for at, proposed in enumerate(batch):
            try:
                ready.append(_prepare(proposed, salts[at * SALT_BYTES : (at + 1) * SALT_BYTES]))
            except InvalidEventError as error:
                invalid.append((at, Receipt(None, "invalid", None, None, str(error))))
        return ready, invalid

    def head(self) -> int:
        """Return the last position; 0 if the log is empty."""
        return self.recorder.head()

    def commitment(self, position: int) -> str:
        """Return the commitment of the row at a position, in hexadecimal; empty if there is no such row.

        Raises:
            DamagedRowError: The row does not match its checksum or its commitment.
        """
        page = next(self.pages(position - 1, position), None) if position > 0 else None
        return "" if page is None else page.envelopes[0].commitment

    def scan(self, after: int = 0, until: int | None = None) -> Iterator[list[Stored]]:
        """Yield pages of rows, each in a short read transaction.

        Args:
            after: Start after this position.
            until: End with this position; if None, with the last position at the time of reading.

        Raises:
            DamagedRowError: A row does not match its checksum or its commitment.
        """
        for page in self.pages(after, until):
            yield page.rows()

    def pages(self, after: int = 0, until: int | None = None) -> Iterator[Page]:
        """Yield the rows of `scan` as columns; the fast path of projections."""
        while until is None or after < until:
            limit = limits.PAGE_ROWS if until is None else min(limits.PAGE_ROWS, until - after)
            page = page_of(after, *self.recorder.columns(after, limit), self.path)
            if not page.envelopes:
                return
            yield page
            after = page.last

    def read(
        self,
        *,
        session: str | None = None,
        types: Iterable[str] | None = None,
        after: int = 0,
        until: int | None = None,
    ) -> Iterator[Recorded]:
        """Yield recorded events by ascending position, all outcomes.

        Args:
            session: Only rows of this session, named in full; found by its index.
            types: Only rows of these types.
            after: Start after this position.
            until: End with this position; if None, with the last position at the time of reading.

        Raises:
            UsageError: `after` is negative.
            DamagedRowError: A row does not match its checksum or its commitment.
        """
        wanted, after = _types(types), _position(after)
        pages = self.scan(after, until) if session is None else self.of_session(session, wanted, after, until)
        for page in pages:
            for row in page:
                if wanted is None or row.envelope.type in wanted:
                    yield recorded(row, self.path)

    def of_id(self, event_id: str) -> list[Stored]:
        """Return all rows of an event id, by ascending position; found by its index.

        Raises:
            DamagedRowError: A row does not match its checksum or its commitment.
        """
        query = DCBQuery(items=[DCBQueryItem(tags=[f"id:{event_id}"])])
        return [row for rows in found_by(self.recorder, query) for row in checked(rows, self.path)]

    def ids_like(self, start: str, limit: int) -> list[str]:
        """Return the event ids that begin with a text, sorted, at most `limit`; found by their index."""
        return [tag.removeprefix("id:") for tag in self.recorder.tags_like(f"id:{start}", limit)]

    def of_session(
        self, session: str, types: Iterable[str] | None = None, after: int = 0, until: int | None = None
    ) -> Iterator[list[Stored]]:
        """Yield pages of the rows of a session, each in a short read transaction; found by its index.

        Args:
            session: Its name in full.
            types: Only rows of these types.
            after: Start after this position.
            until: End with this position; if None, with the last position at the time of reading.

        Raises:
            DamagedRowError: A row does not match its checksum or its commitment.
        """
        if re.search(_CANNOT_STAND, session):
            return
        query = DCBQuery(items=[DCBQueryItem(types=sorted(types or ()), tags=[f"session:{session}"])])
        yield from self._pages_by(query, after, until)

    def of_type(self, kind: str, after: int = 0, until: int | None = None) -> Iterator[list[Stored]]:
        """Yield pages of the rows of a type, as `of_session` does; found by its index."""
        yield from self._pages_by(DCBQuery(items=[DCBQueryItem(types=[kind])]), after, until)

    def _pages_by(self, query: DCBQuery, after: int, until: int | None) -> Iterator[list[Stored]]:
        for rows in found_by(self.recorder, query, after):
            page = checked([row for row in rows if until is None or row.position <= until], self.path)
            if page:
                yield page
            if len(page) < len(rows):
                return

    def follow(
        self,
        after: int = 0,
        *,
        session: str | None = None,
        types: Iterable[str] | None = None,
        timeout_s: float | None = None,
    ) -> Following:
        """Follow the log: first the stored events after a position, then new events of any process.

        Args:
            after: Start after this position; to resume, pass the last position that you processed.
            session: Only rows of this session, named in full.
            types: Only rows of these types.
            timeout_s: End after this time without a new event; seconds. None follows forever.

        Returns:
            An iterator that blocks; its `stop()` ends it from any thread.

        Raises:
            UsageError: `after` is negative, or the timeout is not a number of seconds.
        """
        wanted = _types(types)

        from rightful.log.follow import Following

        def between(start: int, end: int) -> Iterator[Recorded]:
            return self.read(session=session, types=wanted, after=start, until=end)

        return Following(self.recorder, between, _position(after), _seconds(timeout_s))


def _types(asked: Iterable[str] | None) -> frozenset[str] | None:
    if asked is None:
        return None
    return frozenset([asked] if isinstance(asked, str) else asked)


def _position(after: int) -> int:
    if after < 0:
        raise UsageError(f"Invalid position {after}. Nothing was read. Pass 0 to read from the start.")
    return min(after, limits.SEQ_MAX)


def _seconds(timeout_s: float | None) -> float | None:
    """Return a timeout that a lock accepts; None waits forever."""
    if timeout_s is None or timeout_s > threading.TIMEOUT_MAX:
        return None
    if math.isnan(timeout_s):
        raise UsageError("Invalid timeout nan. Nothing was done. Pass a number of seconds, or None to wait forever.")
    return timeout_s


def _prepare(proposed: Event | Mapping[str, Any], salt: bytes) -> _Prepared:
    checked = wire.check(proposed)
    event = checked.event
    body = envelopes.encode_body(event)
    payload = salt + body
    return _Prepared(
        checked.id,
        TAGS[type(event)],
        getattr(event, "session", None),
        event.turn,
        event.index,
        body,
        event.producer,
        checked.at_us,
        event.at_basis,
        checked.escaped,
        payload,
        hashlib.sha256(payload).hexdigest(),
    )


class _Decision(msgspec.Struct):
    """Classifies a batch inside the write transaction; may be called again."""

    batch: list[_Prepared]
    clock: Clock
    unless: DCBQuery | None
    after: int | None
    path: str
    all_new: bool
    receipts: list[Receipt] = []
    rows: list[Stored] = []

    def __call__(self, view: View) -> Sequence[DCBEvent]:
        self.receipts, self.rows = [], []
        has_repeats = len(set(map(attrgetter("id"), self.batch))) < len(self.batch)
        last, recorded_at_us = view.last(), self.clock()
        if last is not None:  # never earlier than the row before, whatever the clock returns
            recorded_at_us = max(recorded_at_us, _recorded_at.decode(last.data).recorded_at_us)
        written: list[DCBEvent] = []
        decided: dict[str, list[Stored]] = {}
        head = view.head
        for event in self.batch:
            rows = decided.get(event.id)
            if rows is None:  # checked, since a flipped bit in a salt would turn an identical repeat into a conflict
                found = view.tagged(f"id:{event.id}")
                rows = checked([Row(at, row.data, row.payload) for at, row in found], self.path) if found else []
            verdict = classify(event, rows) if rows else NEW
            position = verdict.position
            if not position:
                position = head + len(written) + 1
                row = _row(event, verdict, recorded_at_us)
                tags = envelopes.tags_of(event.id, event.session)
                written.append(LedgerEvent(event.type, envelopes.encode(row), tags, event.payload))
                self.rows.append(Stored(position, row, event.payload))
                if has_repeats:
                    decided[event.id] = [*rows, self.rows[-1]]
            self.receipts.append(
                Receipt(event.id, verdict.outcome, position, verdict.first or position, verdict.reason)
            )
        if written and (self.all_new or self.unless is not None) and self._fails(view):
            raise ConditionFailedError(self.after or 0)
        return written

    def _fails(self, view: View) -> bool:
        if self.all_new and any((receipt.first or 0) <= view.head for receipt in self.receipts):
            return True
        return self.unless is not None and view.matches(self.unless, self.after)


def _row(one: _Prepared, verdict: Verdict, recorded_at_us: int) -> Envelope:
    return Envelope(
        id=one.id,
        revision=verdict.revision,
        type=one.type,
        schema=SCHEMAS[one.type],
        producer=one.producer,
        session=one.session,
        turn=one.turn,
        index=one.index,
        at_us=one.at_us,
        at_basis=one.at_basis,
        recorded_at_us=recorded_at_us,
        outcome=verdict.outcome,
        first=verdict.first,
        body_bytes=len(one.body),
        escaped=one.escaped,
        commitment=one.commitment,
    )
