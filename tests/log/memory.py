"""A recorder in memory: the port, so that the log is tested apart from any engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from eventsourcing.dcb.api import (
    DCBAppendCondition,
    DCBEvent,
    DCBQuery,
    DCBReadResponse,
    DCBSequencedEvent,
    DCBSubscription,
)

from rightful import limits
from rightful.log.rows import ERASED
from rightful.storage.port import Decision, LedgerEvent, LedgerRecorder, Row


def fits(event: DCBEvent, query: DCBQuery) -> bool:
    return not query.items or any(
        (not item.types or event.type in item.types) and set(item.tags) <= set(event.tags) for item in query.items
    )


class MemoryView:
    def __init__(self, events: list[LedgerEvent]) -> None:
        self._events = events

    @property
    def head(self) -> int:
        return len(self._events)

    def last(self) -> LedgerEvent | None:
        return self._events[-1] if self._events else None

    def tagged(self, tag: str) -> list[tuple[int, LedgerEvent]]:
        return [(position, event) for position, event in enumerate(self._events, 1) if tag in event.tags]

    def matches(self, query: DCBQuery, after: int | None) -> bool:
        return any(fits(event, query) for event in self._events[after or 0 :])


class MemoryResponse(DCBReadResponse):
    def __init__(self, events: list[DCBSequencedEvent]) -> None:
        self._events = iter(events)

    @property
    def head(self) -> int | None:
        return None

    def __next__(self) -> DCBSequencedEvent:
        return next(self._events)


class MemoryRecorder(LedgerRecorder):
    """Calls each decision `calls` times, as an engine that retries may; the last one counts."""

    def __init__(self, calls: int = 1) -> None:
        self.events: list[LedgerEvent] = []
        self.calls = calls
        self.commits = 0
        self._changed = threading.Condition()

    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        with self._changed:
            written: Sequence[DCBEvent] = []
            for _ in range(self.calls):
                written = decision(MemoryView(self.events))
            self.events += [event for event in written if isinstance(event, LedgerEvent)]
            self.commits += bool(written)
            self._changed.notify_all()
            return len(self.events)

    def rows(self, after: int, limit: int = limits.PAGE_ROWS) -> list[Row]:
        page = self.events[after : after + limit]
        return [Row(position, event.data, event.payload) for position, event in enumerate(page, after + 1)]

    def head(self) -> int:
        return len(self.events)

    def wait_beyond(self, position: int, timeout_s: float | None = None, stop: threading.Event | None = None) -> int:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.events) > position or (stop is not None and stop.is_set()), timeout_s
            )
            return len(self.events)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing is held."""

    def read(
        self, query: DCBQuery | None = None, *, after: int | None = None, limit: int | None = None
    ) -> DCBReadResponse:
        found = [
            DCBSequencedEvent(event, position)
            for position, event in enumerate(self.events, 1)
            if position > (after or 0) and (query is None or fits(event, query))
        ]
        return MemoryResponse(found[:limit])

    def append(self, events: Sequence[DCBEvent], condition: DCBAppendCondition | None = None) -> int:
        raise NotImplementedError

    def subscribe(self, query: DCBQuery | None = None, *, after: int | None = None) -> DCBSubscription[Any]:
        raise NotImplementedError

    def erase(self, position: int) -> None:
        self.events[position - 1].payload = ERASED
