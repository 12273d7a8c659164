"""A consistent view of the store: LMDB's tables in one read transaction, then the journal's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

import lmdb
from eventsourcing.dcb.api import DCBEvent

from rightful.encoding.merkle import Frontier
from rightful.errors import DamagedRowError, ForkedError
from rightful.storage.journal.journal_rows import JournalTail, StoredRow
from rightful.storage.tables.store_kinds import TREE, tree_size
from rightful.storage.tables.store_tables import Tables, word_key

T = TypeVar("T")


class Snapshot:
    """A consistent view. Keep it short; it ends with its transaction.

    Attributes:
        tables: The tables.
        txn: LMDB's transaction.
        tables_head: The last position in the tables.
        tail: The journal's rows.
        head: The last position; 0 if the store is empty.
        stored_tree: The stored tree record; empty if there is none, or if it is damaged (see `tree`).
    """

    __slots__ = ("head", "stored_tree", "tables", "tables_head", "tail", "txn")

    def __init__(self, tables: Tables, txn: lmdb.Transaction[bytes], tail: JournalTail, last: int, tree: bytes) -> None:
        self.tables = tables
        self.txn = txn
        self.tail = tail
        stored = txn.get(TREE, db=tables.env.tables["meta"]) or b""
        self.tables_head = tree_size(stored)
        self.head, self.stored_tree = (last, tree) if last > self.tables_head else (self.tables_head, stored)

    def tree(self) -> bytes:
        """Return the stored tree record: its root, and the frontier with the size.

        Raises:
            DamagedRowError: The journal's last record is damaged, including its tree.
        """
        if self.head > self.tables_head and not self.stored_tree:
            path = str(self.tables.env.root)
            raise DamagedRowError(path, self.head, "its record in the journal is damaged, and the tree with it")
        return self.stored_tree or Frontier().record()

    def event(self, position: int) -> DCBEvent:
        """Return the event at a position.

        Raises:
            DamagedRowError: It is missing, or does not match its checksum.
        """
        if not 0 < position <= self.head:
            raise DamagedRowError(
                str(self.tables.env.root), position, "an index entry refers to it, but the row is missing"
            )
        if position <= self.tables_head:
            return self.tables.event(self.txn, position)
        row = self.tail.row(position)
        return self.tables.unpack(position, self.tables.checked(position, row.value), row.payload)

    def tagged_positions(self, tag: str) -> list[int]:
        """Return the positions of all rows that have the tag, ascending."""
        found = self.tables.tagged(self.txn, word_key(tag))
        if found and not 0 < min(found) <= max(found) <= self.tables_head:
            wrong = next(position for position in found if not 0 < position <= self.tables_head)
            raise DamagedRowError(
                str(self.tables.env.root), wrong, "an index entry refers to it, but the tables do not have it"
            )
        if self.head > self.tables_head and (more := self.tail.tagged(tag)):
            found += [position for position in more if self.tables_head < position <= self.head]
        return found

    def refuse(self, position: int, word: str) -> NoReturn:
        """Raise: the index lists a row under a word that the row does not have."""
        what = f"the index lists it under {word!r}, but the row does not have that tag or type"
        raise DamagedRowError(str(self.tables.env.root), position, what)

    def journal_rows_after(self, position: int, limit: int) -> list[StoredRow]:
        """Return the journal's rows after a position that are not in the tables, at most `limit`."""
        start = max(position, self.tables_head)
        return self.tail.after(start, min(self.head, start + limit)) if self.head > start else []


def read_snapshot(tables: Tables, work: Callable[[Snapshot], T]) -> T:
    """Return what the work reads of one consistent view. Keep it short; the view ends with the work.

    Raises:
        ClosedError: The store was closed.
        ForkedError: This is the child of the process that opened it.
        StorageError: The store failed.
    """
    env = tables.env
    if not env.is_ours():
        raise ForkedError(str(env.root))
    tail, last, tree = env.journal.read_state()
    return env.read(lambda txn: work(Snapshot(tables, txn, tail, last, tree)))
