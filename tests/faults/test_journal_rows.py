"""Damage inside the journal: what was durable is damage where it does not fit, and its neighbours stay."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from tests import amounts
from tests.faults.support import event, filled, flip, into_tables, journal, opened, overwrite, records, unmarked

from rightful.errors import DamagedRowError
from rightful.storage.journal.journal_records import END_BYTES, HEAD_BYTES, START, RoundFormat
from rightful.storage.journal.journal_rows import StoredRow
from rightful.storage.port import LedgerEvent
from rightful.storage.recorder import LMDBRecorder

CHECKS = range(32, 96)
"""Bytes of the check of the record before, which is known, and of its own: a later one says what stood there."""

LEAF_BYTES = 32
FRAMING_BYTES = 24
"""What else can keep a row from being read: sizes and count in what stands before it, and what MessagePack adds."""


def _damaged(read: Callable[[], object]) -> int:
    with pytest.raises(DamagedRowError) as caught:
        read()
    return caught.value.position


FLIPS_APART = amounts.either(1, 3)
"""A quick run flips a bit in every third byte only."""


def _each_flip(folder: Path, number: int) -> Iterator[int]:
    """Flip one bit in each byte of a record, one after the other; yield which byte it is."""
    whole = journal(folder).read_bytes()
    at, record = records(folder)[number - 1]
    for byte in range(0, record.size, FLIPS_APART):
        flip(folder, at + byte)
        yield byte
        journal(folder).write_bytes(whole)


def _with_payloads(folder: Path) -> Path:
    """Make a store of five rows as a ledger's are: with a payload apart from what the leaf hash covers."""
    with opened(folder, create=True) as recorder:
        for n in range(1, 6):
            row = LedgerEvent(type="type", data=b"event-%d" % n, tags=[f"tag{n}"], payload=b"payload-%d" % n)
            recorder.append([row])
    return folder


@pytest.mark.parametrize("number", [1, 3, 4])
def test_flipped_bit_in_any_byte_damages_one_row_and_no_neighbour(tmp_path: Path, number: int) -> None:
    folder = _with_payloads(tmp_path / "s")
    before, behind = list(range(1, number)), list(range(number + 1, 6))
    for byte in _each_flip(folder, number):
        with opened(folder) as recorder:
            if byte in CHECKS:  # the row itself is whole, and the next record says so
                assert [row.position for row in recorder.rows(0, 100)] == [1, 2, 3, 4, 5], byte
            else:
                assert _damaged(lambda: recorder.rows(0, 100)) == number, byte
                assert _damaged(lambda: list(recorder.read())) == number, byte
            assert [row.position for row in recorder.rows(0, number - 1)] == before, byte
            assert [row.position for row in recorder.rows(number, 100)] == behind, byte
            assert recorder.append([event("next")]) == 6, "appending goes on"
            assert recorder.rows(5)[0].envelope.endswith(b"next"), byte


def test_row_covered_by_its_leaf_hash_is_read_despite_other_damage(
    tmp_path: Path,
) -> None:
    folder = filled(tmp_path / "s", 5)
    with opened(folder) as recorder:
        rows = recorder.rows(0)
    value = LEAF_BYTES + len(rows[2].envelope)
    damaged = 0
    for byte in _each_flip(folder, 3):
        with opened(folder) as recorder:
            try:
                assert recorder.rows(0) == rows, byte
            except DamagedRowError as error:
                damaged += error.position == 3
            assert recorder.rows(3) == rows[3:]
    assert value // FLIPS_APART <= damaged <= -(-(value + FRAMING_BYTES) // FLIPS_APART)


@pytest.mark.parametrize("byte", [0, 5, 15, 20, 27, 31, 102, 162, 192, 207])
def test_it_stays_damage_when_the_journal_was_emptied_into_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte: int
) -> None:
    folder = _with_payloads(tmp_path / "s")
    flip(folder, records(folder)[2][0] + byte)
    into_tables(monkeypatch)
    with opened(folder) as recorder:
        size, root = recorder.tree_head()
        assert size == 5
        assert recorder.append([event("next")]) == 6
    monkeypatch.undo()

    with opened(folder) as recorder:
        assert _damaged(lambda: recorder.rows(0, 100)) == 3
        assert [row.position for row in recorder.rows(0, 2)] == [1, 2]
        assert [row.position for row in recorder.rows(3)] == [4, 5, 6]
        assert recorder.append([event("journal")]) == 7
    with opened(_with_payloads(tmp_path / "whole")) as whole:
        assert whole.tree_head() == (5, root)


