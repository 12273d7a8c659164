"""The journal's bytes, which are for ever, and what counts of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.base import event
from tests.contracts.support import PATIENCE_S, together

from rightful import limits
from rightful.errors import ClosedError, ForeignStoreError
from rightful.recorders import journal as journals
from rightful.recorders.codec import PlainCodec
from rightful.recorders.environment import Environment
from rightful.recorders.journal import Journal
from rightful.recorders.port import LedgerEvent
from rightful.recorders.recorder import LMDBRecorder
from rightful.recorders.tail import Kept

RECORD_BYTES = END_BYTES = 64


class Disk:
    """A journal's file, and how far the tables are."""

    def __init__(self, path: Path, size: int = 65_536) -> None:
        self.path, self.head = path, 0
        path.write_bytes(bytes(size))

    def open(self) -> Journal:
        return Journal(self.path.parent, os.open(self.path, os.O_RDWR), PlainCodec(), lambda: self.head)

    def change(self, at: int, to: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(to)

    def flip(self, at: int) -> None:
        self.change(at, bytes([self.path.read_bytes()[at] ^ 1]))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "journal")


def kept(word: str) -> Kept:
    return Kept(bytes(32) + word.encode(), None)


def write(journal: Journal, *words: str, durable: bool = True) -> None:
    """Commit rows as the writer does, in its turn."""
    journal.begin_turn()
    tail, last, _ = journal.now()
    assert tail.last == last
    rows = [kept(word) for word in words]
    tail.grow(rows, [DCBEvent(type="t", data=b"", tags=[]) for _ in rows])
    journal.write(rows, b"tree of " + str(tail.last).encode())
    if durable:
        journal.settle(for_answer=True)


def empty(disk: Disk, journal: Journal, *words: str) -> None:
    """Commit rows into the tables, with all that the journal has."""
    journal.begin_turn()
    disk.head = journal.now()[1] + len(words)
    journal.emptied(disk.head)


def seen(journal: Journal) -> list[str | None]:
    tail, last, _ = journal.now()
    rows = tail.after(tail.start, last)
    return [None if row.value is None else row.value[32:].decode() for row in rows]


# -- the bytes -------------------------------------------------------------------------------

ROWS = [
    event("one"),
    LedgerEvent("kind", b"two", ["b", "c"], b"salt and body"),
    event("three", "", ("",)),
]
ROOT_OF_3 = bytes.fromhex("91195474c49f5ea768a815753c541721d2fdb71051b38e771ff3e49dff8d181f")
GOLDEN = bytes.fromhex(
    # RfJ1, size of the body, first position, durable through, rows, size of the tree
    "52664a31 00000079 0000000000000001 0000000000000000 00000001 00000048"
    # the check
    "903a34151570c30bc91639f51aa2fb27219d49fafce11160b9c467e612b2e301"
    # the tree: its root, its size, and its peaks
    "fb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da"
    "0000000000000001"
    "fb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da"
    # the rows
    "9192c42cfb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da93a47479706590c4036f6e65"
    "c0"
    # RfJ1, size of the body, first position, durable through, rows, size of the tree
    "52664a31 000000da 0000000000000002 0000000000000001 00000002 00000068"
    # the check
    "70a96eb0f7b7658898e34b9a6d1b22d5878e2ec58e884fa6db5175d93c5ef3e5"
    # the tree: its root, its size, and its peaks
    "91195474c49f5ea768a815753c541721d2fdb71051b38e771ff3e49dff8d181f"
    "0000000000000003"
    "f79492605e74302811292d761c48628f3bdd055ab7ab292246a2d8610d2ce130301e254ed092b4877937aaf3494fb0f8"
    "81930291771f80246911705f994bf466"
    # the rows
    "9292c4303607642f7279f2f3e87bebec352b4554b1f7e26711311158a082bba2b7418dab93a46b696e6492a162a163c4"
    "0374776fc40d73616c7420616e6420626f647992c42b301e254ed092b4877937aaf3494fb0f881930291771f80246911"
    "705f994bf46693a091a0c4057468726565c0"
)


