"""What a commit writes last is synced when the turn is passed on, and nothing is answered before."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S
from tests.faults.support import event, filled, opened, run
from tests.faults.test_store_commit import Failing

from rightful.errors import OutcomeUnknownError, StorageError
from rightful.recorders.environment import Environment
from rightful.recorders.recorder import LMDBRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with opened(filled(tmp_path / "s", 1)) as recorder:
        recorder.append([event("warm")])
        yield recorder


def _env(recorder: LMDBRecorder) -> Environment:
    assert recorder._store is not None
    return recorder._store.env


def _at_sync(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    sync = Environment.sync

    def first(env: Environment) -> None:
        do()
        sync(env)

    monkeypatch.setattr(Environment, "sync", first)


def nothing(_: object) -> list[DCBEvent]:
    return []


def failing(times: int, error: Exception | None = None) -> Callable[[], None]:
    left = [error or coded()] * times

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def _written_again(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where the heads will stand at which the naming pages are written again."""
    again: list[int] = []
    real = Environment.write_again

    def spy(env: Environment) -> None:
        again.append(recorder.head())
        real(env)

    monkeypatch.setattr(Environment, "write_again", spy)
    return again


def _fail_next_commit(recorder: LMDBRecorder) -> None:
    env = _env(recorder)
    begin = env.begin_write

    def once() -> Failing:
        env.begin_write = begin  # type: ignore[method-assign]
        return Failing(begin(), really=False, error=coded())

    env.begin_write = once  # type: ignore[assignment, method-assign]


def coded() -> lmdb.Error:
    error = lmdb.Error("mdb_env_sync")
    error.code = 5  # type: ignore[misc]  # LMDB's own are made so too
    return error


