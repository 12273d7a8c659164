"""The writer thread: callers queue their requests, it acquires the write lock, and one commit serves them all.

A write transaction of LMDB may not leave its thread, and waiting for the write lock of another process
cannot be interrupted. So the writer thread does both, and a caller can stop waiting. A request is *claimed*
once: by the writer, which then runs it, or by the caller, which withdraws it and knows that it will never run.

A caller without a time limit would only wait while the writer thread works. Such a caller may commit `inline`,
in its own thread. If it would have to wait for the write lock, its request is queued like any other.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

import lmdb
from eventsourcing.dcb.api import DCBEvent

from rightful import limits
from rightful.errors import BusyError, ClosedError, ForkedError, OutcomeUnknownError, StorageError
from rightful.storage.critical_sections import locked, run_locked
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.locks import WriteLock
from rightful.storage.transaction import SpoiledError, UnclearError

_CHECK_READERS_EVERY: Final = 256
"""Commits between two checks for reader slots of dead processes."""

_WATCH_S: Final = 1.0
"""How often a waiting caller checks that the writer thread is alive; seconds.

This does not poll for the write lock, and most commits end before the first check. A debugger or a test's timeout
may raise an exception in the thread at any bytecode (`PyThreadState_SetAsyncExc`), even in `threading` before our
code runs. Then no handler or event of ours is certain to run, and a caller without a timeout would wait forever.
"""


class Request:
    """One caller's work, its claim and its outcome.

    Attributes:
        work: What to do; the committer knows how.
        claim: Acquired by the writer to run it, or by the caller to withdraw it.
        done: Locked until there is an outcome.
        result: What the work returned.
        error: What the work raised.
        events: The events it writes, for the error that reports their outcome as unknown.
    """

    __slots__ = ("claim", "done", "error", "events", "result", "work")

    def __init__(self, work: Any) -> None:  # noqa: ANN401 - each committer has its own
        self.work = work
        self.claim = threading.Lock()
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.events: Sequence[DCBEvent] = ()

    def ids(self) -> tuple[str, ...]:
        """Return the ids of its events, as far as their tags contain them."""
        return tuple(tag[3:] for event in self.events for tag in event.tags if tag.startswith("id:"))


class Committer(Protocol):
    """What a kind of store does while it has the write lock."""

    def begin(self) -> None:
        """Read the current state of the store."""

    def apply(self, request: Request) -> Any:  # noqa: ANN401 - as the work
        """Do one caller's work and return its result."""

    def spoiled(self) -> bool:
        """Return whether the work that just failed had begun to write."""

    def commit(self) -> None:
        """Write what was applied, or nothing; raises `SpoiledError` or `UnclearError`."""

    def abandon(self) -> None:
        """Write nothing of what was applied."""

    def sync(self) -> None:
        """Sync everything that the answers rely on, after the write lock was released."""


class CommitSignal:
    """Notifies waiting threads of this process about commits.

    It has no lock, which a waiting thread that an exception interrupts could leave locked.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: list[threading.Lock] = []  # each is locked until the next commit
        self.count = 0

    def announce(self) -> None:
        """Wake all waiting threads."""
        self.count = next(self._numbers)
        while self._waiting:
            with contextlib.suppress(IndexError, RuntimeError):  # another thread woke it already
                self._waiting.pop().release()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait until the count differs from `seen`, or the time limit passes."""
        commit_signal = threading.Lock()
        commit_signal.acquire()
        self._waiting.append(commit_signal)
        if self.count == seen:
            commit_signal.acquire(timeout=timeout_s)
        with contextlib.suppress(ValueError):
            self._waiting.remove(commit_signal)


