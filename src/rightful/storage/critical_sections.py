"""Critical sections that release their lock whatever is raised in them, and wherever.

A signal handler, a test's timeout or a debugger may raise between any two lines, also in the lines that
clean up. `threading.Condition` and `Event` enter and leave their lock in Python code, so such an exception can
leave it locked for ever. A plain lock enters and leaves in C, and here no line begins between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_DOORS: Final = 16
"""Threads that read at the same time and share no door, if they are lucky; two that share one take turns."""


def run_locked(lock: Any, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:  # noqa: ANN401 - Lock or RLock
    """Return what the work returns, with the lock held meanwhile.

    On one line: at the end of a block `with` would begin a line of its own once more, at which a trace
    function may raise before the lock is released.
    """
    with lock: return work(*args, **options)  # noqa: E701  # fmt: skip


class Doors:
    """Many threads at once share what one thread at a time may replace."""

    __slots__ = ("_doors",)

    def __init__(self) -> None:
        self._doors: list[Any] = [threading.RLock() for _ in range(_DOORS)]

    def shared(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return what the work returns, while nothing is replaced."""
        return run_locked(self._own(), work, *args, **options)

    def alone(self, work: Callable[[], T]) -> T:
        """Return what the work returns, while no other thread shares."""
        return self._alone(_DOORS, work)

    def _alone(self, count: int, work: Callable[[], T]) -> T:
        return run_locked(self._doors[count - 1], self._alone, count - 1, work) if count else work()

    def close(self, timeout_s: float) -> bool:
        """Keep all other threads out until `open`. Return whether that was possible.

        It is not while this thread shares, or another one does for all of the time.
        """
        if self.is_mine():
            return False
        until = time.monotonic() + timeout_s
        for count, door in enumerate(reversed(self._doors)):
            if not door.acquire(timeout=max(until - time.monotonic(), 0)):
                for closed in self._doors[_DOORS - count :]:
                    closed.release()
                return False
        return True

    def open(self) -> None:
        """Let other threads in again."""
        for door in self._doors:
            while door._is_owned():  # noqa: SLF001 - as `threading.Condition` does
                door.release()

    def is_mine(self) -> bool:
        """Return whether this thread shares, or keeps others out."""
        return bool(self._own()._is_owned())  # noqa: SLF001 - as `threading.Condition` does

    def _own(self) -> Any:  # noqa: ANN401 - typeshed has no one name for it
        return self._doors[(threading.get_ident() >> 12) % _DOORS]  # an identity is an address, of a page or more
