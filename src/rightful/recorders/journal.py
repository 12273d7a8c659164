"""The journal: what small commits add, in one file beside LMDB's, synced once.

LMDB writes ten pages of a small commit and syncs twice. So such a commit is one *record* at the
end of the journal, and rows go into LMDB's tables many at a time, when the journal is full. What
stands is then what LMDB has and the journal's rows behind that. The file has one size and is
written from its beginning again each time that its rows are in the tables; nothing is cut off.

A record counts if it continues what stands before it: its first position is the next one, and its
check is over the check of the record before. What an earlier round left, and what a kill or a
power cut left half written, does neither. Only who has the turn writes, so a record that is there
is never changed, and readers need no lock.

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
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from struct import Struct as Layout
from typing import Final, NamedTuple

import msgspec

from rightful import limits
from rightful.errors import ClosedError, ForeignStoreError
from rightful.recorders import files
from rightful.recorders.codec import Codec
from rightful.recorders.faults import storage_error
from rightful.recorders.tail import Kept, Tail

_MAGIC: Final = b"RfJ1"
_HEAD: Final = Layout(">4sIQQII")
_CHECK_BYTES: Final = 32
_RECORD_BYTES: Final = _HEAD.size + _CHECK_BYTES
"""What a record has before its body; bytes."""

_TREE_BYTES: Final = 32 + 8 + 64 * 32
"""The largest tree: its root, its size and as many peaks as a size has bits; bytes."""

_encoder = msgspec.msgpack.Encoder()
_rows = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


class Record(NamedTuple):
    """What stands before a record's body."""

    body_bytes: int
    first: int
    durable: int
    row_count: int
    tree_bytes: int
    check: bytes
    head: bytes

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.first + self.row_count - 1


