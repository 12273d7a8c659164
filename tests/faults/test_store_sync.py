"""A small commit is synced when the turn is passed on, and nothing is answered before."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S
from tests.faults.support import FORM, event, filled, opened, run

from rightful import limits
from rightful.errors import OutcomeUnknownError, StorageError
from rightful.storage.journal import journal
from rightful.storage.journal.journal import Journal
from rightful.storage.recorder import LMDBRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with opened(filled(tmp_path / "s", 1)) as recorder:
        recorder.append([event("warm")])
        yield recorder


def _journal(recorder: LMDBRecorder) -> Journal:
    assert recorder._store is not None
    return recorder._store.env.journal


def _at_sync(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Do something before each sync of a journal; that of the tables, once a process, is another matter."""
    sync = os.fdatasync

    def first(fd: int) -> None:
        if os.fstat(fd).st_size == limits.JOURNAL_BYTES:
            do()
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", first)


def _syncs(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where the heads will stand at which it syncs."""
    syncs: list[int] = []
    _at_sync(monkeypatch, lambda: syncs.append(recorder.head()))
    return syncs


def nothing(_: object) -> list[DCBEvent]:
    return []


def failing(times: int, error: Exception | None = None) -> Callable[[], None]:
    left = [error or OSError(errno.EIO, "odd")] * times

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def _append_unsynced(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Append an event whose sync fails once."""
    with monkeypatch.context() as patch:
        _at_sync(patch, failing(1))
        with pytest.raises(OutcomeUnknownError):
            recorder.append([event("mine")])


def _written(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return of which positions records will be written, in order."""
    written: list[int] = []
    real = os.pwrite

    def spy(fd: int, data: Any, at: int) -> int:
        this, rest = FORM.record_of(bytes(data[:96])), memoryview(data)
        while this is not None and this.row_count:
            written.append(this.first)
            rest = rest[this.size :]
            this = FORM.record_of(bytes(rest[:96]))
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", spy)
    return written


def _fail_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    real, fail = os.pwrite, failing(1)

    def once(fd: int, data: Any, at: int) -> int:
        fail()
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", once)


def test_the_turn_is_free_and_the_caller_waits_while_a_commit_is_synced(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def look() -> None:
        fd = os.open(tmp_path / "s" / "writer.lock", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)
        order.append(f"synced with {recorder.head()} rows")

    _at_sync(monkeypatch, look)
    recorder.append([event("mine")])
    order.append("answered")

    assert order == ["synced with 3 rows", "answered"]


KILLED_BEFORE_ITS_SYNC = f"""
import os, sys
from pathlib import Path
from tests.faults.support import FORM, event, opened
recorder = opened(Path(sys.argv[1]))
os.fdatasync = lambda fd: os.kill(os.getpid(), {int(signal.SIGKILL)})
recorder.append([event("unsynced")])
"""


def test_answer_that_rests_on_unsynced_rows_of_others_waits_for_a_sync(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat of what a killed process wrote is told that it stands there, so it must."""
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    syncs = _syncs(recorder, monkeypatch)

    assert recorder.decide(nothing) == 3
    assert syncs == [3]
    assert recorder.decide(nothing) == 3
    assert syncs == [3], "what is known to be durable is not synced again"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EINVAL])
