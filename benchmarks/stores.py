"""Floors of appending: the very rows of a ledger, put into the same tables by bare LMDB.

The floor's store begins as a copy of the ledger's tables. What the ledger wrote since is
read back from it, be it in its tables or in its journal, and written there with the same flags. It
looks nothing up, checks nothing and computes nothing: rows, index keys and tree records are ready
bytes before the clock starts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self
from unittest import mock

import lmdb
from benchmarks.generator import Wire
from benchmarks.harness import watch

import rightful
from rightful import limits
from rightful.encoding.envelope import read_head
from rightful.encoding.merkle import HASH_BYTES, Frontier
from rightful.ledger import Ledger
from rightful.storage.environment import store_files
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.query import raw_rows
from rightful.storage.tables.snapshot import Snapshot, read_snapshot
from rightful.storage.tables.store_kinds import TREE
from rightful.storage.tables.store_tables import LEDGER, Tables, pack_positions, word_key

TABLES = tuple(LEDGER.tables)
Entries = list[tuple[bytes, bytes]]
_EMPTY = Frontier().record()


class Commit(NamedTuple):
    """What one commit of the ledger left in each table, in the order of its keys."""

    rows: Entries
    payloads: Entries
    tags: Entries
    types: Entries
    tree: bytes


class _Row(NamedTuple):
    """A row as it is stored, and its key."""

    key: bytes
    value: bytes
    payload: bytes | None


def build(path: Path, wires: Iterable[Wire], batch: int = 1_000) -> None:
    """Append the events to a ledger, which is made if there is none; all of them into its tables.

    The few rows that its journal would keep are out of reach for a scan by bare LMDB.
    """
    wires = iter(wires)
    with rightful.open(path, create=True) as ledger, mock.patch.object(limits, "JOURNAL_COMMIT_BYTES", 0):
        while some := list(islice(wires, batch)):
            append(ledger, some)


def append(ledger: Ledger, wires: Sequence[Wire]) -> float:
    """Append in one transaction and return the seconds; every event must be a new row."""
    with watch() as taken:
        receipts = ledger.append(wires)
    assert [receipt.outcome for receipt in receipts] == ["appended"] * len(wires)
    return taken.seconds


def append_each(ledger: Ledger, wires: Sequence[Wire]) -> float:
    """Append with a commit for each event and return the seconds."""
    with watch() as taken:
        receipts = [ledger.append([wire])[0] for wire in wires]
    assert [receipt.outcome for receipt in receipts] == ["appended"] * len(wires)
    return taken.seconds


class Twin:
    """A ledger, and a bare store with the same tables that gets the same rows.

    Args:
        folder: Where the bare store stands.
        ours: The ledger; one is made beside the bare store if None.
    """

    def __init__(self, folder: Path, ours: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        bare = folder / "bare"
        if ours is None:
            ours = folder / "ours"
            rightful.open(ours, create=True).close()
        shutil.copytree(ours / store_files.STORE, bare, ignore=shutil.ignore_patterns(store_files.JOURNAL))
        self.folder = folder
        self.ledger = rightful.open(ours)
        self.bare = lmdb.open(
            str(bare), map_size=limits.MAP_BYTES, max_readers=limits.MAX_READERS, max_dbs=8, lib_version=0
        )
        self.tables = {name: self.bare.open_db(name.encode(), create=False) for name in ("meta", *TABLES)}
        self._ours = _tables(self.ledger)
        with self.bare.begin(db=self.tables["meta"]) as txn:
            self._frontier = Frontier.from_bytes((txn.get(TREE) or _EMPTY)[HASH_BYTES:])
        self.put_many(self.news(limits.JOURNAL_ROWS))  # what the journal had

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()
        self.bare.close()

    def news(self, batch: int, most: int | None = None) -> list[Commit]:
        """Return what the ledger wrote since the last time, by commits of so many events; at most so many commits."""
        commits: list[Commit] = []
        while len(commits) != most and (rows := self._since(self._frontier.size, batch)):
            self._frontier.extend([row.value[:HASH_BYTES] for row in rows])
            commits.append(_commit(rows, self._frontier.record()))
        return commits

    def _since(self, after: int, count: int) -> list[_Row]:
        return read_snapshot(self._ours, lambda now: _rows(now, after, count))

    def put_each(self, commits: Sequence[Commit]) -> float:
        """Put commits of one row each, synced, and return the seconds."""
        rows, payloads, tags, types = (self.tables[name] for name in TABLES)
        meta, begin = self.tables["meta"], self.bare.begin
        with watch() as taken:
            for commit in commits:
                ((key, value),) = commit.rows
                with begin(write=True) as txn:
                    put = txn.put
                    put(key, value, append=True, db=rows)
                    put(key, commit.payloads[0][1], append=True, db=payloads)
                    for tag, position in commit.tags:
                        put(tag, position, append=True, db=tags)
                    put(commit.types[0][0], key, append=True, db=types)
                    put(b"tree", commit.tree, db=meta)
        return taken.seconds

    def put_many(self, commits: Sequence[Commit]) -> float:
        """Put commits of many rows each by `putmulti`, synced, and return the seconds."""
        tables, meta, begin = [self.tables[name] for name in TABLES], self.tables["meta"], self.bare.begin
        with watch() as taken:
            for commit in commits:
                with begin(write=True) as txn:
                    for table, entries in zip(tables, commit[:4], strict=True):
                        with txn.cursor(db=table) as cursor:
                            cursor.putmulti(entries, append=True)
                    txn.put(b"tree", commit.tree, db=meta)
        return taken.seconds

    def check(self) -> None:
        """See that both stores hold the same, key by key and byte by byte."""
        read_snapshot(self._ours, self._check)

    def _check(self, now: Snapshot) -> None:
        with self.bare.begin() as bare:
            assert (bare.get(TREE, db=self.tables["meta"]) or _EMPTY) == now.tree()
            behind = _commit(_rows(now, now.tables_head, limits.JOURNAL_ROWS), now.tree())
            for name, kept in zip(TABLES, behind[:4], strict=True):
                with now.txn.cursor(db=self._ours.env.tables[name]) as left, bare.cursor(db=self.tables[name]) as right:
                    pairs = zip(merge(left.iternext(), kept), right.iternext(), strict=True)
                    assert all(one == other for one, other in pairs), name


def _tables(ledger: Ledger) -> Tables:
    assert isinstance(ledger.log.recorder, LMDBRecorder)  # a floor is measured below the port
    return ledger.log.recorder.tables()


def _rows(now: Snapshot, after: int, count: int) -> list[_Row]:
    """Return the rows after a position, be they in the tables or in the journal; at most so many."""
    values, payloads = list[bytes](), list[bytes | None]()
    while (left := min(count, now.head - after) - len(values)) > 0:
        some, apart = raw_rows(now, after + len(values), left)
        values += some
        payloads += apart
    return list(map(_Row, pack_positions(after + 1, len(values)), values, payloads))


def _commit(rows: Sequence[_Row], tree: bytes) -> Commit:
    tags, types = Entries(), Entries()
    for row in rows:
        kind, words = read_head(row.value[HASH_BYTES:])
        tags.extend((word, row.key) for word in {word_key(word) for word in words})
        types.append((word_key(kind), row.key))
    payloads = [(row.key, row.payload) for row in rows if row.payload is not None]
    return Commit([(row.key, row.value) for row in rows], payloads, sorted(tags), sorted(types), tree)
