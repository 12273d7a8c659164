"""A commit into LMDB's tables that fails: what is then known of it, and that the handle goes on.

Of commits into the journal: `test_journal_commit`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S, together
from tests.faults.support import event, filled, into_tables, opened, run

from rightful import limits
from rightful.errors import OutcomeUnknownError, StorageError, StoreFullError
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.recorder import LMDBRecorder


class Failing:
    """A write transaction whose commit fails, before or after it really happens."""

    def __init__(self, txn: lmdb.Transaction[bytes], *, really: bool, error: lmdb.Error) -> None:
        self._txn = txn
        self._really = really
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        if self._really:
            self._txn.commit()
        else:
            self._txn.abort()
        raise self._error


def coded(code: int) -> lmdb.Error:
    """Return an error as LMDB raises it."""
    error = lmdb.Error("mdb_txn_commit")
    error.code = code  # type: ignore[misc]  # LMDB's own are made so too
    return error


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LMDBRecorder]:
    """One that puts all into the tables."""
    into_tables(monkeypatch)
    with opened(filled(tmp_path / "s", 1)) as recorder:
        yield recorder


def _env(recorder: LMDBRecorder) -> Environment:
    assert recorder._store is not None
    return recorder._store.env


def _fail_next_commit(recorder: LMDBRecorder, *, really: bool, error: lmdb.Error | None = None) -> None:
    env = _env(recorder)
    begin = env.begin_write

    def once() -> Any:
        env.begin_write = begin  # type: ignore[method-assign]
        return Failing(begin(), really=really, error=error or coded(5))

    env.begin_write = once  # type: ignore[method-assign]


def test_a_commit_that_failed_and_is_not_there_was_not_written(recorder: LMDBRecorder) -> None:
    _fail_next_commit(recorder, really=False)
    with pytest.raises(StorageError, match="Nothing was written"):
        recorder.append([event("lost")])

    assert recorder.head() == 1
    assert recorder.append([event("next")]) == 2
    assert [each.event.data for each in recorder.read()] == [b"event-1", b"next"]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_commit_that_failed_and_is_there_was_written(recorder: LMDBRecorder, batch: int) -> None:
    """The meta page reached the disk, and the system said EIO: the bytes decide."""
    _fail_next_commit(recorder, really=True)

    assert recorder.append([event("there")] * batch) == 1 + batch
    assert recorder.append([event("next")]) == 2 + batch


def test_a_commit_that_cannot_be_asked_for_has_no_known_outcome(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise coded(5)

    recorder.append([event("before")])
    _fail_next_commit(recorder, really=True)
    with monkeypatch.context() as patch:
        patch.setattr(lmdb, "open", broken)
        with pytest.raises(OutcomeUnknownError) as caught:
            recorder.append([event("there", tags=("id:5",)), event("too", tags=("id:6",))])
    assert caught.value.ids == ("5", "6")

    assert recorder.head() == 4, "a read does not see what was written"
    assert recorder.append([event("next")]) == 5, "the handle goes on, and finds what was written"
    assert [each.event.data for each in recorder.read()] == [b"event-1", b"before", b"there", b"too", b"next"]


def test_after_a_panic_the_next_append_opens_the_store_again(recorder: LMDBRecorder) -> None:
    recorder.append([event("before")])
    env = _env(recorder)
    begin = env.begin_write
    panics = [lmdb.PanicError("mdb_txn_begin")]

    def panic_once() -> Any:
        if panics:
            raise panics.pop()
        return begin()

    env.begin_write = panic_once  # type: ignore[method-assign]

    assert recorder.append([event("after")]) == 3


def test_a_failed_commit_of_many_is_tried_for_each_alone(recorder: LMDBRecorder) -> None:
    """One caller's batch may be what does not fit; the others must not pay for it."""
    _fail_next_commit(recorder, really=False, error=coded(28))
    results = together(*[lambda: recorder.append([event()])] * 6)

    positions = [result for result in results if isinstance(result, int)]
    failed = [result for result in results if isinstance(result, Exception)]
    assert sorted(positions) == list(range(2, 2 + len(positions)))
    assert all(isinstance(error, StoreFullError) for error in failed)
    assert len(failed) <= 1
    assert recorder.head() == 1 + len(positions)


