"""Ends the process at one write of whatever store it uses: each call of LMDB, SQLite or a file that changes something.

The calls are seen by the interpreter's profiling hook, in every thread that starts after `watch`, so it needs to
know no store from inside. A commit counts twice: before it is made, and when it has returned; so does a write into
a journal, which is one. Of SQLite only the commits count, since a process that dies within a transaction leaves what
one leaves that dies before its commit.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

COMMITS = frozenset({"Transaction.commit", "Connection.commit", "pwrite"})
WRITES = COMMITS | {
    *(f"Transaction.{verb}" for verb in ("put", "delete", "pop", "replace")),
    *(f"Cursor.{verb}" for verb in ("put", "putmulti", "delete", "pop", "replace")),
    *(f"TextIOWrapper.{verb}" for verb in ("write", "close")),
    "fsync",
    "fdatasync",
}


class Dying:
    """Counts writes once it is armed, and lets the process die at one of them.

    Args:
        at: Which one, from 1; 0 for none.
    """

    def __init__(self, at: int) -> None:
        self.done, self.armed = 0, False
        self._at = at

    def watch(self) -> None:
        """See the calls of this thread and of those that start from now on."""
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)

    def _seen(self, _frame: Any, event: str, called: Any) -> None:
        counted = {"c_call": WRITES, "c_return": COMMITS}.get(event)
        if self.armed and counted and getattr(called, "__qualname__", "") in counted:
            self.done += 1
            if self.done == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
