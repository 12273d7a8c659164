"""The records of a journal: their format, and which of them are valid.

All integers are big-endian. *Keyed* is SHA-256 over 64 bytes that identify the store and the round
(the store's key, its id, the number of the round, 8 zero bytes), and over the named bytes.

| bytes | of a record |
|---|---|
| 4 | `RfJ3` |
| 4 | size of the body |
| 8 | position of the first row |
| 8 | the position through which everything was durable when it was written |
| 4 | number of rows |
| 4 | size of the tree |
| 32 | the check of the record before; of the first one, that of the round's anchor |
| 32 | the check: keyed, over the 64 bytes above and the body |
| … | body: the tree (root, then frontier); then the rows, a MessagePack array of value and payload each |

The last record is followed by its end: 32 bytes, keyed, over `RfE3` and the record's check.

| at | at the beginning of a journal |
|---|---|
| 0 | the durable mark |
| 512, 1,024 | the anchors of the odd and of the even rounds |
| 1,536 | the first record |

A mark is `RfM3`, the round, the position through which everything was durable, the end of the record with that
position, that record's check, and keyed over these. An anchor is `RfA3`, the round, the position before its first row,
the store's id, the check of the last record of the previous round, the root of the tables, and keyed over these.

Each of the three has its own sector, so that writing another cannot tear it. For a store of
format 2 see `journal_format_2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from struct import Struct as Layout
from typing import Final, Protocol

import msgspec

from rightful.encoding.merkle import HASH_BYTES, LEAF, Frontier
from rightful.storage.journal.journal_rows import StoredRow

MAGIC: Final = b"RfJ3"
_HEAD: Final = Layout(">4sIQQII32s")
CHECK_BYTES: Final = 32
HEAD_BYTES: Final = _HEAD.size + CHECK_BYTES
"""Size of a record's part before its body; bytes."""

END_BYTES: Final = 32
"""Size of the end that follows the last record; bytes."""

_ANCHOR: Final = Layout(">4sQQ16s32s32s")
_MARK: Final = Layout(">4sQQQ32s")
ANCHOR_BYTES: Final = _ANCHOR.size + CHECK_BYTES
MARK_BYTES: Final = _MARK.size + CHECK_BYTES
ANCHORS_AT: Final = (512, 1_024)
START: Final = 1_536
"""Offset of the first record."""

TREE_BYTES: Final = 32 + 8 + 64 * 32
"""The largest tree: its root, its size and as many peaks as a size has bits; bytes."""

_encoder = msgspec.msgpack.Encoder()
ROWS = msgspec.msgpack.Decoder(list[StoredRow])


class Record(msgspec.Struct, frozen=True, gc=False):
    """The part of a record before its body.

    Attributes:
        body_bytes: Size of the body; bytes.
        first: The position of its first row.
        durable: The position through which everything was durable when it was written.
        row_count: Number of rows.
        tree_bytes: Size of the tree that its body begins with; bytes.
        before: The check of the record before it; empty in a format without one.
        check: The check over the bytes before it, and the body.
        head: All of these, as stored.
    """

    body_bytes: int
    first: int
    durable: int
    row_count: int
    tree_bytes: int
    before: bytes
    check: bytes
    head: bytes

    @property
    def size(self) -> int:
        """Size of the record; bytes."""
        return len(self.head) + self.body_bytes

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.first + self.row_count - 1


class TablesState(msgspec.Struct, frozen=True):
    """The tables' own record of what they contain.

    Attributes:
        size: Their last position.
        root: The root of their rows.
        round: The last round of the journal whose rows are all in the tables; 0 if there was none.
        check: The check of its last record.
    """

    size: int
    root: bytes
    round: int = 0
    check: bytes = bytes(CHECK_BYTES)


class Mark(msgspec.Struct, frozen=True):
    """What a process found durable, by a sync of its own.

    Attributes:
        round: The round of the journal.
        position: The position through which everything is durable.
        end: Where the record with this position ends.
        check: That record's check.
    """

    round: int
    position: int
    end: int
    check: bytes


class Anchor(msgspec.Struct, frozen=True):
    """The beginning of a round.

    Attributes:
        round: Its number.
        position: The position before its first row.
        before: The check of the last record of the previous round.
        root: The root of the rows through that position.
        check: The check over all these.
        data: All of it, as stored.
    """

    round: int
    position: int
    before: bytes
    root: bytes
    check: bytes
    data: bytes


Link = tuple[int, Record, bytes]
"""Place of a record, the record, and the check of the one before it."""