def test_a_full_map_is_a_full_store_and_what_stood_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAP_BYTES", 256 * 1024)
    with opened(tmp_path / "s", create=True) as recorder:
        recorder.append([event("before")])
        with pytest.raises(StoreFullError, match="MDB_MAP_FULL"):
            recorder.append([event("x" * 100_000) for _ in range(10)])

        assert recorder.append([event("small")]) == 2
        assert [each.event.data for each in recorder.read()] == [b"before", b"small"]
    monkeypatch.undo()
    with opened(tmp_path / "s") as recorder:
        assert recorder.append([event("x" * 100_000) for _ in range(10)]) == 12


def test_a_batch_that_does_not_fit_takes_nobody_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All wait for one commit: what the others wrote in it is written again, at the same positions."""
    monkeypatch.setattr(limits, "MAP_BYTES", 512 * 1024)
    begun, go = threading.Event(), threading.Event()
    with opened(tmp_path / "s", create=True) as recorder:

        def hold(view: Any) -> list[DCBEvent]:
            begun.set()
            assert go.wait(PATIENCE_S)
            return [event("first")]

        def release() -> None:
            assert begun.wait(PATIENCE_S)
            while recorder._store.writer._queue.qsize() < 4:  # type: ignore[union-attr]  # it is open
                threading.Event().wait(0.001)
            go.set()

        def small() -> int:
            assert begun.wait(PATIENCE_S)
            return recorder.append([event("small")])

        def giant() -> int:
            assert begun.wait(PATIENCE_S)
            return recorder.append([event("x" * 100_000) for _ in range(10)])

        *small_ones, failed, _, _ = together(small, small, small, giant, lambda: recorder.decide(hold), release)

        assert isinstance(failed, StoreFullError)
        assert sorted(small_ones) == [2, 3, 4]
        assert [each.event.data for each in recorder.read()] == [b"first"] + [b"small"] * 3
        assert recorder.tree_head()[0] == 4


GROW = """
import sys
from pathlib import Path
from tests.faults.support import event, opened
with opened(Path(sys.argv[1])) as recorder:
    recorder.append([event("x" * 1_000_000)])
"""


@pytest.mark.parametrize(
    "use",
    [lambda recorder: len(recorder.rows(0, 10)), lambda recorder: recorder.append([event()])],
    ids=["read", "write"],
)
def test_a_map_that_another_process_outgrew_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[LMDBRecorder], int]
) -> None:
    monkeypatch.setattr(limits, "MAP_BYTES", 256 * 1024)
    with opened(filled(tmp_path / "s", 1)) as recorder:
        recorder.append([event()])
        done = run(GROW, tmp_path / "s")
        assert done.returncode == 0, done.stderr

        assert use(recorder) in {3, 4}
        assert recorder.head() >= 3
        assert next(recorder.read(after=2)).event.data == b"x" * 1_000_000


def test_an_append_that_writes_nothing_commits_nothing(recorder: LMDBRecorder) -> None:
    """A retry of what stands there costs no sync."""
    before = _env(recorder).last_transaction()

    def nothing(view: Any) -> list[DCBEvent]:
        return []

    assert recorder.decide(nothing) == 1
    assert _env(recorder).last_transaction() == before


def test_an_error_of_a_work_reaches_its_caller_only(recorder: LMDBRecorder) -> None:
    def bad(view: Any) -> list[DCBEvent]:
        return [DCBEvent(type="type", data=b"", tags=[3])]  # type: ignore[list-item]  # what is tested

    with pytest.raises((AttributeError, TypeError)):
        recorder.decide(bad)
    assert recorder.append([event()]) == 2


def test_thread_that_cannot_start_is_reported_and_the_next_append_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a limit of processes: the next caller must not wait for a writer that never was."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with opened(tmp_path / "s", create=True) as recorder:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(StorageError, match="no writer thread could be started"):
                recorder.append([event()])

        assert recorder.append([event()]) == 1
