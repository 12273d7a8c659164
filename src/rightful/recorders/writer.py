"""The thread that writes: callers queue, it takes the turn, and one commit serves them all.

A write transaction of LMDB may not leave its thread, and waiting for another process's turn
cannot be given up. So both are this thread's, while the caller can. A caller's work is
*claimed* once, by whoever is first: the writer, which then runs it, or the caller, who
then withdraws it and knows that it will never be run.

A thread that only writes, and that nobody waits for with a limit, would do nothing while the writer
works. So it may have its own turns (`serve_here`); only where it would have to wait for
the turn, it queues like everybody else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

import lmdb
from eventsourcing.dcb.api import DCBEvent

from rightful import limits
from rightful.errors import BusyError, ClosedError, ForkedError, OutcomeUnknownError, StorageError
from rightful.recorders.environment import Environment
from rightful.recorders.faults import storage_error
from rightful.recorders.locks import Turnstile
from rightful.recorders.transaction import SpoiledError, UnclearError

_CHECK_READERS_EVERY: Final = 256
"""Commits between two looks for slots of dead readers."""


class Request:
    """One caller's work, its claim and its outcome.

    Attributes:
        work: What to do; the session knows how.
        claim: Taken by the writer to run it, or by the caller to withdraw it.
        done: Locked until there is an outcome.
        result: What it returned.
        error: What it raised.
        events: The events it writes, for the error that says that their outcome is unknown.
    """

    __slots__ = ("claim", "done", "error", "events", "result", "work")

    def __init__(self, work: Any) -> None:  # noqa: ANN401 - each session has its own
        self.work = work
        self.claim = threading.Lock()
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.events: Sequence[DCBEvent] = ()

    def ids(self) -> tuple[str, ...]:
        """Return the ids of its events, as far as their tags say."""
        return tuple(tag[3:] for event in self.events for tag in event.tags if tag.startswith("id:"))


class Session(Protocol):
    """What a kind of store does in a turn."""

    def begin(self) -> None:
        """Look at where the store stands."""

    def apply(self, request: Request) -> Any:  # noqa: ANN401 - as the work
        """Do one caller's work and return its result."""

    def spoiled(self) -> bool:
        """Tell whether the work that just failed had begun to write."""

    def commit(self) -> None:
        """Write what was applied, or nothing; raises `SpoiledError` or `UnclearError`."""

    def abandon(self) -> None:
        """Write nothing of what was applied."""

    def settle(self) -> None:
        """Make durable what the answers rest on, when the turn is over."""


class News:
    """Tells waiting threads of this process about commits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # a handle may be collected, and so given back, within
        self._waiting = 0
        self.count = 0

    def announce(self) -> None:
        """Wake all who wait."""
        with self._changed:
            self.count += 1
            if self._waiting:
                self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait until the count differs from what was seen, or the time is over."""
        with self._changed:
            if self.count == seen:
                self._waiting += 1
                try:
                    self._changed.wait(timeout_s)
                finally:
                    self._waiting -= 1


class _ThisThread(threading.local):
    """What is so for each thread by itself."""

    serves_itself = False


_this_thread = _ThisThread()


def serve_here() -> None:
    """Let this thread do its own work from now on, where it can have the turn at once.

    For threads of ours that do nothing else: no exception may be thrown into one from outside, and once
    it has begun it waits for as long as the disk takes, whatever limit it was given. It saves four changes of threads.
    """
    _this_thread.serves_itself = True