class RecordFormat(Protocol):
    """The format of a journal's records, and how they are checked."""

    start: int
    """Offset of the first record."""
    head_bytes: int
    end_bytes: int

    def record_of(self, head: bytes) -> Record | None:
        """Return the record described by the bytes before a body; None if they describe none."""

    def check_of(self, before: bytes, record: Record, body: bytes) -> bytes:
        """Return the check that a record should have after one with the check `before`."""

    def end(self, check: bytes) -> bytes:
        """Return the bytes that follow the last record, by its check."""

    def later(self, rest: bytes, last: int, befores: Sequence[bytes], mark: Mark | None) -> Link | None:
        """Return the first complete record after a damaged one that was durable once.

        Args:
            rest: The journal from the damaged record on.
            last: The position before it.
            befores: The possible checks of the damaged record.
            mark: The durable mark, if there is one.

        Returns:
            Its place, the record, and the check of the record before it; None if there is none.
        """


def following(layout: RecordFormat, data: bytes, at: int, last: int, before: bytes) -> tuple[Record, bytes] | None:
    """Return the complete record at a place in the data, and its body; None if there is none.

    It continues the record before it, whose last position and check are `last` and `before`.
    """
    record = layout.record_of(data[at : at + layout.head_bytes])
    if record is None or record.first != last + 1:
        return None
    body = data[at + layout.head_bytes : at + record.size]
    return (record, body) if layout.check_of(before, record, body) == record.check else None


class RoundFormat:
    """The format of the records of one round of one store."""

    start: int = START
    head_bytes: int = HEAD_BYTES
    end_bytes: int = END_BYTES

    def __init__(self, prefix: bytes, number: int) -> None:
        self.round = number
        self._begun = sha256(prefix + number.to_bytes(8, "big") + bytes(8))

    def keyed(self, *parts: bytes) -> bytes:
        """Return the keyed hash of parts."""
        digest = self._begun.copy()
        for part in parts:
            digest.update(part)
        return digest.digest()

    def pack(
        self, rows: Sequence[StoredRow], tree: bytes, first: int, durable: int, before: bytes
    ) -> tuple[bytes, bytes]:
        """Return a record of rows as stored, and its check; the arguments are the fields of `Record`."""
        body = tree + _encoder.encode(rows)
        head = _HEAD.pack(MAGIC, len(body), first, durable, len(rows), len(tree), before)
        check = self.keyed(head, body)
        return head + check + body, check

    def record_of(self, head: bytes) -> Record | None:
        """As `RecordFormat.record_of`."""
        if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
            return None
        _, body_bytes, first, durable, count, tree_bytes, before = _HEAD.unpack_from(head)
        return Record(body_bytes, first, durable, count, tree_bytes, before, head[_HEAD.size : HEAD_BYTES], head)

    def check_of(self, before: bytes, record: Record, body: bytes) -> bytes:
        """As `RecordFormat.check_of`."""
        return self.keyed(record.head[: _HEAD.size - CHECK_BYTES], before, body)

    def end(self, check: bytes) -> bytes:
        """As `RecordFormat.end`."""
        return self.keyed(b"RfE3", check)

    def later(self, rest: bytes, last: int, befores: Sequence[bytes], mark: Mark | None) -> Link | None:
        """As `RecordFormat.later`.

        A record's own check proves that it is of this round. It is valid, and not left over from a power cut,
        if it leads back to the damaged record, if the mark names it, or if everything before it was durable when it
        was written. Another one is only used if there is no such record.
        """
        wanted = set(befores) if mark is None else {mark.check, *befores}
        links: dict[bytes, Link] = {}
        perhaps: Link | None = None
        for at, record in self._whole(rest, last):
            first = links[record.check] = at, record, record.before
            if record.durable <= last and (mark is None or record.check != mark.check):
                continue
            while first[2] in links:
                first = links[first[2]]
            if first[2] in wanted or record.check in wanted or record.durable == record.first - 1:
                return first
            perhaps = perhaps or first
        return perhaps

    def _whole(self, rest: bytes, last: int) -> Iterator[tuple[int, Record]]:
        """Yield the complete records of this round that follow the damaged one."""
        at = rest.find(MAGIC, 1)
        while at >= 0:
            record = self.record_of(rest[at : at + HEAD_BYTES])
            if record is not None and record.first > last + 1:
                body = rest[at + HEAD_BYTES : at + record.size]
                if self.check_of(record.before, record, body) == record.check:
                    yield at, record
            at = rest.find(MAGIC, at + 1)


