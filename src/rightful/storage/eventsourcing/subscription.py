"""Read stored events, then the events that any process adds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBReadResponse, DCBSequencedEvent, DCBSubscription

from rightful import limits
from rightful.storage.port import LedgerRecorder
from rightful.storage.tables.query import read_page
from rightful.storage.tables.store_tables import Tables

R_co = TypeVar("R_co", bound=LedgerRecorder, covariant=True)


class Response(DCBReadResponse):
    """The response to a read: pages, each read in its own short transaction.

    All pages stop at the last position that the first one saw, so together they are one consistent
    answer. No transaction is open while the caller handles an event.
    """

    def __init__(
        self, tables: Callable[[], Tables], head: int, query: DCBQuery | None, after: int, limit: int | None
    ) -> None:
        self._tables = tables
        self._query = query
        self._after = after
        self._left = limit
        self._buffer: deque[tuple[int, DCBEvent]] = deque()
        self._last: int | None = None  # position of the last event fetched
        self._until = head

    @property
    def head(self) -> int | None:
        """The last position of the store; with a limit, that of the last event returned."""
        if self._left is None:
            return self._until or None
        while self._fetch():
            pass
        return self._last

    def __next__(self) -> DCBSequencedEvent:
        while not self._buffer:
            if not self._fetch():
                raise StopIteration
        position, event = self._buffer.popleft()
        return DCBSequencedEvent(event=event, position=position)

    def _fetch(self) -> bool:
        """Read one more page; return whether there was one."""
        wanted = limits.PAGE_ROWS if self._left is None else min(limits.PAGE_ROWS, self._left)
        if self._after >= self._until or wanted < 1:
            return False
        page = read_page(self._tables(), self._query, self._after, self._until, wanted)
        self._after = page.through
        self._buffer.extend(page.events)
        if page.events:
            self._last = page.events[-1][0]
        if self._left is not None:
            self._left -= len(page.events)
        return True


class Subscription(DCBSubscription[R_co]):
    """Endless iteration over the events from a position on; `stop` ends it, from any thread."""

    def __init__(self, recorder: R_co, tables: Callable[[], Tables], query: DCBQuery | None, after: int | None) -> None:
        super().__init__(recorder, query, after)
        self._tables = tables
        self._buffer: deque[tuple[int, DCBEvent]] = deque()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the iteration, also in a thread that waits in it."""
        super().stop()
        self._stopping.set()

    def __next__(self) -> DCBSequencedEvent:
        while not self._stopping.is_set():
            if self._buffer:
                position, event = self._buffer.popleft()
                return DCBSequencedEvent(event=event, position=position)
            self._read_page()
        raise StopIteration

    def _read_page(self) -> None:
        head = self._recorder.wait_beyond(
            self._last_position, None, self._stopping
        )  # and the rows up to it are durable
        if head > self._last_position:
            page = read_page(self._tables(), self._query, self._last_position, head, limits.PAGE_ROWS)
            self._last_position = page.through
            self._buffer.extend(page.events)
