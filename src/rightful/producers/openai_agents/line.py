"""One call after the other: the calls of a session, off the event loop, in the order in which they were made.

An `asyncio.Lock` belongs to one event loop. A session may be used from several, and from threads; so its calls
wait in a line of its own, which threads shared by all sessions work off. One that has nothing
to wait for need not go there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from rightful import limits

T = TypeVar("T")


class _Threads:
    """The threads of this process; a fork has none of its parent's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(limits.SESSION_THREADS, thread_name_prefix="rightful-session")
            self._pool.submit(work)


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


class Line:
    """The calls of one session, each begun when the one before it has ended."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._busy = False  # a call waits, or is at work
        self._manned = False  # a thread is there, and looks again before it leaves

    def put(self, work: Callable[[], T]) -> Future[T]:
        """Add a call to the line and return its outcome to come. A cancelled one that has not begun is left out."""
        outcome: Future[T] = Future()
        if self._pid != os.getpid():  # a fork has none of the threads that its parent's calls wait for
            self._begin()
        with self._lock:
            self._waiting.append((work, outcome))
            self._busy, manned, self._manned = True, self._manned, True
        if not manned:
            self._start()
        return outcome

    def now(self, work: Callable[[], T]) -> T | None:
        """Make a call at once, in the caller's thread, if no other waits or is at work; None else."""
        if self._pid != os.getpid():
            return None
        with self._lock:
            if self._busy:
                return None
            self._busy = True
        try:
            with self._turn:  # a thread that could not be had may have come all the same
                return work()
        finally:
            self._go_on()

    def _start(self) -> None:
        try:
            _threads.start(self._work_off)
        except RuntimeError:  # no thread is to be had, as when the interpreter ends: the caller does it itself
            self._work_off()

    def _work_off(self) -> None:
        while (tell := self._work_one_off()) is not None:
            tell()  # who hears it finds the line free, if no other call waits
            del tell  # and what it tells is not kept while the next one is made

    def _work_one_off(self) -> Callable[[], object] | None:
        """Make the call that waits first and return what tells its outcome; None if none waits."""
        with self._turn:
            with self._lock:
                if not self._waiting:
                    self._manned = False
                    return None
                work, outcome = self._waiting.popleft()
            try:
                return _made(work, outcome)
            finally:
                self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            self._busy = bool(self._waiting)


def _made(work: Callable[[], T], outcome: Future[T]) -> Callable[[], object]:
    """Make a call that was not cancelled before, and return what tells its outcome."""
    if not outcome.set_running_or_notify_cancel():
        return outcome.cancelled
    try:
        return partial(outcome.set_result, work())
    except BaseException as error:  # noqa: BLE001 - the caller gets it, the line goes on
        return partial(outcome.set_exception, error)


async def settled(outcome: Future[T]) -> T:
    """Wait until it is known what a write did, however often the caller is cancelled; only then let it be cancelled.

    Otherwise a caller could go on as if nothing had been written while it was (openai-agents-python#1658).
    """
    cancelled: asyncio.CancelledError | None = None
    while not outcome.done():
        try:
            await _told(outcome)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    return outcome.result()


def _told(outcome: Future[Any]) -> asyncio.Future[None]:
    """Return what ends when there is an outcome. To cancel it does not cancel the call, as in `asyncio.wrap_future`."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    def from_its_thread(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(tell)

    outcome.add_done_callback(from_its_thread)
    return told