class JournalKey:
    """Binds a journal to its store.

    Args:
        store_id: The store's own UUID, as text.
        key: The store's random key.
    """

    def __init__(self, store_id: str, key: bytes) -> None:
        self._id = bytes.fromhex(store_id.replace("-", ""))
        self._prefix = key + self._id

    def round_format(self, number: int) -> RoundFormat:
        """Return the format of the records of a round."""
        return RoundFormat(self._prefix, number)

    def anchor(self, tables: TablesState) -> Anchor:
        """Return the anchor of the next round, which continues the tables."""
        number = tables.round + 1
        data = _ANCHOR.pack(b"RfA3", number, tables.size, self._id, tables.check, tables.root)
        check = self.round_format(number).keyed(data)
        return Anchor(number, tables.size, tables.check, tables.root, check, data + check)

    def anchor_in(self, start: bytes, number: int) -> Anchor | None:
        """Return the anchor of a round; None if the bytes in its place are not an anchor of this store."""
        at = anchor_at(number)
        data = start[at : at + ANCHOR_BYTES]
        magic, found, position, _, before, root = _ANCHOR.unpack_from(data)
        check = data[_ANCHOR.size :]
        if found != number or magic != b"RfA3" or self.round_format(number).keyed(data[: _ANCHOR.size]) != check:
            return None
        return Anchor(number, position, before, root, check, data)

    def mark(self, mark: Mark) -> bytes:
        """Return the bytes of a mark."""
        data = _MARK.pack(b"RfM3", mark.round, mark.position, mark.end, mark.check)
        return data + self.round_format(mark.round).keyed(data)

    def mark_in(self, start: bytes) -> Mark | None:
        """Return the mark, if it is intact and of this store."""
        _, number, position, end, check = _MARK.unpack_from(start)
        mark = Mark(number, position, end, check)
        return mark if self.mark(mark) == start[:MARK_BYTES] else None

    def beginning(self, tables: TablesState) -> bytes:
        """Return the beginning of a new journal that continues the tables."""
        anchor = self.anchor(tables)
        start = bytearray(START)
        start[:MARK_BYTES] = self.mark(Mark(anchor.round, anchor.position, START, anchor.check))
        at = anchor_at(anchor.round)
        start[at : at + ANCHOR_BYTES] = anchor.data
        return bytes(start) + self.round_format(anchor.round).end(anchor.check)

    def why_not(self, start: bytes, tables: TablesState) -> str:
        """Return why a journal does not fit these tables, judged by its beginning."""
        anchors = [_ANCHOR.unpack_from(start, at) for at in ANCHORS_AT]
        rounds = sorted(number for number in (1, 2) if anchors[number - 1][0] == b"RfA3")
        if not rounds:
            return "its journal is another program's file, or damaged"
        others = [anchors[number - 1][3] for number in rounds if anchors[number - 1][3] != self._id]
        if len(others) == len(rounds):
            return f"its journal is that of another store, {others[0].hex()}"
        newest = max(anchors[number - 1][1] for number in rounds)
        if newest in {tables.round, tables.round + 1}:
            return f"its journal is damaged, or an older copy: its tables took round {tables.round}"
        return f"its journal is from another time: it is in round {newest}, and its tables took round {tables.round}"


def anchor_at(number: int) -> int:
    """Return the offset of a round's anchor."""
    return ANCHORS_AT[(number - 1) % 2]


def tree_of(record: Record | None, body: bytes, last: int) -> bytes:
    """Return the tree of a damaged record through a position, if the tree is intact; empty if not."""
    tree = b"" if record is None else body[: record.tree_bytes]
    try:
        frontier = Frontier.from_bytes(tree[HASH_BYTES:])
    except ValueError:
        return b""
    return tree if (frontier.size, frontier.root()) == (last, tree[:HASH_BYTES]) else b""


def damaged_rows(body: bytes, count: int) -> list[StoredRow]:
    """Return the rows of a damaged record. Each is damaged, unless its leaf hash covers all of it and matches.

    The readable part of the others stays, under a leaf hash that matches nothing, so their tags still lead to them.
    """
    try:
        rows = ROWS.decode(body)
    except msgspec.DecodeError:
        rows = []
    if len(rows) != count:
        return [StoredRow(None, None)] * count
    return [_judged(row) for row in rows]


def _judged(row: StoredRow) -> StoredRow:
    value = row.value
    if value is None or (row.payload is None and sha256(LEAF + value[HASH_BYTES:]).digest() == value[:HASH_BYTES]):
        return row
    return StoredRow(bytes(HASH_BYTES) + value[HASH_BYTES:], row.payload)
