"""The journal: what small commits add, in one file beside LMDB's, synced once.

LMDB writes ten pages of a small commit and syncs twice. So such a commit is one *record* at the
end of the journal, and rows go into LMDB's tables many at a time, when the journal is full. What
stands is then what LMDB has and the journal's rows behind that. The file has one size and is
written from its beginning again each time that its rows are in the tables; nothing is cut off.

A record counts if it continues what stands before it: its first position is the next one, and its
check is over the check of the record before. What an earlier round left, and what a kill or a
power cut left half written, does neither. What does not fit but was durable once, which a later
record says, is *damaged*. Only who has the turn writes, so a record that is there is never
changed, and readers need no lock.

What a record is made of: `records`.
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from rightful import limits
from rightful.errors import ClosedError, ForeignStoreError, StorageError
from rightful.recorders import files
from rightful.recorders.codec import Codec
from rightful.recorders.critical import run_locked
from rightful.recorders.faults import storage_error
from rightful.recorders.records import (
    CHECK_BYTES,
    END,
    HEAD_BYTES,
    MAGIC,
    TREE_BYTES,
    Record,
    check_of,
    damaged_rows,
    following,
    later,
    pack,
    record_of,
    rows_of,
)
from rightful.recorders.tail import Kept, Tail

_BLOCK_BYTES: Final = 16_384
"""What is read at once of what others added; bytes. With several processes it is some records each time."""


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
        self._doubts = count(1)
        self._doubt, self._cleared = 0, -1  # the newest doubt of a sync, and that which a turn cleared by writing again
        self._is_syncing = False  # also after an exception that came meanwhile, so that its outcome is not known
        self.durable = self._synced = 0  # the latter proves nothing while it is doubtful
        self._size = 0 if fd is None else os.fstat(fd).st_size
        self._sync = threading.Lock()
        self._is_known = False  # as while it changes: an exception that comes meanwhile has it read again
        self._restart(0, b"")

    def _restart(self, head: int, begins_with: bytes) -> None:
        self._tail = Tail(head, self._codec)
        self._last = head
        self._end = 0  # where the last record ends in the file
        self._check = self._tree = b""
        self._lasts: list[int] = []  # of each record: the position of its last row
        self._ends: list[int] = []  # and where it ends
        self._checks: list[bytes] = []  # and its check
        self._begins_with = begins_with
        self._is_old = False  # whether others have begun it anew since
        self._torn = 0, b""  # where something stands that is no record, and its beginning

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
            return run_locked(self._lock, self._now)
        except OSError as error:
            raise storage_error(self._root, error) from error

    def _now(self) -> tuple[Tail, int, bytes]:
        self._look()
        return self._tail, self._last, self._tree

    def _look(self) -> None:
        if self._fd is None:
            return
        if not self._is_known:
            self._load()
            return
        self._is_known = False
        self._read_on()
        newest = max(len(self._ends) - 1, bisect_right(self._lasts, self.durable))
        if self._is_old or self._read(0, HEAD_BYTES) != self._begins_with or not self._stands(newest):
            self._load()
        self._is_known = True

    def _stands(self, first: int) -> bool:
        """Tell whether records, from one on, are still in the file.

        After a sync that failed the system may have dropped what we read, and others have written there.
        """
        starts = [self._ends[at - 1] if at else 0 for at in range(first, len(self._ends))]
        if not starts:
            return True
        there = self._read(starts[0], starts[-1] + HEAD_BYTES - starts[0])
        ends = [at - starts[0] + HEAD_BYTES for at in starts]
        return [there[end - CHECK_BYTES : end] for end in ends] == self._checks[first:]

    def _load(self) -> None:
        """Read it from its beginning: the rows that LMDB does not have."""
        self._is_old = True
        while self._is_old:
            self._restart(*self._beginning())
            self._read_on()
        self.durable = max(self.durable, self._tail.start)
        self._is_known = True

    def _beginning(self) -> tuple[int, bytes]:
        """Return LMDB's last position, and what the journal began with after that was read."""
        before = -1
        while True:
            head = self._head()
            begins_with = self._read(0, HEAD_BYTES)
            first = record_of(begins_with)
            is_begun = MAGIC.startswith(begins_with.rstrip(b"\0"))  # or nothing, or half of it
            if first is None and not is_begun and MAGIC not in self._read(0, self._size):
                raise ForeignStoreError(str(self._root), "its journal is another program's file, or damaged")
            if first is None or first.first <= head + 1:
                return head, begins_with
            if check_of(b"", first, self._read(HEAD_BYTES, first.body_bytes)) != first.check:
                return head, begins_with  # it is damaged, or what a kill left
            if head == before:  # else another process emptied it after the head was read
                what = f"its journal begins at position {first.first}, and its tables end at {head}"
                raise ForeignStoreError(str(self._root), what)
            before = head

    def _read_on(self) -> None:
        """Take what continues what is known."""
        while True:
            block = self._read(self._end, min(_BLOCK_BYTES, self._size - self._end))
            taken = self._take_many(block)
            head = block[taken : taken + HEAD_BYTES]
            if head == END or len(head) + taken < HEAD_BYTES:  # behind the last record, or behind the file
                return
            if taken or self._take_again(head):
                continue
            if (self._end, head) == self._torn or not self._pass_damage():
                self._torn = self._end, head
                return

    def _take_many(self, block: bytes) -> int:
        """Take the records that are whole in what was read at once; return how much of it they are, in bytes."""
        at = 0
        while (found := following(block, at, self._last, self._check)) is not None:
            self._take(*found)
            at += found[0].size
        return at

    def _take_again(self, head: bytes) -> bool:
        """Take a record that is longer than what is read at once, or was still being written; tell whether it was."""
        record = record_of(head)
        data = b"" if record is None else self._read(self._end, record.size)
        found = following(data, 0, self._last, self._check)
        if found is not None:
            self._take(*found)
        return found is not None

    def _pass_damage(self) -> bool:
        """Pass over what was durable once and is damaged, which a later record says; tell whether one does.

        Else what stands there is what a kill or a power cut left, and was never acknowledged.
        """
        rest = self._read(self._end, self._size - self._end)
        record = record_of(rest[:HEAD_BYTES])
        body = b"" if record is None else rest[HEAD_BYTES : record.size]
        whole = None if record is None else check_of(self._check, record, body)
        found = later(rest, self._last, whole)
        if found is None:
            return False
        if self._read(0, HEAD_BYTES) != self._begins_with or self._head() > self._last:
            self._is_old = True  # what stands here is of another round
            return False
        at, behind, check = found
        if self._read(self._end, at) != rest[:at]:
            return True  # it was read while it was written, and what is behind it after that: look again
        if record is not None and check == whole:  # no more than its check is damaged
            self._take(msgspec.structs.replace(record, check=check), body)
            return True
        tree_bytes = 0 if record is None else record.tree_bytes
        self._tail.rows += damaged_rows(rest[HEAD_BYTES + tree_bytes : at], behind.first - 1 - self._last)
        self._went_on(behind.first - 1, self._end + at, check, b"")
        return True

    def _take(self, record: Record, body: bytes) -> None:
        self._tail.rows += rows_of(record, body)
        self.durable = max(self.durable, record.durable)
        self._went_on(record.last, self._end + record.size, record.check, body[: record.tree_bytes])

    def _went_on(self, last: int, end: int, check: bytes, tree: bytes) -> None:
        self._last, self._end, self._check, self._tree = last, end, check, tree
        self._lasts.append(last)
        self._ends.append(end)
        self._checks.append(check)

    def _read(self, at: int, count: int) -> bytes:
        assert self._fd is not None
        return os.pread(self._fd, count, at) if at + count <= self._size else b""

    # -- writing, in our turn --------------------------------------------------------------

    def begin_turn(self) -> None:
        """Look whether it is as we know it, and have the next sync write what an earlier one may have failed to.

        The system forgets a page that it could not write, and the next sync succeeds without it.

        Raises:
            OSError: It cannot be written.
        """
        if self._fd is not None:
            run_locked(self._lock, self._begin_turn, self._fd)

    def _begin_turn(self, fd: int) -> None:
        if self._tail.last != self._last:
            self._is_known = False
        doubt = self._doubt  # one that comes while it is written again is not cleared by that
        at = bisect_right(self._lasts, self.durable)
        if doubt == self._cleared and self._stands(at):
            return
        self._is_known = False
        self._cleared = -1
        self._look()
        self.durable = min(self.durable, self._last)  # what is gone from the file was durable once only
        at = bisect_right(self._lasts, self.durable)
        start = self._ends[at - 1] if at else 0
        if start < self._end:
            _write(fd, self._read(start, self._end - start) + END, start)
        self._cleared = doubt

    @property
    def _doubtful(self) -> bool:
        """Whether a sync may have failed, ours or one before us, and no turn began since."""
        return self._doubt != self._cleared

    def emptied(self, head: int) -> None:
        """Begin anew: LMDB has all rows through a position, on the disk."""
        run_locked(self._lock, self._emptied, head)

    def _emptied(self, head: int) -> None:
        is_known, self._is_known = self._is_known, False
        self._restart(head, self._begins_with)
        self.durable = max(self.durable, head)
        self._is_known = is_known

    def cut(self, tail: Tail) -> None:
        """Take away what was added to a tail and not written."""
        run_locked(self._lock, self._cut, tail)

    def _cut(self, tail: Tail) -> None:
        if tail is self._tail and (self._is_known or self._fd is None):  # else it is read again, and this one let go
            tail.cut(self._last)

    def has_room(self, rows: Sequence[Kept]) -> bool:
        """Tell whether rows are few and short enough for a record, and there is room for it."""
        size = sum(len(row.value or b"") + len(row.payload or b"") for row in rows)
        if self._fd is None or size > limits.JOURNAL_COMMIT_BYTES:
            return False
        ends = self._end + HEAD_BYTES + TREE_BYTES + size + 16 * len(rows) + len(END)
        return ends <= self._size and self._last - self._tail.start + len(rows) <= limits.JOURNAL_ROWS

    def write(self, rows: Sequence[Kept], tree: bytes) -> None:
        """Write the rows that were added to the tail as one record, not yet synced.

        Raises:
            StorageError: The system failed; nothing was written that counts.
        """
        run_locked(self._lock, self._write, rows, tree)

    def _write(self, rows: Sequence[Kept], tree: bytes) -> None:
        assert self._fd is not None
        if not self._is_known:  # an exception in another thread has had it read again
            self._look()
        if self._tail.last == self._last:  # and so without the rows that were added
            self._tail.rows += rows
        record, body = pack(rows, tree, self._last + 1, self.durable, self._check)
        if record.last != self._tail.last:
            raise StorageError(f"the journal of {self._root} is not what it was when the turn began")
        self._is_known = False
        try:
            _write(self._fd, record.head + body + END, self._end)
        except OSError as error:
            if self._read(self._end, record.size) != record.head + body:
                raise storage_error(self._root, error) from error
        if not self._end:
            self._begins_with = record.head
        self._went_on(record.last, self._end + record.size, record.check, tree)
        self._is_known = True

    # -- the disk --------------------------------------------------------------------------

    def settle(self, *, for_answer: bool) -> None:
        """Make durable all that is known of it.

        One sync at a time: the system tells of a failure once. What was synced before a turn of this
        process began, or since a sync failed, is not known to be durable: what the system has forgotten
        by then is written in a turn only.

        Args:
            for_answer: Whether somebody is told that it is durable, so that no earlier sync may have failed.

        Raises:
            OSError: The system failed, now or before; whether all is durable is not known.
            ClosedError: It was closed.
        """
        run_locked(self._sync, self._settle, for_answer=for_answer)

    def _settle(self, *, for_answer: bool) -> None:
        if self._is_syncing:
            self.doubt()
        last, doubtful = run_locked(self._lock, self._to_sync)
        if last <= (self.durable if for_answer else max(self.durable, self._synced)):
            return
        if self._fd is None:
            raise ClosedError(str(self._root))
        if doubtful and for_answer:
            raise OSError(errno.EIO, "what was written before could not be synced")
        try:
            self._sync_through(last, self._fd, is_proof=not doubtful, for_answer=for_answer)
        except BaseException:
            self.doubt()
            raise

    def _sync_through(self, last: int, fd: int, *, is_proof: bool, for_answer: bool) -> None:
        self._is_syncing = True
        try:
            files.sync(fd)
        except OSError as error:
            if for_answer or error.errno not in files.NEVER_WRITTEN:
                raise
            is_proof = False
        self._synced = last
        self._is_syncing = False
        if is_proof and not self._doubtful:
            self.durable = max(self.durable, last)

    def _to_sync(self) -> tuple[int, bool]:
        """Return what is known of it now, and whether a sync is in doubt; no turn writes it again meanwhile."""
        return self._last, self._doubtful

    def doubt(self) -> None:
        """Take nothing for granted that is known of it, from the next turn on: a sync or a commit failed."""
        self._doubt, self._synced, self._is_syncing = next(self._doubts), 0, False

    def go_on_with(self, fd: int) -> None:
        """Use another descriptor of the same file, which may be written too; what is known of it stays."""
        run_locked(self._sync, run_locked, self._lock, self._go_on_with, fd)

    def _go_on_with(self, fd: int) -> None:
        before, self._fd = self._fd, fd
        if before is not None:
            os.close(before)

    def close(self) -> None:
        """Close the file, when nobody reads or syncs it."""
        run_locked(self._sync, run_locked, self._lock, self.forget)

    def forget(self) -> None:
        """Close the file in the child of a fork, where nobody gives back a lock."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
