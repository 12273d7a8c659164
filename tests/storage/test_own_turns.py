"""A thread that only writes has its own turns, where it need not wait for one."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.base import event, found
from tests.contracts.support import PATIENCE_S, together
from tests.storage.turns import Held, append, begun, served, writer_of

from rightful import limits
from rightful.errors import BusyError, OutcomeUnknownError, StorageError
from rightful.storage import locks
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.writer import Request


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        yield recorder


def has_thread(recorder: LMDBRecorder) -> bool:
    return writer_of(recorder)._thread is not None


def test_a_turn_that_can_be_had_at_once_needs_no_other_thread(recorder: LMDBRecorder) -> None:
    made_by: list[int] = []

    def decide(_: object) -> list[Any]:
        made_by.append(threading.get_ident())
        return [event()]

    assert served(lambda: (recorder.decide(decide, inline=True), threading.get_ident() == made_by[0])) == (1, True)
    assert not has_thread(recorder)
    assert recorder.decide(decide) == 2
    assert made_by[1] != threading.get_ident(), "a thread that did not say so has its work done"
    assert has_thread(recorder)


def test_who_waits_for_a_commit_of_this_process_is_woken(recorder: LMDBRecorder) -> None:
    assert recorder._store is not None
    before = recorder._store.commit_signal.count
    assert served(lambda: append(recorder)) == 1
    assert recorder._store.commit_signal.count == before + 1


def test_waiting_for_another_process_ends_at_the_time_limit(tmp_path: Path, recorder: LMDBRecorder) -> None:
    write_lock = locks.WriteLock(tmp_path / "s")  # another opening of the file, as another process has it
    write_lock.acquire()

    error = served(lambda: recorder.decide(lambda _: [event("late")], timeout_s=0.05, inline=True))
    write_lock.release()
    write_lock.close()

    assert isinstance(error, BusyError)
    assert served(lambda: append(recorder)) == 1, "what was given up is never written"


def test_after_some_turns_running_it_queues_like_the_others(
    tmp_path: Path, recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    exclusive = locks.Flock.exclusive

    def waits(lock: locks.Flock) -> None:
        waited.append(lock.path.name)
        exclusive(lock)

    monkeypatch.setattr(locks.Flock, "exclusive", waits)
    for _ in range(limits.TURNS_AT_ONCE):
        served(lambda: append(recorder))
    assert (waited, has_thread(recorder)) == ([], False)
    for _ in range(limits.TURNS_AT_ONCE + 1):
        served(lambda: append(recorder))

    assert waited == ["queue.lock", "writer.lock"]
    assert found(recorder) == list(range(1, 2 * limits.TURNS_AT_ONCE + 2))


def test_who_comes_while_it_has_the_turn_is_served_after_it(recorder: LMDBRecorder) -> None:
    held, unmarked = Held(recorder), list[int]()
    first = begun(held.append)
    assert held.reached.wait(PATIENCE_S)
    queued = [begun(lambda: append(recorder, "next")) for _ in range(3)]
    thread = threading.Thread(target=lambda: unmarked.append(recorder.append([event("next")])))
    thread.start()
    held.go.set()
    thread.join(PATIENCE_S)

    assert first() == 1
    assert sorted([*unmarked, *(one() for one in queued)]) == [2, 3, 4, 5]
    assert [each.event.data for each in recorder.read()] == [b"held", *[b"next"] * 4]


def test_threads_that_commit_for_all_write_without_gaps_in_order(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their process has one lock for the turn: who gave back that of another would let another process in."""
    turns: list[str] = []
    write_lock, acquire = writer_of(recorder)._write_lock, locks.WriteLock.acquire
    release = write_lock.release

    def noted_acquire(write_lock: locks.WriteLock, *, waits: bool = True) -> bool:
        is_acquired = acquire(write_lock, waits=waits)
        turns.extend(["acquire"] * is_acquired)
        return is_acquired

    def noted_release() -> None:
        turns.append("release")
        release()

    monkeypatch.setattr(locks.WriteLock, "acquire", noted_acquire)
    monkeypatch.setattr(write_lock, "release", noted_release)

    def write() -> list[int]:
        return [recorder.append([event()]) for _ in range(50)]

    def write_inline() -> list[int]:
        return [append(recorder) for _ in range(50)]

    positions = together(*[write_inline] * 4, *[write] * 4)

    assert sorted(position for each in positions for position in each) == list(range(1, 401))
    assert found(recorder) == list(range(1, 401))
    assert turns == ["acquire", "release"] * (len(turns) // 2)


def test_a_decision_that_fails_fails_for_its_caller_alone(recorder: LMDBRecorder) -> None:
    def fails(_: object) -> list[Any]:
        raise ValueError("no")

    error = served(lambda: recorder.decide(fails, inline=True))
    assert (type(error), str(error)) == (ValueError, "no")
    assert served(lambda: append(recorder)) == 1


def test_a_turn_that_cannot_be_asked_for_says_that_nothing_was_written(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: locks.Flock) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.Flock, "try_exclusive", fails)
    error = served(lambda: append(recorder))
    monkeypatch.undo()

    assert type(error) is StorageError
    assert "No locks available" in str(error)
    assert served(lambda: append(recorder)) == 1


