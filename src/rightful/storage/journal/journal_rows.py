"""The rows that are in the journal and not yet in LMDB's tables, and their index."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from eventsourcing.dcb.api import DCBEvent, DCBQuery
from msgspec import Struct

from rightful import limits
from rightful.encoding.merkle import HASH_BYTES
from rightful.storage.critical_sections import locked
from rightful.storage.tables.row_codec import Codec


class StoredRow(Struct, frozen=True, gc=False, array_like=True):
    """A row as stored.

    Attributes:
        value: Its leaf hash, 32 bytes, and its record; None if its bytes are damaged.
        payload: The payload, which is stored separately.
    """

    value: bytes | None
    payload: bytes | None


_UNINDEXED: Final = 8
"""Searches for a tag that scan the rows; more are worth an index. A process with one append searches once."""

_NO_LEAF: Final = bytes(HASH_BYTES)
"""Stored in place of a damaged row's leaf hash; it matches nothing."""

Index = dict[str, int | list[int]]
"""Positions by word; a list only if there are several, since most tags occur in one row."""


class JournalTail:
    """Rows after a position, without a gap. It grows, so each reader ignores rows after its own view.

    Attributes:
        start: The position before its first row.
        rows: The rows.
    """

    def __init__(self, start: int, codec: Codec | None) -> None:
        self.start = start
        self.rows: list[StoredRow] = []
        self._codec = codec
        self._lock = threading.Lock()
        self._searches = 0
        self._forget_index()

    def _forget_index(self) -> None:
        self._is_whole = False  # False during changes to the index, so that an exception in between forces a rebuild
        self._indexed = 0
        self._index: tuple[Index, Index] = {}, {}  # of tags and of types
        self._unreadable: list[int] = []
        self._is_whole = True

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.start + len(self.rows)

    def row(self, position: int) -> StoredRow:
        """Return the row at a position in this tail."""
        return self.rows[position - self.start - 1]

    def after(self, position: int, until: int) -> list[StoredRow]:
        """Return the rows after a position, through `until`."""
        return self.rows[max(position - self.start, 0) : max(until - self.start, 0)]

    @locked("_lock")
    def grow(self, rows: Sequence[StoredRow], events: Sequence[DCBEvent]) -> None:
        """Add rows of this process, whose events need not be decoded from them.

        More rows than fit the journal go into the tables at once. They are indexed only if a search needs it.
        """
        if self._is_whole and self._indexed == len(self.rows) and len(rows) <= limits.JOURNAL_ROWS:
            self._is_whole = False
            for position, event in enumerate(events, self.start + len(self.rows) + 1):
                self._add(event.type, event.tags, position)
            self._indexed += len(rows)
            self.rows += rows
            self._is_whole = True
        else:
            self.rows += rows

    @locked("_lock")
    def cut(self, last: int) -> None:
        """Remove the rows after a position, which only their writer has seen."""
        if not self._is_whole or self._indexed > last - self.start:
            self._forget_index()
        del self.rows[last - self.start :]

    def tagged(self, tag: str) -> Sequence[int]:
        """Return the positions of the rows that have the tag, ascending."""
        self._searches += 1
        if self._searches <= _UNINDEXED and self._indexed < len(self.rows):
            return self._search(tag)
        tags, _ = self._words()
        return _found(tags, tag) if tag in tags else ()

    def _search(self, tag: str) -> list[int]:
        if self._codec is None:
            return []
        trace = self._codec.trace(tag)
        like = [found for found in enumerate(self.rows, self.start + 1) if trace in (found[1].value or b"")]
        return [position for position, row in like if tag in self.words(row)[1]]

    def matching(self, query: DCBQuery, after: int, until: int) -> list[int]:
        """Return the positions after `after`, through `until`, of the rows that match a query, ascending."""
        if not self.rows or until <= self.start:
            return []
        tags, types = self._words()
        found: set[int] = set()
        for item in query.items:
            each = [set(_found(tags, tag)) for tag in item.tags]
            if item.types:
                each.append({position for kind in item.types for position in _found(types, kind)})
            found |= set.intersection(*each)
        return sorted(position for position in found if after < position <= until)

    def unreadable(self, after: int, until: int) -> int | None:
        """Return the first position after `after`, through `until`, whose row is damaged, so its tags may be wrong."""
        self._words()
        return next((position for position in self._unreadable if after < position <= until), None)

    def tags_like(self, start: str, until: int) -> Iterable[str]:
        """Return the tags that begin with a text, of the rows through a position, unordered."""
        tags, _ = self._words()
        like = [tag for tag in list(tags) if tag.startswith(start)]
        return [tag for tag in like if _found(tags, tag)[0] <= until]

    def _words(self) -> tuple[Index, Index]:
        """Return the indexes of tags and of types, complete; most processes never need them."""
        index = self._index
        if self._is_whole and self._indexed == len(self.rows) and index is self._index:  # in this order
            return index
        return self._indexed_words()

    @locked("_lock")
    def _indexed_words(self) -> tuple[Index, Index]:
        if not self._is_whole:
            self._forget_index()
        if self._indexed < len(self.rows):
            self._is_whole = False
            for at in range(self._indexed, len(self.rows)):
                kind, tags = self.words(self.rows[at])
                self._add(kind, tags, self.start + 1 + at)
                if kind is None or is_damaged(self.rows[at]):
                    self._unreadable.append(self.start + 1 + at)
                self._indexed = at + 1
            self._is_whole = True
        return self._index

    def _add(self, kind: str | None, tags: Iterable[str], position: int) -> None:
        by_tag, index = self._index
        for word in (kind, *tags):
            if word is not None:
                found = index.setdefault(word, position)
                if isinstance(found, int):
                    if found != position:  # an event may have a tag twice
                        index[word] = [found, position]
                elif found[-1] != position:
                    found.append(position)
            index = by_tag

    def words(self, row: StoredRow) -> tuple[str | None, Sequence[str]]:
        """Return the type and the tags of a row; None and nothing if its bytes are damaged."""
        if row.value is None or self._codec is None:
            return None, ()
        try:
            return self._codec.words(row.value[HASH_BYTES:])
        except msgspec.DecodeError:
            return None, ()  # reading the row reports the damage


def is_damaged(row: StoredRow) -> bool:
    """Return whether a row was damaged in the journal. Its readable part may differ from what was written."""
    return row.value is None or row.value.startswith(_NO_LEAF)


def _found(index: Index, word: str) -> Sequence[int]:
    found = index.get(word, ())
    return (found,) if isinstance(found, int) else found