def test_failed_sync_leaves_the_outcome_unknown_and_the_handle_usable(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """EROFS is what a file system says that failed since the write, and is written no more."""
    _at_sync(monkeypatch, failing(1, OSError(code, "odd")))

    with pytest.raises(OutcomeUnknownError) as caught:
        recorder.append([event("mine", tags=("id:7",))])
    assert caught.value.ids == ("7",)

    assert recorder.append([event("next")]) == 4
    assert [each.event.data for each in recorder.read()] == [b"event-1", b"warm", b"mine", b"next"]


def test_turn_after_a_failed_sync_rewrites_what_may_be_lost(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system forgets a page that it could not write, so a second sync alone would prove nothing."""
    written = _written(recorder, monkeypatch)
    _append_unsynced(recorder, monkeypatch)
    assert written == [3]

    assert recorder.decide(nothing) == 3
    assert written == [3, 3]
    assert recorder.append([event("next")]) == 4
    assert written == [3, 3, 4], "what is durable is not written again"


def test_no_record_says_that_what_could_not_be_synced_is_durable(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds it torn would take it for damage, and whoever repeats it would be told that it stands."""
    said: list[tuple[int, int]] = []
    real = journal._write

    def spy(fd: int, data: bytes, at: int) -> None:
        record = FORM.record_of(data[:96])
        if record is not None:  # and no durable mark
            said.append((record.first, record.durable))
        real(fd, data, at)

    monkeypatch.setattr(journal, "_write", spy)
    with monkeypatch.context() as patch:
        _at_sync(patch, failing(2))
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                recorder.append([event("mine")])
    recorder.append([event("next")])
    recorder.append([event("last")])

    new = [(3, 2), (4, 2), (5, 2), (6, 5)]
    assert said == [new[0], (3, 2), new[1], (3, 2), new[2], new[3]], "and what is written again is as it was"


@pytest.mark.parametrize("has_read", [False, True])
def test_first_turn_of_a_process_rewrites_what_another_failed_to_sync(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_read: bool
) -> None:
    """Who opens the file afterwards is not told by the system that a sync failed."""
    recorder.close()
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    with opened(tmp_path / "s") as anew:
        if has_read:
            assert anew.head() == 3
        written = _written(anew, monkeypatch)
        assert anew.append([event()]) == 4
        assert written[-2:] == [3, 4]
        assert anew.append([event()]) == 5
        assert written[-3:] == [3, 4, 5]


def test_while_nothing_can_be_written_again_no_sync_proves_anything(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would succeed without the pages that may be forgotten; who asks next waits for one that is of them."""
    _append_unsynced(recorder, monkeypatch)
    syncs, written = _syncs(recorder, monkeypatch), _written(recorder, monkeypatch)
    with monkeypatch.context() as patch:
        _fail_next_write(patch)
        with pytest.raises(StorageError, match="odd"):
            recorder.decide(nothing)
    assert (syncs, written) == ([], [])

    assert recorder.decide(nothing) == 3
    assert (syncs, written) == ([3], [3])


@pytest.mark.parametrize("how_often", [2, 3])
def test_while_syncs_fail_nothing_is_said_to_stand_there(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, how_often: int
) -> None:
    _at_sync(monkeypatch, failing(how_often))
    with pytest.raises(OutcomeUnknownError):
        recorder.append([event("mine")])
    for _ in range(how_often - 1):
        with pytest.raises(OutcomeUnknownError, match="anything was written"):
            recorder.decide(nothing)

    assert recorder.decide(nothing) == 3


def test_acknowledged_repeat_is_answered_without_sync_after_failed_commit(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a full disk."""
    with monkeypatch.context() as patch:
        _fail_next_write(patch)
        with pytest.raises(StorageError, match="Nothing was written"):
            recorder.append([event("lost")])

    _at_sync(monkeypatch, failing(1))
    assert recorder.decide(nothing) == 2


def test_failed_commit_is_not_durable_when_another_gets_its_position(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never there; what stands there is another process's, which did not sync it."""
    with monkeypatch.context() as patch:
        _fail_next_write(patch)
        with pytest.raises(StorageError, match="Nothing was written"):
            recorder.append([event("lost")])
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    syncs = _syncs(recorder, monkeypatch)

    assert recorder.decide(nothing) == 3
    assert syncs == [3]


def test_unsynced_rows_of_others_are_rewritten_after_our_failed_sync(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was of its pages too, which may be forgotten."""
    assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
    _append_unsynced(recorder, monkeypatch)
    written = _written(recorder, monkeypatch)

    assert recorder.decide(nothing) == 4
    assert written == [3, 4]


def test_a_mistake_while_it_syncs_does_not_end_the_writer(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _at_sync(patch, failing(1, AssertionError()))
        with pytest.raises(OutcomeUnknownError):
            recorder.append([event("mine")])

    assert recorder.append([event("next")]) == 4


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_write_that_the_system_does_in_pieces_is_whole(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_pieces: bool
) -> None:
    real = os.pwrite
    if in_pieces:
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:50], at))
    assert recorder.append([event("mine" * 100)]) == 3
    assert _journal(recorder).read_state()[1] == 3
    recorder.close()
    with opened(tmp_path / "s") as anew:
        assert next(anew.read(after=2)).event.data == b"mine" * 100


def _held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Have syncs wait; return what tells that one has begun, and what lets it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)

    _at_sync(monkeypatch, hold)
    return begun, go_on


def test_who_closes_waits_for_the_sync_and_what_was_begun_is_answered(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = _held(monkeypatch)
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


def test_fork_during_a_sync_leaves_it_alone_and_the_child_opens_the_store(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = _held(monkeypatch)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(recorder.append, [event("mine")])
        assert begun.wait(PATIENCE_S)
        child = os.fork()
        if not child:
            monkeypatch.undo()
            try:
                with opened(tmp_path / "s") as anew:
                    os._exit(anew.append([event("child's")]))
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert not answer.done()
        go_on.set()
        assert answer.result(PATIENCE_S) == 3
    assert recorder.append([event("next")]) == 5
