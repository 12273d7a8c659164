"""The rows that stand in the journal and not yet in LMDB's tables, and where they are found."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from msgspec import Struct

from rightful.recorders.codec import Codec
from rightful.tree import HASH_BYTES


class Kept(Struct, frozen=True, gc=False):
    """A row as it is stored.

    Attributes:
        value: Its leaf hash, 32 bytes, and its record; None where its bytes are damaged.
        payload: What is kept apart from it.
    """

    value: bytes | None
    payload: bytes | None


class Tail:
    """Rows behind a position, without a gap. It grows; whoever reads it minds where his moment ends.

    Attributes:
        start: The position before its first row.
        rows: The rows.
    """

    def __init__(self, start: int, codec: Codec | None) -> None:
        self.start = start
        self.rows: list[Kept] = []
        self._codec = codec
        self._lock = threading.Lock()
        self._indexed = 0
        self._tags: defaultdict[str, list[int]] = defaultdict(list)
        self._types: defaultdict[str, list[int]] = defaultdict(list)

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.start + len(self.rows)

    def row(self, position: int) -> Kept:
        """Return the row at a position that is in it."""
        return self.rows[position - self.start - 1]

    def after(self, position: int, until: int) -> list[Kept]:
        """Return the rows after a position, through another."""
        return self.rows[max(position - self.start, 0) : max(until - self.start, 0)]

    def cut(self, last: int) -> None:
        """Take away the rows after a position, which nobody but their writer has seen."""
        with self._lock:
            del self.rows[last - self.start :]
            if self._indexed > len(self.rows):
                self._indexed = len(self.rows)
                for index in (self._tags, self._types):
                    for found in index.values():
                        while found and found[-1] > last:
                            found.pop()

    def tagged(self, tag: str) -> Sequence[int]:
        """Return the positions of the rows that have the tag, ascending."""
        self._index()
        return self._tags.get(tag, ())

    def fitting(self, query: DCBQuery, after: int, until: int) -> list[int]:
        """Return the positions after a position, through another, of the rows that fit a query, ascending."""
        if not self.rows or until <= self.start:
            return []
        self._index()
        found = {position for item in query.items for position in self._of(item)}
        return sorted(position for position in found if after < position <= until)

    def tags_like(self, start: str, until: int) -> Iterable[str]:
        """Return the tags that begin with a text, of the rows through a position, in no order."""
        self._index()
        return [tag for tag, found in list(self._tags.items()) if tag.startswith(start) and found and found[0] <= until]

    def _of(self, item: DCBQueryItem) -> set[int]:
        found = [set(self._tags.get(tag, ())) for tag in item.tags]
        if item.types:
            found.append({position for kind in item.types for position in self._types.get(kind, ())})
        return set.intersection(*found)

    def _index(self) -> None:
        """Index what was added since; most processes never ask."""
        if self._indexed == len(self.rows):
            return
        with self._lock:
            for at in range(self._indexed, len(self.rows)):
                event = self.event(self.rows[at])
                if event is not None:
                    position = self.start + 1 + at
                    self._types[event.type].append(position)
                    for tag in set(event.tags):
                        self._tags[tag].append(position)
                self._indexed = at + 1

    def event(self, row: Kept) -> DCBEvent | None:
        """Return the event of a row; None if its bytes are damaged."""
        if row.value is None or self._codec is None:
            return None
        try:
            return self._codec.unpack(row.value[HASH_BYTES:], row.payload)
        except msgspec.DecodeError:
            return None  # who reads it is told
