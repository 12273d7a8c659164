"""Follow a log: blocking, complete, resumable and stoppable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from rightful.log.rows import Recorded
from rightful.storage.port import LedgerRecorder


class Following(Iterator[Recorded]):
    """An iterator over stored and new events; it blocks until there are more.

    Attributes:
        position: Everything up to here was read. Follow after it to resume, even if no event
            up to here matched.
    """

    def __init__(
        self,
        recorder: LedgerRecorder,
        between: Callable[[int, int], Iterator[Recorded]],
        after: int,
        timeout_s: float | None,
    ) -> None:
        self.position = after
        self._recorder = recorder
        self._between = between
        self._timeout_s = timeout_s
        self._stopped = threading.Event()
        self._events = self._follow()

    def __next__(self) -> Recorded:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the iterator, also while it waits; from any thread. Unread events can still be read later."""
        self._stopped.set()

    def _follow(self) -> Iterator[Recorded]:
        while not self._stopped.is_set():
            head = self._recorder.wait_beyond(self.position, self._timeout_s, self._stopped)
            if head <= self.position:
                return
            for event in self._between(self.position, head):
                if self._stopped.is_set():
                    return
                self.position = event.position
                yield event
            self.position = head
