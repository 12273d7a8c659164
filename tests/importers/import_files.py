"""Import several paths with one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rightful.importers.engine.checkpoints import Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind
from rightful.importers.engine.loop import Import, Progress
from rightful.log.log import Log


def import_paths(
    log: Log,
    kinds: Iterable[Kind],
    paths: Iterable[str],
    *,
    stdin: BinaryIO,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
    receipts: bool = False,
) -> Iterator[FileReport]:
    """Import files, folders, or standard input for `-`; yield a report for each file."""
    importing = Import(log, list(kinds), log.head(), progress, checkpoints, receipts)
    for path in paths:
        yield from importing.reports(path, stdin)