def test_two_records_of_known_rows_have_these_bytes(tmp_path: Path) -> None:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        recorder.append(ROWS[:1])
        recorder.append(ROWS[1:])

    found = (tmp_path / "s/store/journal").read_bytes()
    assert found[: len(GOLDEN)].hex(" ", 8) == GOLDEN.hex(" ", 8)
    assert found[len(GOLDEN) :].strip(b"\0") == b""


def test_the_check_of_a_record_is_over_the_one_before_and_all_else_that_it_has() -> None:
    second = RECORD_BYTES + int.from_bytes(GOLDEN[4:8], "big")
    one, two = GOLDEN[:second], GOLDEN[second:]

    assert sha256(one[:32] + one[64:]).digest() == one[32:64]
    assert sha256(one[32:64] + two[:32] + two[64:]).digest() == two[32:64]


def test_what_an_earlier_program_wrote_is_read_as_its_rows(disk: Disk) -> None:
    disk.change(0, GOLDEN)
    journal = disk.open()
    tail, last, tree = journal.now()

    assert (last, journal.durable, tree[:40]) == (3, 1, ROOT_OF_3 + bytes(7) + b"\3")
    there = [(PlainCodec().unpack((row.value or b"")[32:], row.payload)) for row in tail.after(0, 3)]
    assert there == ROWS


# -- limits ----------------------------------------------------------------------------------


def test_a_new_journal_has_its_size_on_the_disk(tmp_path: Path) -> None:
    LMDBRecorder(tmp_path / "s", kind="plain", create=True).close()
    found = (tmp_path / "s/store/journal").stat()

    assert (found.st_size, found.st_mode & 0o777) == (limits.JOURNAL_BYTES, 0o600)
    assert found.st_blocks * 512 >= limits.JOURNAL_BYTES


def in_tables(recorder: LMDBRecorder) -> int:
    assert recorder._store is not None
    return recorder._store.env._tabled()


@pytest.mark.parametrize(("more", "tabled"), [(0, 0), (1, limits.JOURNAL_ROWS + 1)], ids=["at", "past"])
def test_so_many_rows_stand_in_the_journal_at_most(tmp_path: Path, more: int, tabled: int) -> None:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        recorder.append([event()])
        recorder.append([event()] * (limits.JOURNAL_ROWS - 1 + more))

        assert in_tables(recorder) == tabled
        assert recorder.head() == limits.JOURNAL_ROWS + more


@pytest.mark.parametrize(("more", "tabled"), [(0, 0), (1, 2)], ids=["at", "past"])
def test_rows_of_a_commit_that_are_so_large_go_into_the_journal(tmp_path: Path, more: int, tabled: int) -> None:
    around = len(PlainCodec().pack(DCBEvent(type="t", data=bytes(70_000), tags=[]))) - 70_000 + 32
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        rest = limits.JOURNAL_COMMIT_BYTES + more - 70_000 - around - (32 + 4) - 7
        each = LedgerEvent(type="t", data=bytes(70_000), tags=[], payload=bytes(rest))
        other = DCBEvent(type="t", data=b"12345", tags=[])
        assert 32 + len(PlainCodec().pack(other)) == 32 + 4 + 7
        recorder.append([each, other])

        assert in_tables(recorder) == tabled
        assert [len(row.event.data) for row in recorder.read()] == [70_000, 5]


def test_a_record_for_which_there_is_no_room_is_not_begun(disk: Disk) -> None:
    """Room is needed for the largest tree, 16 bytes more a row than what the row has, and what ends a journal."""
    around = RECORD_BYTES + 16 + 32 + 8 + 64 * 32 + END_BYTES
    whole = Disk(disk.path, 8_192).open()
    assert whole.has_room([Kept(bytes(8_192 - around), None)])
    assert not whole.has_room([Kept(bytes(8_193 - around), None)])
    assert whole.has_room([Kept(bytes(100), bytes(8_092 - around))])
    assert not whole.has_room([Kept(bytes(100), bytes(8_093 - around))])


