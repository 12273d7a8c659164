"""The records in a journal's file, as far as this process has read it.

Readers need no lock between processes: only the process with the write lock writes, and an existing record is
never changed. The state here is marked valid last; after any exception it is read again from the beginning.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from rightful.errors import ForeignStoreError
from rightful.storage.critical_sections import run_locked
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.journal.journal_format_2 import HEAD_BYTES as FORMAT_2_HEAD_BYTES
from rightful.storage.journal.journal_format_2 import MAGIC as FORMAT_2_MAGIC
from rightful.storage.journal.journal_format_2 import Format2
from rightful.storage.journal.journal_records import (
    ANCHORS_AT,
    CHECK_BYTES,
    END_BYTES,
    HEAD_BYTES,
    MARK_BYTES,
    ROWS,
    START,
    JournalKey,
    Mark,
    Record,
    RecordFormat,
    RoundFormat,
    TablesState,
    damaged_rows,
    following,
    tree_of,
)
from rightful.storage.journal.journal_rows import JournalTail
from rightful.storage.tables.row_codec import Codec

_BLOCK_BYTES: Final = 16_384
"""Bytes read at once of what other processes added. With several processes that is a few records each time."""


JournalState = tuple[JournalTail, int, bytes]
"""The rows after LMDB's, the position of the last one, and the tree at that position."""


