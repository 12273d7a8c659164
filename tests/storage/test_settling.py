"""What is durable before somebody is told, and what a failure makes doubtful."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contracts.base import event
from tests.contracts.support import together

from rightful import limits
from rightful.errors import ClosedError, OutcomeUnknownError, StorageError
from rightful.storage.journal.journal import Journal
from rightful.storage.recorder import LMDBRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        yield recorder


def journal_of(recorder: LMDBRecorder) -> Journal:
    assert recorder._store is not None
    return recorder._store.env.journal


class Calls:
    """Notes what is written and synced, by the file's name, and can fail a sync."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.fail: Callable[[], bool] = lambda: False
        self._real = {name: getattr(os, name) for name in ("pwrite", "fdatasync")}
        for name in self._real:
            patch.setattr(os, name, self._noting(name))

    def _noting(self, name: str) -> Callable[..., int]:
        def noting(fd: int, *more: object) -> int:
            self.made.append(f"{name} {Path(f'/proc/self/fd/{fd}').readlink().name}")
            if name == "fdatasync" and self.fail():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            done: int = self._real[name](fd, *more)
            return done

        return noting

    def take(self) -> list[str]:
        made, self.made = self.made, []
        return made


APPEND = ["pwrite journal", "fdatasync journal"]
ANCHOR = APPEND
"""A round begins with what is synced before its first record is written."""
MARK = ["pwrite journal"]
"""What is durable is marked once in a round, and at the end of a process; the mark is not synced."""


def without_marks(patch: pytest.MonkeyPatch) -> None:
    """As where the process before was killed between its sync and its mark."""
    patch.setattr(Journal, "_leave_mark", lambda *_, **__: None)


def test_process_syncs_the_tables_once_before_it_overwrites_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who committed them may have been killed in LMDB's last sync, and the journal has the rows still."""
    monkeypatch.setattr(limits, "JOURNAL_ROWS", 0)
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        recorder.append([event()])
    monkeypatch.undo()
    calls = Calls(monkeypatch)
    with LMDBRecorder(tmp_path / "s", kind="plain") as recorder:
        recorder.append([event()])
        assert calls.take() == ["fdatasync data.mdb", *ANCHOR, *APPEND, *MARK]
        recorder.append([event()])
        assert calls.take() == APPEND
    assert calls.take() == MARK
    with LMDBRecorder(tmp_path / "s", kind="plain") as recorder:
        recorder.append([event()])
        assert calls.take() == [*APPEND, *MARK], "the journal's first row says that the tables are durable"


def test_process_syncs_tables_and_journal_once_before_followers_see_rows(
    tmp_path: Path, recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_marks(monkeypatch)
    recorder.append([event("1")])
    recorder.append([event("2")])
    recorder.close()
    calls = Calls(monkeypatch)
    with LMDBRecorder(tmp_path / "s", kind="plain") as other, other.subscribe() as following:
        assert [next(following).position for _ in range(2)] == [1, 2]
        assert calls.take() == ["fdatasync data.mdb", "fdatasync journal"]
        other.sync()
        assert calls.take() == []


def test_what_a_process_marked_durable_is_neither_written_nor_synced_again(
    tmp_path: Path, recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.append([event("1")])
    recorder.close()
    calls = Calls(monkeypatch)
    with LMDBRecorder(tmp_path / "s", kind="plain") as other:
        assert other.decide(lambda _: []) == 1
        other.sync()
        assert calls.take() == ["fdatasync data.mdb"]


def test_sync_for_followers_leaves_unwritten_parts_to_the_first_turn(
    tmp_path: Path, recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that failed in another process may have lost the rows, and ours then succeeds without them."""
    without_marks(monkeypatch)
    recorder.append([event("1")])
    recorder.close()
    calls = Calls(monkeypatch)
    with LMDBRecorder(tmp_path / "s", kind="plain") as other:
        other.sync()
        calls.take()
        assert other.decide(lambda _: []) == 1
        assert calls.take() == APPEND, "it was not written again before it was answered"


def test_events_whose_sync_failed_come_again(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorder.subscribe() as following:
        assert recorder.append([event("1")]) == 1
        left = [OSError(errno.EIO, "once")]
        sync = LMDBRecorder.sync

        def failing(self: LMDBRecorder) -> None:
            if left:
                raise left.pop()
            sync(self)

        monkeypatch.setattr(LMDBRecorder, "sync", failing)
        with pytest.raises(OSError, match="once"):
            next(following)
        recorder.append([event("2")])
        assert next(following).position == 1


def test_a_sync_that_fails_while_a_turn_writes_again_is_not_forgotten(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every answer would be unknown for ever, since no turn would write again."""
    recorder.append([event("1")])
    journal = journal_of(recorder)
    journal.doubt()
    look = journal._refresh

    def looking() -> None:
        monkeypatch.undo()
        look()
        journal.doubt()  # as a thread that follows does when its sync fails

    monkeypatch.setattr(journal, "_refresh", looking)
    with pytest.raises(OutcomeUnknownError):
        recorder.append([event("2")])

    assert recorder.append([event("3")]) == 3


def test_a_turn_that_could_not_write_again_is_made_up_for_by_the_next(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_marks(monkeypatch)
    recorder.append([event("1")])
    journal = journal_of(recorder)
    journal.doubt()
    journal.durable = 0

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        with pytest.raises(StorageError, match="Nothing was written"):
            recorder.append([event("2")])
    calls = Calls(monkeypatch)
    assert recorder.append([event("3")]) == 2
    assert calls.take() == ["pwrite journal", *APPEND]


def test_a_sync_that_began_in_doubt_proves_nothing(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that begins while it runs writes again what the sync may have passed over."""
    without_marks(monkeypatch)
    recorder.append([event("1")])
    journal = journal_of(recorder)
    journal.doubt()
    journal.durable = 0
    calls = Calls(monkeypatch)

    def meanwhile() -> bool:
        calls.fail = lambda: False
        journal.begin_turn()
        return False

    calls.fail = meanwhile
    journal.sync()

    assert journal.durable == 0
    journal.sync(journal.answered())
    assert journal.durable == 1


def test_nothing_is_said_to_be_durable_by_a_journal_that_was_closed(recorder: LMDBRecorder) -> None:
    recorder.append([event("1")])
    journal = journal_of(recorder)
    journal.durable = 0
    recorder.close()

    with pytest.raises(ClosedError):
        journal.sync(journal.answered())


def test_a_journal_that_is_opened_for_writing_is_the_one_that_readers_have(tmp_path: Path) -> None:
    """A thread that had it in hand would else read on in one that is closed, and miss what others add."""
    folder = tmp_path / "s"
    LMDBRecorder(folder, kind="plain", create=True).close()
    with LMDBRecorder(folder, kind="plain", readonly=True) as reader:
        before = journal_of(reader)
        with LMDBRecorder(folder, kind="plain") as writer:
            assert writer.append([event("1")]) == 1
            assert before.read_state()[1] == 1
            assert together(reader.head, writer.head) == [1, 1]


def test_turn_after_a_failure_rereads_the_file_and_syncs_its_additions(
    recorder: LMDBRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may show what is on the disk again in place of what it could not write."""
    recorder.append([event("1")])
    at = journal_of(recorder)._end
    recorder.append([event("2")])
    with (tmp_path / "s/store/journal").open("r+b") as file:
        file.seek(at)
        file.write(bytes(100))
    journal_of(recorder).doubt()
    calls = Calls(monkeypatch)

    assert recorder.append([event("other")]) == 2
    assert calls.take() == APPEND
    assert [each.event.data for each in recorder.read()] == [b"1", b"other"]