def test_a_full_journal_is_read_to_its_last_byte(disk: Disk) -> None:
    disk = Disk(disk.path, 4_096 + END_BYTES)
    journal = disk.open()
    body = b"tree of 1" + bytes([0x91, 0x92, 0xC5]) + (4_096 - RECORD_BYTES - 15).to_bytes(2, "big")
    write(journal, "x" * (4_096 - RECORD_BYTES - len(body) - 1 - 32))

    assert disk.path.read_bytes()[-END_BYTES - 1 :] == b"\xc0" + bytes(END_BYTES), (
        "the journal does not end with the file"
    )
    assert seen(disk.open()) == seen(journal) == ["x" * (4_096 - RECORD_BYTES - len(body) - 1 - 32)]


@pytest.mark.parametrize(
    "beyond", [-2 * RECORD_BYTES, -RECORD_BYTES - 1, -RECORD_BYTES, -1, 0, 1, RECORD_BYTES, 20_000]
)
@pytest.mark.parametrize("known", [0, 1], ids=["all is new", "one is known"])
def test_records_are_read_wherever_what_is_read_at_once_ends(disk: Disk, known: int, beyond: int) -> None:
    """Before a record, in its head, at its end, or far before that."""
    journal, reader = disk.open(), disk.open()
    write(journal, "one")
    start = journal._end if known else 0
    assert not known or seen(reader) == ["one"]
    long = "x" * (start + journals._BLOCK_BYTES + beyond - journal._end - RECORD_BYTES - len(b"tree of 2") - 6 - 32)
    write(journal, long)
    assert journal._end == start + journals._BLOCK_BYTES + beyond
    assert seen(disk.open()) == ["one", long]
    write(journal, "three")
    write(journal, "four")

    assert seen(reader if known else disk.open()) == ["one", long, "three", "four"]


# -- what counts -----------------------------------------------------------------------------


def test_half_a_record_does_not_count_and_is_written_over(disk: Disk) -> None:
    """It is what a kill or a power cut left, at whichever byte."""
    journal = disk.open()
    write(journal, "one")
    start = journal._end
    write(journal, "two", "three")
    whole = disk.path.read_bytes()
    for cut in range(start, journal._end):
        if whole[cut:] == bytes(len(whole) - cut):
            continue  # what is missing is as what stood there
        disk.path.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        assert seen(disk.open()) == ["one"], cut
    again = disk.open()
    write(again, "other")
    assert seen(again) == seen(disk.open()) == ["one", "other"]


def test_what_an_earlier_round_left_does_not_count(disk: Disk) -> None:
    """The records of all rounds are of one size, so that each new one ends where an old one begins."""
    journal, reader = disk.open(), disk.open()
    for number in range(4):
        write(journal, f"{number}a")
        assert seen(reader) == seen(disk.open()) == [f"{number}a"]
        write(journal, f"{number}b")
        write(journal, f"{number}c")
        assert seen(reader) == seen(disk.open()) == [f"{number}{each}" for each in "abc"]
        empty(disk, journal, "large")
        assert seen(disk.open()) == []


def test_a_reader_that_slept_through_several_rounds_sees_the_last(disk: Disk) -> None:
    journal, reader = disk.open(), disk.open()
    write(journal, "1")
    assert seen(reader) == ["1"]
    for rounds in range(2, 5):
        for number in range(rounds):
            empty(disk, journal, "large")
            for _ in range(number + 1):
                write(journal, f"{rounds}.{number}")
        assert seen(reader) == [f"{rounds}.{rounds - 1}"] * rounds
        assert reader.now()[1:] == (journal.now()[1], b"tree of " + str(disk.head + rounds).encode())


def test_one_who_has_the_turn_after_the_tables_took_all_begins_anew(disk: Disk) -> None:
    one, two = disk.open(), disk.open()
    write(one, "1", "2")
    assert seen(two) == ["1", "2"]
    empty(disk, one, "3")
    two.emptied(3)  # as the appender does when it finds all rows in the tables
    write(two, "4")

    assert (seen(one), one.now()[1]) == (["4"], 4)
    assert disk.path.read_bytes()[8:16] == (4).to_bytes(8, "big"), "it was not written at the beginning"


