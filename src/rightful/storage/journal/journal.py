"""The journal: the rows of small commits, in one file next to LMDB's, with one sync a commit.

LMDB writes ten pages for a small commit and syncs twice. So such a commit is one *record* at the
end of the journal, and many rows move into LMDB's tables at once when the journal is full. The store's
rows are LMDB's rows, then the journal's. The file has a fixed size. Each time its rows are in the tables,
it is written from its beginning again (a new *round*); it is never truncated.

A round begins with an *anchor*, synced before the first record. The anchor names the store and the last row
of the tables. A record is valid if its position and its check continue the record before it. The rest of an
earlier round, or of a write that a kill or a power cut interrupted, continues neither. Bytes that are not
valid but were durable once, as a later record or the mark proves, are *damaged*. Only the process with the
write lock writes, so an existing record never changes, and readers need no lock.

The format of a record: `journal_records`. Format 2 of a store: `journal_format_2`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from rightful import limits
from rightful.errors import ClosedError, StorageError
from rightful.storage.critical_sections import locked
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.journal.journal_reader import JournalReader, JournalState
from rightful.storage.journal.journal_records import (
    ANCHOR_BYTES,
    ANCHORS_AT,
    HEAD_BYTES,
    MARK_BYTES,
    TREE_BYTES,
    JournalKey,
    Mark,
    RecordFormat,
    RoundFormat,
    TablesState,
    anchor_at,
)
from rightful.storage.journal.journal_rows import JournalTail, StoredRow
from rightful.storage.tables.row_codec import Codec

_MARK_EVERY: Final = 64
"""Rows between two durable marks of one process. Each mark adds a second page to the next sync."""


class Journal(JournalReader):
    """The journal of one store in this process: a `JournalReader` that is also written and synced."""

    def __init__(
        self,
        root: Path,
        fd: int | None,
        codec: Codec | None,
        tables: Callable[[], TablesState],
        key: JournalKey | None = None,
    ) -> None:
        super().__init__(root, fd, codec, tables, key)
        self._doubts = count(1)
        self._doubt, self._cleared = 0, -1  # the newest doubt about a sync, and the last doubt that a rewrite cleared
        self._is_syncing = False  # still set after an exception during a sync, whose outcome is then unknown
        self._synced = 0  # proves nothing while there is a doubt
        self._sync_lock = threading.Lock()
        self._marked = 0, 0  # the round and the position that this process marked last

    # -- writing, with the write lock --------------------------------------------------------

    @locked("_lock")
    def begin_turn(self) -> JournalState:
        """Return as `read_state`, and make the next sync write what an earlier one may have failed to write.

        The system discards a page that it could not write, and the next sync succeeds without it.

        Raises:
            OSError: The file cannot be written.
        """
        if self._fd is not None:
            tail = self._tail
            is_certain = self._doubt == self._cleared and tail.start + len(tail.rows) == self._last
            if is_certain and self._is_unchanged(self._fd):
                return tail, self._last, self._tree
            self._rewrite_doubtful(self._fd)
        return self._read_state()

    def _rewrite_doubtful(self, fd: int) -> None:
        if self._tail.last != self._last:
            self._is_known = False
        doubt = self._doubt  # a doubt that arises during the rewrite is not cleared by it
        at = bisect_right(self._lasts, self.durable)
        if doubt == self._cleared and self._are_in_file(at):
            return
        self._is_known = False
        self._cleared = -1
        self._refresh()
        self.durable = min(self.durable, self._last)  # rows that are gone from the file are no longer durable
        at = bisect_right(self._lasts, self.durable)
        start = self._ends[at - 1] if at else self._format.start
        if start < self._end:
            _write(fd, self._read(start, self._end - start) + self._end_behind(self._check), start)
        self._cleared = doubt

    def closing(self) -> tuple[int, bytes] | None:
        """Return the round and the check of its last record, for the tables; None without a record, or in format 2."""
        return (self._format.round, self._check) if isinstance(self._format, RoundFormat) and self._lasts else None

    @locked("_lock")
    def emptied(self, tables: TablesState) -> None:
        """Begin a round after all rows are in LMDB, durably.

        Its anchor is not synced here. If it is lost, the previous round ends with the record that the tables noted.
        """
        self._is_known = False
        self.durable = max(self.durable, tables.size)
        self._reset(tables, self._beginning, self._format, self._check, may_have_records=False)
        if self._key is not None and self._fd is not None:
            anchor = self._key.anchor(tables)
            with contextlib.suppress(OSError):
                _write(self._fd, anchor.data, anchor_at(anchor.round))

    @locked("_lock")
    def invalidate(self, head: int) -> None:
        """Reread the journal at the next look. LMDB has all its rows, but the journal does not show it."""
        self._is_known = False
        if self._fd is None:
            self._reset(TablesState(head, b""), b"", self._format, b"")

    @locked("_lock")
    def cut(self, tail: JournalTail) -> None:
        """Remove the rows that were added to a tail and not written."""
        if tail is self._tail and (self._is_known or self._fd is None):  # else this tail is dropped
            tail.cut(self._last)

    def has_room(self, rows: Sequence[StoredRow]) -> bool:
        """Return whether rows are few and short enough for a record, and the journal has room for it."""
        size = 0
        for row in rows:
            size += len(row.value or b"") + len(row.payload or b"")
        if self._fd is None or self._key is None or size > limits.JOURNAL_COMMIT_BYTES:
            return False
        ends = self._end + HEAD_BYTES + TREE_BYTES + size + 16 * len(rows) + self._format.end_bytes
        return ends <= self._size and self._last - self._tail.start + len(rows) <= limits.JOURNAL_ROWS

    def write(self, rows: Sequence[StoredRow], tree: bytes, after: int | None = None) -> tuple[int, bytes]:
        """Write the rows that were added to the tail as one record, without a sync; return as `answered`.

        Args:
            rows: The rows.
            tree: The tree that includes them.
            after: The last position before they were added, read by `begin_turn`.

        Raises:
            StorageError: The system failed. No valid record was written.
        """
        try:
            if not self._lasts:
                self._write_anchor()
                self._sync_anchor()  # before the previous round is overwritten
            return self._write(rows, tree, after)
        except OSError as error:
            raise storage_error(self._root, error) from error

    @locked("_lock")
    def _write(self, rows: Sequence[StoredRow], tree: bytes, after: int | None) -> tuple[int, bytes]:
        if not self._is_known:  # after an exception in another thread it must be read again
            self._refresh()
        layout, tail = self._format, self._tail
        assert self._fd is not None
        assert isinstance(layout, RoundFormat)
        if tail.start + len(tail.rows) == self._last:  # it was read again meanwhile, so the added rows are missing
            tail.rows += rows
        record, check = layout.pack(rows, tree, self._last + 1, self.durable, self._check)
        is_moved, last = after is not None and self._last != after, self._last + len(rows)
        if is_moved or last != tail.start + len(tail.rows) or not self._may_have_records:
            self._is_known = False
            raise StorageError(f"the journal of {self._root} is not what it was when the turn began")
        self._is_known = False
        end = layout.end(check)
        self._end_of = check, layout, end
        try:
            _write(self._fd, record + end, self._end)
        except OSError:
            if self._read(self._end, len(record)) != record:
                raise
        self._note_record(last, self._end + len(record), check, tree)
        self._is_known = True
        return last, check

    @locked("_lock")
    def _write_anchor(self) -> None:
        if not self._is_known:
            self._refresh()
        key = self._key
        assert key is not None
        assert self._fd is not None
        anchor, round_format = key.anchor(self._base), key.round_format(self._base.round + 1)
        at = anchor_at(anchor.round) - ANCHORS_AT[0]
        beginning = self._beginning[:at] + anchor.data + self._beginning[at + ANCHOR_BYTES :]
        self._is_known = False
        _write(self._fd, anchor.data, anchor_at(anchor.round))
        self._beginning, self._format, self._check, self._may_have_records = (
            beginning,
            round_format,
            anchor.check,
            True,
        )
        self._is_known = True

    @locked("_sync_lock")
    def _sync_anchor(self) -> None:
        assert self._fd is not None
        if self._is_syncing:
            self.doubt()
        try:
            self._is_syncing = True
            store_files.sync(self._fd)
            self._is_syncing = False
        except BaseException:
            self.doubt()
            raise
        if self._doubt != self._cleared:
            raise OSError(errno.EIO, "what was written before could not be synced")

    # -- durability --------------------------------------------------------------------------

    @locked("_lock")
    def answered(self) -> tuple[int, bytes]:
        """Return the last position and the check of its record, for `sync`."""
        return self._last, self._check

    @locked("_sync_lock")
    def sync(self, answered: tuple[int, bytes] | None = None) -> None:
        """Sync what callers were answered, or everything that was read.

        One sync runs at a time, because the system reports a failure only once. An earlier sync proves nothing after
        this process acquired the write lock again, or after a sync failed. Only the owner of the write lock rewrites
        the pages that the system discarded until then.

        Args:
            answered: The record that must be durable because callers rely on it. No earlier sync may have
                failed, and the record must still be in the file.

        Raises:
            OSError: The system failed, now or earlier. Whether everything is durable is unknown.
            ClosedError: The journal was closed.
        """
        if self._is_syncing:
            self.doubt()
        last, end, check, layout, doubtful = self._sync_target(answered)
        if last <= (max(self.durable, self._synced) if answered is None else self.durable):
            return
        if self._fd is None:
            raise ClosedError(str(self._root))
        if doubtful and answered is not None:
            raise OSError(errno.EIO, "what was written before could not be synced")
        try:
            self._sync_through(last, self._fd, is_proof=not doubtful, for_answer=answered is not None)
        except BaseException:
            self.doubt()
            raise
        if self.durable >= last:
            self._leave_mark(layout, last, end, check, every=_MARK_EVERY)

    def _sync_through(self, last: int, fd: int, *, is_proof: bool, for_answer: bool) -> None:
        self._is_syncing = True
        try:
            store_files.sync(fd)
        except OSError as error:
            if for_answer or error.errno not in store_files.NEVER_WRITTEN:
                raise
            is_proof = False
        self._synced = last
        self._is_syncing = False
        if is_proof and self._doubt == self._cleared:
            self.durable = max(self.durable, last)

    @locked("_lock")
    def _sync_target(self, answered: tuple[int, bytes] | None) -> tuple[int, int, bytes, RecordFormat, bool]:
        """Return the current end of the journal, and whether a sync is in doubt. It is not rewritten meanwhile.

        Raises:
            OSError: The answered record is no longer in the file.
        """
        if answered is not None and not self._has(*answered):
            raise OSError(errno.EIO, "what was written is not in the journal any more")
        return self._last, self._end, self._check, self._format, self._doubt != self._cleared

    def _has(self, position: int, check: bytes) -> bool:
        """Return whether the record that ends at a position still has that check."""
        if position <= self._base.size or (self._is_known and (position, check) == (self._last, self._check)):
            return True
        if not self._is_known:
            self._refresh()
        at = bisect_left(self._lasts, position)
        return at < len(self._lasts) and (self._lasts[at], self._checks[at]) == (position, check)

    def _leave_mark(self, layout: RecordFormat, position: int, end: int, check: bytes, *, every: int) -> None:
        """Mark what is durable for later processes, unless this process did so recently or another one did since.

        The mark is not synced: it is always true, and losing it only loses information.
        """
        if self._key is None or self._fd is None or not isinstance(layout, RoundFormat):
            return
        now = layout.round, position
        if now[0] == self._marked[0] and now[1] < self._marked[1] + every:
            return
        found = self._key.mark_in(self._read(0, MARK_BYTES))
        if found is None or (found.round, found.position) < now:
            with contextlib.suppress(OSError):  # such as on a file opened for reading only
                _write(self._fd, self._key.mark(Mark(layout.round, position, end, check)), 0)
        self._marked = now

    def doubt(self) -> None:
        """Treat nothing known about the file as certain, from the next `begin_turn` on: a sync or a commit failed."""
        self._doubt, self._synced, self._is_syncing = next(self._doubts), 0, False

    @locked("_sync_lock")
    @locked("_lock")
    def use_file(self, fd: int) -> None:
        """Use another descriptor of the same file, which may be writable; what was read stays valid."""
        before, self._fd = self._fd, fd
        if before is not None:
            os.close(before)

    @locked("_sync_lock")
    @locked("_lock")
    def close(self) -> None:
        """Close the file, once no thread reads or syncs it."""
        at = bisect_right(self._lasts, self.durable) - 1
        if at >= 0 and self._is_known:
            self._leave_mark(self._format, self._lasts[at], self._ends[at], self._checks[at], every=1)
        self.forget()

    def forget(self) -> None:
        """Close the file in the child of a fork, whose locks are never released."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
