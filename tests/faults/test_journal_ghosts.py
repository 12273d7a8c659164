"""What the journal may hold besides what stands: ghosts of a power cut, and rows that the system dropped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.support import PATIENCE_S
from tests.faults.support import FORM, event, filled, opened, run

from rightful.errors import StorageError
from rightful.storage.journal.journal_records import END_BYTES, HEAD_BYTES, START
from rightful.storage.port import View
from rightful.storage.recorder import LMDBRecorder


def _names(folder: Path) -> list[str]:
    with opened(folder) as recorder:
        return [each.event.data.decode()[:10] for each in recorder.read()]


def _record_at(folder: Path, position: int) -> tuple[int, int]:
    """Return where the record of a position begins and ends in the journal."""
    data, at = (folder / "store/journal").read_bytes(), START
    while (record := FORM.record_of(data[at : at + HEAD_BYTES])) is not None and record.first < position:
        at += record.size
    assert record is not None
    assert record.first == position
    return at, at + record.size


def _put(folder: Path, at: int, data: bytes) -> None:
    with (folder / "store/journal").open("r+b") as file:
        file.seek(at)
        file.write(data)


def _torn(folder: Path, position: int) -> None:
    """Leave of a record what a power cut may: all but the last of its sectors."""
    _, end = _record_at(folder, position)
    _put(folder, end - 4, b"torn")


KILLED_BEFORE_ANY_SYNC = """
import contextlib, os, sys
from pathlib import Path
from rightful.errors import OutcomeUnknownError
from tests.faults.support import FORM, event, opened
folder, *names = sys.argv[1:]
recorder = opened(Path(folder))
recorder.decide(lambda view: [])

def fail(fd):
    raise OSError(5, "odd")

os.fdatasync = fail
for name in names:
    with contextlib.suppress(OutcomeUnknownError):
        recorder.append([event(name)])
os.kill(os.getpid(), 9)
"""


def _left(folder: Path, *names: str) -> None:
    """Have a process write records that are never synced, and die."""
    assert run(KILLED_BEFORE_ANY_SYNC, folder, *names).returncode == -signal.SIGKILL


@pytest.mark.parametrize("written", ["torn-1", "else-1", "longer" * 9], ids=["the same", "another", "a longer one"])
def test_what_stands_whole_behind_what_is_torn_never_comes_back(tmp_path: Path, written: str) -> None:
    """It was never acknowledged, and what is written in the place of the torn one does not continue in it."""
    folder = filled(tmp_path / "s", 2)
    _left(folder, "torn-1", "ghost1", "ghost2")
    assert _names(folder)[2:] == ["torn-1", "ghost1", "ghost2"]
    _torn(folder, 3)

    with opened(folder) as recorder, opened(folder, readonly=True) as reader:
        assert recorder.decide(lambda _: []) == 2
        assert recorder.append([event(written)]) == 3
        assert [reader.head(), recorder.head()] == [3, 3]
        assert recorder.append([event("next")]) == 4
    assert _names(folder) == ["event-1", "event-2", written[:10], "next"]


def test_a_record_continues_only_in_what_was_written_behind_it(tmp_path: Path) -> None:
    """Of what replaces a torn record a second power cut may leave all but the end that is written behind it."""
    folder = filled(tmp_path / "s", 2)
    _left(folder, "torn-1", "ghost1")
    at, end = _record_at(folder, 3)
    ghost = (folder / "store/journal").read_bytes()[end : end + 4]
    _torn(folder, 3)
    _left(folder, "else-1")
    assert _record_at(folder, 3) == (at, end)
    _put(folder, end, ghost)

    assert _names(folder) == ["event-1", "event-2", "else-1"]


def _forgotten(recorder: LMDBRecorder, folder: Path) -> None:
    """Have a row be read that the system then drops, as it may after a sync that failed and told another."""
    _left(folder, "dropped")
    assert recorder.head() == 3
    at, end = _record_at(folder, 3)
    _put(folder, at, bytes(end - at))


OTHERS = """
import sys
from pathlib import Path
from tests.faults.support import FORM, event, opened
with opened(Path(sys.argv[1])) as recorder:
    assert [recorder.append([event(name)]) for name in sys.argv[2:]] == [3, 4][: len(sys.argv) - 2]