def test_the_turn_is_free_and_the_caller_waits_while_a_commit_is_synced(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def look() -> None:
        fd = os.open(tmp_path / "s" / "writer.lock", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)
        order.append(f"synced with {recorder.head()} rows")

    _at_sync(recorder, monkeypatch, look)
    recorder.append([event("mine")])
    order.append("answered")

    assert order == ["synced with 3 rows", "answered"]


KILLED_BEFORE_ITS_SYNC = f"""
import os, sys
from pathlib import Path
from rightful.recorders.environment import Environment
from tests.faults.support import event, opened
recorder = opened(Path(sys.argv[1]))
Environment.sync = lambda env: os.kill(os.getpid(), {int(signal.SIGKILL)})
recorder.append([event("unsynced")])
"""


def test_an_answer_that_rests_on_what_another_did_not_sync_waits_for_a_sync(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat of what a killed process wrote is told that it stands there, so it must."""
    syncs: list[int] = []
    done = run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s")
    assert done.returncode == -signal.SIGKILL
    _at_sync(recorder, monkeypatch, lambda: syncs.append(recorder.head()))

    assert recorder.decide(nothing) == 3
    assert syncs == [3]
    assert recorder.decide(nothing) == 3
    assert syncs == [3], "what is known to be durable is not synced again"


def test_after_a_sync_that_failed_the_outcome_is_unknown_and_the_handle_goes_on(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at_sync(recorder, monkeypatch, failing(1))

    with pytest.raises(OutcomeUnknownError) as caught:
        recorder.append([event("mine", tags=("id:7",))])
    assert caught.value.ids == ("7",)

    assert recorder.append([event("next")]) == 4
    assert [each.event.data for each in recorder.read()] == [b"event-1", b"warm", b"mine", b"next"]


def test_after_a_sync_that_failed_the_next_turn_writes_again_what_may_be_forgotten(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system forgets a page that it could not write, so a second sync alone would prove nothing."""
    again = _written_again(recorder, monkeypatch)
    with monkeypatch.context() as patch:
        _at_sync(recorder, patch, failing(1))
        with pytest.raises(OutcomeUnknownError):
            recorder.append([event("mine")])
    assert again == []

    assert recorder.decide(nothing) == 3
    assert again == [3]
    assert recorder.append([event("next")]) == 4
    assert again == [3], "what is durable is not written again"


def test_the_first_turn_of_a_process_writes_again_what_another_may_have_failed_to_sync(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens the file afterwards is not told by the system that a sync failed."""
    recorder.close()
    with opened(tmp_path / "s") as anew:
        again = _written_again(anew, monkeypatch)
        assert anew.append([event()]) == 3
        assert anew.append([event()]) == 4
        assert again == [2]


def test_while_nothing_can_be_written_again_no_sync_proves_anything(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would succeed without the pages that may be forgotten; who asks next waits for one that is of them."""
    with monkeypatch.context() as patch:
        _at_sync(recorder, patch, failing(1))
        with pytest.raises(OutcomeUnknownError):
            recorder.append([event("mine")])
    syncs: list[int] = []
    _at_sync(recorder, monkeypatch, lambda: syncs.append(recorder.head()))
    with monkeypatch.context() as patch:
        patch.setattr(Environment, "write_again", lambda _: failing(1, OSError(errno.EIO, "odd"))())
        with pytest.raises(StorageError, match="odd"):
            recorder.decide(nothing)
    assert syncs == []

    assert recorder.decide(nothing) == 3
    assert syncs == [3]


@pytest.mark.parametrize("how_often", [2, 3])
def test_while_syncs_fail_nothing_is_said_to_stand_there(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, how_often: int
) -> None:
    _at_sync(recorder, monkeypatch, failing(how_often))
    with pytest.raises(OutcomeUnknownError):
        recorder.append([event("mine")])
    for _ in range(how_often - 1):
        with pytest.raises(OutcomeUnknownError, match="anything was written"):
            recorder.decide(nothing)

    assert recorder.decide(nothing) == 3


def test_who_repeats_what_was_acknowledged_is_answered_without_a_sync_when_a_commit_failed(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a full disk."""
    _fail_next_commit(recorder)
    with pytest.raises(StorageError, match="Nothing was written"):
        recorder.append([event("lost")])

    _at_sync(recorder, monkeypatch, failing(1))
    assert recorder.decide(nothing) == 2


def test_a_commit_that_failed_is_not_taken_for_durable_when_another_has_its_number(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never there; the one with its number is another process's, which did not sync it."""
    _fail_next_commit(recorder)
    with pytest.raises(StorageError, match="Nothing was written"):
        recorder.append([event("lost")])
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    syncs: list[int] = []
    _at_sync(recorder, monkeypatch, lambda: syncs.append(recorder.head()))

    assert recorder.decide(nothing) == 3
    assert syncs == [3]


def test_what_another_did_not_sync_is_written_again_when_our_own_commit_failed(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync that failed was of its page too, which may be forgotten."""
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    again = _written_again(recorder, monkeypatch)
    _fail_next_commit(recorder)
    with pytest.raises(StorageError, match="Nothing was written"):
        recorder.append([event("lost")])
    assert again == []

    assert recorder.decide(nothing) == 3
    assert again == [3]


def test_a_mistake_while_it_syncs_does_not_end_the_writer(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _at_sync(recorder, patch, failing(1, AssertionError()))
        with pytest.raises(OutcomeUnknownError):
            recorder.append([event("mine")])

    assert recorder.append([event("next")]) == 4


@pytest.mark.parametrize(("code", "is_shown"), [(errno.EINVAL, True), (errno.EROFS, True), (errno.EIO, False)])
def test_who_follows_a_disk_that_cannot_be_synced_is_shown_what_is_there(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, code: int, is_shown: bool
) -> None:
    """A file system that is never written knows no sync, and says so."""

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    _env(recorder).settled = 0
    monkeypatch.setattr(os, "fdatasync", refuse)
    with recorder.subscribe() as subscription:
        if is_shown:
            assert next(subscription).event.data == b"event-1"
        else:
            with pytest.raises(StorageError, match="Input/output error"):
                next(subscription)


def _held(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Have syncs wait; return what tells that one has begun, and what lets it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)

    _at_sync(recorder, monkeypatch, hold)
    return begun, go_on


def test_who_closes_waits_for_the_sync_and_what_was_begun_is_answered(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = _held(recorder, monkeypatch)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(recorder.append, [event("mine")])
        assert begun.wait(PATIENCE_S)
        closed = pool.submit(recorder.close)
        with pytest.raises(TimeoutError):
            closed.result(0.05)
        assert not answer.done()
        go_on.set()
        closed.result(PATIENCE_S)
        assert answer.result(PATIENCE_S) == 3

    with opened(tmp_path / "s") as again:
        assert again.head() == 3


def test_a_fork_waits_for_the_sync_and_the_child_may_open_the_store(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = _held(recorder, monkeypatch)
    os.register_at_fork(before=go_on.set)  # runs before ours, which wait
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(recorder.append, [event("mine")])
        assert begun.wait(PATIENCE_S)
        assert _env(recorder).write_gate.locked(), "what a fork waits for"
        child = os.fork()
        if not child:
            monkeypatch.undo()
            try:
                with opened(tmp_path / "s") as anew:
                    os._exit(anew.append([event("child's")]))
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert answer.result(PATIENCE_S) == 3
    assert recorder.append([event("next")]) == 5
