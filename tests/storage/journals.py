"""What the tests of the journal alone share: a store's file, and how far its tables are, without LMDB."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from eventsourcing.dcb.api import DCBEvent

from rightful.encoding.merkle import EMPTY_ROOT
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import Bond, Tabled
from rightful.storage.journal.journal_rows import Kept
from rightful.storage.tables.row_codec import PlainCodec

ID = "8c4fbb59-c965-404d-8a78-b84d9963c4b9"
KEY = bytes(range(32))


def root_at(size: int) -> bytes:
    """Return what stands for the root of so many rows."""
    return sha256(b"root of %d" % size).digest() if size else EMPTY_ROOT


class Disk:
    """A journal's file, and what the tables say."""

    def __init__(self, path: Path, size: int = 65_536, bond: Bond | None = None) -> None:
        self.path, self.bond = path, Bond(ID, KEY) if bond is None else bond
        self.tables = Tabled(0, EMPTY_ROOT)
        path.write_bytes(self.bond.beginning(self.tables).ljust(size, b"\0"))

    def tabled(self) -> Tabled:
        return self.tables

    def open(self) -> Journal:
        return Journal(self.path.parent, os.open(self.path, os.O_RDWR), PlainCodec(), self.tabled, self.bond)

    def change(self, at: int, to: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(to)

    def flip(self, at: int) -> None:
        self.change(at, bytes([self.path.read_bytes()[at] ^ 1]))

    def take(self, journal: Journal, size: int) -> Tabled:
        """Have the tables take all rows of the journal, and more; return what they then say."""
        noted = journal.closing() or (self.tables.round, self.tables.check)
        self.tables = Tabled(size, root_at(size), *noted)
        return self.tables


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
        journal.settle(journal.answered())


def empty(disk: Disk, journal: Journal, *words: str) -> None:
    """Commit rows into the tables, with all that the journal has."""
    journal.begin_turn()
    _, last, _ = journal.now()
    if journal.closing() is not None:
        journal.settle(journal.answered())
    journal.emptied(disk.take(journal, last + len(words)))


def seen(journal: Journal) -> list[str | None]:
    tail, last, _ = journal.now()
    rows = tail.after(tail.start, last)
    return [None if row.value is None else row.value[32:].decode(errors="replace") for row in rows]