class Journal:
    """The journal of one store in this process, with the rows that it had when last looked at.

    Args:
        root: The store's folder, for errors.
        fd: The open file; None where the store has none, and all goes into the tables.
        codec: How a record names its type and tags; None where no rows are kept in it.
        head: Tells LMDB's last position, in a read transaction of its own.

    Attributes:
        durable: The position through which all is known to be on the disk.
    """

    def __init__(self, root: Path, fd: int | None, codec: Codec | None, head: Callable[[], int]) -> None:
        self._root = root
        self._fd = fd
        self._codec = codec
        self._head = head
        self._lock = threading.Lock()
        self._doubtful = True  # whether a sync may have failed, ours or one before us, and no turn began since
        self._failed = False  # whether the file may differ from what we know of it
        self.durable = 0
        self._shown = 0  # the position through which a sync of ours was done, whatever one before it failed to write
        self._size = 0 if fd is None else os.fstat(fd).st_size
        self._sync = threading.Lock()
        self._restart(0, b"")
        self._is_known = False

    def _restart(self, head: int, begins_with: bytes) -> None:
        self._tail = Tail(head, self._codec)
        self._last = head
        self._start = self._end = 0  # where the rows that are kept begin and end in the file
        self._check = self._tree = b""
        self._lasts: list[int] = []  # of each record: the position of its last row
        self._ends: list[int] = []  # and where it ends
        self._begins_with = begins_with

    # -- reading ---------------------------------------------------------------------------

    @property
    def tail(self) -> Tail:
        """The rows that it had when last looked at."""
        return self._tail

    def now(self) -> tuple[Tail, int, bytes]:
        """Return the rows behind LMDB's, the position of the last one, and the tree there.

        Begin LMDB's transaction afterwards: it then has all rows before these.

        Raises:
            ForeignStoreError: It does not continue what LMDB has.
            StorageError: It cannot be read.
        """
        try:
            with self._lock:
                self._look()
                return self._tail, self._last, self._tree
        except OSError as error:
            raise storage_error(self._root, error) from error

    def _look(self) -> None:
        if self._fd is None:
            return
        if not self._is_known:
            self._load()
            return
        self._read_on()
        if self._read(0, _RECORD_BYTES) != self._begins_with:
            self._load()

    def _load(self) -> None:
        """Read it from its beginning: the rows that LMDB does not have."""
        head, begins_with, first = self._beginning()
        self._restart(head, begins_with)
        if first is not None and first.first <= head:
            self._pass_over(first, head)
        self._read_on()
        if not self._tail.rows:  # whatever stands there is of an earlier round
            self._restart(head, begins_with)
        self.durable = max(self.durable, head)
        self._is_known = True

    def _beginning(self) -> tuple[int, bytes, Record | None]:
        """Return LMDB's last position, and what the journal began with after that was read."""
        before = -1
        while True:
            head = self._head()
            begins_with = self._read(0, _RECORD_BYTES)
            first = _record_of(begins_with)
            if first is None or first.first <= head + 1:
                return head, begins_with, first
            if head == before:  # else another process emptied it after the head was read
                what = f"its journal begins at position {first.first}, and its tables end at {head}"
                raise ForeignStoreError(str(self._root), what)
            before = head

    def _pass_over(self, record: Record, head: int) -> None:
        """Go to the first record with a row that LMDB does not have."""
        this: Record | None = record
        expected = record.first
        while this is not None and this.first == expected and this.last <= head:
            self._check, expected = this.check, this.last + 1
            self._end += _RECORD_BYTES + this.body_bytes
            this = self._record(self._end)
        self._start, self._last = self._end, expected - 1
        self._tail = Tail(self._last, self._codec)

    def _read_on(self) -> None:
        """Take what continues what is known."""
        while (record := self._record(self._end)) is not None and record.first == self._last + 1:
            body = self._read(self._end + _RECORD_BYTES, record.body_bytes)
            fits = self._fits(record, body)
            if not fits and not self._is_damage(record):
                return
            if not fits and self._read(self._end, _RECORD_BYTES + len(body)) != record.head + body:
                continue  # it was read while it was written, and others wrote on before the later ones were read
            if fits:
                self.durable = max(self.durable, record.durable)
            self._take(record, body)

    def _record(self, at: int) -> Record | None:
        """Return what stands at a place before a body; None if nothing does that could be one."""
        return _record_of(self._read(at, _RECORD_BYTES))

    def _fits(self, record: Record, body: bytes) -> bool:
        return _check_of(self._check, record.head[: _HEAD.size], body) == record.check

    def _is_damage(self, record: Record) -> bool:
        """Tell whether a record that does not fit its check was durable once, which a later one says.

        Else it is what a kill or a power cut left, and was never acknowledged.
        """
        at, before, last = self._end, record, record.last
        while True:
            at += _RECORD_BYTES + before.body_bytes
            later = self._record(at)
            if later is None or later.first != last + 1:
                return False
            body = self._read(at + _RECORD_BYTES, later.body_bytes)
            fits = _check_of(before.check, later.head[: _HEAD.size], body) == later.check
            if fits and later.durable >= record.first:
                return True
            before, last = later, later.last

    def _take(self, record: Record, body: bytes) -> None:
        self._tail.rows += _rows_of(record, body)
        end = self._end + _RECORD_BYTES + record.body_bytes
        self._went_on(record.last, end, record.check, body[: record.tree_bytes])

    def _went_on(self, last: int, end: int, check: bytes, tree: bytes) -> None:
        self._last, self._end, self._check, self._tree = last, end, check, tree
        self._lasts.append(last)
        self._ends.append(end)

    def _read(self, at: int, count: int) -> bytes:
        assert self._fd is not None
        return os.pread(self._fd, count, at) if at + count <= self._size else b""

    # -- writing, in our turn --------------------------------------------------------------

    def begin_turn(self) -> None:
        """Look at it anew if that is needed, and have the next sync write what an earlier one may have failed to.

        The system forgets a page that it could not write, and the next sync succeeds without it.

        Raises:
            OSError: It cannot be written.
        """
        if not self._doubtful or self._fd is None:
            return
        with self._lock:
            if self._failed:
                self._is_known = self._failed = False
            self._doubtful = False  # before it is written: a sync that fails meanwhile makes it doubtful again
            try:
                self._look()
                self.durable = min(self.durable, self._last)  # what is gone from the file is written anew
                at = bisect_right(self._lasts, self.durable)
                start = self._ends[at - 1] if at else self._start
                _write(self._fd, self._read(start, self._end - start), start)
            except BaseException:
                self._doubtful = True
                raise

    def emptied(self, head: int) -> None:
        """Begin anew: LMDB has all rows through a position, on the disk."""
        with self._lock:
            self._restart(head, self._begins_with)
            self.durable = max(self.durable, head)

    def has_room(self, rows: Sequence[Kept]) -> bool:
        """Tell whether rows are few and short enough for a record, and there is room for it."""
        size = sum(len(row.value or b"") + len(row.payload or b"") for row in rows)
        if self._fd is None or size > limits.JOURNAL_COMMIT_BYTES:
            return False
        ends = self._end + _RECORD_BYTES + size + 16 * len(rows) + _TREE_BYTES
        return ends <= self._size and self._last - self._tail.start + len(rows) <= limits.JOURNAL_ROWS

    def write(self, rows: Sequence[Kept], tree: bytes) -> None:
        """Write the rows that were added to the tail as one record, not yet synced.

        Raises:
            OSError: The system failed; nothing was written that counts.
        """
        assert self._fd is not None
        body = tree + _encoder.encode([(row.value, row.payload) for row in rows])
        last = self._last + len(rows)
        head = _HEAD.pack(_MAGIC, len(body), self._last + 1, self.durable, len(rows), len(tree))
        check = _check_of(self._check, head, body)
        with self._lock:
            _write(self._fd, head + check + body, self._end)
            if not self._end:
                self._begins_with = head + check
            self._went_on(last, self._end + _RECORD_BYTES + len(body), check, tree)

    # -- the disk --------------------------------------------------------------------------

    def settle(self, *, for_answer: bool) -> None:
        """Make durable all that is known of it.

        One sync at a time: the system tells of a failure once.

        Args:
            for_answer: Whether somebody is told that it is durable, so that no earlier sync may have failed.

        Raises:
            OSError: The system failed, now or before; whether all is durable is not known.
            ClosedError: It was closed.
        """
        with self._sync:
            with self._lock:
                last, doubtful = self._last, self._doubtful
            if last <= (self.durable if for_answer else max(self.durable, self._shown)):
                return
            if self._fd is None:
                raise ClosedError(str(self._root))
            if self._failed and for_answer:
                raise OSError(errno.EIO, "what was written before could not be synced")
            try:
                files.sync(self._fd)
            except OSError:
                self.doubt()
                raise
            self._shown = max(self._shown, last)
            if not doubtful and not self._doubtful:
                self.durable = max(self.durable, last)

    def doubt(self) -> None:
        """Take nothing for granted that is known of it, from the next turn on: a sync or a commit failed."""
        self._doubtful = self._failed = True
        self._shown = 0

    def use(self, fd: int) -> None:
        """Go on with another open file of it: one that can be written."""
        with self._sync, self._lock:
            self.forget()
            self._fd, self._size = fd, os.fstat(fd).st_size

    def close(self) -> None:
        """Close the file, when nobody reads or syncs it."""
        with self._sync, self._lock:
            self.forget()

    def forget(self) -> None:
        """Close the file in the child of a fork, where nobody gives back a lock."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _record_of(head: bytes) -> Record | None:
    """Return what 64 bytes say of a record; None if they are of none."""
    if len(head) < _RECORD_BYTES or not head.startswith(_MAGIC):
        return None
    _, body_bytes, first, durable, count, tree_bytes = _HEAD.unpack_from(head)
    return Record(body_bytes, first, durable, count, tree_bytes, head[_HEAD.size :], head)


def _check_of(before: bytes, head: bytes, body: bytes) -> bytes:
    check = sha256(before + head)
    check.update(body)
    return check.digest()


def _rows_of(record: Record, body: bytes) -> list[Kept]:
    """Return the rows of a record; without bytes where it is damaged."""
    try:
        rows = [Kept(value, payload) for value, payload in _rows.decode(body[record.tree_bytes :])]
    except msgspec.DecodeError:
        rows = []
    return rows if len(rows) == record.row_count else [Kept(None, None)] * record.row_count


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
