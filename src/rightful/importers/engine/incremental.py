"""Import the new part of a growing file, and store a checkpoint of how far it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful import limits
from rightful.errors import RightfulError
from rightful.importers.engine.checkpoints import Reading
from rightful.importers.engine.file_report import KNOWN, Span
from rightful.importers.engine.formats import End
from rightful.importers.engine.renewal import Ranges
from rightful.importers.sources.text_files import Problem

if TYPE_CHECKING:
    from rightful.importers.engine.checkpoints import Checkpoint, Checkpoints
    from rightful.importers.engine.file_import import FileImport
    from rightful.importers.engine.formats import GrowingKind, Origin
    from rightful.importers.engine.renewal import Renewal


class GrowingImport:
    """The import of one growing file.

    Args:
        kind: Its kind.
        origin: Where it is.
        reading: Its lines, from where it is read.
        checkpoints: The store of checkpoints; None to store none.
        other: The checkpoint of an older reader of the same bytes, or of a newer reader; None if there is none.

    Raises:
        InvalidEventError: A file of that name cannot be read as this kind.
    """

    def __init__(
        self,
        kind: GrowingKind,
        origin: Origin,
        reading: Reading,
        checkpoints: Checkpoints | None,
        other: Checkpoint | None = None,
    ) -> None:
        self._kind = kind
        self._checkpoints = checkpoints
        self._other = other
        if reading.fits and checkpoints is not None and checkpoints.again:
            reading = Reading(reading.file, kind)
        self._reading = reading
        self._reader = kind.reader(origin)
        if reading.kept is not None:
            try:
                (self._reader.restore if reading.fits else self._reader.restart)(reading.kept.state)
            except Exception:  # noqa: BLE001 - a cache of whatever origin must not stop an import
                self._reading, self._reader = Reading(reading.file, kind), kind.reader(origin)

    def append_to(self, run: FileImport) -> None:
        """Append the events of the new part, and store a checkpoint."""
        lines, reader = self._reading.lines, self._reader
        self._add_known_problems(run)
        renewal = self._prepare_renewal(run)
        appended = kept = self._reading.begin.offset
        for item in lines:
            if isinstance(item, Problem):
                run.add_unread(item)
            else:
                run.add_events(item.line, reader.events, item)
                if renewal is not None:
                    renewal.add_line(item, lines.offset)
            if len(run.waiting) >= limits.IMPORT_EVENTS or lines.offset - appended >= limits.IMPORT_BYTES:
                run.flush(reader)
                appended = lines.offset
                if appended - kept >= limits.CHECKPOINT_EVERY_BYTES and self._reading.fits and renewal is None:
                    kept = appended
                    self._save_checkpoint(run)
        has_grown = self._reading.has_grown
        run.finish(reader, End(self._reading.digest, run.is_whole, has_grown))
        begin = self._reading.begin.offset
        run.report.span = Span(begin, lines.offset, max(self._reading.file.size, lines.offset))
        if renewal is not None:
            if run.has_internal_error or lines.offset < renewal.until:
                return  # a partial reading proves nothing; the next import repeats all of it
            run.change(reader, renewal)
            if run.has_internal_error:
                return
            run.withdraw(renewal)
        if has_grown:
            self._save_checkpoint(run)

    def _prepare_renewal(self, run: FileImport) -> Renewal | None:
        if self._checkpoints is None or (self._other and self._other.reader > self._kind.READER_VERSION):
            return None
        run.derived = self._checkpoints.derived(self._kind)
        if self._reading.kept is not None and self._reading.fits:
            run.ranges = Ranges(self._reading.kept.derived)
        if self._other is not None:
            run.renewal = self._checkpoints.renewal(self._kind, self._other)
        return run.renewal

    def _add_known_problems(self, run: FileImport) -> None:
        """Report how many problems earlier imports found in the part that is not read again."""
        known = self._reading.kept
        if known is not None and self._reading.begin.offset and known.lost:
            what = f"{known.lost:,} {'problem' if known.lost == 1 else 'problems'} {KNOWN}"
            run.report.add_problem(Problem(None, what))
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
            run.report.add_problem(problem)
