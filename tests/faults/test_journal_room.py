"""What goes into the journal, and what into LMDB's tables: by size of the commit, and by what room is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from tests.faults.support import event, filled, in_tables, journal, opened, records

from rightful import limits
from rightful.errors import ForeignStoreError
from rightful.storage.journal.journal_records import END_BYTES, HEAD_BYTES, START, TREE_BYTES
from rightful.storage.port import LedgerEvent
from rightful.storage.recorder import LMDBRecorder

EXTRA_BYTES = HEAD_BYTES + TREE_BYTES + 16 + END_BYTES
"""What a record of one row takes at most beside the row."""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with opened(tmp_path / "s", create=True) as recorder:
        yield recorder


def _sized(size: int, *, count: int = 1) -> list[LedgerEvent]:
    """Return rows that take so many bytes in all, as they are stored."""
    bare = LedgerEvent(type="t", data=b"d", tags=["tag"], payload=b"")
    row_bytes = 32 + len(b"\x93\xa1t\x91\xa3tag\xc4\x01d")
    sizes = [size // count] * (count - 1) + [size - size // count * (count - 1)]
    return [LedgerEvent(type="t", data=b"d", tags=bare.tags, payload=bytes(each - row_bytes)) for each in sizes]


def test_commit_up_to_the_limit_goes_to_the_journal_else_to_the_tables(recorder: LMDBRecorder) -> None:
    assert limits.JOURNAL_COMMIT_BYTES == 128 * 1024
    assert recorder.append(_sized(limits.JOURNAL_COMMIT_BYTES)) == 1
    assert recorder.append(_sized(limits.JOURNAL_COMMIT_BYTES, count=3)) == 4
    assert (in_tables(recorder), len(records(Path(recorder.path)))) == (0, 2)

    assert recorder.append(_sized(limits.JOURNAL_COMMIT_BYTES + 1)) == 5
    assert in_tables(recorder) == 5
    assert recorder.append(_sized(limits.JOURNAL_COMMIT_BYTES + 1, count=3)) == 8
    assert in_tables(recorder) == 8
    assert recorder.append([event()]) == 9
    assert in_tables(recorder) == 8


@pytest.mark.parametrize("batch", [1, 64])
def test_journal_has_at_most_the_limit_of_rows_before_the_tables_take_them(recorder: LMDBRecorder, batch: int) -> None:
    assert limits.JOURNAL_ROWS == 512
    for _ in range(limits.JOURNAL_ROWS // batch):
        recorder.append([event("journal", tags=("old",))] * batch)
    assert (recorder.head(), in_tables(recorder)) == (512, 0)

    assert recorder.append([event("tables", tags=("new",))]) == 513
    assert in_tables(recorder) == 513
    assert recorder.append([event("journal", tags=("new",))]) == 514
    assert in_tables(recorder) == 513
    assert [each.position for each in recorder.read(_tagged("new"))] == [513, 514]
    assert [each.position for each in recorder.read(_tagged("old"))] == list(range(1, 513))
    assert [row.position for row in recorder.rows(0)] == list(range(1, 515))


@pytest.mark.parametrize(("more", "tabled"), [(0, 0), (1, 513)], ids=["its value", "one past it"])
def test_a_commit_of_so_many_rows_goes_into_the_journal(recorder: LMDBRecorder, more: int, tabled: int) -> None:
    rows = limits.JOURNAL_ROWS + more
    assert recorder.append([event("x")] * rows) == rows
    assert in_tables(recorder) == tabled


def _tagged(tag: str) -> DCBQuery:
    return DCBQuery(items=[DCBQueryItem(tags=[tag])])


@pytest.mark.parametrize(("more", "tabled"), [(0, 0), (1, 2)], ids=["its value", "one past it"])
def test_the_last_record_ends_within_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, tabled: int
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_BYTES", 64 * 1024)
    folder = filled(tmp_path / "s", 1)
    left = limits.JOURNAL_BYTES - START - records(folder)[0][1].size
    with opened(folder) as recorder:
        assert recorder.append(_sized(left - EXTRA_BYTES + more)) == 2
        assert in_tables(recorder) == tabled
    at, last = records(folder)[-1]

    assert at + last.size + END_BYTES <= journal(folder).stat().st_size == limits.JOURNAL_BYTES
    with opened(folder) as recorder:
        assert recorder.append([event("next")]) == 3
        assert [row.position for row in recorder.rows(0)] == [1, 2, 3]
        assert in_tables(recorder) == (2 if more else 3), "no room was left, or all of it"


@pytest.mark.parametrize(("less", "whole"), [(0, True), (1, False)], ids=["its value", "one less"])
def test_a_journal_has_its_whole_size(tmp_path: Path, *, less: int, whole: bool) -> None:
    assert limits.JOURNAL_BYTES == 2 * 1024 * 1024
    folder = filled(tmp_path / "s")
    assert journal(folder).stat().st_size == limits.JOURNAL_BYTES

    with journal(folder).open("r+b") as file:
        file.truncate(limits.JOURNAL_BYTES - less)
    if whole:
        opened(folder).close()
    else:
        with pytest.raises(ForeignStoreError, match="journal is cut short: 2097151 of 2097152 bytes"):
            opened(folder)


def test_a_journal_that_was_emptied_again_and_again_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of all sizes end anywhere, so that each round leaves something else behind them."""
    monkeypatch.setattr(limits, "JOURNAL_BYTES", 32 * 1024 + START)
    wanted: list[bytes] = []
    for n in range(12):
        with opened(tmp_path / "s", create=True) as recorder:
            for size in range(40):
                wanted.append(b"%d" % n * (37 * size % 1_009 + n))
                assert recorder.append([event(wanted[-1].decode(), tags=("all",))]) == len(wanted)
        with opened(tmp_path / "s") as recorder:
            assert [each.event.data for each in recorder.read()] == wanted
            assert [each.event.data for each in recorder.read(_tagged("all"))] == wanted
            assert in_tables(recorder) < len(wanted)
            assert n < 3 or in_tables(recorder) > 0
