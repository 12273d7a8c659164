"""The records of a journal: their form, and which of them can be relied on.

| bytes | of a record, big-endian |
|---|---|
| 4 | `RfJ1` |
| 4 | size of the body |
| 8 | position of the first row |
| 8 | the position through which all was durable when it was written |
| 4 | how many rows |
| 4 | size of the tree |
| 32 | SHA-256 of the check of the record before (none: nothing), the 32 bytes above, and the body |
| … | body: the tree (root, then frontier); then the rows, a MessagePack array of value and payload each |

Behind a record stand 64 zero bytes, or the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct as Layout
from typing import Final

import msgspec

from rightful import limits
from rightful.recorders.tail import Kept
from rightful.tree import HASH_BYTES, LEAF

MAGIC: Final = b"RfJ1"
_HEAD: Final = Layout(">4sIQQII")
CHECK_BYTES: Final = 32
HEAD_BYTES: Final = _HEAD.size + CHECK_BYTES
"""What a record has before its body; bytes."""

END: Final = bytes(HEAD_BYTES)
"""What stands behind the last record, so that nothing else is ever taken for what follows it."""

TREE_BYTES: Final = 32 + 8 + 64 * 32
"""The largest tree: its root, its size and as many peaks as a size has bits; bytes."""

_encoder = msgspec.msgpack.Encoder()
_rows = msgspec.msgpack.Decoder(list[Kept])


Link = tuple[int, "Record", bytes]
"""Where a record stands, what it is, and the check of the one before it."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """What stands before a record's body.

    Attributes:
        body_bytes: Size of the body; bytes.
        first: The position of its first row.
        durable: The position through which all was durable when it was written.
        row_count: How many rows it has.
        tree_bytes: Size of the tree that its body begins with; bytes.
        check: SHA-256 over the check of the record before, what stands before it, and the body.
        head: All of these, as they stand there.
    """

    body_bytes: int
    first: int
    durable: int
    row_count: int
    tree_bytes: int
    check: bytes
    head: bytes

    @property
    def size(self) -> int:
        """How long it is; bytes."""
        return HEAD_BYTES + self.body_bytes

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.first + self.row_count - 1


def pack(rows: Sequence[Kept], tree: bytes, first: int, durable: int, before: bytes) -> tuple[Record, bytes]:
    """Return a record of rows and its body.

    Args:
        rows: The rows.
        tree: The tree with them.
        first: The position of the first.
        durable: The position through which all is durable.
        before: The check of the record before; nothing where there is none.
    """
    body = tree + _encoder.encode(rows)
    head = _HEAD.pack(MAGIC, len(body), first, durable, len(rows), len(tree))
    check = _check_of(before, head, body)
    return Record(len(body), first, durable, len(rows), len(tree), check, head + check), body


def record_of(head: bytes) -> Record | None:
    """Return what 64 bytes say of a record; None if they are of none."""
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        return None
    _, body_bytes, first, durable, count, tree_bytes = _HEAD.unpack_from(head)
    return Record(body_bytes, first, durable, count, tree_bytes, head[_HEAD.size :], head)


def check_of(before: bytes, record: Record, body: bytes) -> bytes:
    """Return the check that a record should have behind one with the check `before`."""
    return _check_of(before, record.head[: _HEAD.size], body)


def _check_of(before: bytes, head: bytes, body: bytes) -> bytes:
    check = sha256(before + head)
    check.update(body)
    return check.digest()


def rows_of(record: Record, body: bytes) -> list[Kept]:
    """Return the rows of a record that fits its check."""
    return _rows.decode(body[record.tree_bytes :])


def following(data: bytes, at: int, last: int, before: bytes) -> tuple[Record, bytes] | None:
    """Return the record, and its body, that stands whole at a place and continues what is before it; None if none does.

    Args:
        data: What was read of the journal.
        at: The place in it.
        last: The position before the record's first row.
        before: The check of the record before.
    """
    record = record_of(data[at : at + HEAD_BYTES])
    if record is None or record.first != last + 1:
        return None
    body = data[at + HEAD_BYTES : at + record.size]
    return (record, body) if check_of(before, record, body) == record.check else None


def later(rest: bytes, last: int, whole: bytes | None) -> Link | None:
    """Return the first whole record behind a damaged one that was durable once.

    That it was, it says itself, or a record that continues it. Each is told by its check, which is over the check of
    the record before it: the one that stands in the damaged record or, where more is damaged, in another one between.

    Args:
        rest: The journal from the damaged record on.
        last: The position before it.
        whole: What its check would be if nothing else of it were damaged.

    Returns:
        Where it stands, what it is, and the check of the record before it; None if there is none.
    """
    befores = [rest[_HEAD.size : HEAD_BYTES], whole or b""]
    checks: dict[int, bytes] = {}  # by where a record ends
    chains: dict[int, Link] = {}  # and the first one of those that continue each other up to there
    at = rest.find(MAGIC, HEAD_BYTES)
    while at >= 0:
        record = record_of(rest[at : at + HEAD_BYTES])
        if record is not None and last + 1 < record.first <= last + limits.JOURNAL_ROWS:
            end = at + record.size
            for before in filter(None, [*befores, checks.get(at)]):
                if check_of(before, record, rest[at + HEAD_BYTES : end]) == record.check:
                    chains[end] = chains.get(at, (at, record, before))
                    if record.durable > last:
                        return chains[end]
            checks[end] = record.check
        at = rest.find(MAGIC, at + 1)
    return None


def damaged_rows(body: bytes, count: int) -> list[Kept]:
    """Return the rows of a damaged record: each is damaged, unless its leaf hash covers all of it and fits.

    What can be read of the others stays, under a leaf hash that fits nothing: so their tags still lead to them.
    """
    try:
        rows = _rows.decode(body)
    except msgspec.DecodeError:
        rows = []
    if len(rows) != count:
        return [Kept(None, None)] * count
    return [_judged(row) for row in rows]


def _judged(row: Kept) -> Kept:
    value = row.value
    if value is None or (row.payload is None and sha256(LEAF + value[HASH_BYTES:]).digest() == value[:HASH_BYTES]):
        return row
    return Kept(bytes(HASH_BYTES) + value[HASH_BYTES:], row.payload)
