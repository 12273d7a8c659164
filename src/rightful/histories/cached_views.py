"""Cached views: one fold for each session, updated with the rows added since the last read.

Rows of recently appended items are also cached, so that the next read does not load them from storage. Rows of
pops and compactions are not cached, because folding them may take long.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable

from rightful import limits
from rightful.histories.history_rows import RefoldError, fold_rows, folded, follow
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.histories.history_fold import Fold
from rightful.storage.critical_sections import run_locked


class CachedView:
    """The fold of one session.

    Attributes:
        lock: Acquired to update the fold, and to read it.
        fold: The fold; None before the first update.
        position: The position through which it was folded.
    """

    __slots__ = ("fold", "lock", "position")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fold: Fold | None = None
        self.position = 0


class RecentRows:
    """The rows last appended by this process, of all sessions; at most `limits.HISTORY_WRITTEN_BYTES`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, Stored] = {}
        self._bytes = 0

    def add(self, rows: Iterable[Stored]) -> None:
        """Add rows that are in the ledger, and drop the oldest ones above the limit."""
        run_locked(self._lock, self._add, rows)

    def _add(self, rows: Iterable[Stored]) -> None:
        for row in rows:
            self._bytes += len(row.payload or b"")  # first: after an exception it may be too large, but never too small
            self._rows[row.position] = row
        while self._rows and self._bytes > limits.HISTORY_WRITTEN_BYTES:
            self._bytes -= len(self._rows.pop(next(iter(self._rows))).payload or b"")
        if not self._rows:
            self._bytes = 0

    def commitment(self, position: int) -> str | None:
        """Return the commitment of a row; None if it is not cached."""
        row = self._rows.get(position)
        return None if row is None else row.envelope.commitment

    def between(self, after: int, until: int) -> list[Stored] | None:
        """Return all rows after a position through another; None if any of them is not cached."""
        try:
            return [self._rows[position] for position in range(after + 1, until + 1)]
        except KeyError:
            return None


class Views:
    """The views of a ledger's histories.

    A forked process starts with new locks and an empty cache: a lock that another thread of the parent had
    acquired would never be released in the child.

    Args:
        log: The ledger's log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, CachedView] = OrderedDict()
        self._written = RecentRows()
        self._last = (0, "")
        self._pid = os.getpid()  # last: after an exception the next call starts over

    def known_commitment(self, position: int) -> str | None:
        """Return the commitment of the row at a position; None if it is not cached."""
        at, commitment = self._last
        return commitment if at == position else self._written.commitment(position)

    def commitment(self, position: int) -> str:
        """Return the commitment of the row at a position, in hexadecimal; empty at 0. Tokens contain it."""
        commitment = self.known_commitment(position)
        if commitment is None:
            commitment = self._log.commitment(position)
            self._last = (position, commitment)
        return commitment

    def of(self, session: str) -> CachedView:
        """Return the cached view of a session. Acquire its `lock`, then call `catch_up`."""
        self._check_process()
        return run_locked(self._lock, self._of, session)

    def _of(self, session: str) -> CachedView:
        cached = self._cached.pop(session, None) or CachedView()
        self._cached[session] = cached
        sizes = [0 if view.fold is None else view.fold.view.size_bytes for view in self._cached.values()]
        total = sum(sizes)
        for size in sizes[:-1]:
            if len(self._cached) <= limits.HISTORY_VIEWS and total <= limits.HISTORY_VIEW_BYTES:
                break
            self._cached.popitem(last=False)
            total -= size
        return cached

    def wrote(self, rows: Iterable[Stored]) -> None:
        """Cache rows of items that were just appended, so that they can be folded without a read."""
        self._check_process()
        self._written.add(rows)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._begin()

    def catch_up(self, session: str, cached: CachedView) -> Fold:
        """Fold the new rows of a session up to the ledger's end. The caller has acquired the view's lock.

        The end is read first, so that the view belongs to one position. Rows written meanwhile come after it.
        """
        head = self._log.head()
        fold, position = cached.fold, cached.position
        cached.fold = None  # in case of an exception below
        if fold is not None and head > position:
            try:
                follow(self._log, fold, session, position, head)
            except RefoldError:
                fold = None
        if fold is None or head < position:
            fold = folded(self._log, session, head)
        cached.fold, cached.position = fold, head
        return fold

    def catch_up_from_memory(self, session: str, cached: CachedView, head: int) -> None:
        """Fold the new rows of a session if all of them are cached. The caller has acquired the view's lock.

        Nothing is read from storage. If the history must be folded again from the start, `catch_up` does it.
        """
        fold, position = cached.fold, cached.position
        if fold is None or head <= position or (rows := self._written.between(position, head)) is None:
            return
        cached.fold = None  # in case of an exception below
        with contextlib.suppress(RefoldError):
            fold_rows(fold, [row for row in rows if row.envelope.session == session])
            cached.fold, cached.position = fold, head
