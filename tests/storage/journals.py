"""What the tests of the journal alone share: a store's file, and how far its tables are, without LMDB."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from eventsourcing.dcb.api import DCBEvent

from rightful.encoding.merkle import EMPTY_ROOT
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import JournalKey, TablesState
from rightful.storage.journal.journal_rows import StoredRow
from rightful.storage.tables.row_codec import PlainCodec

ID = "8c4fbb59-c965-404d-8a78-b84d9963c4b9"
KEY = bytes(range(32))


def root_at(size: int) -> bytes:
    """Return what stands for the root of so many rows."""
    return sha256(b"root of %d" % size).digest() if size else EMPTY_ROOT


class Disk:
    """A journal's file, and what the tables say."""

    def __init__(self, path: Path, size: int = 65_536, key: JournalKey | None = None) -> None:
        self.path, self.key = path, JournalKey(ID, KEY) if key is None else key
        self.tables = TablesState(0, EMPTY_ROOT)
        path.write_bytes(self.key.beginning(self.tables).ljust(size, b"\0"))

    def tabled(self) -> TablesState:
        return self.tables

    def open(self) -> Journal:
        return Journal(self.path.parent, os.open(self.path, os.O_RDWR), PlainCodec(), self.tabled, self.key)

    def change(self, at: int, to: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(to)

    def flip(self, at: int) -> None:
        self.change(at, bytes([self.path.read_bytes()[at] ^ 1]))

    def take(self, journal: Journal, size: int) -> TablesState:
        """Have the tables take all rows of the journal, and more; return what they then say."""
        noted = journal.closing() or (self.tables.round, self.tables.check)
        self.tables = TablesState(size, root_at(size), *noted)
        return self.tables


def kept(word: str) -> StoredRow:
    return StoredRow(bytes(32) + word.encode(), None)


def write(journal: Journal, *words: str, durable: bool = True) -> None:
    """Commit rows as the writer does, in its turn."""
    journal.begin_turn()
    tail, last, _ = journal.read_state()
    assert tail.last == last
    rows = [kept(word) for word in words]
    tail.grow(rows, [DCBEvent(type="t", data=b"", tags=[]) for _ in rows])
    journal.write(rows, b"tree of " + str(tail.last).encode())
    if durable:
        journal.sync(journal.answered())


def empty(disk: Disk, journal: Journal, *words: str) -> None:
    """Commit rows into the tables, with all that the journal has."""
    journal.begin_turn()
    _, last, _ = journal.read_state()
    if journal.closing() is not None:
        journal.sync(journal.answered())
    journal.emptied(disk.take(journal, last + len(words)))


def seen(journal: Journal) -> list[str | None]:
    tail, last, _ = journal.read_state()
    rows = tail.after(tail.start, last)
    return [None if row.value is None else row.value[32:].decode(errors="replace") for row in rows]
