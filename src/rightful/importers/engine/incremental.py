"""Import the new part of a growing file, and store a checkpoint of how far it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful import limits
from rightful.errors import RightfulError
from rightful.importers.engine.file_report import KNOWN, Span
from rightful.importers.engine.formats import End
from rightful.importers.engine.renewal import Ranges
from rightful.importers.sources.text_files import Found, Problem

if TYPE_CHECKING:
    from rightful.importers.engine.checkpoints import Checkpoint, Checkpoints, Reading
    from rightful.importers.engine.file_import import FileImport
    from rightful.importers.engine.formats import GrowingKind, GrowingReader, Origin
    from rightful.importers.engine.renewal import Renewal


class GrowingImport:
    """The import of one growing file.

    Args:
        kind: Its kind.
        origin: Where it is.
        reading: Its lines, from where it is read.
        kept: The checkpoint of the last import.
        checkpoints: The store of checkpoints; None to store none.
        older: The checkpoint of an older reader of the same bytes; None if there is none.
        is_of_newer: Whether a reader newer than this program's has read the file.

    Raises:
        InvalidEventError: A file of that name cannot be read as this kind.
    """

    def __init__(
        self,
        kind: GrowingKind,
        origin: Origin,
        reading: Reading,
        kept: Checkpoint | None,
        checkpoints: Checkpoints | None,
        older: Checkpoint | None = None,
        *,
        is_of_newer: bool = False,
    ) -> None:
        self._kind = kind
        self._checkpoints = checkpoints
        self._older = older
        self._is_of_newer = is_of_newer
        self._checkpoint, self._reading = kept, reading
        if kept is not None and reading.fits and checkpoints is not None and checkpoints.again:
            self._restart()
        self._reader = self._prepared(origin)

    def _prepared(self, origin: Origin) -> GrowingReader:
        """Return a reader in the state of the last import; a new one if it cannot restore that state."""
        reader = self._kind.reader(origin)
        if self._checkpoint is None:
            return reader
        try:
            if self._reading.fits:
                reader.restore(self._checkpoint.state)
            else:
                reader.restart(self._checkpoint.state)
        except Exception:  # noqa: BLE001 - a cache of whatever origin must not stop an import
            self._restart()
            return self._kind.reader(origin)
        return reader

    def _restart(self) -> None:
        self._checkpoint, self._reading = None, self._reading.restarted()

    def append_to(self, run: FileImport) -> None:
        """Append the events of the new part, and store a checkpoint."""
        lines, reader = self._reading.lines, self._reader
        self._add_known_problems(run)
        renewal = self._prepare_renewal(run)
        appended = kept = self._reading.begin.offset
        for item in lines:
            run.add(reader, item)
            if renewal is not None and isinstance(item, Found):
                renewal.take_line(item, lines.offset)
            if len(run.waiting) >= limits.IMPORT_EVENTS or lines.offset - appended >= limits.IMPORT_BYTES:
                run.flush(reader)
                appended = lines.offset
                if appended - kept >= limits.CHECKPOINT_EVERY_BYTES and self._reading.fits and renewal is None:
                    kept = appended
                    self._save_checkpoint(run)
        run.finish(reader, End(self._reading.digest, run.is_whole))
        begin = self._reading.begin.offset
        run.report.span = Span(begin, lines.offset, max(self._reading.file.size, lines.offset))
        if renewal is not None and self._older is not None:
            if run.has_internal_error or lines.offset < self._older.place.offset:
                return  # a partial reading proves nothing; the next import repeats all of it
            run.change(reader, renewal)
            if run.has_internal_error:
                return
            run.withdraw(renewal)
        if self._checkpoint is None or not self._reading.fits or lines.place != self._checkpoint.place:
            self._save_checkpoint(run)

    def _prepare_renewal(self, run: FileImport) -> Renewal | None:
        if self._checkpoints is None or self._is_of_newer:
            return None
        run.derived = self._checkpoints.derived(self._kind)
        if self._checkpoint is not None and self._reading.fits:
            run.ranges = Ranges(self._checkpoint.derived)
        if self._older is not None:
            run.renewal = self._checkpoints.renewal(self._kind, self._older)
        return run.renewal

    def _add_known_problems(self, run: FileImport) -> None:
        """Report how many problems earlier imports found in the part that is not read again."""
        known = self._checkpoint
        if known is not None and self._reading.begin.offset and known.lost:
            run.add_problem(Problem(None, f"{known.lost:,} {'problem' if known.lost == 1 else 'problems'} {KNOWN}"))
            run.report.lost, run.report.conflicts = known.lost, known.conflicts

    def _save_checkpoint(self, run: FileImport) -> None:
        """Store how far the file was read, unless an internal error lost a part: a fixed version must read it again."""
        if self._checkpoints is None or run.has_internal_error:
            return
        try:
            state = self._reader.state()
        except RightfulError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `FileImport`
            run.internal_error(None, error)
            return
        lost = run.report.lost - self._reading.lines.ends_unreadable
        ranges, conflicts = run.ranges.kept(), run.report.conflicts
        problem = self._checkpoints.save(self._kind, self._reading, state, lost, ranges, conflicts)
        if problem is not None:
            run.add_problem(problem)
