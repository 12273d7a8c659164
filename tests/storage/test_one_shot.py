"""Damage of any byte or range of a journal that processes of one append each wrote: no row is lost without a word."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.journals import ID, Disk, seen, write

from rightful.errors import ForeignStoreError
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import START, JournalKey
from rightful.storage.journal.journal_rows import StoredRow

WORDS = [f"row-{n}-" + "x" * (37 * n % 91) for n in range(1, 13)]


def written(path: Path, count: int = len(WORDS), *, marked: bool = True) -> tuple[Disk, bytes]:
    """Have each row be written by a process of its own, that knows what the journal says and exits."""
    disk, before = Disk(path, START + 4_096), b""
    for word in WORDS[:count]:
        before = disk.path.read_bytes()[:512]
        journal = disk.open()
        write(journal, word)
        journal.close()
    if not marked:  # the last one was killed behind its sync
        disk.change(0, before)
    return disk, disk.path.read_bytes()


def judged(disk: Disk) -> tuple[str, list[int]]:
    """Return whether it is refused, and which rows are damaged; the others are what was written."""
    try:
        rows = seen(disk.open())
    except ForeignStoreError:
        return "refused", []
    assert len(rows) == len(WORDS), f"{rows} of {len(WORDS)} rows"
    return "", [at for at, (row, word) in enumerate(zip(rows, WORDS, strict=True), 1) if row != word]


def test_each_process_says_that_all_before_it_was_durable(tmp_path: Path) -> None:
    disk, _ = written(tmp_path / "journal")
    journal = disk.open()
    assert seen(journal) == WORDS
    assert journal.durable == len(WORDS)


def test_one_flipped_bit_anywhere_loses_no_row_without_a_word(tmp_path: Path) -> None:
    disk, whole = written(tmp_path / "journal")
    end = len(whole.rstrip(b"\0"))
    refused = 0
    for at in range(end):
        disk.change(at, bytes([whole[at] ^ 1 << at % 8]))
        why, damaged = judged(disk)
        assert len(damaged) <= 1, (at, damaged)
        refused += bool(why)
        disk.change(at, whole[at : at + 1])
    assert refused == 0, "one bit never takes more than one row"


FILLS: list[Callable[[int], bytes]] = [bytes, lambda count: b"\xff" * count, random.Random(7).randbytes]


@pytest.mark.parametrize("fill", FILLS, ids=["zeros", "ones", "noise"])
def test_damage_of_any_range_loses_no_row_without_a_word(tmp_path: Path, fill: Callable[[int], bytes]) -> None:
    """Also to the end of the file, and of all of it."""
    disk, whole = written(tmp_path / "journal")
    chance = random.Random(1)
    edges = [0, 64, 512, 1_024, START, START + 96, len(whole.rstrip(b"\0")) - 32, len(whole)]
    ranges = [(start, end) for start in edges for end in edges if start < end]
    ranges += [(start, start + 64) for start in range(0, len(whole) - 64, 61)]
    ranges += [(min(pair), max(pair)) for pair in (chance.sample(range(len(whole)), 2) for _ in range(300))]
    named = 0
    for start, end in ranges:
        disk.change(start, fill(end - start))
        why, damaged = judged(disk)
        named += bool(why or damaged)
        disk.change(start, whole[start:end])
    assert named > 150


@pytest.mark.parametrize("count", [2, 6, 12])
def test_without_a_mark_only_the_last_record_is_undecided(tmp_path: Path, count: int) -> None:
    """Of all others the record behind says that they were durable."""
    disk, whole = written(tmp_path / "journal", count, marked=False)
    for at in range(START, len(whole.rstrip(b"\0"))):
        disk.change(at, bytes([whole[at] ^ 1]))
        rows = seen(disk.open())
        assert len(rows) >= count - 1, at
        assert [row for row, word in zip(rows, WORDS, strict=False) if row != word] in ([], [None]) or len(
            rows
        ) == count
        disk.change(at, whole[at : at + 1])


def test_nothing_is_written_over_what_is_damaged(tmp_path: Path) -> None:
    disk, whole = written(tmp_path / "journal")
    at = whole.index(b"row-6")
    disk.change(at - 120, bytes(64))
    journal: Journal = disk.open()
    write(journal, "next")
    rows = seen(disk.open())
    assert rows[:5] + rows[6:] == WORDS[:5] + WORDS[6:] + ["next"]
    assert rows[5] != WORDS[5]


def test_bytes_of_a_record_in_an_event_are_never_a_record(tmp_path: Path) -> None:
    """Whatever they name, they lack the store's key: also behind a record that is torn."""
    for first, durable in ((2, 0), (3, 2), (3, 1), (4, 3)):
        for key in (bytes(32), b"\1" * 32):
            disk = Disk(tmp_path / "journal", START + 8_192)
            round_format = JournalKey(ID, key).round_format(1)
            record, check = round_format.pack(
                [StoredRow(bytes(32) + b"forged", None)], b"tree", first, durable, bytes(32)
            )
            forged = (record + round_format.end(check)).decode("latin-1")
            journal = disk.open()
            write(journal, "one")
            end = journal._end
            journal.begin_turn()
            tail, _, _ = journal.read_state()
            rows = [StoredRow(bytes(32) + forged.encode("latin-1"), None)]
            tail.grow(rows, [])
            journal.write(rows, b"tree")  # and it is not synced
            torn = disk.path.read_bytes()
            for cut in (end, end + 1, end + 40, end + 100):
                disk.path.write_bytes(torn[:end] + bytes(cut - end) + torn[cut:-1] + b"\1")
                if cut > end:
                    assert seen(disk.open()) == ["one"], cut
