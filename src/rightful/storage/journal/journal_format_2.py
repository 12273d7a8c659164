"""The records of a store of format 2, which are not bound to a store or a round. They are read, and never written.

| bytes | of a record, big-endian |
|---|---|
| 4 | `RfJ1` |
| 4 | size of the body |
| 8 | position of the first row |
| 8 | the position through which everything was durable when it was written |
| 4 | number of rows |
| 4 | size of the tree |
| 32 | SHA-256 of the check of the record before (none: nothing), the 32 bytes above, and the body |
| … | body, as in `journal_records` |

The first record is at the beginning of the file. A record is followed by 64 zero bytes, or by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct as Layout
from typing import Final

from rightful import limits
from rightful.storage.journal.journal_records import CHECK_BYTES, Link, Mark, Record

MAGIC: Final = b"RfJ1"
_HEAD: Final = Layout(">4sIQQII")
HEAD_BYTES: Final = _HEAD.size + CHECK_BYTES


class Format2:
    """The format of these records; implements `journal_records.RecordFormat`."""

    start: int = 0
    head_bytes: int = HEAD_BYTES
    end_bytes: int = HEAD_BYTES

    def record_of(self, head: bytes) -> Record | None:
        """As `RecordFormat.record_of`."""
        if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
            return None
        _, body_bytes, first, durable, count, tree_bytes = _HEAD.unpack_from(head)
        return Record(body_bytes, first, durable, count, tree_bytes, b"", head[_HEAD.size :], head)

    def check_of(self, before: bytes, record: Record, body: bytes) -> bytes:
        """As `RecordFormat.check_of`."""
        check = sha256(before + record.head[: _HEAD.size])
        check.update(body)
        return check.digest()

    def end(self, _: bytes) -> bytes:
        """As `RecordFormat.end`."""
        return bytes(HEAD_BYTES)

    def later(self, rest: bytes, last: int, befores: Sequence[bytes], _: Mark | None) -> Link | None:
        """As `RecordFormat.later`.

        The record itself, or one that continues it, proves that it was durable. Each is recognised by its check, which
        covers the check of the record before it. That is the check in the damaged record or, if more is damaged, in
        another record in between.
        """
        checks: dict[int, bytes] = {}  # by the end of the record
        chains: dict[int, Link] = {}  # by the end of each run of consecutive records: the first of them
        at = rest.find(MAGIC, HEAD_BYTES)
        while at >= 0:
            record = self.record_of(rest[at : at + HEAD_BYTES])
            if record is not None and last + 1 < record.first <= last + limits.JOURNAL_ROWS:
                end = at + record.size
                for before in filter(None, [*befores, checks.get(at)]):
                    if self.check_of(before, record, rest[at + HEAD_BYTES : end]) == record.check:
                        chains[end] = chains.get(at, (at, record, before))
                        if record.durable > last:
                            return chains[end]
                checks[end] = record.check
            at = rest.find(MAGIC, at + 1)
        return None
