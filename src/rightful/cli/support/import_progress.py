"""How far an import is, over all its files, where a person watches a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rightful.cli.output import terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_FILES = 100_000  # that are counted before; of more, what is found on the way is added


class Steps(Protocol):
    """Receives the progress of an import."""

    def step(self, path: str, done: int, size: int) -> None:
        """Report how much of a file was read, and its size; bytes."""

    def done(self, path: str) -> None:
        """Report that a file was read."""


class Quiet:
    """Shows nothing."""

    def step(self, path: str, done: int, size: int) -> None:
        """As `Steps.step`."""

    def done(self, path: str) -> None:
        """As `Steps.done`."""


class Sizes:
    """How many bytes there are to read, and how many are read, over all files.

    Args:
        sizes: The size of each file; bytes.

    Attributes:
        total: Bytes of all files, those that were found or grew on the way included.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self._behind = self._here = 0
        self.total = sum(sizes.values())

    @property
    def read(self) -> int:
        """How many bytes are behind."""
        return self._behind + self._here

    def step(self, path: str, done: int, size: int) -> None:
        """Record how much of a file was read, and its size."""
        known, now = self._sizes.get(path, 0), max(done, size)
        self._sizes[path] = max(known, now)
        self.total += max(now - known, 0)
        self._here = done

    def done(self, path: str) -> None:
        """Record that a file was read, or need not be."""
        self._behind += self._sizes.pop(path, 0)
        self._here = 0


@contextmanager
def progress(paths: Iterable[str]) -> Iterator[Steps]:
    """Show a progress bar over all files below these paths, in bytes with the time left, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    shared = sys.stdout.isatty()  # elsewhere rich would take the answer away from where it was sent
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared) as bar:
        sizes = Sizes(sizes_of(paths))
        task = bar.add_task("", total=sizes.total or None)

        class Bar:
            def step(self, path: str, done: int, size: int) -> None:
                sizes.step(path, done, size)
                bar.update(task, description=terminal.safe(path), completed=sizes.read, total=sizes.total)

            def done(self, path: str) -> None:
                sizes.done(path)
                bar.update(task, completed=sizes.read)

        yield Bar()


def sizes_of(paths: Iterable[str]) -> dict[str, int]:
    """Return the size of each file that an import of these paths will look at; bytes."""
    from rightful.importers.sources.folders import walk

    sizes: dict[str, int] = {}
    for path in paths:
        try:
            if not Path(path).is_dir():
                sizes[path] = Path(path).stat().st_size
                continue
            found = (item for item in islice(walk(path), _MOST_FILES) if isinstance(item, str))
            sizes |= {item: Path(item).stat().st_size for item in found}
        except (OSError, ValueError):
            continue  # the import says what is wrong with it
    return sizes
