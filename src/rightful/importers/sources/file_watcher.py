"""Report file changes with the library watchfiles, on its own threads.

Folders are watched recursively. A file is watched through its folder, since a replaced file is another inode, and a
missing file cannot be watched itself.
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
"""The error if the extra is not installed."""

_NAME = "rightful-watch"  # of the threads
_DEBOUNCE_MS, _STEP_MS = 800, 50
_WAKE_MS = 250  # how often a thread checks whether to end


class Watcher:
    """Collects changes below paths until it is ended."""

    def __init__(self) -> None:
        self._found: queue.SimpleQueue[set[str] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self.failures: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(self, timeout_s: float) -> set[str] | None:
        """Return the changed paths, as `Changes.wait`."""
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
        threads = [
            threading.Thread(target=self._run, args=group, name="rightful-watch", daemon=True) for group in groups
        ]
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
