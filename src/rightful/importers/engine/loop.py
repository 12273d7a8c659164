"""The common loop of every import: files in, events appended, problems out.

Importing is repeatable: an event's id is derived from the file's content. So importing again adds nothing, and a
file that has grown adds only its new part. Anything that cannot be imported is reported with its file and line, and
the rest is still imported.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from rightful import limits
from rightful.errors import InvalidEventError, RightfulError
from rightful.importers.engine.checkpoints import Reading, reader_version
from rightful.importers.engine.file_import import FileImport
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import (
    REWRITTEN,
    End,
    GrowingKind,
    Kind,
    NotYetError,
    Origin,
    is_growing,
)
from rightful.importers.engine.incremental import GrowingImport
from rightful.importers.engine.recognition import recognise
from rightful.importers.sources.folders import walk
from rightful.importers.sources.growing_files import Lines
from rightful.importers.sources.sqlite_databases import HEADER, SUFFIXES
from rightful.importers.sources.sqlite_import import (
    NO_DATABASE,
    PIPED,
    Share,
    import_database,
    is_database,
    reads_databases,
)
from rightful.importers.sources.text_files import (
    Digested,
    Found,
    OpenFile,
    Problem,
    is_lines,
    objects_of,
    opened,
    reading,
)

if TYPE_CHECKING:
    from rightful.importers.engine.checkpoints import Checkpoint, Checkpoints
    from rightful.log.log import Log

STDIN = "-"
"""The path that means standard input."""

Progress = Callable[[str, int, int], None]
"""Called after each transaction with the file's path, the bytes read and the file's size in bytes."""


class Import(NamedTuple):
    """One import: the settings that all its files share.

    A file in a folder is imported only if one of its first `limits.FOREIGN_OBJECTS` objects is recognised; otherwise
    it is skipped, which is not a problem. A file that the user named must be of the accepted kinds.

    Attributes:
        log: Where the events go.
        kinds: The accepted kinds.
        began: The last position when the import began.
        progress: Called with the progress.
        checkpoints: Where earlier imports of growing files stopped; without it each is read from its beginning.
        receipts: Whether to keep receipts, for kinds that answer for each record.
        all_kinds: Returns every kind, to recognise a file that is not of the kind that the user named.
    """

    log: Log
    kinds: list[Kind]
    began: int
    progress: Progress | None
    checkpoints: Checkpoints | None
    receipts: bool = False
    all_kinds: Callable[[], list[Kind]] = list

    @property
    def includes_databases(self) -> bool:
        """Whether any accepted kind reads databases, so that folders are searched for them."""
        return any(reads_databases(kind) for kind in self.kinds)

    def reports(self, path: str, stdin: BinaryIO) -> Iterator[FileReport]:
        """Import a file, the JSON files below a folder, or standard input for `-`; yield a report for each file.

        Raises:
            StorageError: The ledger cannot be written. Everything reported before is stored.
        """
        if path == STDIN:
            yield self.stream(Origin(path, None), stdin)
        else:
            yield from self.path(path)

    def path(self, path: str, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[FileReport]:
        """Import a file, or the JSON files below a folder.

        Args:
            path: The path, as it was named.
            wanted: Returns whether a file is to be imported now.
        """
        if not os.path.isdir(path):  # noqa: PTH112 - the path is shown as it was given
            if wanted(path):
                yield self.file(path, named=True)
            return
        others: Counter[str] = Counter()
        for item in walk(path, others=others, databases=self.includes_databases):
            if not isinstance(item, str):
                yield FileReport.unread(*item)
            elif wanted(item):
                yield self.file(item, named=False)
        if others:
            yield FileReport.unlooked(path, others)

    def file(self, path: str, *, named: bool) -> FileReport:
        """Import one file."""
        try:
            with opened(path, follow=named) as file:
                return self._file(Origin(path, file.mtime_us, named), file)
        except ValueError:  # a NUL in the path
            return FileReport.unread(path, Problem(None, "not a valid path"))
        except OSError as error:
            if error.filename != path:
                raise
            return FileReport.unread(path, Problem(None, f"could not be read: {error.strerror}"))

    def _file(self, origin: Origin, file: OpenFile) -> FileReport:
        growing = [kind for kind in self.kinds if is_growing(kind)]
        with reading(origin.path):
            if is_database(file.stream):
                return import_database(self.kinds, self.all_kinds, origin, lambda share: self._run(origin, file, share))
            if not origin.is_named and origin.name.endswith(SUFFIXES):  # looked at for its name alone
                return FileReport.unread(origin.path, Problem(None, NO_DATABASE, lost=False))
            can_grow = bool(growing) and is_lines(file.stream)
        if not can_grow:
            return self.stream(origin, file.stream, file=file)
        found = {} if self.checkpoints is None else self.checkpoints.find(growing, origin.path)
        tried: dict[str, tuple[Reading, Checkpoint | None]] = {}
        for kind in growing:
            kept = found.get(kind.NAME)
            if kept is not None and self.checkpoints is not None and self.checkpoints.is_current(kind, kept):
                before = _reading(kind, file, kept)
                if before.fits:
                    return self._read_on(self._run(origin, file), kind, origin, before, kept)
                tried[kind.NAME] = before, kept
        return self._recognised(growing, origin, file, tried, found)

    def _recognised(
        self,
        growing: list[GrowingKind],
        origin: Origin,
        file: OpenFile,
        tried: dict[str, tuple[Reading, Checkpoint | None]],
        kept_by_any: dict[str, Checkpoint],
    ) -> FileReport:
        """Import a file that has no checkpoint of this version that still matches its content."""
        older, newer = _other_readers(growing, file, kept_by_any)
        file.stream.seek(0)
        run = self._run(origin, file)
        # an incomplete last line of a `.jsonl` file may still grow; in other files it is broken
        lines = iter(Lines(file.stream)) if origin.name.endswith(".jsonl") else objects_of(file.stream)
        found = self._kind(run, origin, lines)
        kind: Kind | None = None if found is None else found[0]
        for other in growing:
            if other.NAME in older and other is not kind and not run.has_internal_error:
                self._withdraw_mistaken(other, origin, file, older[other.NAME], run)
        file.stream.seek(0)
        if kind is None:
            return run.report
        if not is_growing(kind):
            return self.stream(origin, file.stream, file=file)
        before, kept = tried.get(kind.NAME) or (_reading(kind, file, None), None)
        return self._read_on(run, kind, origin, before, kept, older.get(kind.NAME), is_of_newer=kind.NAME in newer)

    def _withdraw_mistaken(
        self, kind: GrowingKind, origin: Origin, file: OpenFile, older: Checkpoint, run: FileImport
    ) -> None:
        """Withdraw the events that an older reader derived from a file of another kind by mistake."""
        assert self.checkpoints is not None
        with suppress(InvalidEventError):
            reader, renewal = kind.reader(origin), self.checkpoints.renewal(kind, older)
            lines = _reading(kind, file, None).lines
            for item in lines:
                if isinstance(item, Found):
                    renewal.take_line(item, lines.offset)
                    with suppress(Exception):  # an object that it cannot read now gives no events
                        renewal.take_events([event for event in reader.events(item) if not isinstance(event, Problem)])
            run.withdraw(renewal)
            self.checkpoints.drop(kind, origin.path)

    def _run(self, origin: Origin, file: OpenFile | None, share: Share | None = None) -> FileImport:
        def report_progress() -> None:
            if self.progress is not None and file is not None:
                done = file.stream.tell() if share is None else file.size * share.done // max(share.total, 1)
                self.progress(file.path, done, file.size)

        return FileImport(self.log, self.began, origin.path, report_progress)

    def _kind(
        self, run: FileImport, origin: Origin, items: Iterator[Found | Problem]
    ) -> tuple[Kind, Iterator[Found | Problem]] | None:
        """Return the kind of a file and all its items; None, with the reason in the report, if no kind fits."""
        if origin.is_named and len(self.kinds) == 1 and reads_databases(self.kinds[0]):
            return self.kinds[0], items  # its reader refuses what is not a database
        try:
            found = recognise(self.kinds, origin, items, self.all_kinds)
        except (RightfulError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - as in `FileImport`
            run.internal_error(None, error)
            return None
        if found.refusal is not None:
            run.report.is_read = False
            run.add_problem(found.refusal)
            return None
        if found.kind is None:
            run.skip(found.items, self.kinds, rival=found.rival, named=origin.is_named)
            return None
        return found.kind, found.items

    def stream(self, origin: Origin, stream: BinaryIO, *, file: OpenFile | None = None) -> FileReport:
        """Import a stream from its beginning to its end."""
        run = self._run(origin, file)
        digested = Digested(stream)
        source = io.BufferedReader(digested)
        if source.peek(len(HEADER)).startswith(HEADER):
            return FileReport.unread(origin.path, Problem(None, PIPED))
        found = self._kind(run, origin, objects_of(source))
        if found is None:
            return run.report
        kind, items = found
        if getattr(kind, "ANSWERS", False):
            run.keep_answers(keeps=self.receipts)
        try:
            reader = kind.reader(origin)
        except NotYetError as error:
            return run.defer(error)
        except InvalidEventError as error:
            return FileReport.unread(origin.path, Problem(None, error.what))
        for item in items:
            run.add(reader, item)
            if len(run.waiting) >= limits.IMPORT_EVENTS:
                run.flush(reader)
        run.finish(reader, End(digested.sha256, run.is_whole))
        return run.report

    def _read_on(
        self,
        run: FileImport,
        kind: GrowingKind,
        origin: Origin,
        found: Reading,
        kept: Checkpoint | None,
        older: Checkpoint | None = None,
        *,
        is_of_newer: bool = False,
    ) -> FileReport:
        """Import the part of a growing file after the place where the last import stopped."""
        try:
            growth = GrowingImport(kind, origin, found, kept, self.checkpoints, older, is_of_newer=is_of_newer)
        except NotYetError as error:
            return run.defer(error)
        except InvalidEventError as error:
            return FileReport.unread(origin.path, Problem(None, error.what))
        growth.append_to(run)
        return run.report


def _other_readers(
    kinds: list[GrowingKind], file: OpenFile, kept_by_any: dict[str, Checkpoint]
) -> tuple[dict[str, Checkpoint], set[str]]:
    """Return the checkpoints of older readers that still match the file, and the kinds that a newer reader has read."""
    older: dict[str, Checkpoint] = {}
    newer: set[str] = set()
    for kind in kinds if kept_by_any else ():
        kept = kept_by_any.get(kind.NAME)
        if kept is not None and kept.reader > reader_version(kind):
            newer.add(kind.NAME)
        elif kept is not None and kept.reader < reader_version(kind) and _reading(kind, file, kept).fits:
            older[kind.NAME] = kept
    return older, newer


def _reading(kind: GrowingKind, file: OpenFile, kept: Checkpoint | None) -> Reading:
    with reading(file.path):
        return Reading(file, kept, is_rewritten=kind.GROWS == REWRITTEN)
