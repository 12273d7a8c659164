"""The outbox of a runner: a bounded queue of events from any thread, written by one background thread.

An event is acknowledged once it is durable. The number of queued events and bytes is limited: a caller that
writes faster than the disk waits, and no event is dropped. Many events share one transaction. Events that
could not be written stay queued, in order and with their ids, and are retried. The error is raised by the
next call that flushes, closes, or finds no room.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rightful import limits
from rightful.errors import BacklogError, ForkedError, InvalidEventError, RightfulError, StorageError, UsageError
from rightful.log.rows import valid

if TYPE_CHECKING:
    from rightful.events.base import Event
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

Answer = Future["Receipt"]
"""Contains the receipt of an event once it is durable."""


class QueuedEvent(NamedTuple):
    """A queued event.

    Attributes:
        event: The event.
        size: The size of its body; bytes.
        answer: The future that gets its receipt.
    """

    event: Event
    size: int
    answer: Answer


class Outbox:
    """Queues events for a ledger. Threads may share it. A forked child process must not use it.

    Args:
        log: The log to write to.

    Attributes:
        log: The log to write to.
        lock: Held while an event is added.
        refused_count: The number of events that the ledger rejected although they had been checked before.
    """

    def __init__(self, log: Log) -> None:
        self.refused_count = 0
        self.log = log
        self._pid = os.getpid()
        self.lock = threading.RLock()  # acquired in C, so an exception cannot leave it locked; a Condition is not
        self._changed = threading.Condition(self.lock)
        self._waiting: deque[QueuedEvent] = deque()
        self._bytes = 0
        self._queued_count = self._settled_count = 0
        self._error: BaseException | None = None
        self._attempts = self._failed_attempt = 0  # the number of attempts, and the last attempt that failed
        self._is_writing = self._is_urged = self._is_stopped = False
        self._thread: threading.Thread | None = None
        _open.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process created the outbox; False in a forked child."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raise `ForkedError` in a forked child process."""
        if not self.is_ours:
            raise ForkedError(self.log.path)

    @contextmanager
    def room(self, size: int, timeout_s: float | None) -> Iterator[None]:
        """Wait for room, and lock the outbox while an event is added.

        Args:
            size: The size of the event to add; bytes.
            timeout_s: How long to wait; seconds. None waits without a limit.

        Raises:
            BacklogError: There was no room before the timeout.
            StorageError: There is no room, because another attempt to write the queued events failed.
        """
        with self.lock:
            self._wait_until(lambda: not self._is_full(size), timeout_s, "this event was not accepted")
            yield

    def put(self, event: Event, size: int) -> Answer:
        """Queue an event. Call it within `room`, or with the lock held."""
        answer: Answer = Future()
        answer.set_running_or_notify_cancel()  # a queued event is always written, so it cannot be cancelled
        self._waiting.append(QueuedEvent(event, size, answer))
        self._bytes += size
        self._queued_count += 1
        self._changed.notify_all()
        self._start()
        return answer

    def flush(self, timeout_s: float | None) -> None:
        """Return once all events queued before the call are durable.

        Raises:
            BacklogError: The timeout passed. The events are still being written.
            StorageError: Events could not be written. They stay queued, and the next flush retries.
        """
        with self.lock:
            count, what = self._queued_count, "they remain queued and are written as soon as possible"
            self._wait_until(lambda: self._settled_count >= count, timeout_s, what)

    def drop_queued(self, timeout_s: float | None) -> list[QueuedEvent]:
        """Drop the queued events, and return them.

        Raises:
            BacklogError: The events were still being written at the timeout. None was dropped.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self.lock:
            while self._is_writing:
                self._wait(until, timeout_s, "events that are being written cannot be dropped")
            left = list(self._waiting)
            self._waiting.clear()
            self._bytes, self._error = 0, None
            self._settled_count = self._queued_count
        for waiting in left:
            waiting.answer.set_exception(StorageError("the event was dropped", "It was not written."))
        return left

    def stop(self, *, wait: bool) -> None:
        """End the writer thread once the queue is empty."""
        if not self.is_ours:
            return
        with self.lock:
            self._is_stopped = True
            self._changed.notify_all()
            thread = self._thread
        if wait and thread is not None:
            thread.join()
        if wait:
            _open.discard(self)

    def drain(self, timeout_s: float) -> None:
        """Write the queued events when the ledger is closed or the program ends, and warn if that fails."""
        if not self.is_ours:
            return
        try:
            self.flush(timeout_s)
        except RightfulError as error:
            warnings.warn(f"{len(self._waiting)} event(s) were not written: {error}", RuntimeWarning, stacklevel=1)

    def _is_full(self, size: int) -> bool:
        is_over = len(self._waiting) >= limits.OUTBOX_EVENTS or self._bytes + size > limits.OUTBOX_BYTES
        return is_over and bool(self._waiting)

    def _wait_until(self, is_done: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Have the queue written until a condition holds. Raise the error of an attempt that began after the call."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        attempts = self._attempts
        while not is_done():
            self._is_urged = True
            self._changed.notify_all()
            if self._failed_attempt > attempts and self._error is not None:
                raise _copy_of(self._error)
            if self._thread is not None:
                self._wait(until, timeout_s, what)
            else:  # it ended with an error
                self._start()

    def _wait(self, until: float | None, timeout_s: float | None, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError("The writer thread cannot wait for itself. Nothing was done. Wait in another thread.")
        left_s = None if until is None else until - time.monotonic()
        if (left_s is not None and left_s <= 0) or not self._changed.wait(left_s):
            raise BacklogError(self.log.path, len(self._waiting), timeout_s or 0.0, what)

    def _start(self) -> None:
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="rightful outbox", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down and cannot start threads
            self._thread = None
            self._write()

    def _run(self) -> None:
        try:
            self._write_until_stopped()
        except BaseException as error:
            with self.lock:  # raised to the waiting callers; the events stay queued for the next call
                self._thread, self._error = None, error
                self._attempts += 1
                self._failed_attempt = self._attempts
                self._changed.notify_all()
            raise

    def _write_until_stopped(self) -> None:
        while True:
            with self.lock:
                while not self._waiting and not self._is_stopped:
                    self._changed.wait()
                if not self._waiting:
                    return
            if not self._write():
                with self.lock:
                    self._changed.wait_for(lambda: self._is_urged, limits.OUTBOX_AGAIN_S)

    def _write(self) -> bool:
        """Write one transaction's worth of events, and return whether that succeeded."""
        with self.lock:
            batch = self._batch()
            self._is_writing, self._is_urged = True, False
            self._attempts += 1
        receipts: list[Receipt] = []
        error: BaseException | None = None
        try:
            receipts = self.log.append([waiting.event for waiting in batch])
        except BaseException as raised:  # noqa: BLE001 - any error is raised to the waiting callers
            error = raised
        for queued, receipt in zip(batch, receipts, strict=False):
            _settle(queued, receipt)
        with self.lock:
            self._is_writing, self._error = False, error
            self._failed_attempt = self._attempts if error is not None else self._failed_attempt
            for _ in receipts:
                self._bytes -= self._waiting.popleft().size
            self._settled_count += len(receipts)
            self.refused_count += sum(receipt.outcome == "invalid" for receipt in receipts)
            self._changed.notify_all()
        return error is None

    def _batch(self) -> list[QueuedEvent]:
        found: list[QueuedEvent] = []
        size = 0
        for waiting in self._waiting:
            if found and (len(found) >= limits.INGEST_EVENTS or size + waiting.size > limits.INGEST_BYTES):
                break
            found.append(waiting)
            size += waiting.size
        return found


def _settle(queued: QueuedEvent, receipt: Receipt) -> None:
    """Complete a future. A callback's `BaseException` must not end the thread that other callers wait for."""
    try:
        try:
            queued.answer.set_result(valid(receipt))
        except InvalidEventError as error:
            queued.answer.set_exception(error)
    except BaseException:  # noqa: BLE001 - reported like an uncaught exception of a thread
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _copy_of(error: BaseException) -> RightfulError:
    if isinstance(error, RightfulError):
        copy: RightfulError = type(error)(*error.args)
    else:
        why = f"the queue could not be written ({type(error).__name__}: {error})"
        copy = StorageError(why, "It is kept; try again.")
    copy.__cause__ = error
    return copy


_open: weakref.WeakSet[Outbox] = weakref.WeakSet()


@atexit.register
def drain(log: Log | None = None) -> None:
    """Write the queued events for a log, or for all logs: no other process can write them later."""
    for outbox in list(_open):
        if log is None or outbox.log is log:
            outbox.drain(limits.OUTBOX_EXIT_S)