def test_a_damaged_row_that_names_its_tags_is_found_by_them_and_refused(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s", 5)
    flip(folder, journal(folder).read_bytes().index(b"event-3") + 3)
    one = DCBQuery(items=[DCBQueryItem(tags=["tag3"])])
    with opened(folder) as recorder:
        for read in (
            lambda: recorder.rows(2),
            lambda: list(recorder.read(one)),
            lambda: list(recorder.read(one, after=2, limit=1)),
            lambda: next(recorder.subscribe(one)),
            lambda: recorder.decide(lambda view: [row for _, row in view.tagged("tag3")]),
        ):
            assert _damaged(read) == 3
        assert recorder.append([event("next", tags=("tag3",))]) == 6
        assert _damaged(lambda: list(recorder.read(one))) == 3
        assert [each.position for each in recorder.read(one, after=3)] == [6]


def test_of_a_batch_only_the_row_is_damaged_whose_bytes_do_not_fit(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with opened(folder, create=True) as recorder:
        recorder.append([event(f"batch-{n}") for n in range(3)])
        recorder.append([event("behind")])
    flip(folder, journal(folder).read_bytes().index(b"batch-1") + 2)

    with opened(folder) as recorder:
        assert _damaged(lambda: recorder.rows(0)) == 2
        assert [row.position for row in recorder.rows(0, 1) + recorder.rows(2)] == [1, 3, 4]


def test_a_payload_is_damaged_too_though_no_leaf_hash_covers_it(tmp_path: Path) -> None:
    """Which of a batch it is cannot be known, so each that has one is."""
    folder = tmp_path / "s"
    with opened(folder, create=True) as recorder:
        rows = [LedgerEvent(type="t", data=b"d", tags=[], payload=f"payload-{n}".encode()) for n in range(2)]
        recorder.append([*rows, event("has none")])
        recorder.append([event("behind")])
    flip(folder, journal(folder).read_bytes().index(b"payload-1") + 2)

    with opened(folder) as recorder:
        assert [_damaged(lambda at=at: recorder.rows(at, 1)) for at in (0, 1)] == [1, 2]  # type: ignore[misc]
        assert [row.position for row in recorder.rows(2)] == [3, 4]


@pytest.mark.parametrize("seen", [1, 2])
def test_what_is_read_while_it_is_written_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """And others wrote on, and synced, before what is behind it is read."""
    folder = _with_payloads(tmp_path / "s")
    target, pread, left = records(folder)[2][0] + 100, os.pread, [seen]

    def reads(fd: int, count: int, at: int) -> bytes:
        data = bytearray(pread(fd, count, at))
        if left[0] and at <= target < at + count:
            data[target - at] ^= 1
            left[0] -= 1
        return bytes(data)

    monkeypatch.setattr(os, "pread", reads)
    with opened(folder) as recorder:
        assert [each.event.data for each in recorder.read()] == [b"event-%d" % n for n in range(1, 6)]
    assert left == [0]


@pytest.mark.parametrize("fill", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_damage_over_several_records_ends_where_one_is_whole(tmp_path: Path, fill: bytes) -> None:
    """As of a sector: the record behind it names the check of the one before, and proves both by its own."""
    folder = filled(tmp_path / "s", 8)
    stand = records(folder)
    start, end = stand[1][0] + 100, stand[3][0] + 100
    overwrite(folder, start, fill * (end - start))

    with opened(folder) as recorder:
        assert [_damaged(lambda at=at: recorder.rows(at, 1)) for at in (1, 2, 3)] == [2, 3, 4]  # type: ignore[misc]
        assert [row.position for row in recorder.rows(0, 1) + recorder.rows(4)] == [1, 5, 6, 7, 8]
        assert recorder.append([event("next")]) == 9


@pytest.mark.parametrize("fill", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_a_torn_last_record_counts_for_nothing_and_is_written_over(tmp_path: Path, fill: bytes) -> None:
    folder = unmarked(tmp_path / "s", 3)
    whole = journal(folder).read_bytes()
    at, last = records(folder)[-1]
    for cut in range(0, last.size, amounts.either(1, 5)):
        overwrite(folder, at + cut, fill * (last.size - cut))
        with opened(folder) as recorder:
            assert recorder.head() == 2
            assert recorder.append([event("written over")]) == 3
        with opened(folder) as recorder:
            assert [each.event.data for each in recorder.read()] == [b"event-1", b"event-2", b"written over"]
        journal(folder).write_bytes(whole)


def test_what_is_torn_is_looked_behind_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows looks a thousand times a second."""
    folder = unmarked(tmp_path / "s", 3)
    flip(folder, records(folder)[-1][0] + 100)
    sizes, pread = list[int](), os.pread

    def reads(fd: int, count: int, at: int) -> bytes:
        sizes.append(count)
        return pread(fd, count, at)

    monkeypatch.setattr(os, "pread", reads)
    with opened(folder) as recorder:
        assert [recorder.head() for _ in range(5)] == [2] * 5
    assert sum(size > 1_000_000 for size in sizes) == 1


@pytest.mark.parametrize("byte", [0, 6, 14, 22, 26, 30, 70, 110])
def test_unmarked_damaged_last_record_counts_for_nothing(tmp_path: Path, byte: int) -> None:
    folder = unmarked(tmp_path / "s", 3)
    flip(folder, records(folder)[-1][0] + byte)
    with opened(folder) as recorder:
        assert recorder.head() == 2
        assert recorder.append([event("written over")]) == 3


def _at_each_byte(tmp_path: Path, count: int, use: Callable[[int, LMDBRecorder], None]) -> None:
    """Flip one bit in each byte of the last record of a store, and use the store each time."""
    folder = _with_payloads(tmp_path / "s")
    for byte in _each_flip(folder, count):
        with opened(folder) as recorder:
            use(byte, recorder)


def test_last_record_marked_durable_is_never_lost_silently(tmp_path: Path) -> None:
    """Its rows are read, or named; nothing takes their positions."""
    flipped, appended = set(), set()

    def use(byte: int, recorder: LMDBRecorder) -> None:
        flipped.add(byte)
        assert recorder.head() == 5, byte
        assert [row.position for row in recorder.rows(0, 4)] == [1, 2, 3, 4], byte
        if byte in CHECKS:
            assert [row.position for row in recorder.rows(0)] == [1, 2, 3, 4, 5], byte
        else:
            assert _damaged(lambda: recorder.rows(0)) == 5, byte
        try:
            assert recorder.append([event("next")]) == 6, byte
            appended.add(byte)
        except DamagedRowError as error:
            assert error.position == 5  # noqa: PT017 - some bytes are those of the tree, which an append needs

    _at_each_byte(tmp_path, 5, use)
    assert {*CHECKS, 200, 250} & flipped <= appended
    assert not {30, 31, 100, 150} & appended


def test_beginning_of_a_new_journal_in_place_of_its_first_record_is_damage(tmp_path: Path) -> None:
    """As a disk leaves it that lost one write; the mark says that records were durable."""
    with opened(tmp_path / "s", create=True):
        end = journal(tmp_path / "s").read_bytes()[START : START + END_BYTES]
    folder = filled(tmp_path / "s")
    overwrite(folder, START, end)
    with opened(folder) as recorder:
        assert recorder.head() == 3
        assert [each.position for each in recorder.rows(1)] == [2, 3]
        assert _damaged(lambda: recorder.rows(0)) == 1


def _ghost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what a power cut may leave of two appends that were never synced: the first one torn, the second whole."""

    def fail(fd: int) -> None:
        raise OSError(5, os.strerror(5))

    filled(folder, 3)
    with monkeypatch.context() as patch, opened(folder) as recorder:
        patch.setattr(os, "fdatasync", fail)
        for data in ("torn", "ghost"):
            with pytest.raises(Exception, match="is not known"):
                recorder.append([event(data)])
    at, torn = records(folder)[3]
    overwrite(folder, at + torn.size - 8, bytes(8))


def test_what_stands_whole_behind_a_torn_record_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    _ghost(folder, monkeypatch)
    with opened(folder) as recorder:
        assert recorder.head() == 3
        assert [recorder.append([event(data)]) for data in ("a", "b", "c")] == [4, 5, 6]
    with opened(folder) as recorder:
        assert [each.event.data for each in recorder.read(after=3)] == [b"a", b"b", b"c"]


def test_nor_is_it_when_the_torn_ones_position_went_into_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position is then the next one, and it fits the check of what stands before it."""
    folder = tmp_path / "s"
    _ghost(folder, monkeypatch)
    with monkeypatch.context() as patch, opened(folder) as recorder:
        into_tables(patch)
        assert recorder.append([event("tables")]) == 4
    with opened(folder) as recorder:
        assert recorder.head() == 4
        assert recorder.append([event("next")]) == 5
        assert [each.event.data for each in recorder.read(after=3)] == [b"tables", b"next"]


def _forged(last: int) -> bytes:
    """Return what says of the row behind a position that it was durable, over a check of nothing but zeros."""
    return RoundFormat(bytes(48), 1).pack([StoredRow(b"forged", None)], b"", last + 2, last + 1, bytes(32))[0]


def test_what_was_left_behind_the_end_says_nothing_whatever_it_holds(tmp_path: Path) -> None:
    """An event may hold any bytes, and they stay there when the journal was emptied: also those of a record."""
    folder = filled(tmp_path / "s", 3)
    at, last = records(folder)[-1]
    overwrite(folder, at + last.size + HEAD_BYTES, _forged(3))
    with opened(folder) as recorder:
        assert recorder.head() == 3
        assert recorder.append([event("next")]) == 4


def test_what_stands_behind_the_last_record_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path / "s", 9)
    with monkeypatch.context() as patch, opened(folder) as recorder:
        into_tables(patch)
        assert recorder.append([event("tables")]) == 10
    with opened(folder) as recorder:
        assert recorder.append([event("journal")]) == 11
    first = records(folder)[0][1]

    assert first.first == 11
    assert b"event-9" in journal(folder).read_bytes()
    assert journal(folder).read_bytes()[first.size :][:HEAD_BYTES] == bytes(HEAD_BYTES)


def test_older_row_of_an_emptied_journal_is_never_read_as_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "s", 3)
    for n in range(3):
        with monkeypatch.context() as patch, opened(folder) as recorder:
            into_tables(patch)
            assert recorder.append([event("tables")]) == 4 + 3 * n
        with opened(folder) as recorder:
            assert recorder.append([event("journal")]) == 5 + 3 * n
            assert recorder.append([event("journal")]) == 6 + 3 * n
        with LMDBRecorder(folder, kind="plain") as recorder:
            assert [row.position for row in recorder.rows(0)] == list(range(1, 7 + 3 * n))
