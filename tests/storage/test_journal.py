"""The journal's bytes, which are for ever, and what counts of them."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.base import event
from tests.contracts.support import PATIENCE_S, together
from tests.storage.journals import ID, KEY, Disk, empty, seen, write

from rightful import limits
from rightful.encoding.merkle import EMPTY_ROOT
from rightful.errors import ClosedError, ForeignStoreError
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.journal import journal_reader
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import END_BYTES, HEAD_BYTES, START, Mark, TablesState
from rightful.storage.journal.journal_rows import StoredRow
from rightful.storage.port import LedgerEvent
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.row_codec import PlainCodec


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "journal")


# -- the bytes -------------------------------------------------------------------------------

ROWS = [
    event("one"),
    LedgerEvent("kind", b"two", ["b", "c"], b"salt and body"),
    event("three", "", ("",)),
]
ROOT_OF_3 = bytes.fromhex("91195474c49f5ea768a815753c541721d2fdb71051b38e771ff3e49dff8d181f")
BODIES = [
    bytes.fromhex(
        # the tree: its root, its size, and its peaks
        "fb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da"
        "0000000000000001"
        "fb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da"
        # the rows
        "9192c42cfb2c8609df3e130a0909905ec02967b8b76d71098a036e8248cb57ef887ed0da93a47479706590c4036f6e65"
        "c0"
    ),
    bytes.fromhex(
        # the tree: its root, its size, and its peaks
        "91195474c49f5ea768a815753c541721d2fdb71051b38e771ff3e49dff8d181f"
        "0000000000000003"
        "f79492605e74302811292d761c48628f3bdd055ab7ab292246a2d8610d2ce130301e254ed092b4877937aaf3494fb0f8"
        "81930291771f80246911705f994bf466"
        # the rows
        "9292c4303607642f7279f2f3e87bebec352b4554b1f7e26711311158a082bba2b7418dab93a46b696e6492a162a163c4"
        "0374776fc40d73616c7420616e6420626f647992c42b301e254ed092b4877937aaf3494fb0f881930291771f80246911"
        "705f994bf46693a091a0c4057468726565c0"
    ),
]
"""The bodies of two records: the form of a body is that of format 2."""


def keyed(number: int, *parts: bytes) -> bytes:
    """Return the keyed hash, as the page of the form has it."""
    name = KEY + uuid.UUID(ID).bytes + number.to_bytes(8, "big") + bytes(8)
    return sha256(name + b"".join(parts)).digest()


def beginning(mark: bytes) -> bytes:
    anchor = b"RfA3" + (1).to_bytes(8, "big") + bytes(8) + uuid.UUID(ID).bytes + bytes(32) + EMPTY_ROOT
    return mark.ljust(512, b"\0") + (anchor + keyed(1, anchor)).ljust(1_024, b"\0")


def record(body: bytes, first: int, durable: int, rows: int, tree: int, before: bytes) -> bytes:
    head = b"RfJ3" + len(body).to_bytes(4, "big") + first.to_bytes(8, "big") + durable.to_bytes(8, "big")
    head += rows.to_bytes(4, "big") + tree.to_bytes(4, "big") + before
    return head + keyed(1, head, body) + body


def test_two_records_of_known_rows_have_these_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: KEY[:count])
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(ID))
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        new = (tmp_path / "s/store/journal").read_bytes()
        recorder.append(ROWS[:1])
        recorder.append(ROWS[1:])

    start = beginning(b"")
    one = record(BODIES[0], 1, 0, 1, 72, start[512 + 100 : 512 + 132])
    two = record(BODIES[1], 2, 1, 2, 104, one[64:96])
    mark = b"RfM3" + b"".join(each.to_bytes(8, "big") for each in (1, 3, 1_536 + len(one) + len(two))) + two[64:96]
    found = (tmp_path / "s/store/journal").read_bytes()
    end = keyed(1, b"RfE3", two[64:96])
    whole = beginning(mark + keyed(1, mark)) + one + two + end
    assert found[: len(whole)].hex(" ", 8) == whole.hex(" ", 8)
    assert found[len(whole) :].strip(b"\0") == b""
    assert new[512:1_536] == start[512:]
    assert new[1_536:].rstrip(b"\0") == keyed(1, b"RfE3", start[512 + 100 : 512 + 132])


def test_what_an_earlier_program_wrote_is_read_as_its_rows(disk: Disk) -> None:
    start = beginning(b"")
    one = record(BODIES[0], 1, 0, 1, 72, start[512 + 100 : 512 + 132])
    two = record(BODIES[1], 2, 1, 2, 104, one[64:96])
    disk.change(1_536, one + two + keyed(1, b"RfE3", two[64:96]))
    journal = disk.open()
    tail, last, tree = journal.read_state()

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
    return recorder.tables().env.tables_state().size


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
    around = START + HEAD_BYTES + 16 + 32 + 8 + 64 * 32 + END_BYTES
    whole = Disk(disk.path, 8_192).open()
    whole.read_state()
    assert whole.has_room([StoredRow(bytes(8_192 - around), None)])
    assert not whole.has_room([StoredRow(bytes(8_193 - around), None)])
    assert whole.has_room([StoredRow(bytes(100), bytes(8_092 - around))])
    assert not whole.has_room([StoredRow(bytes(100), bytes(8_093 - around))])


def test_a_full_journal_is_read_to_its_last_byte(disk: Disk) -> None:
    disk = Disk(disk.path, START + 4_096 + END_BYTES)
    journal = disk.open()
    body = b"tree of 1" + bytes([0x91, 0x92, 0xC5]) + (4_096 - HEAD_BYTES - 15).to_bytes(2, "big")
    write(journal, "x" * (4_096 - HEAD_BYTES - len(body) - 1 - 32))

    assert disk.path.read_bytes()[-END_BYTES - 1] == 0xC0, "the journal does not end with the file"
    assert seen(disk.open()) == seen(journal) == ["x" * (4_096 - HEAD_BYTES - len(body) - 1 - 32)]


@pytest.mark.parametrize("beyond", [-2 * HEAD_BYTES, -HEAD_BYTES - 1, -HEAD_BYTES, -1, 0, 1, HEAD_BYTES, 20_000])
@pytest.mark.parametrize("known", [0, 1], ids=["all is new", "one is known"])
def test_records_are_read_wherever_what_is_read_at_once_ends(disk: Disk, known: int, beyond: int) -> None:
    """Before a record, in its head, at its end, or far before that."""
    journal, reader = disk.open(), disk.open()
    write(journal, "one")
    start = journal._end if known else START
    assert not known or seen(reader) == ["one"]
    long = "x" * (start + journal_reader._BLOCK_BYTES + beyond - journal._end - HEAD_BYTES - len(b"tree of 2") - 6 - 32)
    write(journal, long)
    assert journal._end == start + journal_reader._BLOCK_BYTES + beyond
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
        assert reader.read_state()[1:] == (
            journal.read_state()[1],
            b"tree of " + str(disk.tables.size + rounds).encode(),
        )


def test_writer_begins_a_round_after_the_tables_took_all_rows(disk: Disk) -> None:
    one, two = disk.open(), disk.open()
    write(one, "1", "2")
    assert seen(two) == ["1", "2"]
    one.sync()
    disk.take(one, 3)  # and it was killed before it wrote the anchor
    two.invalidate(3)  # as the appender does when it finds all rows in the tables
    write(two, "4")

    assert (seen(one), one.read_state()[1]) == (["4"], 4)
    assert disk.path.read_bytes()[START + 8 : START + 16] == (4).to_bytes(8, "big"), "not at the beginning"


def damaged_after(disk: Disk, *, durable: tuple[bool, ...]) -> Journal:
    """Write three records, each synced before the next one or not, and damage a row of the second."""
    journal = disk.open()
    for word, synced in zip(("one", "two", "three"), durable, strict=True):
        write(journal, word, durable=synced)
    disk.flip(disk.path.read_bytes().index(b"two"))
    return disk.open()


@pytest.mark.parametrize("synced", [(True, True, True), (False, True, True)], ids=["each", "two at once"])
def test_damaged_record_known_durable_stays_and_so_do_its_neighbours(disk: Disk, synced: tuple[bool, ...]) -> None:
    assert seen(damaged_after(disk, durable=synced)) == ["one", "uwo", "three"]


def test_a_damaged_record_that_was_synced_after_the_next_was_written_stays(disk: Disk) -> None:
    """By two processes the next record is written before the sync of this one; only a third one can tell."""
    journal = disk.open()
    for word, synced in (("one", True), ("two", False), ("three", True), ("four", True)):
        write(journal, word, durable=synced)
    disk.flip(disk.path.read_bytes().index(b"two"))

    assert seen(disk.open()) == ["one", "uwo", "three", "four"]


def test_unfitting_record_not_known_durable_ends_the_journal(disk: Disk) -> None:
    """A power cut kept a later write and lost an earlier one: neither was answered."""
    reader = damaged_after(disk, durable=(True, False, False))
    assert seen(reader) == ["one"]
    write(reader, "new")
    assert seen(disk.open()) == ["one", "new"]


def test_a_damaged_record_is_not_believed_about_what_is_durable(disk: Disk) -> None:
    journal = disk.open()
    for word in ("one", "two", "three"):
        write(journal, word)
    at = disk.path.read_bytes().index(b"RfJ3", START + 1)
    disk.flip(at + 16)  # the highest byte of what it says is durable
    reader = disk.open()

    assert seen(reader) == ["one", "two", "three"]
    assert reader.durable == 2


def test_a_damaged_record_whose_rows_cannot_be_told_has_damaged_rows(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "one", "two")
    write(journal, "three")
    disk.flip(START + 31)  # the size of its tree

    assert seen(disk.open()) == [None, None, "three"]


# -- what it stands on -----------------------------------------------------------------------


def test_a_journal_that_begins_behind_the_end_of_the_tables_is_refused(disk: Disk) -> None:
    empty(disk, disk.open(), "1", "2")
    write(disk.open(), "3")
    disk.tables = msgspec.structs.replace(disk.tables, size=1)
    with pytest.raises(ForeignStoreError, match="begins at position 3, and its tables end at 1"):
        disk.open().read_state()


def test_journal_emptied_after_reading_the_tables_is_not_refused(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "1")
    looked: list[int] = []

    def tabled() -> TablesState:
        looked.append(disk.tables.size)
        before = disk.tables
        if len(looked) == 1:
            empty(disk, journal, "large")
            write(journal, "3")
            empty(disk, journal, "large")
            write(journal, "5")
        return before

    reader = Journal(disk.path.parent, os.open(disk.path, os.O_RDONLY), PlainCodec(), tabled, disk.key)
    assert (seen(reader), reader.read_state()[1], looked) == (["5"], 5, [0, 4])


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        yield recorder


def test_store_closes_while_a_thread_first_reads_its_journal(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has the journal and waits to read; who closes keeps readers out and wants the journal."""
    assert recorder._store is not None
    env = recorder._store.env
    looking, closing = threading.Event(), threading.Event()
    tabled, close = env.tables_state, Environment._close_lmdb

    def tables() -> TablesState:
        looking.set()
        assert closing.wait(PATIENCE_S)
        return tabled()

    def close_lmdb(self: Environment) -> None:
        closing.set()
        close(self)

    def closed() -> None:
        assert looking.wait(PATIENCE_S)
        recorder.close()

    monkeypatch.setattr(env.journal, "_tables_state", tables)
    monkeypatch.setattr(Environment, "_close_lmdb", close_lmdb)
    assert [type(each) for each in together(recorder.head, closed)] == [ClosedError, type(None)]


def test_a_new_round_is_seen_though_the_old_end_is_still_there(disk: Disk) -> None:
    first, other = disk.open(), disk.open()
    write(first, "a long row " * 20)
    assert seen(first) == ["a long row " * 20]

    empty(disk, other)
    write(other, "new", durable=False)  # and so without a mark

    assert seen(first) == ["new"]


def test_unsynced_record_that_the_system_dropped_is_not_shown(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "kept")
    at = journal._end
    write(journal, "dropped", durable=False)
    assert seen(journal) == ["kept", "dropped"]

    disk.change(at, bytes(HEAD_BYTES))  # its end, on another page, is still there

    assert seen(journal) == ["kept"]


def test_mark_beyond_the_last_record_names_the_lost_row(disk: Disk) -> None:
    journal = disk.open()
    write(journal, "kept")
    assert seen(journal) == ["kept"]

    disk.change(0, disk.key.mark(Mark(round=1, position=2, end=journal._end + 200, check=bytes(32))))

    assert seen(journal) == ["kept", None]
