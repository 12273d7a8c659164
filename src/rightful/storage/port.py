"""The port of every recorder: the library's `DCBRecorder`, and what a ledger needs in addition.

A recorder assigns positions 1, 2, 3 … without a gap, in the order of the commits. What it
has acknowledged is durable.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBRecorder
from msgspec import Struct

from rightful import limits


class LedgerEvent(DCBEvent):  # noqa: PLW1641 - compared by value and mutable, as its base
    """A row before or after it is stored: the envelope, and the payload, which is stored separately.

    Attributes:
        type: The event type.
        data: The stored bytes of the envelope; the leaf of the tree.
        tags: `id:<uuid>`, and `session:<name>` if it has a session.
        payload: Salt (32 bytes) and canonical body; empty after an erasure.
    """

    # Written out: the decorator would cost each process half a millisecond, and a hook has fifty.
    def __init__(self, type: str, data: bytes, tags: list[str] | None = None, payload: bytes | None = None) -> None:  # noqa: A002 - the library's name
        self.type, self.data, self.payload = type, data, payload  # not through the base, which costs as much again
        self.tags = [] if tags is None else tags

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        assert isinstance(other, LedgerEvent)
        return (self.type, self.data, self.tags, self.payload) == (other.type, other.data, other.tags, other.payload)

    def __repr__(self) -> str:
        return f"LedgerEvent(type={self.type!r}, data={self.data!r}, tags={self.tags!r}, payload={self.payload!r})"


def size_of(event: DCBEvent) -> int:
    """Return how much an event adds to a page; bytes (`limits.PAGE_BYTES`)."""
    return len(event.data) + len(getattr(event, "payload", None) or b"")


class Row(Struct, frozen=True, gc=False):
    """One stored row whose bytes match its checksum.

    Attributes:
        position: Its position: 1, 2, 3 …
        envelope: The stored bytes, unchanged.
        payload: Salt and body; empty after an erasure.
    """

    position: int
    envelope: bytes
    payload: bytes | None


class View(Protocol):
    """The rows before a decision, as its own write transaction sees them."""

    @property
    def head(self) -> int:
        """The last position; 0 if the store is empty."""

    def last(self) -> LedgerEvent | None:
        """Return the last row; None if the store is empty."""

    def tagged(self, tag: str) -> list[tuple[int, LedgerEvent]]:
        """Return all rows that have the tag, with their positions, ascending."""

    def matches(self, query: DCBQuery, after: int | None) -> bool:
        """Return whether a row after that position matches the query."""


Decision = Callable[[View], Sequence[DCBEvent]]
"""Reads the view and returns the events to write, in order. May be called again: each call starts from nothing."""


class LedgerRecorder(DCBRecorder):
    """A recorder that a ledger can use."""

    @abstractmethod
    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        """Run a decision alone in a write transaction and write the events that it returns.

        The events get consecutive positions. An exception of the decision reaches the caller, and
        nothing of this decision is written.

        Args:
            decision: Returns what to write, given the stored rows; it may be called again.
            timeout_s: How long to wait for other writers; seconds. None waits forever.
            inline: Commit in the calling thread if the write lock is free; saves four thread switches. Then
                `timeout_s` does not limit the commit itself. Only for threads that never receive an exception
                from outside, such as `KeyboardInterrupt`. A recorder without a writer thread may ignore it.

        Returns:
            The position of the last event written, after it is durable. The store's last position if there was none.

        Raises:
            BusyError: Another writer had the write lock for that long. Nothing was written or will be written.
            OutcomeUnknownError: The time limit passed during the commit, or the store failed and its state
            could not be read. Send the same events again.
            StoreFullError: The disk or the store is full. Nothing was written.
            StorageError: The store failed. Nothing was written.
        """

    @abstractmethod
    def rows(self, after: int, limit: int = limits.PAGE_ROWS) -> list[Row]:
        """Return the rows after a position, at most `limit`, without a gap, in one short read.

        There may be fewer: an engine limits how much it reads at once (`limits.PAGE_BYTES`). An empty list is the end.

        Raises:
            DamagedRowError: A row does not match its checksum, or is missing.
        """

    def columns(self, after: int, limit: int = limits.PAGE_ROWS) -> tuple[list[bytes], list[bytes | None]]:
        """Return the rows of `rows` as columns: envelopes and payloads. An engine may have a faster way."""
        found = self.rows(after, limit)
        return [row.envelope for row in found], [row.payload for row in found]

    def tags_like(self, start: str, limit: int) -> list[str]:
        """Return the tags that begin with a text, sorted, at most `limit`; an engine may use an index.

        Only tags of at most `limits.TAG_KEY_BYTES` are found.
        """
        found = {tag for event in self.read() for tag in event.event.tags if tag.startswith(start)}
        return sorted(tag for tag in found if len(tag.encode()) <= limits.TAG_KEY_BYTES)[:limit]

    @abstractmethod
    def head(self) -> int:
        """Return the last position; 0 if the store is empty."""

    @abstractmethod
    def wait_beyond(self, position: int, timeout_s: float | None = None, stop: threading.Event | None = None) -> int:
        """Wait until any process has written a row after the position, and return the head.

        Returns:
            The last position: beyond `position` and durable, unless the timeout passed or `stop` was set first.
        """

    def rest(self) -> None:
        """Release cached pages to the system; bulk writers call it now and then. An engine may need it."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; idempotent."""
