"""Critical sections that release their lock whatever is raised in them, and at whatever line.

A signal handler, a test's timeout or a debugger may raise between any two lines, also in the lines that
clean up. `threading.Condition` and `Event` enter and leave their lock in Python code, so such an exception can
leave it locked forever. A plain lock enters and leaves in C, and here no new line begins in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

_LOCKS: Final = 16
"""How many locks the readers are spread over. Threads that share one exclude each other."""


def run_locked(lock: Any, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:  # noqa: ANN401 - Lock or RLock
    """Return what the work returns; the lock is held during the work.

    On one line: a `with` block executes its first line once more at its end, where a trace
    function may raise before the lock is released.
    """
    with lock: return work(*args, **options)  # noqa: E701  # fmt: skip


def _run_with_eight(locks: list[Any], work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what the work returns; eight locks are held during the work. On one line, as in `run_locked`."""
    a, b, c, d, e, f, g, h = locks
    with a, b, c, d, e, f, g, h: return work(*args, **options)  # noqa: E701  # fmt: skip


def locked(name: str) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Decorate a method so that the object's lock of that name is held during a call, as by `run_locked`."""

    def decorate(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        def run(self: S, *args: P.args, **options: P.kwargs) -> T:
            with getattr(self, name): return method(self, *args, **options)  # noqa: E701  # fmt: skip

        return cast("Callable[Concatenate[S, P], T]", wraps(method)(run))

    return decorate


class ReadWriteLock:
    """Protects an object that many threads use at once and one thread at a time may replace (a readers-writer lock)."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: list[Any] = [threading.RLock() for _ in range(_LOCKS)]

    def shared(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return what the work returns; nothing is replaced during the work."""
        return run_locked(self._own(), work, *args, **options)

    def alone(self, work: Callable[[], T]) -> T:
        """Return what the work returns; no other thread shares during the work."""
        locks = self._locks[::-1]  # in the order of `close`
        return _run_with_eight(locks[:8], _run_with_eight, locks[8:], work)

    def close(self, timeout_s: float) -> bool:
        """Keep all other threads out until `open`. Return whether that succeeded.

        It fails while this thread shares, or if another thread shares for the whole time.
        """
        if self.is_mine():
            return False
        until = time.monotonic() + timeout_s
        for count, lock in enumerate(reversed(self._locks)):
            if not lock.acquire(timeout=max(until - time.monotonic(), 0)):
                for closed in self._locks[_LOCKS - count :]:
                    closed.release()
                return False
        return True

    def open(self) -> None:
        """Admit other threads again."""
        for lock in self._locks:
            while lock._is_owned():  # noqa: SLF001 - as `threading.Condition` does
                lock.release()

    def is_mine(self) -> bool:
        """Return whether this thread shares, or keeps the others out."""
        return bool(self._own()._is_owned())  # noqa: SLF001 - as `threading.Condition` does

    def _own(self) -> Any:  # noqa: ANN401 - typeshed has no common name for the two lock types
        return self._locks[(threading.get_ident() >> 12) % _LOCKS]  # an identity is an address: drop its page offset
