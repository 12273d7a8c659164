"""Counts the steps of the system that our own code makes, and ends or fails the process at one of them.

Counted in this thread alone: writes, syncs, renames, links, removals, files made, locks, the
exchange of two files, and an append to the ledger before and after it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from rightful.backfill import target_file
from rightful.log.log import Log

SYSTEM = ("write", "fsync", "rename", "link", "unlink", "mkdir", "fchmod", "fchown")


class Steps:
    """Lets the process die, or one step fail, when it comes to it.

    Args:
        at: The step, from 1.
        how: `KILL`, or the name of an errno.
    """

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how, self.done = at, how, 0
        self._thread = threading.get_ident()

    def take(self) -> None:
        """Make room for one step."""
        if threading.get_ident() != self._thread:
            return
        self.done += 1
        if self.done != self.at:
            return
        if self.how == "KILL":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.how)
        raise OSError(number, os.strerror(number))

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that takes a step first."""

        def counted(*arguments: Any, **more: Any) -> Any:
            self.take()
            return call(*arguments, **more)

        return counted

    def install(self) -> None:
        """Count from now on, for as long as the process lives."""
        for name in SYSTEM:
            setattr(os, name, self.before(getattr(os, name)))
        opened = os.open

        def opening(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
            if flags & os.O_CREAT:
                self.take()
            return opened(path, flags, *arguments, **more)

        os.open = opening
        fcntl.flock = self.before(fcntl.flock)
        target_file._exchange = self.before(target_file._exchange)
        append = Log.append

        def appending(log: Log, events: Any, **more: Any) -> Any:
            self.take()
            receipts = append(log, events, **more)
            if self.how == "KILL":
                self.take()
            return receipts

        setattr(Log, "append", appending)  # noqa: B010 - it takes what append takes
