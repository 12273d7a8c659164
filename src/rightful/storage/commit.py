"""What a recorder does while it has the write lock: run decisions on the stored rows, and add rows.

Small commits go into the journal. Larger ones go into LMDB's tables, together with all rows of the
journal, which is then written from its beginning again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, cast

import lmdb
from eventsourcing.dcb.api import DCBEvent, DCBQuery

from rightful.encoding.merkle import HASH_BYTES, LEAF, Frontier
from rightful.errors import StorageError
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.journal.journal_reader import JournalState
from rightful.storage.journal.journal_records import TablesState
from rightful.storage.journal.journal_rows import JournalTail, StoredRow, is_damaged
from rightful.storage.port import Decision, LedgerEvent
from rightful.storage.tables.query import positions
from rightful.storage.tables.snapshot import Snapshot
from rightful.storage.tables.store_kinds import ABOUT, ROUND, TREE
from rightful.storage.tables.store_tables import Tables, pack_position, word_key
from rightful.storage.transaction import SpoiledError, Transaction, UnclearError
from rightful.storage.writer import Request

_Added = tuple[bytes, LedgerEvent] | None
"""The last row that this process added, as the tail stores it, and its event."""


class RowCommitter:
    """Implements `writer.Committer` for a recorder: one per writer, used by the thread that has the write lock."""

    def __init__(self, env: Environment) -> None:
        self._tables = Tables(env)
        self._env = env
        self._transaction = Transaction(env)
        self._frontier = Frontier()
        self._tree = self._frontier.record()  # the record of `_frontier`; b"" while it changes
        self._reading: lmdb.Transaction[bytes] | None = None
        self._snapshot: _View | None = None  # set from `begin` until the rows are written or abandoned
        self._added: _Added = None
        self._is_adding = False
        self._is_clean = False  # whether the previous call of `begin` was followed by a commit, with nothing to undo
        self._unclear = False  # whether it is unknown what of our last commit is on the disk
        self._answered = 0, b""  # the last journal record that the answers depend on

    def begin(self) -> None:
        """Read the current state of the store."""
        if not self._is_clean:
            self.abandon()  # what an exception left
        self._is_clean = False
        journal = self._env.journal
        snapshot = self._begin_read(journal.begin_turn())
        if self._unclear or snapshot.txn.id() != self._env.newest_transaction():
            self._end_read()
            self._commit_again()
            snapshot = self._begin_read(journal.read_state())
        tail, head = snapshot.tail, snapshot.head
        if head == snapshot.tables_head and (tail.rows or tail.start != head):  # LMDB has every row
            self._end_read()
            journal.invalidate(head)
            snapshot = self._begin_read(journal.read_state())
        if snapshot.head == snapshot.tables_head:  # else the process that began the round did
            self._tables.sync(snapshot.txn.id())
        if not self._tree or snapshot.stored_tree != self._tree:
            tree, self._tree = snapshot.tree(), b""
            self._frontier = self._tables.frontier(tree, is_checked=snapshot.head > snapshot.tables_head)
            self._tree = tree
        self._snapshot, self._head_before = snapshot, snapshot.head

    def _begin_read(self, known: JournalState) -> _View:
        self._reading = self._env.begin_read()
        return _View(self._tables, self._reading, *known)

    def _commit_again(self) -> None:
        """Re-commit the stored tree record: the previous commit reached the file but was never published to readers.

        Its process was killed, or failed, in between. LMDB adopts that commit at the next commit, or when every process
        has closed the store. Rows that the journal stored after it would be lost then.
        """
        txn = self._transaction.begin()
        try:
            self._tables.write_tree(txn, txn.get(TREE, db=self._env.tables["meta"]) or b"")
            self._transaction.commit(lambda _: True)
        except (SpoiledError, UnclearError) as error:
            raise error.__cause__ or error from None
        finally:
            self._transaction.abort()
        self._unclear = False

    def apply(self, request: Request) -> int:
        """Run a decision and add its events; return the position of the last."""
        decision, view = cast("Decision", request.work), self._snapshot
        assert view is not None
        view.added = self._added
        events = decision(view)
        if events:
            request.events = events
            self._add(events)
        return self._frontier.size

    def _add(self, events: Sequence[DCBEvent]) -> None:
        """Add rows at the next positions. Everything that can be refused is refused before the first row."""
        rows, leaves, pack = list[StoredRow](), list[bytes](), self._tables.codec.pack
        for event in events:
            record = pack(event)
            for word in (event.type, *event.tags):
                word.encode()
            leaf = sha256(LEAF + record).digest()
            leaves.append(leaf)
            rows.append(StoredRow(leaf + record, event.payload if isinstance(event, LedgerEvent) else None))
        snapshot = self._snapshot
        assert snapshot is not None
        self._is_adding, self._tree = True, b""
        snapshot.tail.grow(rows, events)
        if len(leaves) == 1:
            self._frontier.add(leaves[0])
        else:
            self._frontier.extend(leaves)
        snapshot.head = self._frontier.size
        added = rows[-1].value
        self._added = (added, events[-1]) if added is not None and isinstance(events[-1], LedgerEvent) else None
        self._is_adding = False

    def spoiled(self) -> bool:
        """Return whether an exception came while rows were added. Work that failed before that added none."""
        return self._is_adding

    def commit(self) -> None:
        """Write what was added, or nothing.

        Raises:
            SpoiledError: Nothing was written.
            UnclearError: It is not known whether anything was written.
        """
        snapshot, journal = self._snapshot, self._env.journal
        assert snapshot is not None
        snapshot.txn.abort()
        self._reading, tail = None, snapshot.tail
        rows = tail.rows[self._head_before - tail.start :] if self._head_before > tail.start else tail.rows[:]
        if not rows:
            self._answered = journal.answered()
            self._snapshot = None
            self._is_clean = True
            return
        if not tail.start + len(tail.rows) == snapshot.head == self._frontier.size == self._head_before + len(rows):
            self.abandon()
            raise SpoiledError from StorageError(f"the rows for {self._env.root} are not those of its tree")
        tree = self._frontier.record()
        try:
            if journal.has_room(rows):
                try:
                    self._answered = journal.write(rows, tree, self._head_before)
                except StorageError as error:
                    raise SpoiledError from error
            else:
                self._answered = journal.answered()
                journal.emptied(self._into_tables(snapshot, tree))
                self._answered = journal.answered()
        except BaseException as error:
            self.abandon()
            if not isinstance(error, SpoiledError):
                journal.doubt()
                self._unclear = True
            raise
        self._snapshot = None
        self._tree = tree
        self._is_clean = True

    def _into_tables(self, snapshot: Snapshot, tree: bytes) -> TablesState:
        """Put new rows and the whole journal into the tables; return what the tables record about it."""
        closing, tail = self._synced_round(), snapshot.tail
        try:
            txn = self._transaction.begin()
            self._put_all(txn, tail, max(snapshot.tables_head, tail.start) + 1)
            self._tables.write_tree(txn, tree)
            if closing is not None:
                txn.put(ROUND, closing[0].to_bytes(8, "big") + closing[1], db=self._env.tables["meta"])
            noted = txn.get(ROUND, db=self._env.tables["meta"])
        except BaseException as error:  # noqa: BLE001 - the callers get it, as the cause
            self._transaction.abort()
            cause = storage_error(self._env.root, error) if isinstance(error, lmdb.Error) else error
            raise SpoiledError from cause
        key, value = pack_position(tail.last), tail.row(tail.last).value
        number = self._transaction.commit(  # if that fails, the store is opened again, and the tables with it
            lambda txn: bool(txn.get(key, db=self._env.tables["rows"]) == value)
        )
        self._tables.note_synced(number)
        last_round = () if noted is None else (int.from_bytes(noted[:8], "big"), noted[8:])
        return TablesState(tail.last, tree[:HASH_BYTES], *last_round)

    def _synced_round(self) -> tuple[int, bytes] | None:
        """Sync the journal, so that no power cut can lose the last record, and return that record for the tables."""
        journal = self._env.journal
        closing = journal.closing()
        if closing is not None:
            try:
                journal.sync(self._answered)
            except OSError as error:
                raise SpoiledError from storage_error(self._env.root, error)
        return closing

    def drain(self, about: bytes) -> None:
        """Put the whole journal into the tables, and replace the store's own record.

        Raises:
            SpoiledError: Nothing was written.
            UnclearError: It is not known whether anything was written.
        """
        self.begin()
        snapshot = self._snapshot
        assert snapshot is not None
        tree = snapshot.tree()
        self._end_read()
        txn = self._transaction.begin()
        try:
            if snapshot.head > snapshot.tables_head:
                self._put_all(txn, snapshot.tail, snapshot.tables_head + 1)
                self._tables.write_tree(txn, tree)
            txn.put(ABOUT, about, db=self._env.tables["meta"])  # the store may have been reopened meanwhile
        except lmdb.Error as error:
            self._transaction.abort()
            raise SpoiledError from storage_error(self._env.root, error)
        self._transaction.commit(lambda txn: bool(txn.get(ABOUT, db=self._env.tables["meta"]) == about))

    def _put_all(self, txn: lmdb.Transaction[bytes], tail: JournalTail, first: int) -> None:
        """Put the rows from a position on into the tables.

        A damaged row stays missing. A read of it raises `DamagedRowError`.
        """
        rows = enumerate(tail.after(first - 1, tail.last), first)
        there = [(pack_position(position), row) for position, row in rows if row.value is not None]
        apart = [(key, row.payload) for key, row in there if row.payload is not None]
        tags, types = list[bytes](), list[bytes]()
        for key, row in there:
            kind, words = tail.words(row)
            if kind is not None:
                tags += {word_key(tag) + key for tag in words}
                if not is_damaged(row):  # `query` searches for rows without a type
                    types.append(word_key(kind) + key)
        self._put(txn, "rows", len(there), ((key, row.value) for key, row in there))
        self._put(txn, "payloads", len(apart), iter(apart))
        for name, entries in (("tags", sorted(tags)), ("types", sorted(types))):
            self._put(txn, name, len(entries), ((entry[:-8], entry[-8:]) for entry in entries))

    def _put(self, txn: lmdb.Transaction[bytes], name: str, count: int, pairs: Iterator[Any]) -> None:
        with txn.cursor(db=self._env.tables[name]) as cursor:
            _, added = cursor.putmulti(pairs, append=True)
        if added != count:
            fix = "Nothing was written. Restore the ledger from a backup; its rows can still be read."
            raise StorageError(f"{self._env.root} has entries beyond its last row", fix)

    def abandon(self) -> None:
        """Discard what was added, or what an exception left half added."""
        self._end_read()
        self._transaction.abort()
        if self._snapshot is not None:
            self._env.journal.cut(self._snapshot.tail)
            self._snapshot, self._tree = None, b""  # so that the frontier is read again
        self._is_adding = False

    def sync(self) -> None:
        """Sync everything that the answers rely on."""
        self._env.journal.sync(self._answered)

    def _end_read(self) -> None:
        if self._reading is not None:
            self._reading.abort()
            self._reading = None


class _View(Snapshot):
    """The rows as a decision sees them. Valid only while the writer has the write lock."""

    __slots__ = ("added",)
    added: _Added

    def last(self) -> LedgerEvent | None:
        """Return the last row; None if the store is empty."""
        if self.added is not None and self.head > self.tables_head and self.tail.rows[-1].value is self.added[0]:
            return self.added[1]
        return self._event(self.head) if self.head else None

    def tagged(self, tag: str) -> list[tuple[int, LedgerEvent]]:
        """Return all rows that have the tag, with their positions, ascending."""
        found = []
        for position in self.tagged_positions(tag):
            event = self._event(position)
            if tag not in event.tags:
                self.refuse(position, tag)
            found.append((position, event))
        return found

    def matches(self, query: DCBQuery, after: int | None) -> bool:
        """Return whether a row after that position matches the query."""
        return next(positions(self, query, after or 0, self.head), None) is not None

    def _event(self, position: int) -> LedgerEvent:
        event = self.event(position)
        if isinstance(event, LedgerEvent):
            return event
        return LedgerEvent(type=event.type, data=event.data, tags=event.tags)
