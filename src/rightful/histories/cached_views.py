"""The views that are kept: one fold a session, caught up by what was added since.

What was appended here is remembered for a while, so that who then reads need not read it back. What was taken
back or compacted is not: to fold that may take long.
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
        lock: Held while it is caught up, and while it is read.
        fold: What was folded; None before the first time.
        position: How far.
    """

    __slots__ = ("fold", "lock", "position")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fold: Fold | None = None
        self.position = 0


class RecentRows:
    """The last items that were appended here, of whatever session, as rows; `limits.HISTORY_WRITTEN_BYTES` of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, Stored] = {}
        self._bytes = 0

    def add(self, rows: Iterable[Stored]) -> None:
        """Remember rows that stand in the ledger, and forget the oldest ones."""
        run_locked(self._lock, self._add, rows)

    def _add(self, rows: Iterable[Stored]) -> None:
        for row in rows:
            self._bytes += len(row.payload or b"")  # before: an exception may let it be too large, and never too small
            self._rows[row.position] = row
        while self._rows and self._bytes > limits.HISTORY_WRITTEN_BYTES:
            self._bytes -= len(self._rows.pop(next(iter(self._rows))).payload or b"")
        if not self._rows:
            self._bytes = 0

    def commitment(self, position: int) -> str | None:
        """Return the commitment of a row; None if it is not known."""
        row = self._rows.get(position)
        return None if row is None else row.envelope.commitment

    def between(self, after: int, until: int) -> list[Stored] | None:
        """Return all rows behind a position through another; None if one of them is not known."""
        try:
            return [self._rows[position] for position in range(after + 1, until + 1)]
        except KeyError:
            return None


class Views:
    """The views of a ledger's histories.

    A process that was forked begins anew: what another thread held in its parent would be held for ever.

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
        self._pid = os.getpid()  # last: after an exception it begins again

    def known_commitment(self, position: int) -> str | None:
        """Return the commitment of the row at a position; None if it would have to be read."""
        at, commitment = self._last
        return commitment if at == position else self._written.commitment(position)

    def commitment(self, position: int) -> str:
        """Return the commitment of the row at a position, in hexadecimal; empty at 0. Tokens name it."""
        commitment = self.known_commitment(position)
        if commitment is None:
            commitment = self._log.commitment(position)
            self._last = (position, commitment)
        return commitment

    def of(self, session: str) -> CachedView:
        """Return the kept view of a session; take its `lock`, then `catch_up`."""
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
        """Remember rows of items that were just appended, so that they can be folded unread."""
        self._check_process()
        self._written.add(rows)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._begin()

    def catch_up(self, session: str, cached: CachedView) -> Fold:
        """Fold what was added to a session up to the ledger's end; its lock is held.

        The end is asked first, so that the view is of one position: what is written meanwhile is beyond it.
        """
        head = self._log.head()
        fold, position = cached.fold, cached.position
        cached.fold = None  # in case this fails half-way
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
        """Fold what was added to a session up to the ledger's end, if all of it is remembered; its lock is held.

        So nothing is read. What has to be folded anew is left to `catch_up`.
        """
        fold, position = cached.fold, cached.position
        if fold is None or head <= position or (rows := self._written.between(position, head)) is None:
            return
        cached.fold = None  # in case this fails half-way
        with contextlib.suppress(RefoldError):
            fold_rows(fold, [row for row in rows if row.envelope.session == session])
            cached.fold, cached.position = fold, head