def damaged_after(disk: Disk, *, durable: tuple[bool, ...]) -> Journal:
    """Write three records, each synced before the next one or not, and damage a row of the second."""
    journal = disk.open()
    for word, synced in zip(("one", "two", "three"), durable, strict=True):
        write(journal, word, durable=synced)
    disk.flip(disk.path.read_bytes().index(b"two"))
    return disk.open()


@pytest.mark.parametrize("synced", [(True, True, True), (False, True, True)], ids=["each", "two at once"])
def test_a_damaged_record_that_a_later_one_says_was_durable_stays_and_so_do_its_neighbours(
    disk: Disk, synced: tuple[bool, ...]
) -> None:
    assert seen(damaged_after(disk, durable=synced)) == ["one", "uwo", "three"]


def test_a_damaged_record_that_was_synced_after_the_next_was_written_stays(disk: Disk) -> None:
    """By two processes the next record is written before the sync of this one; only a third one can tell."""
    journal = disk.open()
    for word, synced in (("one", True), ("two", False), ("three", True), ("four", True)):
        write(journal, word, durable=synced)
    disk.flip(disk.path.read_bytes().index(b"two"))

    assert seen(disk.open()) == ["one", "uwo", "three", "four"]


def test_a_record_that_does_not_fit_and_that_none_says_was_durable_ends_what_counts(disk: Disk) -> None:
    """A power cut kept a later write and lost an earlier one: neither was answered."""
    reader = damaged_after(disk, durable=(True, False, False))
    assert seen(reader) == ["one"]
    write(reader, "new")
    assert seen(disk.open()) == ["one", "new"]


def test_a_damaged_record_is_not_believed_about_what_is_durable(disk: Disk) -> None:
    journal = disk.open()
    for word in ("one", "two", "three"):
        write(journal, word)
    at = disk.path.read_bytes().index(b"RfJ1", 1)
    disk.flip(at + 16)  # the highest byte of what it says is durable
    reader = disk.open()

    assert seen(reader) == ["one", "two", "three"]
    assert reader.durable == 2


def test_a_damaged_record_whose_rows_cannot_be_told_has_damaged_rows(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "one", "two")
    write(journal, "three")
    disk.flip(31)  # the size of its tree

    assert seen(disk.open()) == [None, None, "three"]


# -- what it stands on -----------------------------------------------------------------------


def test_a_journal_that_begins_behind_the_end_of_the_tables_is_refused(disk: Disk) -> None:
    disk.head = 2
    write(disk.open(), "3")
    disk.head = 1
    with pytest.raises(ForeignStoreError, match="begins at position 3, and its tables end at 1"):
        disk.open().now()


def test_a_journal_that_was_emptied_after_the_tables_were_looked_at_is_not_refused(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "1")
    looked: list[int] = []

    def head() -> int:
        looked.append(disk.head)
        if len(looked) == 1:
            empty(disk, journal, "large")
            write(journal, "3")
        return looked[-1]

    reader = Journal(disk.path.parent, os.open(disk.path, os.O_RDONLY), PlainCodec(), head)
    assert (seen(reader), reader.now()[1], looked) == (["3"], 3, [0, 2])


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        yield recorder


def test_a_store_closes_while_a_thread_looks_at_its_journal_for_the_first_time(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has the journal and waits to read; who closes keeps readers out and wants the journal."""
    assert recorder._store is not None
    env = recorder._store.env
    looking, closing = threading.Event(), threading.Event()
    tabled, close = env._tabled, Environment._close_lmdb

    def head() -> int:
        looking.set()
        assert closing.wait(PATIENCE_S)
        return tabled()

    def close_lmdb(self: Environment) -> None:
        closing.set()
        close(self)

    def closed() -> None:
        assert looking.wait(PATIENCE_S)
        recorder.close()

    monkeypatch.setattr(env.journal, "_head", head)
    monkeypatch.setattr(Environment, "_close_lmdb", close_lmdb)
    assert [type(each) for each in together(recorder.head, closed)] == [ClosedError, type(None)]
