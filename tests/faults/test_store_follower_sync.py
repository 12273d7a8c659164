"""Who follows syncs what he is shown; his sync and that of who writes in one process are told of a failure once."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.contracts.support import PATIENCE_S
from tests.faults.support import event, filled, opened, run
from tests.faults.test_store_sync import (
    KILLED_BEFORE_ITS_SYNC,
    _append_unsynced,
    _at_sync,
    _held,
    _journal,
    _syncs,
    _written,
    failing,
    nothing,
)

from rightful.errors import OutcomeUnknownError, StorageError
from rightful.storage.recorder import LMDBRecorder

SOON_S = 10
"""How long what does come may take to come; seconds."""


def soon(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON_S
    while not reached() and time.monotonic() < until:
        threading.Event().wait(0.001)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    """A recorder that had a turn, where a killed process left a third row that it did not sync."""
    with opened(filled(tmp_path / "s", 1)) as recorder:
        recorder.append([event("warm")])
        assert run(KILLED_BEFORE_ITS_SYNC, tmp_path / "s").returncode == -signal.SIGKILL
        yield recorder


def test_follower_syncs_another_writers_rows_once_and_writers_rely_on_it(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = _syncs(recorder, monkeypatch)
    with recorder.subscribe(after=2) as subscription:
        assert next(subscription).event.data == b"unsynced"
    recorder.sync()
    assert recorder.decide(nothing) == 3
    assert syncs == [3]


@pytest.mark.parametrize(("code", "is_shown"), [(errno.EINVAL, True), (errno.EROFS, True), (errno.EIO, False)])
def test_who_follows_a_disk_that_cannot_be_synced_is_shown_what_is_there(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, code: int, is_shown: bool
) -> None:
    """A file system that is never written knows no sync, and says so; that proves nothing to who writes."""
    with monkeypatch.context() as patch, recorder.subscribe(after=2) as subscription:
        _at_sync(patch, failing(1, OSError(code, os.strerror(code))))
        if is_shown:
            assert next(subscription).event.data == b"unsynced"
        else:
            with pytest.raises(StorageError, match="Input/output error"):
                next(subscription)
            assert next(subscription).event.data == b"unsynced", "who goes on misses nothing"

    syncs = _syncs(recorder, monkeypatch)
    assert recorder.decide(nothing) == 3
    assert syncs == [3]


def test_failed_sync_of_follower_is_no_sync_for_the_writer(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells each open file of a failure once, and both have the same."""
    calls: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def fail_first(fd: int) -> None:
        calls.append(fd)
        begun.set()
        assert go_on.wait(PATIENCE_S)
        if len(calls) == 1:
            raise OSError(errno.EIO, "odd")

    with monkeypatch.context() as patch, ThreadPoolExecutor() as pool:
        assert recorder.head() == 3
        recorder.tables().sync(recorder.tables().env.last_transaction())
        patch.setattr(os, "fdatasync", fail_first)
        followed = pool.submit(recorder.sync)
        assert begun.wait(PATIENCE_S)
        answer = pool.submit(recorder.append, [event("mine")])
        soon(lambda: recorder.head() == 4)  # it is written, and waits for the sync of who follows
        go_on.set()
        with pytest.raises(StorageError, match="odd"):
            followed.result(PATIENCE_S)
        with pytest.raises(OutcomeUnknownError):
            answer.result(PATIENCE_S)
    assert len(calls) == 1

    written = _written(recorder, monkeypatch)
    assert recorder.decide(nothing) == 4
    assert written == [3, 4]


def test_sync_begun_before_a_rewrite_proves_nothing(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of who follows, while a turn begins after another had failed."""
    _append_unsynced(recorder, monkeypatch)
    syncs, written = _syncs(recorder, monkeypatch), _written(recorder, monkeypatch)
    with monkeypatch.context() as patch, ThreadPoolExecutor() as pool:
        begun, go_on = _held(patch)
        followed = pool.submit(recorder.sync)
        assert begun.wait(PATIENCE_S)
        answer = pool.submit(recorder.decide, nothing)
        soon(lambda: written == [3, 4])
        go_on.set()
        followed.result(PATIENCE_S)
        assert answer.result(PATIENCE_S) == 4
    assert syncs == [4, 4]


@pytest.mark.parametrize("readonly", [False, True])
def test_what_was_synced_before_a_first_turn_is_written_again_in_it(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readonly: bool
) -> None:
    """The system told somebody else that it could not be written, and the sync of who follows did nothing."""
    recorder.close()
    with opened(tmp_path / "s", readonly=readonly) as reader:
        syncs = _syncs(reader, monkeypatch)
        with reader.subscribe(after=2) as subscription:
            assert next(subscription).event.data == b"unsynced"
        reader.sync()
        assert syncs == [3], "who follows syncs once all the same"
        with opened(tmp_path / "s") as anew:
            written = _written(anew, monkeypatch)
            assert anew.decide(nothing) == 3
            assert written[-1:] == [3]
            assert syncs == [3, 3]
            assert _journal(anew).durable == 3


def test_reader_misses_nothing_when_another_handle_begins_to_write(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on with another open file, and with what it knows."""
    recorder.close()
    with opened(tmp_path / "s", readonly=True) as reader:
        before = _journal(reader)
        with opened(tmp_path / "s") as writer:
            assert before.read_state()[1] == 3
            syncs = _syncs(reader, monkeypatch)
            before.sync()
            assert syncs == [3]
            assert writer.append([event("mine")]) == 4
            assert before.read_state()[1] == 4
