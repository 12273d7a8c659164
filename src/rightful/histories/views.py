"""The views that are kept: one fold a session, caught up by what was added since."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from rightful import limits
from rightful.histories.reading import AgainError, folded, follow
from rightful.ledger.log import Log
from rightful.projections.histories.fold import Fold


class Kept:
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
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def of(self, session: str) -> Kept:
        """Return the kept view of a session; take its `lock`, then `catch_up`."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            kept = self._kept.pop(session, None) or Kept()
            self._kept[session] = kept
            sizes = [0 if one.fold is None else one.fold.view.size_bytes for one in self._kept.values()]
            total = sum(sizes)
            for size in sizes[:-1]:
                if len(self._kept) <= limits.HISTORY_VIEWS and total <= limits.HISTORY_VIEW_BYTES:
                    break
                self._kept.popitem(last=False)
                total -= size
        return kept

    def catch_up(self, session: str, kept: Kept) -> Fold:
        """Fold what was added to a session up to the ledger's end; its lock is held.

        The end is asked first, so that the view is of one position: what is written meanwhile is beyond it.
        """
        head = self._log.head()
        fold, position = kept.fold, kept.position
        kept.fold = None  # in case this fails half-way
        if fold is not None and head > position:
            try:
                follow(self._log, fold, session, position, head)
            except AgainError:
                fold = None
        if fold is None or head < position:
            fold = folded(self._log, session, head)
        kept.fold, kept.position = fold, head
        return fold
