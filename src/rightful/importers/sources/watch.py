"""Watch files and folders: first import everything that exists, then what changes.

A watcher reports changes. In addition, everything is scanned at intervals, since a watcher may miss a change: a full
queue of the system, a network file system, a folder that was created and filled at once. A scan does not read a file
whose device, inode, size and time are those of its last import. A problem with one file never ends the watch.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rightful import limits
from rightful.errors import BusyError, ConditionFailedError, UsageError
from rightful.importers.engine.file_report import KNOWN, FileReport
from rightful.importers.engine.loop import Import
from rightful.importers.sources.folders import order_of, would_walk
from rightful.importers.sources.sqlite_databases import WAL
from rightful.importers.sources.text_files import FileStamp, Problem, stamp_of

MISSING = (
    "--watch needs the package watchfiles, which is not installed; nothing was imported. "
    "Install it with: pip install '/path/to/the/clone[watch]'"
)
"""The error if the extra is not installed."""

_DEBOUNCE_MS, _STEP_MS = 800, 50
_WAKE_MS = 250  # how often a thread checks whether to end

Clock = Callable[[], float]
"""Returns a monotonic time; seconds from any start."""


class Watcher:
    """Collects changes below paths until it is ended, with the library watchfiles on its own threads.

    Folders are watched recursively. A file is watched through its folder, since a replaced file is another inode, and
    a missing file cannot be watched itself.

    Attributes:
        failures: Why changes can no longer be watched.
    """

    def __init__(self) -> None:
        self._found: queue.SimpleQueue[set[str] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self.failures: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(self, timeout_s: float) -> set[str] | None:
        """Return the paths that changed, empty after the timeout; None once the watch was ended."""
        if self._over.is_set():
            return None
        try:
            return self._found.get(timeout=timeout_s)
        except queue.Empty:
            return set()

    def end(self) -> None:
        """End the watch; may be called from a signal handler."""
        self._over.set()
        self._found.put(None)

    @property
    def ended(self) -> bool:
        """Whether it was ended."""
        return self._over.is_set()

    @contextmanager
    def watching(self, paths: Iterable[str]) -> Iterator[None]:
        """Watch paths in this block; every change from its first statement on is reported.

        Raises:
            UsageError: The library is not installed.
        """
        try:
            import watchfiles  # noqa: F401 - fail here and not in a thread
        except ImportError:
            raise UsageError(MISSING) from None
        real = [Path(path).resolve() for path in paths]
        folders = {str(path) for path in real if path.is_dir()}
        above = {str(path.parent) for path in real if not path.is_dir() and path.parent.is_dir()}
        groups = [(found, threading.Event(), deep) for found, deep in ((folders, True), (above, False)) if found]
        threads = [threading.Thread(target=self._run, args=args, name="rightful-watch", daemon=True) for args in groups]
        try:
            for thread in threads:
                thread.start()
            for _, ready, _ in groups:
                ready.wait()
            yield
        finally:
            self.end()
            for thread in threads:
                thread.join()

    def _run(self, paths: set[str], ready: threading.Event, recursive: bool) -> None:  # noqa: FBT001 - a thread's arguments
        """Collect changes until the watch is ended; report the reason if that fails."""
        import watchfiles

        try:
            for changes in watchfiles.watch(
                *paths,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=self._over,
                rust_timeout=_WAKE_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=recursive,
            ):
                if found := {path for kind, path in changes if kind != watchfiles.Change.deleted}:
                    self._found.put(found)
                ready.set()  # the first iteration shows that the folders are watched
        except BaseException as error:  # noqa: BLE001 - scans continue without it, whatever the failure
            self.failures.put(f"{type(error).__name__}: {error}")
        finally:
            ready.set()


class Watch:
    """Imports what changes at some paths.

    Args:
        importing: The import that its files belong to.
        paths: Files and folders, as they were named.
        changes: Reports the changes, and when to end.

    Attributes:
        waiting: Absolute paths to retry, because another process had locked the ledger.
    """

    def __init__(self, importing: Import, paths: Iterable[str], changes: Watcher) -> None:
        self._import = importing
        self._changes = changes
        self._roots = {path: _absolute(path) for path in paths}
        self._last_stamps: dict[str, tuple[FileStamp | None, ...]] = {}
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
                    below = root + path[len(real) :]
                    yield from self._retried(path, self._import.path(below, self._is_new, named=False))

    def _is_new(self, path: str) -> bool:
        """Return whether a file changed since the last call, and store its metadata before it is read."""
        if self._changes.ended:
            return False
        stamps = _stamps(path)
        if self._last_stamps.get(path, (None, None)) == stamps:
            return False  # unchanged, or it does not exist yet
        self._last_stamps[path] = stamps
        return stamps[0] is not None or path in self._roots

    def _retried(self, place: str, reports: Iterator[FileReport]) -> Iterator[FileReport]:
        """Yield the reports with something new. If another process has locked the ledger, retry later."""
        self.waiting.discard(place)
        try:
            for report in reports:
                if report.waits:
                    self._last_stamps.pop(report.path, None)
                if (new := self._new(report)) is not None:
                    yield new
        except (BusyError, ConditionFailedError) as error:
            self._last_stamps.clear()  # the current file was not imported; the others are covered by checkpoints
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


def _stamps(path: str) -> tuple[FileStamp | None, ...]:
    """Return the metadata of a file, and of the `-wal` file if it is a database."""
    return stamp_of(path), stamp_of(os.path.realpath(path) + WAL)
