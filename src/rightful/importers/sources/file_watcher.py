"""What tells a watch that files change: the library watchfiles, on threads of its own.

Folders are watched with all below them. A file is watched by its folder, since a file that is
replaced is another one, and a missing one has nothing else to be seen by.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rightful.errors import UsageError

MISSING = (
    "--watch needs the package watchfiles, which is not installed; nothing was imported. "
    "Install it with: pip install '/path/to/the/clone[watch]'"
)
"""What is said where the extra is not installed."""

_DEBOUNCE_MS, _STEP_MS = 800, 50
_WAKE_MS = 250  # how often a thread looks whether it is to end


class Watcher:
    """Collects what changes below paths until it is ended."""

    def __init__(self) -> None:
        self._found: queue.SimpleQueue[set[str] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self.failures: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(self, timeout_s: float) -> set[str] | None:
        """Return what changed, as `Changes.wait`."""
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
        """Watch paths in this block; what changes from its first statement on is told.

        Raises:
            UsageError: The library is not installed.
        """
        try:
            import watchfiles  # noqa: F401 - asked for before threads need it
        except ImportError:
            raise UsageError(MISSING) from None
        real = [Path(path).resolve() for path in paths]
        folders = {str(path) for path in real if path.is_dir()}
        above = {str(path.parent) for path in real if not path.is_dir() and path.parent.is_dir()}
        threads = [_Thread(self, found, recursive=deep) for found, deep in ((folders, True), (above, False)) if found]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.ready.wait()
            yield
        finally:
            self.end()
            for thread in threads:
                thread.join()

    def add_changes(self, paths: set[str]) -> None:
        """Take what changed."""
        self._found.put(paths)

    @property
    def over(self) -> threading.Event:
        """Set once the watch is ended."""
        return self._over


class _Thread(threading.Thread):
    """Watches some folders.

    Attributes:
        ready: Set once it sees what changes, or cannot.
    """

    def __init__(self, watcher: Watcher, paths: set[str], *, recursive: bool) -> None:
        super().__init__(name="rightful-watch", daemon=True)
        self._watcher, self._paths, self._recursive = watcher, paths, recursive
        self.ready = threading.Event()

    def run(self) -> None:
        """Tell what changes until the watch is ended; where it cannot be told, say why."""
        import watchfiles

        try:
            for changes in watchfiles.watch(
                *self._paths,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=self._watcher.over,
                rust_timeout=_WAKE_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=self._recursive,
            ):
                if found := {path for kind, path in changes if kind != watchfiles.Change.deleted}:
                    self._watcher.add_changes(found)
                self.ready.set()  # the first turn shows that the folders are watched
        except BaseException as error:  # noqa: BLE001 - whatever the system or the library says, looks go on without it
            self._watcher.failures.put(f"{type(error).__name__}: {error}")
        finally:
            self.ready.set()
