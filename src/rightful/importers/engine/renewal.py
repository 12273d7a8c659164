"""Withdraw events that an older reader derived from a file and the current reader does not.

Each kind declares the version of its reader (`READER_VERSION`, default 1) and raises it with every change of what is
derived from the same bytes. A checkpoint contains the version. If an older reader wrote it, the current reader reads
the file from its beginning. Then it withdraws (`event.withdrawn`, by the producer of the event) the stored events that
it did not derive, if this file proves that the older reader derived them from it:

- the file still begins with the bytes that the older reader read (a rewritten, rotated or missing file proves
  nothing);
- the event belongs to a session of this file, was in the ledger when the older checkpoint was written, and its time
  is the time of a line that the older reader had read; so it does not come from another file of that session;
- no other file that this version has read derives it: checkpoints contain the positions of the derived events.

If a withdrawn event is derived again later, by another file or an even newer reader, its withdrawal is withdrawn. A
reader that reads a file after a newer one withdraws nothing.

Messages that were removed from a rewritten file are no longer in its bytes, so `history.popped` of such a file stays.
The exception: the newer reader derives another change from the same evidence (`GrowingReader.changes`), such as a
compaction. That change covers the popped items, and the pop is withdrawn.

The older checkpoint is replaced only after all this is in the ledger. So an import that is killed is repeated with
the same ids, and a second process at the same time writes the same events.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rightful import limits, times
from rightful.encoding.envelope import body_of
from rightful.errors import InvalidEventError
from rightful.identity import composite_key, event_id
from rightful.importers.engine.formats import GrowingReader, OlderReading, Wire
from rightful.importers.shared.foreign_fields import moment_us
from rightful.importers.sources.text_files import Found
from rightful.log.withdrawals import NO_REVISION, WITHDRAWAL, Withdrawal, withdrawal_of

if TYPE_CHECKING:
    from rightful.encoding.envelope import Envelope
    from rightful.log.log import Log
    from rightful.log.rows import Receipt, Stored

_BITS = 8
_NAMES_OTHERS = frozenset({WITHDRAWAL, "session.linked", "session.unlinked"})
"""The event types that may refer to a session of another file."""

_POPPED, _COMPACTED = "history.popped", "history.compacted"
_OF_FORMER_BYTES = frozenset({_POPPED, WITHDRAWAL})
"""The types that a reader derives from the earlier content of a rewritten file."""


class Derived:
    """The events that files of one kind derive in this version, and the withdrawals of such events.

    Args:
        log: The ledger's log.
        kept: Returns the positions of events of other files, from their checkpoints, as inclusive ranges.
    """

    def __init__(self, log: Log, kept: Callable[[], Iterable[tuple[int, int]]]) -> None:
        self._log = log
        self._kept = kept
        self._positions = bytearray()  # a bit a position: 125 KB for a million rows
        self._is_loaded = False
        self._withdrawn: dict[str, dict[str, list[tuple[Envelope, Withdrawal]]]] = {}

    def add(self, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Record which events were derived; return events that restore those that a reader withdrew."""
        again: list[Wire] = []
        first, last = 0, -1  # the run of neighbours so far
        for event, receipt in zip(events, receipts, strict=True):
            if receipt.position is None:
                continue
            position = receipt.first or receipt.position
            if position != last + 1:
                self._note(first, last)
                first = position
            last = position
            session = event.get("session")
            if receipt.outcome == "duplicate" and isinstance(session, str):
                rows = self.withdrawn(session).pop(receipt.id or "", ())
                again += [_withdrawal(envelope, "derived again", envelope.id) for envelope, _ in rows]
        self._note(first, last)
        return again

    def _note(self, first: int, last: int) -> None:
        self._positions.extend(bytes(max(last // _BITS + 1 - len(self._positions), 0)))
        for position in range(first, last + 1):
            self._positions[position // _BITS] |= 1 << position % _BITS

    def has(self, position: int) -> bool:
        """Return whether an event was derived, by the position of its first row."""
        if not self._is_loaded:
            self._is_loaded = True
            for first, last in self._kept():
                self._note(first, last)
        byte = position // _BITS
        return byte < len(self._positions) and bool(self._positions[byte] >> position % _BITS & 1)

    def withdrawn(self, session: str) -> dict[str, list[tuple[Envelope, Withdrawal]]]:
        """Return the effective withdrawals by readers of a session's events, by the id of the event."""
        known = self._withdrawn.get(session)
        if known is None:
            known = self._withdrawn[session] = {}
            found = withdrawals(self._log, session)
            undone = {withdrawal.of for _, withdrawal in found}
            for envelope, withdrawal in found:
                is_of_reader = withdrawal.reader is not None and withdrawal.revision != NO_REVISION
                if is_of_reader and withdrawal.id not in undone:
                    known.setdefault(withdrawal.of, []).append((envelope, withdrawal))
        return known

    def forget(self, session: str) -> None:
        """Drop the cached withdrawals of a session after more were written."""
        self._withdrawn.pop(session, None)


class Ranges:
    """The positions of one file's events, as few inclusive ranges: an import appends them next to each other.

    Args:
        ranges: The ranges known before.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges = [(first, last) for first, last in ranges]

    def add(self, receipts: Iterable[Receipt]) -> None:
        """Add the positions of some receipts."""
        for receipt in receipts:
            position = receipt.first or receipt.position
            if position is None:
                continue
            first, last = self._ranges[-1] if self._ranges else (position, position - 1)
            if first <= position <= last + 1:
                self._ranges[-1:] = [(first, max(last, position))]
            else:
                self._ranges.append((position, position))
            if len(self._ranges) > 2 * limits.CHECKPOINT_RANGES:
                self._ranges = self.kept()

    def kept(self) -> list[tuple[int, int]]:
        """Return the sorted ranges. Beyond the limit the closest are merged, so that fewer events are withdrawn."""
        found: list[tuple[int, int]] = []
        for first, last in sorted(self._ranges):
            if found and first <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(found[-1][1], last)
            else:
                found.append((first, last))
        while len(found) > limits.CHECKPOINT_RANGES:
            gaps = sorted(found[at + 1][0] - found[at][1] for at in range(len(found) - 1))
            widest = gaps[len(found) - limits.CHECKPOINT_RANGES - 1]
            merged = found[:1]
            for first, last in found[1:]:
                if first - merged[-1][1] <= widest:
                    merged[-1] = merged[-1][0], last
                else:
                    merged.append((first, last))
            found = merged
        return found


def withdrawals(log: Log, session: str) -> list[tuple[Envelope, Withdrawal]]:
    """Return all withdrawals of a session, each with the envelope of its row."""
    rows = (row for page in log.of_session(session, [WITHDRAWAL]) for row in page)
    return [(row.envelope, found) for row in rows if (found := withdrawal_of(row)) is not None]


class Renewal:
    """What one file proves of what an older reader derived from it.

    Args:
        log: The ledger's log.
        derived: What the files of this import derive.
        head: The position up to which the older reader's events are in the ledger.
        until: How much of the file it had read; bytes.
        readers: The versions of the older reader and of the newer one.
        is_rewritten: Whether the file's tool may write it from the start.

    Attributes:
        until: As the argument.
    """

    def __init__(
        self, log: Log, derived: Derived, head: int, until: int, readers: tuple[int, int], *, is_rewritten: bool
    ) -> None:
        self._log = log
        self._derived = derived
        self._head = head
        self.until = until
        self._older, self._reader = readers
        self._kept_types = _OF_FORMER_BYTES if is_rewritten else frozenset({WITHDRAWAL})
        self._times = array("q")
        self._is_sorted = False
        self._sources: set[tuple[str, str]] = set()
        self._pops: list[tuple[Envelope, list[str]]] = []
        self._covers: dict[str, str] = {}

    def add_line(self, found: Found, offset: int) -> None:
        """Note the time of a line, if the older reader had read it.

        Args:
            found: The line's object.
            offset: Where it ends; bytes.
        """
        text = found.value.get("timestamp")
        if offset > self.until or not isinstance(text, str):
            return
        with suppress(InvalidEventError):
            at_us, _ = moment_us(text, "$.timestamp")
            if not self._times or self._times[-1] != at_us:
                self._times.append(at_us)

    def add_sessions(self, events: Sequence[Wire]) -> None:
        """Record the sessions of the file."""
        self._sources.update(
            (event["session"], event["producer"])
            for event in events
            if event["type"] not in _NAMES_OTHERS and isinstance(event.get("session"), str)
        )

    def changes(self, reader: GrowingReader) -> Iterator[Wire]:
        """Yield the events that the newer reader derives from changes before the older reader's import.

        Args:
            reader: The newer reader, which has read the whole file.
        """
        if _POPPED not in self._kept_types:
            return
        for session, producer in sorted(self._sources):
            for event in reader.changes(self._former(session, producer)):
                of = event_id(event["producer"], event["key"])
                self._covers.update((item, of) for item, _ in event["covers"])
                yield event

    def _former(self, session: str, producer: str) -> OlderReading:
        """Return the older reader's events of a session, without pops that were undone or are still derived."""
        undone = {found.of for _, found in withdrawals(self._log, session) if found.reader is None}
        positions: dict[str, int] = {}
        popped: list[str] = []
        for row in self._rows(session, producer):
            envelope = row.envelope
            positions.setdefault(envelope.id, row.position)
            if envelope.type != _POPPED or envelope.at_basis != "file" or row.body is None:
                continue
            if envelope.id not in undone and not self._derived.has(envelope.first or row.position):
                items = [item for item, _ in body_of(envelope, row.body, row.position).items]
                self._pops.append((envelope, items))
                popped += items
        return OlderReading(self._older, positions, frozenset(popped))

    def _rows(self, session: str, producer: str, types: list[str] | None = None) -> Iterator[Stored]:
        """Yield the rows of a producer in a session that were in the ledger when the older reader had read the file."""
        pages = self._log.of_session(session, types, 0, self._head)
        return (row for page in pages for row in page if row.envelope.producer == producer)

    def events(self) -> Iterator[Wire]:
        """Yield withdrawals of the events that the older reader derived from this file and no reader derives now."""
        yield from self._outdated_pops()
        for session, producer in sorted(self._sources):
            found = self._outdated(session, producer)
            if not found:
                continue
            instead = self._instead(session, producer, {envelope.at_us for envelope in found})
            withdrawn = self._derived.withdrawn(session)
            past = self._past(session)
            for envelope in found:
                if envelope.id not in withdrawn:
                    nth = past[envelope.id, envelope.revision] + 1
                    yield self._withdrawing(envelope, nth, instead.pop(envelope.at_us, []))
            self._derived.forget(session)

    def _outdated_pops(self) -> Iterator[Wire]:
        """Yield withdrawals of the pops whose items are covered by a change of the newer reader."""
        for envelope, items in self._pops:
            if not all(item in self._covers for item in items) or envelope.session is None:
                continue
            if envelope.id not in self._derived.withdrawn(envelope.session):
                nth = self._past(envelope.session)[envelope.id, envelope.revision] + 1
                yield self._withdrawing(envelope, nth, sorted({self._covers[item] for item in items}))

    def _past(self, session: str) -> Counter[tuple[str, int]]:
        """Return how often readers withdrew each revision of a session's events."""
        found = withdrawals(self._log, session)
        return Counter((past.of, past.revision) for _, past in found if past.reader is not None)

    def _outdated(self, session: str, producer: str) -> list[Envelope]:
        """Return the envelopes of rows that are no longer derived."""
        vanished = self._vanished(session, producer)
        return [
            row.envelope
            for row in self._rows(session, producer)
            if row.envelope.type not in self._kept_types
            and row.envelope.id not in vanished
            and row.envelope.outcome != "stale"
            and row.envelope.at_basis != "file"
            and not self._derived.has(row.envelope.first or row.position)
            and self._has_line_at(row.envelope.at_us)
        ]

    def _vanished(self, session: str, producer: str) -> set[str]:
        """Return the items that the older reader found missing from a rewritten file: they come from its earlier bytes.

        An edit keeps a message's time, so a line with that time does not prove that the older reader read it there.
        """
        found = set(self._covers)
        if _POPPED not in self._kept_types:
            return found
        for row in self._rows(session, producer, [_POPPED, _COMPACTED]):
            if row.envelope.at_basis == "file" and row.body is not None:
                body = body_of(row.envelope, row.body, row.position)
                found.update(item[0] for item in (body.items if row.envelope.type == _POPPED else body.covers))
        return found

    def _has_line_at(self, at_us: int) -> bool:
        if not self._is_sorted:
            self._times = array("q", sorted(self._times))
            self._is_sorted = True
        place = bisect_left(self._times, at_us)
        return place < len(self._times) and self._times[place] == at_us

    def _instead(self, session: str, producer: str, at_us: set[int]) -> dict[int, list[str]]:
        """Return the ids of events that the newer reader added at these times, in the order of the file."""
        added: dict[int, list[str]] = {}
        for row in (row for page in self._log.of_session(session, None, self._head) for row in page):
            is_new = row.envelope.first == 0 and self._derived.has(row.position)
            if is_new and row.envelope.producer == producer and row.envelope.at_us in at_us:
                added.setdefault(row.envelope.at_us, []).append(row.envelope.id)
        return added

    def _withdrawing(self, envelope: Envelope, nth: int, instead: list[str]) -> Wire:
        extra = {"reader": self._reader} | ({"instead": instead} if instead else {})
        key = "withdrawn by a newer reader", envelope.id, envelope.revision, nth
        return _withdrawal(envelope, *key) | {"extra": extra}


def _withdrawal(envelope: Envelope, *key: str | int) -> Wire:
    """Return the withdrawal of an event, at its time."""
    basis = {} if envelope.at_basis is None else {"at_basis": envelope.at_basis}
    head = {"type": WITHDRAWAL, "producer": envelope.producer, "key": composite_key(*key), "session": envelope.session}
    return head | {"at": times.text_of(envelope.at_us), "id": envelope.id, "revision": envelope.revision} | basis
