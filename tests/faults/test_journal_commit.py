"""A commit into the journal that fails: what is then known of it, and that the handle goes on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S, together
from tests.faults.support import event, filled, in_tables, journal, opened, records

from rightful.errors import OutcomeUnknownError, StorageError, StoreFullError
from rightful.storage.journal.journal_records import END_BYTES
from rightful.storage.port import View
from rightful.storage.recorder import LMDBRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with opened(filled(tmp_path / "s", 1)) as recorder:
        recorder.append([event("before")])
        yield recorder


def _tear_next(patch: pytest.MonkeyPatch, there: int, number: int = errno.EIO) -> None:
    """Have the next write stop behind so many bytes, and then fail."""
    pwrite, left = os.pwrite, [there]

    def tears(fd: int, data: bytes, at: int) -> int:
        if not left:
            return pwrite(fd, data, at)
        if left[0]:
            written, left[0] = pwrite(fd, data[: left[0]], at), 0
            return written
        left.clear()
        raise OSError(number, os.strerror(number))

    patch.setattr(os, "pwrite", tears)


def _data(recorder: LMDBRecorder) -> list[bytes]:
    return [each.event.data for each in recorder.read(after=2)]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_write_that_failed_was_not_written(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    _tear_next(monkeypatch, 0, number)
    full = StorageError if number == errno.EIO else StoreFullError
    with pytest.raises(full, match=r"[Nn]othing (of this call )?was written") as caught:
        recorder.append([event("lost")])

    assert type(caught.value) is full
    assert recorder.head() == 2
    assert recorder.append([event("next")]) == 3
    assert _data(recorder) == [b"next"]
    assert in_tables(recorder) == 0


def test_a_part_of_a_record_was_not_written_and_the_whole_of_it_was(tmp_path: Path) -> None:
    """Wherever the write stopped: what is said is what stands there, for this process and for the next."""
    folder, size = filled(tmp_path / "s", 2), records(filled(tmp_path / "one more", 3))[2][1].size
    whole = journal(folder).read_bytes()
    for there in range(1, size + END_BYTES):
        journal(folder).write_bytes(whole)
        with opened(folder) as recorder, pytest.MonkeyPatch.context() as patch:
            assert recorder.decide(lambda _: []) == 2
            _tear_next(patch, there)
            if there < size:
                with pytest.raises(StorageError, match="Nothing was written"):
                    recorder.append([event("event-3", tags=("tag3",))])
            else:
                assert recorder.append([event("event-3", tags=("tag3",))]) == 3
            written = 2 + (there >= size)
            assert recorder.head() == len(recorder.rows(0)) == written
        with opened(folder) as recorder:
            assert recorder.append([event("next")]) == written + 1


def test_torn_first_record_of_an_emptied_journal_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(filled(tmp_path / "s", 3)) as recorder, opened(tmp_path / "s", readonly=True) as reader:
        assert recorder.append([event("x" * 200_000)]) == 4
        assert in_tables(recorder) == 4
        for there in (0, 1, 40, 64, 80, 150):
            with monkeypatch.context() as patch:
                _tear_next(patch, there)
                with pytest.raises(StorageError, match="Nothing was written"):
                    recorder.append([event("lost", tags=("tag",))])
            assert recorder.head() == reader.head() == 4
            assert len(recorder.rows(0)) == 4
        assert recorder.append([event("next")]) == 5
    with opened(tmp_path / "s") as recorder:
        assert [each.event.data for each in recorder.read(after=4)] == [b"next"]


def test_failed_sync_leaves_the_outcome_unknown_and_the_handle_usable(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        for n in range(2):
            with pytest.raises(OutcomeUnknownError) as caught:
                recorder.append([event("a", tags=(f"id:{n}",)), event("b")])
            assert caught.value.ids == (str(n),)

    assert recorder.append([event("next")]) == 7
    assert _data(recorder) == [b"a", b"b", b"a", b"b", b"next"]
    recorder.close()
    with opened(tmp_path / "s") as again:
        assert _data(again) == [b"a", b"b", b"a", b"b", b"next"]
        assert in_tables(again) == 0


def test_a_sync_that_fails_while_a_turn_writes_again_is_not_forgotten(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a thread that follows: the turn after it writes again what that sync did not."""
    journal = recorder.tables().env.journal
    journal.doubt()
    look = journal._refresh

    def looking() -> None:
        monkeypatch.undo()
        look()
        journal.doubt()

    monkeypatch.setattr(journal, "_refresh", looking)
    with pytest.raises(OutcomeUnknownError, match="could not be synced"):
        recorder.append([event("doubtful")])

    assert recorder.append([event("next")]) == 4
    assert _data(recorder) == [b"doubtful", b"next"]


def test_a_failed_write_of_many_is_tried_for_each_alone(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tear_next(monkeypatch, 100)
    results = together(*[lambda: recorder.append([event()])] * 6)

    positions = [result for result in results if isinstance(result, int)]
    failed = [result for result in results if isinstance(result, Exception)]
    assert sorted(positions) == list(range(3, 3 + len(positions)))
    assert [type(error) for error in failed] in ([], [StorageError])
    assert recorder.head() == 2 + len(positions)


def test_what_is_being_written_when_time_is_over_has_no_known_outcome(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, reached, go = os.pwrite, threading.Event(), threading.Event()

    def slow(fd: int, data: bytes, at: int) -> int:
        reached.set()
        assert go.wait(PATIENCE_S)
        return pwrite(fd, data, at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", slow)
        with pytest.raises(OutcomeUnknownError) as caught:
            recorder.decide(lambda _: [event("slow", tags=("id:7", "session:s"))], timeout_s=0.2)
        assert reached.is_set()
        go.set()

    assert caught.value.ids == ("7",)
    assert recorder.append([event("next")]) == 4
    assert _data(recorder) == [b"slow", b"next"]


def test_an_append_that_writes_nothing_syncs_nothing(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry of what stands there, and is durable, costs no sync."""

    def refuse(*_: object) -> int:
        pytest.fail("it was written or synced")

    def nothing(view: View) -> list[DCBEvent]:
        return []

    monkeypatch.setattr(os, "fdatasync", refuse)
    monkeypatch.setattr(os, "pwrite", refuse)

    assert recorder.decide(nothing) == 2


def test_a_turn_that_cannot_begin_takes_nothing_away(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the turn before had written stays, in memory too."""

    def fail(fd: int, count: int, at: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        for _ in range(2):
            with pytest.raises(StorageError, match="Nothing was written"):
                recorder.append([event("lost")])
            with pytest.raises(StorageError):
                recorder.head()

    assert recorder.head() == 2
    assert [row.position for row in recorder.rows(0)] == [1, 2]
    assert recorder.append([event("next")]) == 3
