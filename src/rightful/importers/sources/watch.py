"""Watch files and folders: first import everything that exists, then what changes.

A watcher (`file_watcher`) reports changes. In addition, everything is scanned at intervals, since a watcher may miss
a change: a full queue of the system, a network file system, a folder that was created and filled at once. A scan does
not read a file whose device, inode, size and time are those of its last import. A problem with one file never ends
the watch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from rightful import limits
from rightful.errors import BusyError, ConditionFailedError
from rightful.importers.engine.file_report import KNOWN, FileReport
from rightful.importers.engine.loop import Import
from rightful.importers.sources.folders import order_of, would_walk
from rightful.importers.sources.sqlite_databases import WAL
from rightful.importers.sources.text_files import Problem

Clock = Callable[[], float]
"""Returns a monotonic time; seconds from any start."""


class Changes(Protocol):
    """Reports changes below paths."""

    @property
    def ended(self) -> bool:
        """Whether the watch was ended."""

    def wait(self, timeout_s: float) -> set[str] | None:
        """Return the paths that changed, empty after the timeout; None once the watch was ended."""


class _Facts(NamedTuple):
    """The metadata of a file, to detect changes without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    log: tuple[int, int] | None = None
    """Size and time of a database's `-wal` file; None if there is none."""


class Watch:
    """Imports what changes at some paths.

    Args:
        importing: The import that its files belong to.
        paths: Files and folders, as they were named.
        changes: Reports the changes, and when to end.

    Attributes:
        waiting: Absolute paths to retry, because another process had locked the ledger.
    """

    def __init__(self, importing: Import, paths: Iterable[str], changes: Changes) -> None:
        self._import = importing
        self._changes = changes
        self._roots = {path: _absolute(path) for path in paths}
        self._last_facts: dict[str, _Facts | None] = {}
        self._reported: set[tuple[str, str]] = set()
        self.waiting: set[str] = set()

    def follow(self, clock: Clock = time.monotonic) -> Iterator[FileReport]:
        """Yield a report of each existing file, then of each file with something new, until the watch is ended."""
        yield from self.scan()
        looked = clock()
        while True:
            left = looked + limits.WATCH_LOOK_S - clock()
            found = self._changes.wait(max(min(left, limits.WATCH_AGAIN_S) if self.waiting else left, 0))
            if found is None:
                return
            yield from self.changed(found | self.waiting)
            if clock() - looked >= limits.WATCH_LOOK_S:
                yield from self.scan()
                looked = clock()

    def scan(self) -> Iterator[FileReport]:
        """Import every file that changed since its last import."""
        for root in self._roots:
            yield from self._retried(root, self._import.path(root, self._is_new))

    def changed(self, paths: Iterable[str]) -> Iterator[FileReport]:
        """Import changed files that belong to the named paths.

        Args:
            paths: Absolute paths from the watcher.
        """
        for path in sorted({changed.removesuffix(WAL) for changed in paths}, key=order_of):
            for root, real in self._roots.items():
                if path == real:
                    yield from self._retried(path, self._import.path(root, self._is_new))
                elif would_walk(real, path, databases=self._import.includes_databases):
                    yield from self._retried(path, self._below(f"{root}{path[len(real) :]}"))

    def _below(self, path: str) -> Iterator[FileReport]:
        """Import a file of a named folder, or a new folder in it."""
        if Path(path).is_dir():
            yield from self._import.path(path, self._is_new)
        elif self._is_new(path):
            yield self._import.file(path, named=False)

    def _is_new(self, path: str) -> bool:
        """Return whether a file changed since the last call, and store its metadata before it is read."""
        if self._changes.ended:
            return False
        facts = _facts(path)
        if self._last_facts.get(path) == facts:
            return False  # unchanged, or it does not exist yet
        self._last_facts[path] = facts
        return facts is not None or path in self._roots

    def _retried(self, place: str, reports: Iterator[FileReport]) -> Iterator[FileReport]:
        """Yield the reports with something new. If another process has locked the ledger, retry later."""
        self.waiting.discard(place)
        try:
            for report in reports:
                if report.waits:
                    self._last_facts.pop(report.path, None)
                if (new := self._new(report)) is not None:
                    yield new
        except (BusyError, ConditionFailedError) as error:
            self._last_facts.clear()  # the current file was not imported; the others are covered by checkpoints
            self.waiting.add(_absolute(place))
            report = FileReport(place, problems=[], is_read=False)
            report.add_problem(Problem(None, f"{error} The import is retried", lost=False))
            yield report

    def _new(self, report: FileReport) -> FileReport | None:
        """Return a report without notes that were reported before; None if nothing is left."""
        path, reported = report.path, self._reported
        is_first = (path, "") not in reported
        new = [problem for problem in report.problems if is_first or not problem.what.endswith(KNOWN)]
        fresh = [problem for problem in new if problem.lost or (path, problem.what) not in reported]
        self._reported.update((report.path, problem.what) for problem in report.problems if not problem.lost)
        self._reported.add((report.path, ""))
        if not is_first and not report.is_read and not report.lost:
            return None  # a skipped file is reported once, even if its count changes later
        if not (is_first or report.appended or fresh):
            return None
        report.problems = fresh
        report.notes = sum(not problem.lost for problem in fresh) if report.is_read else report.notes
        return report


def _absolute(path: str) -> str:
    return str(Path(path).resolve())


def _facts(path: str) -> _Facts | None:
    try:
        facts = os.stat(path, follow_symlinks=True)  # noqa: PTH116 - the path is shown as it was given
    except (OSError, ValueError):
        return None
    try:
        log = os.stat(f"{os.path.realpath(path)}{WAL}")  # noqa: PTH116 - as above
    except OSError:
        return _Facts(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return _Facts(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, (log.st_size, log.st_mtime_ns))
