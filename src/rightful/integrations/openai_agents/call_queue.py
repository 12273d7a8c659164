"""A queue for the calls of a session, made one after the other and off the event loop.

An `asyncio.Lock` belongs to one event loop, but a session may be used from several loops and threads. So each
session has its own queue, which is processed by threads that all sessions share. A read that has nothing to wait
for can bypass the queue.

`ThreadPoolExecutor` and `concurrent.futures.Future` would work too, but their additional bookkeeping measurably
slows each append.
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
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from rightful import limits
from rightful.storage.critical_sections import run_locked

T = TypeVar("T")

_GLANCE_S = 0.05
"""The interval of checks that a new thread is alive, until it has begun; seconds."""


class _SessionThread(threading.Thread):
    """A thread that makes calls of sessions, and nothing else: only its own work can raise in it."""


def in_session_thread() -> bool:
    """Return whether the calling thread makes calls of sessions and nothing else, so that it may commit inline."""
    return isinstance(threading.current_thread(), _SessionThread)


class _Threads:
    """The threads of this process. A forked child has none of its parent's threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._all: list[threading.Thread] = []
        self._free = 0  # threads that wait for work, less the work that waits for a thread
        self._is_open = True

    def start(self, work: Callable[[], None]) -> None:
        """Do the work in a thread, when one is free. If an exception from outside interrupts it, it is done again.

        Raises:
            RuntimeError: No thread is available: the system refuses more, or the interpreter is shutting down.
        """
        run_locked(self._lock, self._start, work)

    def _start(self, work: Callable[[], None]) -> None:
        if not self._is_open:
            raise RuntimeError("the interpreter is shutting down")
        if self._free <= 0 and len(self._all) < limits.SESSION_THREADS:
            self._add()
        self._free -= 1
        self._work.put(work)

    def _add(self) -> None:
        begun = threading.Lock()
        begun.acquire()
        name = f"rightful-session-{len(self._all)}"
        thread = _SessionThread(target=self._run, args=(begun,), name=name, daemon=True)
        try:
            thread.start()
            while not begun.acquire(timeout=_GLANCE_S):
                if not thread.is_alive():
                    raise RuntimeError("the thread ended before it started its work")  # noqa: TRY301 - handled like a failed start
        except RuntimeError:
            if not self._all:
                raise
            return  # an existing thread does the work later
        self._all.append(thread)
        self._free += 1

    def _run(self, begun: threading.Lock) -> None:
        mine: list[Callable[[], None] | None] = []
        while True:
            try:
                if begun.locked():
                    begun.release()
                while self._serves(mine):
                    pass
                return  # noqa: TRY300 - an exception may come here too
            except BaseException:  # noqa: BLE001, S112 - thrown into the thread from outside; its work is done again
                continue

    def _serves(self, mine: list[Callable[[], None] | None]) -> bool:
        """Do the next work, or repeat work that an exception interrupted. Return False at the end."""
        if not mine:
            mine.append(self._work.get())  # one line, so that no work is lost
        if mine[0] is None:
            self._work.put(None)  # for a thread in no list, because Ctrl-C interrupted its start
            return False
        mine[0]()
        run_locked(self._lock, self._freed, mine)
        return True

    def _freed(self, mine: list[Callable[[], None] | None]) -> None:
        mine.clear()
        self._free += 1

    def end(self) -> None:
        """Wait for the calls in progress before the interpreter exits."""
        run_locked(self._lock, self._end)
        for thread in self._all:
            thread.join()

    def _end(self) -> None:
        self._is_open = False
        for _ in self._all:
            self._work.put(None)


_threads = _Threads()
atexit.register(_threads.end)
if hasattr(os, "register_at_fork"):
    for _ in range(2):  # Python ignores exceptions in a callback; then the second one completes the work
        os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


