"""What happens when others hold what one waits for."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S, Other, in_fork, together
from tests.faults.support import event, filled, into_tables, opened

from rightful import limits
from rightful.errors import BusyError, ClosedError, InUseError, OutcomeUnknownError, ReadOnlyStoreError
from rightful.storage import locks
from rightful.storage.journal.journal_records import TablesState
from rightful.storage.recorder import LMDBRecorder


def _decide_and_stay(pipe: Connection, folder: Path) -> None:
    """Hold the writer's turn inside a decision until told to go on."""
    recorder = opened(folder)

    def stay(view: Any) -> list[DCBEvent]:
        pipe.send("inside")
        assert pipe.recv() == "go on"
        return [event("theirs")]

    pipe.send(recorder.decide(stay))
    recorder.close()


def _hold_alone(pipe: Connection, folder: Path) -> None:
    lock = locks.hold_alone(folder)
    pipe.send("held")
    pipe.recv()
    lock.close()


@pytest.fixture
def held(tmp_path: Path) -> Any:
    """A store whose turn another process has, which is stopped while it has it."""
    other = Other(_decide_and_stay, filled(tmp_path / "s", 1))
    assert other.hear() == "inside"
    assert other.process.pid is not None
    os.kill(other.process.pid, signal.SIGSTOP)
    yield other
    os.kill(other.process.pid, signal.SIGCONT)
    other.kill()


def _go_on(other: Other) -> None:
    assert other.process.pid is not None
    os.kill(other.process.pid, signal.SIGCONT)
    other.tell("go on")
    assert other.hear() == 2


def test_waiting_for_a_stopped_writer_times_out_and_writes_nothing_later(tmp_path: Path, held: Other) -> None:
    """LMDB's own lock cannot be waited for with a limit: this would hang until the other dies."""
    with opened(tmp_path / "s") as recorder:
        ran: list[int] = []

        def decision(view: Any) -> list[DCBEvent]:
            ran.append(view.head)
            return [event("withdrawn")]

        with pytest.raises(BusyError) as caught:
            recorder.decide(decision, timeout_s=0.05)
        assert caught.value.waited_s == 0.05
        _go_on(held)

        assert recorder.append([event("mine")]) == 3
        assert ran == [], "a withdrawn decision was run"
        assert [each.event.data for each in recorder.read()] == [b"event-1", b"theirs", b"mine"]


def test_a_stopped_writer_does_not_prevent_opening_and_reading(tmp_path: Path, held: Other) -> None:
    with opened(tmp_path / "s") as recorder:
        assert [row.position for row in recorder.rows(0, 10)] == [1]
        assert [each.position for each in recorder.read()] == [1]


def test_a_recorder_closes_while_its_writer_waits_for_a_stopped_one(tmp_path: Path, held: Other) -> None:
    recorder = opened(tmp_path / "s")
    with pytest.raises(BusyError):
        recorder.decide(lambda _: [event("withdrawn")], timeout_s=0.01)
    recorder.close()

    again = opened(tmp_path / "s")
    _go_on(held)
    assert again.append([event("mine")]) == 3
    again.close()


def test_caller_that_waits_while_the_recorder_closes_is_refused(tmp_path: Path, held: Other) -> None:
    recorder = opened(tmp_path / "s")
    waiting = threading.Event()

    def write() -> int:
        waiting.set()
        return recorder.decide(lambda _: [event("late")], timeout_s=PATIENCE_S)

    def close() -> None:
        assert waiting.wait(PATIENCE_S)
        while (
            recorder._store is not None
            and recorder._store.writer is not None
            and recorder._store.writer._thread is None
        ):
            threading.Event().wait(0.001)
        recorder.close()
        _go_on(held)

    refused, _ = together(write, close)

    assert isinstance(refused, ClosedError)
    with opened(tmp_path / "s") as again:
        assert [each.event.data for each in again.read()] == [b"event-1", b"theirs"]