class Writer:
    """The writer of one environment in this process.

    Attributes:
        commit_signal: Where its commits are announced.
    """

    def __init__(self, env: Environment, committer: Committer, commit_signal: CommitSignal) -> None:
        self.commit_signal = commit_signal
        self._env = env
        self._committer = committer
        self._queue: SimpleQueue[Request] = SimpleQueue()
        self._end = Request(None)  # the last request in the queue, once the store is closed
        self._queue_lock = threading.Lock()
        self._is_open = True
        self._thread: threading.Thread | None = None
        self._batch: list[Request] = []  # taken from the queue and not yet answered
        self._write_lock = WriteLock(env.root)
        self._turn_lock = threading.Lock()  # held by the thread that has the write lock, or waits for it
        self._commit_lock = threading.RLock()  # held while it has the write lock, and until everything is synced
        self._last_batch_size = 1
        self._commits = 0

    # -- the callers' side -----------------------------------------------------------------

    def submit(self, work: Any, timeout_s: float | None, *, inline: bool = False) -> Any:  # noqa: ANN401 - each committer has its own
        """Queue the work, wait, and return its result or raise its error.

        Args:
            work: The work.
            timeout_s: How long to wait; seconds. None waits forever.
            inline: Commit in the calling thread if the write lock is free; as `LedgerRecorder.decide`.

        Raises:
            BusyError: The time limit passed before the work began. It will never run.
            OutcomeUnknownError: The time limit passed during the commit.
            ClosedError: The store was closed before the work began.
        """
        if self._env.pid != os.getpid():
            raise ForkedError(str(self._env.root))
        request = Request(work)
        if not (inline and self._committed_inline(request)):
            self._put(request)
            self._wait(request, timeout_s)
        if request.error is not None:
            raise request.error
        return request.result

    def _committed_inline(self, request: Request) -> bool:
        """Do the work in the caller's thread if no other caller writes or waits; return whether it was done."""
        batch, has_lock, is_served = [request], False, False
        try:
            has_lock = self._turn_lock.acquire(blocking=False)
            if has_lock and self._is_open and self._last_batch_size < 2 and self._queue.empty():  # noqa: PLR2004 - else it would linger
                is_served = self._run_turn(batch, waits=False)
            has_lock = has_lock and bool(self._turn_lock.release())  # type: ignore[func-returns-value]  # on one line
        except BaseException:
            if has_lock:
                self._turn_lock.release()
            raise
        if is_served:
            self._answer(batch)
        return is_served

    @locked("_queue_lock")
    def _put(self, request: Request) -> None:
        if not self._is_open:
            raise ClosedError(str(self._env.root))
        if self._thread is None or not self._thread.is_alive():
            self._thread = self._started_thread(str(self._env.root))
        self._queue.put(request)

    @locked("_queue_lock")
    def _restart_thread(self) -> None:
        """Replace the writer thread if an exception from outside has ended it."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = self._started_thread(str(self._env.root))

    def _started_thread(self, path: str) -> threading.Thread:
        thread = threading.Thread(target=self._loop, name="rightful-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StorageError(f"no writer thread could be started for {path} ({error})") from error
        return thread

    def _wait(self, request: Request, timeout_s: float | None) -> None:
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not request.done.acquire(timeout=max(min(until - time.monotonic(), _WATCH_S), 0)):
                if time.monotonic() >= until:
                    break
                self._restart_thread()
            else:
                return
        except BaseException:
            request.claim.acquire(blocking=False)
            raise
        if request.claim.acquire(blocking=False):
            raise BusyError(str(self._env.root), timeout_s or 0)
        if not request.done.acquire(blocking=False):
            raise OutcomeUnknownError(str(self._env.root), request.ids(), f"not committed within {timeout_s:g} s")

    def stop(self) -> None:
        """Accept no more requests, finish the current ones, refuse the queued ones."""
        thread = self._close_queue()
        if thread is None or not thread.is_alive():
            run_locked(self._turn_lock, self._write_lock.close)
        elif thread is not threading.current_thread():
            run_locked(self._commit_lock, bool)  # the thread may stay queued for the write lock; then it only leaves

    @locked("_queue_lock")
    def _close_queue(self) -> threading.Thread | None:
        self._is_open = False
        self._queue.put(self._end)
        return self._thread

    def forget(self) -> None:
        """Close the lock files in the child of a fork, without unlocking them."""
        self._is_open = False
        self._write_lock.close()

    # -- the thread's side -----------------------------------------------------------------

    def _loop(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = self._process_next()
            except BaseException as error:  # noqa: BLE001 - the callers get it, the thread continues
                self._report_unknown(self._batch, error)
                self._answer(self._batch)
        self._refuse_queued()
        run_locked(self._turn_lock, self._write_lock.close)

    def _process_next(self) -> bool:
        """Process the queued requests; return False once the store was closed."""
        self._batch.append(self._queue.get())  # on one line, so that none is lost
        if self._batch[0] is self._end:
            self._batch.clear()
            return False
        run_locked(self._turn_lock, self._run_turn, self._batch, waits=True)
        self._answer(self._batch)
        return True

    def _run_turn(self, batch: list[Request], *, waits: bool) -> bool:
        """Process the requests. Return False if the write lock was not available."""
        is_locked = False
        try:
            if self._last_batch_size > 1:  # a lone caller never waits
                self._linger(batch)
            is_locked = self._write_lock.acquire(waits=waits)
            if is_locked:
                self._commit_and_sync(batch)
            return is_locked  # noqa: TRY300 - an exception at any line after the work must be caught here
        except BaseException as error:  # noqa: BLE001 - the callers get it, the thread continues
            if isinstance(error, OSError) and not is_locked:
                for request in batch:
                    request.error = storage_error(self._env.root, error)
            self._report_unknown(batch, error)
            self._env.thread = None
            self._committer.abandon()
            self._write_lock.clear()
            return True

    def _linger(self, batch: list[Request]) -> None:
        """Wait briefly for the callers of the last commit, which usually write again (group commit)."""
        until = time.monotonic() + limits.LINGER_S
        while len(batch) < self._last_batch_size and (left := until - time.monotonic()) > 0:
            try:
                batch.append(self._queue.get(timeout=left))
            except Empty:
                return
            if batch[-1] is self._end:
                self._queue.put(batch.pop())
                return

    @locked("_commit_lock")
    def _commit_and_sync(self, batch: list[Request]) -> None:
        """Commit the requests, release the write lock, sync."""
        if self._is_open:
            self._collect(batch)
            self._env.thread = threading.get_ident()
            run_locked(self._env.write_gate, self._commit_together, batch)
            self._env.thread = None
            self._write_lock.release()
            self._make_durable(batch)
        else:
            self._write_lock.release()
            for request in batch:
                request.error = ClosedError(str(self._env.root))

    def _collect(self, batch: list[Request]) -> None:
        """Add the queued requests, and claim them; one that its caller withdrew is dropped."""
        while not self._queue.empty():
            batch.append(self._queue.get())
            if batch[-1] is self._end:
                self._queue.put(batch.pop())
                break
        batch[:] = [request for request in batch if request.claim.acquire(blocking=False)]
        self._last_batch_size = len(batch)

    def _commit_together(self, batch: list[Request]) -> None:
        """Commit all requests together; if one spoils that, each alone."""
        try:
            self._commit_once(batch)
        except SpoiledError as spoiled:
            if len(batch) == 1:
                batch[0].error = spoiled.__cause__
            else:
                for request in batch:
                    request.error = None
                    self._commit_together([request])
        except BaseException as error:  # noqa: BLE001 - the caller gets it, the thread continues
            for request in batch:
                request.error = request.error or error

    def _commit_once(self, batch: list[Request]) -> None:
        if not batch:
            return
        committer = self._committer
        try:
            committer.begin()
            self._apply(batch)
        except BaseException as error:  # noqa: BLE001 - the callers get it, as the cause
            committer.abandon()
            cause = storage_error(self._env.root, error) if isinstance(error, lmdb.Error | OSError) else error
            raise SpoiledError from cause
        try:
            committer.commit()
        except SpoiledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the callers get it, the thread continues
            committer.abandon()
            self._report_unknown(batch, error)
        else:
            self._commits += 1
            if self._commits % _CHECK_READERS_EVERY == 0:
                with contextlib.suppress(lmdb.Error):
                    self._env.check_readers()

    def _apply(self, batch: list[Request]) -> None:
        committer = self._committer
        for request in batch:
            try:
                request.result = committer.apply(request)
            except lmdb.Error:
                raise
            except BaseException as error:
                if committer.spoiled():
                    raise
                request.error = error

    def _make_durable(self, batch: list[Request]) -> None:
        """Sync what was written, and everything else that the answers rely on.

        The write lock is released before that, so that another process prepares its commit meanwhile. It may
        read our rows by then; its own sync makes ours durable too.
        """
        if not batch:
            return
        try:
            self._committer.sync()
        except BaseException as error:  # noqa: BLE001 - the caller gets it, the thread continues
            self._report_unknown(batch, error)

    def _report_unknown(self, batch: list[Request], error: BaseException) -> None:
        why = str(error) if isinstance(error, UnclearError) else f"{type(error).__name__}: {error}"
        for request in batch:
            if request.error is None:
                request.error = OutcomeUnknownError(str(self._env.root), request.ids(), why)

    def _answer(self, batch: list[Request]) -> None:
        self.commit_signal.announce()  # first: a woken caller needs the interpreter at once
        while batch:
            batch.pop(0).done.release()

    def _refuse_queued(self) -> None:
        while not self._queue.empty():
            request = self._queue.get()
            request.error = ClosedError(str(self._env.root))
            request.done.release()


CommitterMaker = Callable[[Environment], Committer]