class Writer:
    """The writer of one environment in this process.

    Attributes:
        news: Where its commits are told.
    """

    def __init__(self, env: Environment, session: Session, news: News) -> None:
        self.news = news
        self._env = env
        self._session = session
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        self._door = threading.Lock()
        self._open = True
        self._thread: threading.Thread | None = None
        self._turnstile = Turnstile(env.root)
        self._at_work = threading.Lock()  # held by the thread that has the turn, or waits for it
        self._outside = threading.Event()  # set while it touches nothing of LMDB
        self._outside.set()
        self._company = 1
        self._commits = 0

    # -- the callers' side -----------------------------------------------------------------

    def submit(self, work: Any, timeout_s: float | None) -> Any:  # noqa: ANN401 - each session has its own
        """Queue the work, wait, and return its result or raise its error.

        Raises:
            BusyError: The time was over before it was begun; it never will be.
            OutcomeUnknownError: The time was over while it was being committed.
            ClosedError: The store was closed before.
        """
        path = str(self._env.root)
        if not self._env.is_ours():
            raise ForkedError(path)
        request = Request(work)
        if not (_this_thread.serves_itself and self._is_served_here(request)):
            self._put(request)
            self._wait(request, timeout_s)
        if request.error is not None:
            raise request.error
        return request.result

    def _is_served_here(self, request: Request) -> bool:
        """Do the work in the caller's thread, if nobody else writes or waits; tell whether it was done."""
        if not self._at_work.acquire(blocking=False):
            return False
        batch = [request]
        try:
            if not self._open or self._company > 1 or not self._queue.empty():  # else it would linger for the others
                return False
            if not self._take_turn(batch, self._turnstile.try_enter):
                return False
        finally:
            self._at_work.release()
        self._tell(batch)
        return True

    def _put(self, request: Request) -> None:
        path = str(self._env.root)
        with self._door:
            if not self._open:
                raise ClosedError(path)
            if self._thread is None:
                self._thread = self._started(path)
            self._queue.put(request)

    def _started(self, path: str) -> threading.Thread:
        thread = threading.Thread(target=self._loop, name="rightful-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StorageError(f"{path} could not be given a thread to write ({error})") from error
        return thread

    def _wait(self, request: Request, timeout_s: float | None) -> None:
        try:
            if request.done.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0)):
                return
        except BaseException:
            request.claim.acquire(blocking=False)
            raise
        if request.claim.acquire(blocking=False):
            raise BusyError(str(self._env.root), timeout_s or 0)
        if not request.done.acquire(blocking=False):
            raise OutcomeUnknownError(str(self._env.root), request.ids(), f"not committed within {timeout_s:g} s")

    def stop(self) -> None:
        """Take no more work, finish what is begun, refuse what waits."""
        with self._door:
            self._open = False
            thread = self._thread
            self._queue.put(None)
        if thread is None:
            with self._at_work:
                self._turnstile.close()
        elif thread is not threading.current_thread():
            self._outside.wait()  # it may stay in the queue for the turn: it then only leaves

    def forget(self) -> None:
        """Close the lock files in the child of a fork, without unlocking them."""
        self._open = False
        self._turnstile.close()

    # -- the thread's side -----------------------------------------------------------------

    def _loop(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            with self._at_work:
                self._take_turn(batch, self._turnstile.enter)
            self._tell(batch)
        self._refuse_the_rest()
        with self._at_work:
            self._turnstile.close()

    def _take_turn(self, batch: list[Request], enter: Callable[[], bool]) -> bool:
        """Serve the callers; tell whether there was a turn to be had."""
        try:
            self._linger(batch)
            try:
                has_turn = enter()
            except OSError as error:
                self._fail(batch, storage_error(self._env.root, error))
                batch.clear()
                return True
            if not has_turn:
                return False
            try:
                self._serve(batch)
            finally:
                self._turnstile.leave()
            self._make_durable(batch)
        except BaseException as error:  # noqa: BLE001 - the callers get it, the thread goes on
            self._leave_unknown(batch, f"{type(error).__name__}: {error}")
        self._outside.set()
        return True

    def _linger(self, batch: list[Request]) -> None:
        """Wait for the callers of the last commit to come back, since they mostly do."""
        if self._company < 2:  # noqa: PLR2004 - a lone caller never waits
            return
        until = time.monotonic() + limits.LINGER_S
        while len(batch) < self._company and (left := until - time.monotonic()) > 0:
            try:
                request = self._queue.get(timeout=left)
            except Empty:
                return
            if request is None:
                self._queue.put(None)
                return
            batch.append(request)

    def _serve(self, batch: list[Request]) -> None:
        while not self._queue.empty():
            request = self._queue.get()
            if request is None:
                self._queue.put(None)
                break
            batch.append(request)
        with self._door:
            if not self._open:
                self._fail(batch, ClosedError(str(self._env.root)))
                batch.clear()
                return
            self._outside.clear()
        batch[:] = [request for request in batch if request.claim.acquire(blocking=False)]
        self._company = len(batch)
        try:
            with self._env.write_gate:
                self._env.thread = threading.get_ident()
                self._run(batch)
        finally:
            self._env.thread = None

    def _run(self, batch: list[Request]) -> None:
        """Commit all requests together; if one spoils that, each alone."""
        try:
            self._commit(batch)
        except SpoiledError as spoiled:
            if len(batch) == 1:
                batch[0].error = spoiled.__cause__
            else:
                for request in batch:
                    request.error = None
                    self._run([request])
        except BaseException as error:  # noqa: BLE001 - the caller gets it, the thread goes on
            for request in batch:
                request.error = request.error or error

    def _commit(self, batch: list[Request]) -> None:
        if not batch:
            return
        session = self._session
        try:
            session.begin()
            self._apply(batch)
        except BaseException as error:  # noqa: BLE001 - the callers get it, as the cause
            session.abandon()
            cause = storage_error(self._env.root, error) if isinstance(error, lmdb.Error | OSError) else error
            raise SpoiledError from cause
        try:
            session.commit()
        except UnclearError as unclear:
            self._leave_unknown(batch, str(unclear))
        else:
            self._after_commit()

    def _apply(self, batch: list[Request]) -> None:
        session = self._session
        for request in batch:
            try:
                request.result = session.apply(request)
            except lmdb.Error:
                raise
            except BaseException as error:
                if session.spoiled():
                    raise
                request.error = error

    def _make_durable(self, batch: list[Request]) -> None:
        """Sync what was written, and whatever else the answers rest on.

        The turn is passed on before, so that another process prepares its commit meanwhile. It may
        see ours by then; its own sync makes ours durable too.
        """
        if not batch:
            return
        try:
            self._session.settle()
        except BaseException as error:  # noqa: BLE001 - the caller gets it, the thread goes on
            self._leave_unknown(batch, str(error))

    def _leave_unknown(self, batch: list[Request], why: str) -> None:
        for request in batch:
            if request.error is None:
                request.error = OutcomeUnknownError(str(self._env.root), request.ids(), why)

    def _after_commit(self) -> None:
        self._commits += 1
        if self._commits % _CHECK_READERS_EVERY == 0:
            with contextlib.suppress(lmdb.Error):
                self._env.check_readers()

    def _tell(self, batch: list[Request]) -> None:
        for request in batch:
            request.done.release()
        if batch:
            self.news.announce()

    def _fail(self, batch: list[Request], error: StorageError) -> None:
        for request in batch:
            if request.claim.acquire(blocking=False):
                request.error = error
                request.done.release()

    def _refuse_the_rest(self) -> None:
        while not self._queue.empty():
            request = self._queue.get()
            if request is not None:
                self._fail([request], ClosedError(str(self._env.root)))


SessionMaker = Callable[[Environment], Session]