def test_failed_sync_leaves_it_unknown_and_the_next_turn_rewrites_it(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    assert served(lambda: append(recorder)) == 1
    monkeypatch.setattr(os, "fdatasync", fails)
    error = served(lambda: append(recorder))
    monkeypatch.undo()

    assert isinstance(error, OutcomeUnknownError)
    assert served(lambda: append(recorder)) == 3
    assert found(recorder) == [1, 2, 3]


def test_a_turn_that_cannot_be_given_back_is_reported_and_blocks_nothing(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lock = writer_of(recorder)._write_lock
    release = write_lock.release

    def fails() -> None:
        release()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(write_lock, "release", fails)
    error = served(lambda: append(recorder))
    monkeypatch.undo()

    assert isinstance(error, OutcomeUnknownError)
    assert served(lambda: append(recorder)) == 2
    recorder.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_fork_waits_for_a_turn_and_the_child_has_turns_of_its_own(
    tmp_path: Path, recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, stands_still = Held(recorder), Environment.before_fork

    def before_fork(env: Environment) -> None:
        held.go.set()
        stands_still(env)

    first = begun(held.append)
    assert held.reached.wait(PATIENCE_S)
    monkeypatch.setattr(Environment, "before_fork", before_fork)
    if not (child := os.fork()):
        with LMDBRecorder(tmp_path / "s", kind="plain") as own:
            os._exit(0 if served(lambda: append(own, "child")) == 2 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert first() == 1
    assert served(lambda: append(recorder)) == 3


class Late:
    """The lock of who is at work: while a caller takes it, others come."""

    def __init__(self, lock: threading.Lock, meanwhile: Callable[[], None]) -> None:
        self._lock, self._meanwhile = lock, meanwhile

    def acquire(self, *, blocking: bool) -> bool:
        taken = self._lock.acquire(blocking=blocking)
        self._meanwhile()
        return taken


def test_inline_caller_leaves_queued_requests_to_the_writer(tmp_path: Path, recorder: LMDBRecorder) -> None:
    """It lingered for them, took their work, found another process writing, and dropped what was not its own."""
    writer, write_lock, positions = writer_of(recorder), locks.WriteLock(tmp_path / "s"), list[int]()
    threads = [threading.Thread(target=lambda: positions.append(recorder.append([event()]))) for _ in range(2)]
    lock, put, queued = writer._turn_lock, writer._put, threading.Event()

    def puts(request: Request) -> None:
        put(request)
        queued.set()

    def meanwhile() -> None:
        writer._turn_lock, writer._last_batch_size = lock, 2  # as after a commit for both
        for thread in threads:
            thread.start()
        while writer._thread is None or writer._queue.qsize() != 1:  # the writer has the other, and waits for us
            pass
        writer._put = puts  # type: ignore[method-assign]

    write_lock.acquire()
    writer._turn_lock = Late(lock, meanwhile)  # type: ignore[assignment]
    begun_last = begun(lambda: append(recorder))
    assert queued.wait(PATIENCE_S)
    write_lock.release()
    write_lock.close()
    for thread in threads:
        thread.join(5)

    assert sorted([begun_last(), *positions]) == [1, 2, 3]
