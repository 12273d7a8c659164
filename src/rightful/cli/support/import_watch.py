"""`import --watch`: keep importing changes until a signal ends it."""

from __future__ import annotations

import queue
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rightful.cli.output import logs, terminal
from rightful.cli.show.show_import import ImportPrinter
from rightful.importers.sources.watch import Watch, Watcher

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from rightful.importers.engine.loop import Import

_ENDS = (signal.SIGINT, signal.SIGTERM)


def watch(args: argparse.Namespace, importing: Import) -> int:
    """Import the existing files, then changes; print a line for each file with new events.

    Raises:
        UsageError: The package for watching files is not installed.
        BrokenPipeError: The reader of stdout has gone.
    """
    watcher, printer, log = Watcher(), ImportPrinter(quiet=args.json, by_folder=False, again=args.again), logs.of(args)
    with _ended_by_signals(watcher), watcher.watching(args.paths):
        _note_watched(args.paths)
        for report in Watch(importing, args.paths, watcher).follow():
            _note_failures(watcher)
            log.step("imported", **{key: value for key, value in report.as_dict().items() if key != "receipts"})
            printer.file(report)
            printer.print_skipped()
            if args.json:
                terminal.write_stdout(terminal.json_text(report.as_dict()) + "\n", flush=True)
            if printer.broken is not None:
                raise printer.broken
        _note_failures(watcher)
    printer.end()
    return terminal.DONE


def _note_watched(paths: list[str]) -> None:
    """Print what is watched, how to end it, and which paths do not exist yet."""
    there = [path for path in paths if Path(path).exists()]
    folders = sum(Path(path).is_dir() for path in there)
    counts = {"folder": folders, "file": len(there) - folders, "path that is awaited": len(paths) - len(there)}
    plurals = {"path that is awaited": "paths that are awaited"}
    said = [terminal.plural(count, what, plurals.get(what)) for what, count in counts.items() if count]
    terminal.note_stderr(f"watching {' and '.join(said)}; Ctrl-C or SIGTERM ends it")
    for path in paths:
        if path not in there:
            terminal.note_stderr(f"{path} does not exist yet; it is imported as soon as it does")


def _note_failures(watcher: Watcher) -> None:
    """Print why changes are no longer watched; they are then found by a scan once a minute."""
    while True:
        try:
            why = watcher.failures.get_nowait()
        except queue.Empty:
            return
        terminal.note_stderr(f"changes cannot be watched ({why}); all is looked at once a minute instead")


@contextmanager
def _ended_by_signals(watcher: Watcher) -> Iterator[None]:
    """End the watch at the first SIGINT or SIGTERM, behind the file that is being read; a second one ends at once."""
    before = {number: signal.getsignal(number) for number in _ENDS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: FrameType | None) -> None:
        restore()
        watcher.end()

    try:
        for number in _ENDS:
            signal.signal(number, end)
        yield
    finally:
        restore()