def test_a_killed_writer_gives_its_turn_to_the_next(tmp_path: Path) -> None:
    other = Other(_decide_and_stay, filled(tmp_path / "s", 1))
    assert other.hear() == "inside"
    other.kill()
    with opened(tmp_path / "s") as recorder:
        assert recorder.append([event("mine")]) == 2


def test_decision_in_its_commit_at_the_time_limit_has_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into_tables(monkeypatch)
    with opened(tmp_path / "s", create=True) as recorder:
        assert recorder._store is not None
        env = recorder._store.env
        begin, reached, go = env.begin_write, threading.Event(), threading.Event()

        class Slow:
            def __init__(self) -> None:
                self._txn = begin()

            def __getattr__(self, name: str) -> Any:
                return getattr(self._txn, name)

            def commit(self) -> None:
                reached.set()
                assert go.wait(PATIENCE_S)
                self._txn.commit()

        env.begin_write = Slow  # type: ignore[method-assign, assignment]
        with pytest.raises(OutcomeUnknownError) as caught:
            recorder.decide(lambda _: [event("slow", tags=("id:7", "session:s"))], timeout_s=0.2)
        assert reached.is_set()
        go.set()
        env.begin_write = begin  # type: ignore[method-assign]

        assert caught.value.ids == ("7",)
        assert recorder.append([event()]) == 2


def test_a_process_in_a_tight_loop_does_not_starve_another(tmp_path: Path) -> None:
    """Each of our appends gets its turn within seconds while the other one never pauses."""
    other = Other(_append_without_pause, filled(tmp_path / "s", 1))
    assert other.hear() == "begun"
    with opened(tmp_path / "s") as recorder:
        for _ in range(20):
            recorder.decide(lambda _: [event("mine")], timeout_s=10)
        theirs = [each.event.data for each in recorder.read()].count(b"theirs")
    other.kill()

    assert theirs > 1, "the other one did not run"


@pytest.mark.parametrize(("turns", "queued"), [(0, 0), (1, 1), (2, 1)], ids=["its value", "one past it", "two past it"])
def test_a_free_turn_is_taken_without_queueing_some_times_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int, queued: int
) -> None:
    assert limits.TURNS_AT_ONCE == 16
    write_lock, waited = locks.WriteLock(tmp_path), list[str]()
    exclusive = locks.Flock.exclusive

    def waits(lock: locks.Flock) -> None:
        waited.append(lock.path.name)
        exclusive(lock)

    monkeypatch.setattr(locks.Flock, "exclusive", waits)
    for _ in range(limits.TURNS_AT_ONCE + turns):
        write_lock.acquire()
        write_lock.release()
    write_lock.close()

    assert waited == ["queue.lock", "writer.lock"] * queued


def _append_without_pause(pipe: Connection, folder: Path) -> None:
    recorder = opened(folder)
    recorder.append([event("theirs")])
    pipe.send("begun")
    while True:
        recorder.append([event("theirs")])


def test_a_lone_writer_never_lingers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINGER_S", PATIENCE_S)
    began = time.monotonic()
    with opened(tmp_path / "s", create=True) as recorder:
        for _ in range(5):
            recorder.append([event()])
    assert time.monotonic() - began < PATIENCE_S / 2


def test_threads_share_commits(tmp_path: Path) -> None:
    with opened(tmp_path / "s", create=True) as recorder:
        assert recorder._store is not None

        def write() -> None:
            for _ in range(20):
                recorder.append([event()])

        before = recorder._store.env.last_transaction()
        together(*[write] * 16)
        commits = recorder._store.env.last_transaction() - before

        assert recorder.head() == 320
        assert commits < 160