"""


@pytest.mark.parametrize(
    ("others", "size", "had_a_turn"),
    [
        (("1", "2"), 10, True),
        (("longer" * 50, "2"), 10, False),
        (("longer" * 50, "2"), 200_000, True),
        (("1", "2"), 200_000, False),
    ],
    ids=["short", "long, first", "long, large", "short, large, first"],
)
def test_who_knows_a_row_that_is_not_there_any_more_overwrites_no_others(
    tmp_path: Path, others: tuple[str, str], size: int, had_a_turn: bool
) -> None:
    folder = filled(tmp_path / "s", 2)
    with opened(folder) as recorder:
        if had_a_turn:
            assert recorder.decide(lambda _: []) == 2
        _forgotten(recorder, folder)
        done = run(OTHERS, folder, *others)
        assert done.returncode == 0, done.stderr

        assert recorder.append([event("x" * size)]) == 5
        assert [each.event.data.decode() for each in recorder.read()][2:4] == list(others)
    assert _names(folder)[2:] == [*(name[:10] for name in others), "x" * 10]


@pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])
@pytest.mark.parametrize("had_a_turn", [False, True])
def test_handle_that_knows_a_lost_earlier_row_writes_nothing_in_its_place(
    tmp_path: Path, size: int, had_a_turn: bool
) -> None:
    """The last record that he knows is in the file still, and continues in nothing."""
    folder = filled(tmp_path / "s", 2)
    with opened(folder) as recorder:
        if had_a_turn:
            assert recorder.decide(lambda _: []) == 2
        _left(folder, "dropped" * 30, "kept")
        assert recorder.head() == 4
        at, end = _record_at(folder, 3)
        _put(folder, at, bytes(end - at))
        assert run(OTHERS, folder, "1").returncode == 0

        assert recorder.append([event("x" * size)]) == 4
    assert _names(folder)[2:] == ["1", "x" * 10]


@pytest.mark.parametrize("others", [("1", "2"), ("dropper", "2"), ("longer" * 50, "2")], ids=["short", "same", "long"])
def test_reader_sees_the_rows_that_replaced_lost_ones(tmp_path: Path, others: tuple[str, str]) -> None:
    folder = filled(tmp_path / "s", 2)
    with opened(folder, readonly=True) as reader:
        _forgotten(reader, folder)
        assert run(OTHERS, folder, *others).returncode == 0

        assert [each.event.data.decode() for each in reader.read()][2:] == list(others)


def test_dropped_row_seen_by_a_reader_is_not_written_after(tmp_path: Path) -> None:
    """The rows of the turn stand behind ones that the reader's look has taken away."""
    folder = filled(tmp_path / "s", 2)
    with opened(folder) as recorder:
        assert recorder.decide(lambda _: []) == 2
        _left(folder, "dropped")

        def decide(_: View) -> list[DCBEvent]:
            at, end = _record_at(folder, 3)
            _put(folder, at, bytes(end - at))
            _in_a_thread(recorder.head)
            return [event("mine")]

        with pytest.raises(StorageError, match="not what it was when the turn began"):
            recorder.decide(decide)
        assert recorder.append([event("next")]) == 3
    assert _names(folder) == ["event-1", "event-2", "next"]


def _in_a_thread(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join(PATIENCE_S)


def test_behind_each_record_stands_its_end(tmp_path: Path) -> None:
    """Of records whose place a longer one takes, none is left that could count."""
    folder = filled(tmp_path / "s", 2)
    with opened(folder) as recorder:
        at, other = _record_at(folder, 2)[1], os.urandom(1_000)
        _put(folder, at, other)
        recorder.append([event("mine")])
        _, end = _record_at(folder, 3)
        assert (folder / "store/journal").read_bytes()[end : end + END_BYTES] != other[end - at :][:END_BYTES]
        assert (folder / "store/journal").read_bytes()[end + END_BYTES :][:500] == other[end - at + END_BYTES :][:500]
