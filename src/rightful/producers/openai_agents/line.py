"""One call after the other: the calls of a session, off the event loop, in the order in which they were made.

An `asyncio.Lock` belongs to one event loop. A session may be used from several, and from threads; so its calls
wait in a line of its own, which threads shared by all sessions work off. One that has nothing
to wait for need not go there.

`ThreadPoolExecutor` and `concurrent.futures.Future` would do; they note more than anybody asks here, which
was measured to slow each append.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from rightful import limits
from rightful.recorders.writer import serve_here

T = TypeVar("T")


class _Threads:
    """The threads of this process; a fork has none of its parent's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._all: list[threading.Thread] = []
        self._free = 0  # threads that wait for work, less the work that waits for a thread
        self._is_open = True

    def start(self, work: Callable[[], None]) -> None:
        """Have a thread do it, when one is free.

        Raises:
            RuntimeError: None is to be had: the system gives no more, or the interpreter ends.
        """
        with self._lock:
            if not self._is_open:
                raise RuntimeError("the interpreter ends")
            if self._free <= 0 and len(self._all) < limits.SESSION_THREADS:
                self._add()
            self._free -= 1
            self._work.put(work)

    def _add(self) -> None:
        thread = threading.Thread(target=self._run, name=f"rightful-session-{len(self._all)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._all:
                raise
            return  # one that is there does it after its own
        self._all.append(thread)
        self._free += 1

    def _run(self) -> None:
        serve_here()
        while (work := self._work.get()) is not None:
            work()
            del work
            with self._lock:
                self._free += 1

    def end(self) -> None:
        """Let what was begun end before the interpreter does."""
        with self._lock:
            self._is_open = False
            for _ in self._all:
                self._work.put(None)
        for thread in self._all:
            thread.join()


_threads = _Threads()
atexit.register(_threads.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


class Call(Generic[T]):
    """A call in a line, and its outcome to come.

    Attributes:
        is_done: Whether it has an outcome.
    """

    __slots__ = ("_error", "_lock", "_result", "_tells", "_work", "is_done")

    def __init__(self, work: Callable[[], T], lock: threading.Lock) -> None:
        self.is_done = False
        self._work: Callable[[], T] | None = work
        self._lock = lock
        self._result: T
        self._error: BaseException | None = None
        self._tells: list[Callable[[], object]] = []

    def withdraw(self) -> None:
        """Leave it out if it has not begun; its outcome is that it was cancelled."""
        with self._lock:
            self._work = None

    def make(self) -> None:
        """Make it, or leave it out."""
        with self._lock:
            work, self._work = self._work, None
        if work is None:
            self._error = asyncio.CancelledError()
            return
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001 - the caller gets it, the line goes on
            self._error = error

    def tell(self) -> None:
        """Say that it has an outcome now."""
        with self._lock:
            self.is_done = True
        for tell in self._tells:
            with contextlib.suppress(Exception):  # who cannot be told, his loop being closed, keeps nobody waiting
                tell()

    def then(self, tell: Callable[[], object]) -> None:
        """Have a function called once there is an outcome: by the line's thread, or at once."""
        with self._lock:
            if not self.is_done:
                self._tells.append(tell)
                return
        tell()

    def result(self, timeout_s: float = -1) -> T:
        """Wait for the outcome, and return what was returned or raise what was raised.

        Args:
            timeout_s: How long; seconds. For ever if negative.

        Raises:
            TimeoutError: There is none yet.
        """
        if not self.is_done:
            told = threading.Lock()
            told.acquire()
            self.then(told.release)
            if not told.acquire(timeout=timeout_s):
                raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._result


class Line:
    """The calls of one session, each begun when the one before it has ended."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._waiting: deque[Call[Any]] = deque()
        self._busy = False  # a call waits, or is at work
        self._manned = False  # a thread is there, and looks again before it leaves

    def put(self, work: Callable[[], T]) -> Call[T]:
        """Add a call to the line and return it. One that is withdrawn before it has begun is left out."""
        if self._pid != os.getpid():  # a fork has none of the threads that its parent's calls wait for
            self._begin()
        call = Call(work, self._lock)
        with self._lock:
            self._waiting.append(call)
            self._busy, manned, self._manned = True, self._manned, True
        if not manned:
            self._start()
        return call

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
        while (call := self._make_one()) is not None:
            call.tell()  # who hears it finds the line free, if no other call waits
            del call  # and what it tells is not kept while the next one is made

    def _make_one(self) -> Call[Any] | None:
        """Make the call that waits first and return it, its outcome untold; None if none waits."""
        with self._turn:
            with self._lock:
                if not self._waiting:
                    self._manned = False
                    return None
                call = self._waiting.popleft()
            call.make()
            self._go_on()
            return call

    def _go_on(self) -> None:
        with self._lock:
            self._busy = bool(self._waiting)


async def settled(call: Call[T]) -> T:
    """Wait until it is known what a write did, however often the caller is cancelled; only then let it be cancelled.

    Otherwise a caller could go on as if nothing had been written while it was (openai-agents-python#1658).
    """
    cancelled: asyncio.CancelledError | None = None
    while not call.is_done:
        try:
            await _told(call)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    return call.result()


async def answered(call: Call[T]) -> T:
    """Wait for what a call only reads. If the caller is cancelled before it has begun, it is left out."""
    try:
        await _told(call)
    except asyncio.CancelledError:
        call.withdraw()
        raise
    return call.result()


def _told(call: Call[Any]) -> asyncio.Future[None]:
    """Return what ends when there is an outcome. To cancel it does not cancel the call."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    call.then(partial(loop.call_soon_threadsafe, tell))
    return told
