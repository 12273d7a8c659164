"""What a recorder does in a write transaction: shows decisions what stands, and adds rows."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NoReturn, cast

import lmdb
from eventsourcing.dcb.api import DCBEvent, DCBQuery

from rightful.errors import StorageError
from rightful.recorders.environment import Environment
from rightful.recorders.port import Decision, LedgerEvent
from rightful.recorders.query import positions
from rightful.recorders.tables import (
    Tables,
    index_pairs,
    pack_position,
    pack_positions,
    unpack_position,
    word_key,
)
from rightful.recorders.writer import Request
from rightful.tree import LEAF, Frontier


class Appender:
    """The session of a recorder: one per writer, used by its thread only."""

    def __init__(self, env: Environment) -> None:
        self._tables = Tables(env)
        self._env = env
        self._frontier = Frontier()
        self._seen = -1  # the transaction that the frontier was read or committed in
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._wrote = self._writing = False

    def begin(self, txn: lmdb.Transaction[bytes]) -> None:
        """Read the frontier again if another process committed since our last commit."""
        if txn.id() != self._seen + 1:
            self._frontier = self._tables.frontier(txn)
        self._seen = -1  # until `finish`: an aborted transaction leaves the frontier ahead
        self._txn = txn
        self._wrote = self._writing = False

    def apply(self, request: Request) -> int:
        """Run a decision and write its events; return the position of the last."""
        self._writing = False
        decision = cast("Decision", request.work)
        events = decision(_View(self._tables, self._txn, self._frontier.size))
        if not events:
            return self._frontier.size
        request.events = events
        self._write(events)
        return self._frontier.size

    def spoiled(self) -> bool:
        """Tell whether the decision that just failed had begun to write."""
        return self._writing

    def finish(self) -> bool:
        """Write the tree, if there are new rows."""
        if self._wrote:
            self._tables.write_frontier(self._txn, self._frontier)
        self._seen = self._txn.id() if self._wrote else self._txn.id() - 1
        return self._wrote

    def stands(self, txn: lmdb.Transaction[bytes]) -> bool:
        """Tell whether the last row of the last transaction is stored, byte for byte."""
        key, value = self._last
        stands = txn.get(key, db=self._env.tables["rows"]) == value
        self._seen = -1
        return stands

    def _write(self, events: Sequence[DCBEvent]) -> None:
        """Add rows at the next positions. All that can be refused is refused before the first."""
        records = [self._tables.codec.pack(event) for event in events]
        leaves = [sha256(LEAF + record).digest() for record in records]
        values = [leaf + record for leaf, record in zip(leaves, records, strict=True)]
        if len(events) == 1:
            self._write_one(events[0], leaves[0], values[0])
        else:
            self._write_many(events, leaves, values)
        self._wrote = True

    def _write_one(self, event: DCBEvent, leaf: bytes, value: bytes) -> None:
        txn, tables = self._txn, self._env.tables
        key = pack_position(self._frontier.size + 1)
        pairs = index_pairs(event.tags, key)
        kind = word_key(event.type)
        payload = event.payload if isinstance(event, LedgerEvent) else None
        self._writing = True
        put = txn.put(key, value, append=True, db=tables["rows"])
        if payload is not None:
            put &= txn.put(key, payload, append=True, db=tables["payloads"])
        for tag, _ in pairs:
            put &= txn.put(tag, key, append=True, db=tables["tags"])
        if not (put & txn.put(kind, key, append=True, db=tables["types"])):
            self._refuse()
        self._frontier.add(leaf)
        self._last = key, value

    def _write_many(self, events: Sequence[DCBEvent], leaves: list[bytes], values: list[bytes]) -> None:
        tables = self._env.tables
        keys = pack_positions(self._frontier.size + 1, len(events))
        payloads = [
            (key, event.payload)
            for key, event in zip(keys, events, strict=True)
            if isinstance(event, LedgerEvent) and event.payload is not None
        ]
        tags = [pair for key, event in zip(keys, events, strict=True) for pair in index_pairs(event.tags, key)]
        tags.sort()
        kinds = {kind: word_key(kind) for kind in {event.type for event in events}}
        types = sorted((kinds[event.type], key) for key, event in zip(keys, events, strict=True))
        self._writing = True
        self._put(tables["rows"], list(zip(keys, values, strict=True)))
        self._put(tables["payloads"], payloads)
        self._put(tables["tags"], tags)
        self._put(tables["types"], types)
        self._frontier.extend(leaves)
        self._last = keys[-1], values[-1]

    def _put(self, table: Any, pairs: list[tuple[bytes, bytes]]) -> None:  # noqa: ANN401 - lmdb hides the class
        with self._txn.cursor(db=table) as cursor:
            _, added = cursor.putmulti(pairs, append=True)
        if added != len(pairs):
            self._refuse()

    def _refuse(self) -> NoReturn:
        what = f"{self._env.root} has entries beyond its last row"
        raise StorageError(what, "Nothing was written. Restore the ledger from a backup; its rows can still be read.")


class _View:
    """What a decision sees. It ends with the transaction."""

    __slots__ = ("_tables", "_tags", "_txn", "head")

    def __init__(self, tables: Tables, txn: lmdb.Transaction[bytes], head: int) -> None:
        self._tables = tables
        self._tags = tables.env.tables["tags"]
        self._txn = txn
        self.head = head

    def last(self) -> LedgerEvent | None:
        """Return the last row; None when there is none."""
        return self._event(self.head) if self.head else None

    def tagged(self, tag: str) -> list[tuple[int, LedgerEvent]]:
        """Return all rows that have the tag, with their positions, ascending."""
        word = word_key(tag)
        if self._txn.get(word, db=self._tags) is None:  # most ids are new, and a cursor costs more than the answer
            return []
        with self._txn.cursor(db=self._tags) as cursor:
            cursor.set_key(word)
            found = [unpack_position(key) for key in cursor.iternext_dup()]
        return [(position, self._event(position)) for position in found]

    def matches(self, query: DCBQuery, after: int | None) -> bool:
        """Tell whether a row after that position fits the query."""
        return next(positions(self._tables, self._txn, query, after or 0, self.head), None) is not None

    def _event(self, position: int) -> LedgerEvent:
        event = self._tables.event(self._txn, position)
        if isinstance(event, LedgerEvent):
            return event
        return LedgerEvent(type=event.type, data=event.data, tags=event.tags)