class Call(Generic[T]):
    """A queued call, and its future outcome.

    Attributes:
        is_done: Whether it has an outcome.
    """

    __slots__ = ("_callbacks", "_error", "_has_result", "_is_begun", "_result", "_work", "is_done")

    def __init__(self, work: Callable[[], T]) -> None:
        self.is_done = self._is_begun = self._has_result = False
        self._work: Callable[[], T] | None = work
        self._result: T
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], object]] = []

    def withdraw(self) -> None:
        """Cancel it if it has not begun."""
        self._work = None

    def run(self) -> None:
        """Make the call, or skip it if it was withdrawn. After an exception from outside it is not made again."""
        if self._has_result or self._error is not None:
            return
        try:
            work, self._work = self._work, None
            if work is not None:
                self._is_begun = True
                self._result, self._has_result = work(), True  # one line, so that no result is lost
                return
            self._error = InterruptedError("the call was interrupted") if self._is_begun else asyncio.CancelledError()
        except BaseException as error:  # noqa: BLE001 - raised to the caller; the queue continues
            self._error = error

    def run_callbacks(self) -> None:
        """Call the registered callbacks; all of them again after an exception interrupted that."""
        self.is_done = True
        for callback in self._callbacks:
            with contextlib.suppress(Exception):  # a failing callback, such as of a closed loop, must not block others
                callback()

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call a function once there is an outcome, in the queue's thread or at once; in a race, it is called twice."""
        self._callbacks.append(callback)  # first: an outcome in between is seen below, or its thread sees the callback
        if self.is_done:
            callback()

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the outcome (this many seconds), and return the call's result or raise its exception.

        Raises:
            TimeoutError: There is no outcome yet.
        """
        if not self.is_done:
            done: SimpleQueue[None] = SimpleQueue()
            self.add_callback(lambda: done.put(None))
            try:
                done.get(timeout=timeout_s)
            except Empty:
                raise TimeoutError from None
        if self._error is not None:
            raise self._error
        return self._result


class CallQueue:
    """The calls of one session, each begun when the one before it has ended."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock, self._call_lock = threading.Lock(), threading.Lock()
        self._waiting: deque[Call[Any]] = deque()
        self._current: Call[Any] | None = None  # until its callbacks were called
        self._busy = False  # a call is queued or in progress
        self._has_thread = False  # a thread serves the queue, and checks it again before it leaves
        self._pid = os.getpid()  # last: after an exception the next call starts over

    def put(self, work: Callable[[], T]) -> Call[T]:
        """Add a call to the queue and return it. A call that is withdrawn before it has begun is skipped."""
        if self._pid != os.getpid():  # a fork has none of the threads that its parent's calls wait for
            self._begin()
        call = Call(work)
        try:
            if not run_locked(self._lock, self._add, call):
                self._start()
            return call  # noqa: TRY300 - an exception here must be handled too
        except BaseException:
            self._has_thread = False  # a thread may have been started; a second one does no harm
            call.withdraw()
            self._start()  # calls of other threads may rely on it
            raise

    def _add(self, call: Call[Any]) -> bool:
        """Add a call, and return whether a thread already serves the queue."""
        self._waiting.append(call)
        self._busy, has_thread, self._has_thread = True, self._has_thread, True
        return has_thread

    def now(self, work: Callable[[], T]) -> T | None:
        """Make a call at once in the caller's thread. Return None if another call is queued or in progress.

        After an exception in a signal handler the queue may still seem busy until the next `put`.
        """
        if self._pid != os.getpid() or not run_locked(self._lock, self._is_free):
            return None
        try:
            return run_locked(self._call_lock, work)  # a thread that failed to start may still appear
        finally:
            run_locked(self._lock, self._update_busy)

    def _is_free(self) -> bool:
        """Return whether no call is queued or in progress, and mark the queue as busy."""
        is_free = not self._busy
        self._busy = True
        return is_free

    def _start(self) -> None:
        try:
            _threads.start(self._run_calls)
        except RuntimeError:  # no thread is available, for example at interpreter exit: run it here
            self._run_calls()

    def _run_calls(self) -> None:
        """Make the queued calls and run their callbacks, first those of a call that an exception interrupted."""
        while (call := run_locked(self._call_lock, self._run_first)) is not None:
            call.run_callbacks()  # the callbacks find the queue free if no other call is queued
            if self._current is call:
                self._current = None
            del call  # release its result before the next call is made

    def _run_first(self) -> Call[Any] | None:
        """Make the first queued call and return it, before its callbacks are called; None if the queue is empty."""
        call = run_locked(self._lock, self._next)
        if call is not None:
            call.run()
            run_locked(self._lock, self._update_busy)
        return call

    def _next(self) -> Call[Any] | None:
        if self._current is None and self._waiting:
            self._current = self._waiting.popleft()
        self._has_thread = self._current is not None
        return self._current

    def _update_busy(self) -> None:
        self._busy = bool(self._waiting)


async def wait_until_done(call: Call[T]) -> T:
    """Wait for the outcome of a write, even if the caller is cancelled; raise the cancellation afterwards.

    Otherwise a caller could continue as if nothing had been written (openai-agents-python#1658).
    """
    cancelled: asyncio.CancelledError | None = None
    while not call.is_done:
        try:
            await _future_of(call)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    return call.result()


async def wait_unless_cancelled(call: Call[T]) -> T:
    """Wait for a call that only reads. If the caller is cancelled before the call has begun, it is skipped."""
    try:
        await _future_of(call)
    except asyncio.CancelledError:
        call.withdraw()
        raise
    return call.result()


def _future_of(call: Call[Any]) -> asyncio.Future[None]:
    """Return a future that is done when there is an outcome. Cancelling it does not cancel the call."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not future.done():
            future.set_result(None)

    call.add_callback(partial(loop.call_soon_threadsafe, end))
    return future
