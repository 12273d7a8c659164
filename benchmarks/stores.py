"""Floors of appending: the very rows of a ledger, put into the same tables by bare LMDB.

The floor's store begins as a copy of the ledger's. What the ledger wrote since is
read back from it, and written there with the same flags. It looks nothing up, checks nothing
and computes nothing: rows, index keys and tree records are ready bytes before the clock starts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import lmdb
from benchmarks.generator import Wire
from benchmarks.harness import watch

import rightful
from rightful import limits
from rightful.app import Ledger
from rightful.envelope import read_head
from rightful.recorders.recorder import LMDBRecorder
from rightful.recorders.tables import LEDGER, index_pairs, pack_position, tree_record, word_key
from rightful.tree import HASH_BYTES, Frontier

TABLES = tuple(LEDGER.tables)
Entries = list[tuple[bytes, bytes]]


class Commit(NamedTuple):
    """What one commit of the ledger left in each table, in the order of its keys."""

    rows: Entries
    payloads: Entries
    tags: Entries
    types: Entries
    tree: bytes


def build(path: Path, wires: Iterable[Wire], batch: int = 1_000) -> None:
    """Append the events to a ledger, which is made if there is none."""
    wires = iter(wires)
    with rightful.open(path, create=True) as ledger:
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
        shutil.copytree(ours / "store", bare)
        self.folder = folder
        self.ledger = rightful.open(ours)
        self.bare = lmdb.open(
            str(bare), map_size=limits.MAP_BYTES, max_readers=limits.MAX_READERS, max_dbs=8, lib_version=0
        )
        self.tables = {name: self.bare.open_db(name.encode(), create=False) for name in ("meta", *TABLES)}
        self._frontier = _frontier(self.ledger)
        self._copied = self.ledger.log.head()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()
        self.bare.close()

    def news(self, batch: int, most: int | None = None) -> list[Commit]:
        """Return what the ledger wrote since the last time, by commits of so many events; at most so many commits."""
        commits: list[Commit] = []
        while len(commits) != most and (rows := list(islice(_stored(self.ledger, "rows", self._copied), batch))):
            payloads = list(islice(_stored(self.ledger, "payloads", self._copied), batch))
            commits.append(self._commit(rows, payloads))
            self._copied += len(rows)
        return commits

    def _commit(self, rows: Entries, payloads: Entries) -> Commit:
        tags, types = [], []
        for key, value in rows:
            kind, words = read_head(value[HASH_BYTES:])
            tags.extend(index_pairs(words, key))
            types.append((word_key(kind), key))
        self._frontier.extend([value[:HASH_BYTES] for _, value in rows])
        return Commit(rows, payloads, sorted(tags), sorted(types), tree_record(self._frontier))

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
        env = _env(self.ledger)
        with env.read() as ours, self.bare.begin() as bare:
            for name, table in self.tables.items():
                with ours.cursor(db=env.tables[name]) as left, bare.cursor(db=table) as right:
                    pairs = zip(left.iternext(), right.iternext(), strict=True)
                    assert all(one == other for one, other in pairs), name


def _env(ledger: Ledger) -> Any:  # noqa: ANN401 - a floor is measured below the port
    assert isinstance(ledger.log.recorder, LMDBRecorder)
    return ledger.log.recorder.tables().env


def _frontier(ledger: Ledger) -> Frontier:
    assert isinstance(ledger.log.recorder, LMDBRecorder)
    with _env(ledger).read() as txn:
        return ledger.log.recorder.tables().frontier(txn)


def _stored(ledger: Ledger, table: str, after: int) -> Iterator[tuple[bytes, bytes]]:
    env = _env(ledger)
    with env.read() as txn, txn.cursor(db=env.tables[table]) as cursor:
        if cursor.set_range(pack_position(after + 1)):
            yield from cursor.iternext()