class JournalReader:
    """The records of one store's journal, and the rows that they had at the last look.

    Args:
        root: The store's folder, for errors.
        fd: The open file; None if the store has none, and all rows go into the tables.
        codec: Reads type and tags of a record; None if the store has no rows.
        tables: Returns the record of what the tables contain, in a read transaction of its own.
        key: Binds the journal to its store; None for a store of format 2, which is only read.

    Attributes:
        durable: The position through which everything is known to be on disk.
    """

    def __init__(
        self,
        root: Path,
        fd: int | None,
        codec: Codec | None,
        tables: Callable[[], TablesState],
        key: JournalKey | None = None,
    ) -> None:
        self._root = root
        self._fd = fd
        self._codec = codec
        self._tables_state = tables
        self._key = key
        self._lock = threading.Lock()
        self.durable = 0
        self._size = 0 if fd is None else os.fstat(fd).st_size
        self._mark: Mark | None = None
        self._mark_of: tuple[bytes, RecordFormat] | None = None  # the bytes and the format that `_mark` was read from
        self._end_of: tuple[bytes, RecordFormat, bytes] | None = None  # a check, its format, and its record's end
        self._is_known = False  # False during changes, so that an exception in between forces a new read
        self._reset(TablesState(0, b""), b"", Format2(), b"")

    def _reset(
        self, base: TablesState, beginning: bytes, layout: RecordFormat, check: bytes, *, may_have_records: bool = True
    ) -> None:
        self._base = base  # what the tables contained
        self._beginning = beginning  # distinguishes the round from others
        self._format = layout
        self._may_have_records = may_have_records  # whether the file may have records of this round
        self._tail = JournalTail(base.size, self._codec)
        self._last = base.size
        self._end = layout.start  # where the last record ends in the file
        self._check = check  # of the last record
        self._tree = b""
        self._lasts: list[int] = []  # position of the last row, by record
        self._ends: list[int] = []  # end in the file, by record
        self._checks: list[bytes] = []  # check, by record
        self._is_outdated = False  # whether another process has begun a new round since
        self._torn: tuple[object, ...] = ()  # the place of bytes that are not a valid record, and what was known then

    # -- reading ---------------------------------------------------------------------------

    def read_state(self) -> JournalState:
        """Return the rows after LMDB's, the position of the last one, and the tree at that position.

        Begin LMDB's transaction afterwards: it then has all rows before these. The tree is empty if it was damaged.

        Raises:
            ForeignStoreError: It does not continue LMDB's rows.
            StorageError: It cannot be read.
        """
        try:
            return run_locked(self._lock, self._read_state)
        except OSError as error:
            raise storage_error(self._root, error) from error

    def _read_state(self) -> JournalState:
        self._refresh()
        return self._tail, self._last, self._tree

    def _refresh(self) -> None:
        if self._fd is None or self._is_unchanged(self._fd):
            return
        is_known, self._is_known = self._is_known, False
        if is_known:
            self._read_mark()
            self._read_new_records()
            newest = max(len(self._ends) - 1, bisect_right(self._lasts, self.durable))
            is_known = not self._is_outdated and not self._has_new_beginning() and self._are_in_file(newest)
        if not is_known:
            self._reload()
        self._is_known = True

    def _is_unchanged(self, fd: int) -> bool:
        """Return whether the file still ends where it did, with all rows durable; False if that needs a closer look.

        The end names the last record by its check. It is read first: if the anchors are unchanged afterwards,
        it was the end of the known round.
        """
        known, mark_of = self._end_of, self._mark_of
        if not self._is_known or known is None or mark_of is None or self.durable < self._last:
            return False
        if not (known[0] is self._check and known[1] is mark_of[1] is self._format and self._may_have_records):
            return False
        if os.pread(fd, len(known[2]), self._end) != known[2]:
            return False
        start = os.pread(fd, START, 0)
        return start.startswith(mark_of[0]) and start.endswith(self._beginning)

    def _are_in_file(self, first: int) -> bool:
        """Return whether the records, from a number on, are still in the file.

        After a failed sync the system may have dropped what we read, and other processes have overwritten it.
        """
        if first >= len(self._ends):
            return True
        starts = [self._ends[at - 1] if at else self._format.start for at in range(first, len(self._ends))]
        head_bytes = self._format.head_bytes
        there = self._read(starts[0], starts[-1] + head_bytes - starts[0])
        ends = [at - starts[0] + head_bytes for at in starts]
        return [there[end - CHECK_BYTES : end] for end in ends] == self._checks[first:]

    def _reload(self) -> None:
        """Read the journal from its beginning: the rows that LMDB does not have."""
        self._is_outdated = True
        while self._is_outdated:
            if self._key is None:
                self._find_format_2()
            else:
                self._find_round(self._key)
            self._read_new_records()
        self.durable = max(self.durable, self._tail.start)

    def _find_round(self, key: JournalKey) -> None:
        """Find the current round.

        Raises:
            ForeignStoreError: No round of the journal fits these tables.
        """
        before: object = None
        while True:
            tables = self._tables_state()
            start = self._read(0, START)
            why = self._find_round_in(key, tables, start)
            if not why:
                return
            if before == (tables, start):  # else another process emptied it after the tables were read
                raise ForeignStoreError(str(self._root), why)
            before = tables, start

    def _find_round_in(self, key: JournalKey, tables: TablesState, start: bytes) -> str:
        """Begin to read the current round; return why it does not fit these tables, or an empty text."""
        if not any(start[:MARK_BYTES]):
            return "its journal begins with zeros, so it is damaged"
        beginning, expected = start[ANCHORS_AT[0] :], key.anchor(tables)
        round_format = key.round_format(expected.round)
        anchor = key.anchor_in(start, expected.round)
        if key.anchor_in(start, expected.round + 1) is not None:
            return key.why_not(start, tables)
        if anchor is None and self._first_follows(round_format, tables.size, expected.check):
            anchor = expected  # the anchor is damaged, and the first record proves it
        if anchor is not None and anchor.before == tables.check:
            if anchor.position > tables.size:
                return f"its journal begins at position {anchor.position + 1}, and its tables end at {tables.size}"
            if anchor.position == tables.size and anchor.root != tables.root:
                return "its journal belongs to a copy of this store that was written separately"
            may_have_records = anchor.check == expected.check  # else its rows, if it had any, were undone
            self._reset(tables, beginning, round_format, anchor.check, may_have_records=may_have_records)
            self._read_mark()
            return ""
        last = key.anchor_in(start, tables.round) if tables.round else None
        if last is None:
            return key.why_not(start, tables)
        self._reset(TablesState(last.position, last.root), beginning, key.round_format(last.round), last.check)
        self._base = tables
        self._read_mark()
        self._read_new_records()
        if not self._is_outdated and self._check != tables.check:
            return key.why_not(start, tables)
        is_outdated = self._is_outdated
        self._reset(tables, beginning, self._format, tables.check, may_have_records=False)
        self._is_outdated = is_outdated
        return ""

    def _first_follows(self, round_format: RecordFormat, last: int, check: bytes) -> bool:
        record = round_format.record_of(self._read(START, HEAD_BYTES))
        data = b"" if record is None else self._read(START, record.size)
        return following(round_format, data, 0, last, check) is not None

    def _find_format_2(self) -> None:
        """Find the beginning of a journal of format 2."""
        before = -1
        while True:
            tables = self._tables_state()
            beginning = self._read(0, FORMAT_2_HEAD_BYTES)
            layout, head = Format2(), tables.size
            first = layout.record_of(beginning)
            may_have_records = FORMAT_2_MAGIC.startswith(beginning.rstrip(b"\0"))  # empty, or partly written
            if first is None and not may_have_records and FORMAT_2_MAGIC not in self._read(0, self._size):
                raise ForeignStoreError(str(self._root), "its journal is another program's file, or damaged")
            self._reset(tables, beginning, layout, b"")
            if first is None or first.first <= head + 1:
                return
            if layout.check_of(b"", first, self._read(FORMAT_2_HEAD_BYTES, first.body_bytes)) != first.check:
                return  # damaged, or left by a kill
            if head == before:  # else another process emptied it after the tables were read
                what = f"its journal begins at position {first.first}, and its tables end at {head}"
                raise ForeignStoreError(str(self._root), what)
            before = head

    def _has_new_beginning(self) -> bool:
        """Return whether its beginning has changed since it was read."""
        at = 0 if self._key is None else ANCHORS_AT[0]
        return self._read(at, len(self._beginning)) != self._beginning

    def _read_mark(self) -> None:
        """Read the durable mark before the records, so that the records it names were already written."""
        if self._key is None:
            return
        data, layout = self._read(0, MARK_BYTES), self._format
        if self._mark_of is None or self._mark_of[1] is not layout or self._mark_of[0] != data:  # it seldom changes
            self._mark_of = None
            mark = self._key.mark_in(data)
            is_of_round = isinstance(layout, RoundFormat) and mark is not None and mark.round == layout.round
            self._mark = mark if is_of_round else None
            self._mark_of = data, layout

    def _read_new_records(self) -> None:
        """Read the records that continue the known ones."""
        if not self._may_have_records:
            return
        while True:
            block = self._read(self._end, min(_BLOCK_BYTES, self._size - self._end))
            added_bytes = self._add_block(block)
            head = block[added_bytes : added_bytes + self._format.head_bytes]
            if self._is_end(head) or (self._key is None and not added_bytes and len(head) < FORMAT_2_HEAD_BYTES):
                break
            if added_bytes or self._add_long_record(head):
                continue
            what = self._end, head, self._marked_beyond()
            if what == self._torn or self._is_untouched() or not self._skip_damage():
                self._torn = what
                break
        self._adopt_mark()

    def _marked_beyond(self) -> Mark | None:
        """Return the mark, if it says that more was durable than was read."""
        return self._mark if self._mark is not None and self._mark.position > self._last else None

    def _is_end(self, head: bytes) -> bool:
        """Return whether nothing was written after the last record, judged by the bytes that follow it."""
        end = self._end_behind(self._check)
        return head[: len(end)] == end and self._marked_beyond() is None

    def _end_behind(self, check: bytes) -> bytes:
        """Return the bytes that follow the last record, by its check; most looks find the same record last."""
        known = self._end_of
        if known is not None and known[0] is check and known[1] is self._format:
            return known[2]
        end = self._format.end(check)
        self._end_of = check, self._format, end
        return end

    def _is_untouched(self) -> bool:
        """Return whether the first record of this round is not written yet: older bytes are still in its place.

        These are the first record of the previous round, or the end of a new journal. The mark of a new
        journal names that end, and is rewritten as soon as a record is durable.
        """
        if self._key is None or self._lasts or self._marked_beyond() is not None:
            return False
        mark = self._mark
        if mark is not None and mark.end == START:
            return self._read(START, END_BYTES) == self._format.end(mark.check)
        anchor = self._key.anchor_in(self._read(0, START), self._base.round)
        return anchor is not None and self._first_follows(
            self._key.round_format(anchor.round), anchor.position, anchor.check
        )

    def _adopt_mark(self) -> None:
        """Adopt the durable mark, if it names a record that was read."""
        mark = self._mark
        if mark is None or mark.position <= self.durable:
            return
        at = bisect_left(self._lasts, mark.position)
        if at < len(self._lasts) and (self._lasts[at], self._checks[at]) == (mark.position, mark.check):
            self.durable = mark.position

    def _add_block(self, block: bytes) -> int:
        """Add the complete records of a block; return their size in bytes."""
        at = 0
        while (found := following(self._format, block, at, self._last, self._check)) is not None:
            self._add_record(*found)
            at += found[0].size
        return at

    def _add_long_record(self, head: bytes) -> bool:
        """Add a record that is longer than a block, or was still being written; return whether it was complete."""
        record = self._format.record_of(head)
        data = b"" if record is None else self._read(self._end, record.size)
        found = following(self._format, data, 0, self._last, self._check)
        if found is not None:
            self._add_record(*found)
        return found is not None

    def _skip_damage(self) -> bool:
        """Skip damaged bytes that were durable once, as a later record or the mark proves; return whether one does.

        Otherwise the bytes were left by a kill or a power cut, and were never acknowledged.
        """
        layout, mark = self._format, self._marked_beyond()
        rest = self._read(self._end, self._size - self._end)
        record = layout.record_of(rest[: layout.head_bytes])
        body = b"" if record is None else rest[layout.head_bytes : record.size]
        whole = b"" if record is None else layout.check_of(self._check, record, body)
        found = layout.later(rest, self._last, [] if record is None else [record.check, whole], mark)
        if found is None and mark is None:
            return False
        is_as_known = not self._has_new_beginning() and self._are_in_file(bisect_right(self._lasts, self.durable))
        if not is_as_known or self._tables_state() != self._base:
            self._is_outdated = True  # these bytes are of another round, or continue rows written since
            return False
        if found is not None:
            at, last, check = found[0], found[1].first - 1, found[2]
        else:
            assert mark is not None
            at, last, check = mark.end - self._end, mark.position, mark.check
            if not 0 < at <= len(rest):
                raise ForeignStoreError(str(self._root), "its journal is damaged: its durable mark names no record")
        if self._read(self._end, at) != rest[:at]:
            return True  # it was read during a write, and the bytes after it later: read again
        if record is not None and check == whole:  # only its check is damaged
            self._add_record(msgspec.structs.replace(record, check=check), body)
            return True
        tree_bytes = 0 if record is None else record.tree_bytes
        tree = b"" if found is not None else tree_of(record, body, last)
        self._tail.rows += damaged_rows(rest[layout.head_bytes + tree_bytes : at], last - self._last)
        self._note_record(last, self._end + at, check, tree)
        return True

    def _add_record(self, record: Record, body: bytes) -> None:
        self._tail.rows += ROWS.decode(body[record.tree_bytes :])
        self.durable = max(self.durable, record.durable)
        self._note_record(record.last, self._end + record.size, record.check, body[: record.tree_bytes])

    def _note_record(self, last: int, end: int, check: bytes, tree: bytes) -> None:
        self._last, self._end, self._check, self._tree = last, end, check, tree
        self._lasts.append(last)
        self._ends.append(end)
        self._checks.append(check)

    def _read(self, at: int, count: int) -> bytes:
        assert self._fd is not None
        return os.pread(self._fd, count, at) if at + count <= self._size else b""
