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
from rightful.importers.engine.checkpoints import Reading
from rightful.importers.engine.file_import import FileImport
from rightful.importers.engine.file_report import Answers, FileReport
from rightful.importers.engine.formats import End, GrowingKind, Kind, Origin, growing_kinds
from rightful.importers.engine.incremental import GrowingImport
from rightful.importers.engine.recognition import recognise
from rightful.importers.sources.folders import walk
from rightful.importers.sources.growing_files import Lines
from rightful.importers.sources.sqlite_databases import (
    HEADER,
    NO_DATABASE,
    PIPED,
    SUFFIXES,
    Share,
    import_database,
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
            yield self._stream(Origin(path, None), stdin)
        else:
            yield from self.path(path)

    def path(
        self, path: str, wanted: Callable[[str], bool] | None = None, *, named: bool = True
    ) -> Iterator[FileReport]:
        """Import a file, or the JSON files below a folder.

        Args:
            path: The path, as it was named.
            wanted: Returns whether a file is to be imported now; all are if None.
            named: Whether the user named it, and not a folder above it.
        """
        if not os.path.isdir(path):  # noqa: PTH112 - the path is shown as it was given
            if wanted is None or wanted(path):
                yield self.file(path, named=named)
            return
        others: Counter[str] = Counter()
        for item in walk(path, others=others, databases=self.includes_databases):
            if not isinstance(item, str):
                yield FileReport.unread(*item)
            elif wanted is None or wanted(item):
                yield self.file(item, named=False)
        if others:
            yield FileReport.unopened(path, others)

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
        if file.head.startswith(HEADER):
            return import_database(self.kinds, self.all_kinds, origin, lambda share: self._run(origin, file, share))
        if not origin.is_named and origin.name.endswith(SUFFIXES):  # opened for its name alone
            return FileReport.unread(origin.path, Problem(None, NO_DATABASE, lost=False))
        growing = growing_kinds(self.kinds)
        if growing and is_lines(file.head):
            return self._lines(growing, origin, file)
        return self._stream(origin, file.stream, file=file)

    def _lines(self, growing: list[GrowingKind], origin: Origin, file: OpenFile) -> FileReport:
        """Import a file of JSON lines from where the last import stopped, or from its beginning."""
        changed: dict[str, Reading] = {}
        others: dict[str, Checkpoint] = {}
        if self.checkpoints is not None:
            for kind, kept in self.checkpoints.find(growing, origin.path):
                before = Reading(file, kind, kept)
                if self.checkpoints.is_current(kind, kept):
                    if before.fits:
                        return self._read_on(self._run(origin, file), kind, origin, before)
                    changed[kind.NAME] = before
                elif kept.reader > kind.READER_VERSION or (kept.reader < kind.READER_VERSION and before.fits):
                    others[kind.NAME] = kept
        return self._recognised(growing, origin, file, changed, others)

    def _recognised(
        self,
        growing: list[GrowingKind],
        origin: Origin,
        file: OpenFile,
        changed: dict[str, Reading],
        others: dict[str, Checkpoint],
    ) -> FileReport:
        """Import a file that has no checkpoint of this version that still matches its content.

        Args:
            growing: The accepted kinds of growing files.
            origin: Where it is.
            file: The file.
            changed: Its readings with a checkpoint that no longer matches, by kind.
            others: Its checkpoints of older and newer readers, by kind.
        """
        file.stream.seek(0)
        run = self._run(origin, file)
        # an incomplete last line of a `.jsonl` file may still grow; in other files it is broken
        lines = iter(Lines(file.stream)) if origin.name.endswith(".jsonl") else objects_of(file.stream)
        found = self._kind(run, origin, lines)
        own = None if found is None else next((kind for kind in growing if kind is found[0]), None)
        for kind in growing if others and not run.has_internal_error else ():
            other = others.get(kind.NAME)
            if other is not None and other.reader < kind.READER_VERSION and kind is not own:
                self._withdraw_mistaken(kind, origin, file, other, run)
        file.stream.seek(0)
        if found is None:
            return run.report
        if own is None:
            return self._stream(origin, file.stream, file=file)
        before = changed.get(own.NAME) or Reading(file, own)
        return self._read_on(run, own, origin, before, others.get(own.NAME))

    def _withdraw_mistaken(
        self, kind: GrowingKind, origin: Origin, file: OpenFile, older: Checkpoint, run: FileImport
    ) -> None:
        """Withdraw the events that an older reader derived from a file of another kind by mistake."""
        assert self.checkpoints is not None
        with suppress(InvalidEventError):
            reader, renewal = kind.reader(origin), self.checkpoints.renewal(kind, older)
            lines = Reading(file, kind).lines
            for item in lines:
                if isinstance(item, Found):
                    renewal.add_line(item, lines.offset)
                    with suppress(Exception):  # an object that it cannot read now gives no events
                        renewal.add_sessions([event for event in reader.events(item) if not isinstance(event, Problem)])
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
            run.report.add_problem(found.refusal)
            return None
        if found.kind is None:
            run.skip(found.items, self.kinds, rival=found.rival, named=origin.is_named)
            return None
        return found.kind, found.items

    def _stream(self, origin: Origin, stream: BinaryIO, *, file: OpenFile | None = None) -> FileReport:
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
            run.report.answers = Answers(keeps=self.receipts)
        try:
            reader = kind.reader(origin)
        except InvalidEventError as error:
            return run.refuse(error)
        for item in items:
            if isinstance(item, Problem):
                run.add_unread(item)
            else:
                run.add_events(item.line, reader.events, item)
            if len(run.waiting) >= limits.IMPORT_EVENTS:
                run.flush(reader)
        run.finish(reader, End(digested.sha256, run.is_whole))
        return run.report

    def _read_on(
        self,
        run: FileImport,
        kind: GrowingKind,
        origin: Origin,
        before: Reading,
        other: Checkpoint | None = None,
    ) -> FileReport:
        """Import the part of a growing file after the place where the last import stopped."""
        try:
            growth = GrowingImport(kind, origin, before, self.checkpoints, other)
        except InvalidEventError as error:
            return run.refuse(error)
        growth.append_to(run)
        return run.report