def test_an_open_store_cannot_be_taken_alone_and_its_holders_are_named(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    with opened(folder), pytest.raises(InUseError) as caught:
        locks.hold_alone(folder)
    if Path("/proc/locks").exists():
        assert caught.value.holders == (f"pid {os.getpid()}",)

    locks.hold_alone(folder).close()


def test_a_store_that_is_taken_alone_cannot_be_opened(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    other = Other(_hold_alone, folder)
    assert other.hear() == "held"
    for readonly in (False, True):
        with pytest.raises(InUseError) as caught:
            opened(folder, readonly=readonly)
        if Path("/proc/locks").exists():
            assert caught.value.holders == (f"pid {other.process.pid}",)
    other.kill()

    opened(folder).close()


def test_a_childs_end_does_not_give_up_its_parents_locks(tmp_path: Path) -> None:
    """A flock is shared over fork: an unlock in the child would be the parent's."""
    folder = filled(tmp_path / "s")
    with opened(folder) as recorder:
        recorder.append([event()])
        assert in_fork(recorder.close) is None
        with pytest.raises(InUseError):
            locks.hold_alone(folder)


def test_a_child_does_not_keep_its_parents_store_open(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    recorder = opened(folder)
    begun, end = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begun[1], b"x")
        os.read(end[0], 1)
        os._exit(0)
    os.read(begun[0], 1)
    recorder.close()
    try:
        locks.hold_alone(folder).close()
    finally:
        os.write(end[1], b"x")
        os.waitpid(child, 0)
        for fd in (*begun, *end):
            os.close(fd)


def test_a_child_leaves_the_slots_of_its_parents_readers_alone(tmp_path: Path) -> None:
    """LMDB's close in the child frees them; so no fork happens during a read."""
    with opened(filled(tmp_path / "s")) as recorder:
        assert recorder._store is not None
        env = recorder._store.env
        inside, forking, go = threading.Event(), threading.Event(), threading.Event()
        slots: list[str] = []

        def reading(_: object) -> None:
            inside.set()
            assert forking.wait(PATIENCE_S)
            assert not go.wait(0.2), "the fork did not wait for the read"
            slots.append(env._raw().readers())

        def read() -> None:
            env.read(reading)

        def fork() -> None:
            assert inside.wait(PATIENCE_S)
            forking.set()
            in_fork(os.getpid)
            go.set()

        results = together(read, fork)

        assert results == [None, None]
        assert str(os.getpid()) in slots[0]


def test_a_fork_inside_a_decision_leaves_the_parents_commit_whole(tmp_path: Path) -> None:
    with opened(tmp_path / "s", create=True) as recorder:

        def forking(view: Any) -> list[DCBEvent]:
            in_fork(os.getpid)
            return [event()]

        assert recorder.decide(forking) == 1
        assert recorder.append([event()]) == 2


def test_a_handle_for_reading_never_writes_beside_one_that_may(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    reader = opened(folder, readonly=True)
    with pytest.raises(ReadOnlyStoreError):
        reader.append([event()])
    with opened(folder) as writer:
        assert writer.append([event()]) == 4
        with pytest.raises(ReadOnlyStoreError):
            reader.append([event()])
    assert len(reader.rows(0, 10)) == 4
    reader.close()


def test_many_processes_open_write_and_close_at_once(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s", 1)
    others = [Other(_come_and_go, folder) for _ in range(4)]
    results = together(*[partial(list, iter(other.hear, None)) for other in others])
    for other in others:
        other.end()

    assert sorted(position for each in results for position in each) == list(range(2, 42))


def _come_and_go(pipe: Connection, folder: Path) -> None:
    for _ in range(10):
        with LMDBRecorder(folder, kind="plain") as recorder:
            pipe.send(recorder.append([event()]))
    pipe.send(None)


def test_reading_the_journal_while_a_thread_closes_the_store_is_an_error(tmp_path: Path) -> None:
    """He reads in LMDB what the journal continues, while the other waits for him."""
    recorder = opened(filled(tmp_path / "s"))
    assert recorder._store is not None
    env = recorder._store.env
    looking, real = threading.Event(), env.journal._tables_state

    def tabled() -> TablesState:
        looking.set()
        while not env._closed:
            threading.Event().wait(0.001)
        return real()

    env.journal._tables_state = tabled
    with ThreadPoolExecutor() as pool:
        said = pool.submit(recorder.head)
        assert looking.wait(PATIENCE_S)
        pool.submit(recorder.close).result(PATIENCE_S)
        with pytest.raises(ClosedError):
            said.result(PATIENCE_S)
