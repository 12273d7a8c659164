"""The import of one file: its objects become events that are appended, or problems that are reported."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from rightful import limits
from rightful.errors import ConditionFailedError, InvalidEventError, RightfulError
from rightful.importers.engine.file_report import SKIPPED, FileReport, is_stored
from rightful.importers.engine.formats import NotYetError
from rightful.importers.engine.other_tools import described
from rightful.importers.engine.recognition import ONLY, mismatch_text
from rightful.importers.engine.renewal import Ranges
from rightful.importers.sources.text_files import NO_OBJECT, Found, Problem

if TYPE_CHECKING:
    from rightful.importers.engine.formats import End, GrowingReader, Kind, Reader, Wire
    from rightful.importers.engine.renewal import Derived, Renewal
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

T = TypeVar("T")
_TRIES = 50  # plans, if other writers keep changing the same sessions


class FileImport:
    """The import of one file: the events to append, and the report so far.

    Args:
        log: Where the events go.
        began: The last position when the import began.
        path: The path of the file in its report.
        written: Called after each transaction.

    Attributes:
        log: Where the events go.
        report: The report so far.
        waiting: Events to append, each with its line.
        is_whole: Whether all of the file could be read.
        has_internal_error: Whether an unexpected exception prevented a complete import.
        derived: The events that files of this kind derive; None if that is not tracked.
        ranges: The positions of the events that this file derives.
        renewal: The comparison with an older reader's events; None if no older reader read the file.
    """

    def __init__(self, log: Log, began: int, path: str, written: Callable[[], None]) -> None:
        self.log = log
        self._began = began
        self._written = written
        self.is_whole = True
        self.has_internal_error = False
        self.derived: Derived | None = None
        self.ranges = Ranges()
        self.renewal: Renewal | None = None
        self.waiting: list[tuple[int, Wire]] = []
        self._started: set[str] = set()
        self.report = FileReport(path, problems=[], kinds={})

    def add_unread(self, problem: Problem) -> None:
        """Report an object that could not be read."""
        self.is_whole = self.is_whole and not problem.lost
        self._add_problem_and_answer(problem)

    def finish(self, reader: Reader, end: End) -> None:
        """Add the events of the file as a whole, and append all pending events."""
        self.add_events(1, reader.finish, end)
        self.flush(reader)

    def add_events(self, line: int, events: Callable[[T], Iterable[Wire | Problem]], of: T) -> None:
        """Add the events that a reader derives from an object, or from the end of the file, to those to append."""
        try:
            for event in events(of):
                if isinstance(event, Problem):
                    self._add_problem_and_answer(event)
                    if event.what.startswith(SKIPPED):
                        self.report.is_read, self.report.passed = False, 1
                else:
                    self.waiting.append((line, event))
                    if self.report.answers is not None:
                        self.report.answers.expect()
        except InvalidEventError as error:
            self._add_problem_and_answer(Problem(line, str(error)))
        except (RightfulError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one odd object must not end an import of many files
            self.internal_error(line, error)

    def _add_problem_and_answer(self, problem: Problem) -> None:
        """Report a problem, and answer `invalid` if a record is not imported."""
        self.report.add_problem(problem)
        if self.report.answers is not None and problem.lost:
            self.report.answers.add_refusal(problem)

    def internal_error(self, line: int | None, error: Exception) -> None:
        """Report an unexpected exception as a problem; the import continues with the next file."""
        self.has_internal_error = True
        what = f"internal error ({type(error).__name__}: {error}, in {_raised_in(error)})"
        self._add_problem_and_answer(Problem(line, f"{what}: not everything here was imported; please report it"))

    def refuse(self, error: InvalidEventError) -> FileReport:
        """Return the report of a file that cannot be read, or only by the next import, with the reason."""
        if not isinstance(error, NotYetError):
            return FileReport.unread(self.report.path, Problem(None, error.what))
        self.report.waits = True
        self.report.add_problem(Problem(None, error.what, lost=False))
        return self.report

    def flush(self, reader: Reader) -> None:
        """Append all pending events."""
        waiting, self.waiting = self.waiting, []
        for start in range(0, len(waiting), limits.IMPORT_EVENTS):
            part = waiting[start : start + limits.IMPORT_EVENTS]
            events = [event for _, event in part]
            receipts, notes = _append_planned(self.log, reader, events)
            for note in notes:
                self.report.add_problem(note)
            self._count(part, receipts)
            if self.report.answers is not None:
                for (line, _), receipt in zip(part, receipts, strict=True):
                    self.report.answers.add_receipt(line, receipt)
            if more := reader.after(self.log, events, receipts):
                self._append(more, part[0][0])
            self.ranges.add(receipts)
            if self.renewal is not None:
                self.renewal.add_sessions(events)
            if self.derived is not None and (again := self.derived.add(events, receipts)):
                self._append(again)
            self.log.recorder.rest()
            self._written()

    def change(self, reader: GrowingReader, renewal: Renewal) -> None:
        """Append the events that the newer reader derives from changes before the older reader's import."""
        self.add_events(1, renewal.changes, reader)
        self.flush(reader)

    def withdraw(self, renewal: Renewal) -> None:
        """Withdraw the events that an older reader derived from the file and the newer one does not."""
        events = list(renewal.events())
        for start in range(0, len(events), limits.IMPORT_EVENTS):
            self._append(events[start : start + limits.IMPORT_EVENTS])
            self._written()
        if events:
            what = "event was withdrawn" if len(events) == 1 else "events were withdrawn"
            why = "an earlier version derived them from this file, and this version does not"
            self.report.add_problem(Problem(None, f"{len(events):,} {what}: {why}", lost=False))

    def _append(self, events: list[Wire], line: int | None = None) -> None:
        self._count([(line, event) for event in events], self.log.append(events))

    def skip(
        self, items: Iterator[Found | Problem], kinds: list[Kind], *, rival: Kind | None = None, named: bool
    ) -> None:
        """Report in one problem or note why a file is not imported: it is broken, or not of an accepted kind.

        Args:
            items: The items that were examined.
            kinds: The accepted kinds.
            rival: The kind that the file has instead, if known.
            named: Whether the user named the file. If so, a file of another kind is a problem.
        """
        head = list(items)
        found = [item for item in head if isinstance(item, Found)]
        problems = [item for item in head if isinstance(item, Problem)]
        shape = described(os.path.basename(self.report.path), [item.value for item in found])  # noqa: PTH119 - a name is compared, no path is built
        unread = "".join(f"; {item.what}" for item in problems if item.what.startswith(ONLY))
        if rival is not None:
            what = f"a file of kind {rival.NAME}; import it as {rival.NAME}, or as auto"
            self._skip_with(Problem(None, what), None, named=named)
        elif found:
            self._skip_with(Problem(found[0].line, mismatch_text(found[0], kinds) + unread), shape, named=named)
        elif problems and problems[0].what.startswith(NO_OBJECT):
            self._skip_with(problems[0], shape, named=named)
        elif sum(item.lost for item in problems) > 1:
            lines = f"its {len(problems):,} lines" if not unread else "the lines that were read"
            what = f"{problems[0].what}; none of {lines} holds a JSON object"
            self.report.is_read = False
            self.report.add_problem(problems[0]._replace(what=f"{what}. Nothing was imported from the file{unread}"))
        else:
            for item in problems:
                self.report.add_problem(item)

    def _skip_with(self, problem: Problem, shape: str | None, *, named: bool) -> None:
        self.report.is_read = False
        self.report.passed = int(not named)
        what = problem.what if shape is None else f"{shape}; not imported by this version"
        if not named:
            self.report.add_problem(Problem(problem.line, SKIPPED + what, lost=False))
        else:
            what += "" if shape is not None else "; nothing was imported from it"
            self.report.add_problem(problem._replace(what=what))

    def _count(self, events: Sequence[tuple[int | None, Wire]], receipts: Iterable[Receipt]) -> None:
        """Count the outcomes of events, and report those that were not stored."""
        report = self.report
        for (line, event), receipt in zip(events, receipts, strict=True):
            match receipt.outcome:
                case "duplicate":
                    report.duplicate += 1
                    report.repeated += receipt.position is not None and receipt.position > self._began
                case "stale" if not is_stored(receipt):
                    pass  # an older copy, which the reader's plan skipped with a note; or an existing row
                case "invalid":
                    report.add_problem(Problem(line, receipt.reason or "Expected an event"))
                case "conflict":
                    report.conflicts += 1
                    what = f"conflicts with the event stored under its id: {receipt.reason}; it stays in quarantine"
                    report.add_problem(Problem(line, f"{what} until an `event.withdrawn` settles the conflict"))
                case _:
                    kind: str = event["type"]
                    report.appended += 1
                    if kind == "session.started":
                        report.start_details += event["session"] in self._started
                        self._started.add(event["session"])
                    report.kinds[kind] = report.kinds.get(kind, 0) + 1


def _raised_in(error: Exception) -> str:
    """Return the module and the line that raised an error, without the path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - a name is shown, no path is built


def _append_planned(log: Log, reader: Reader, events: list[Wire]) -> tuple[list[Receipt], tuple[Problem, ...]]:
    """Append events; plan them again while other writers change the rows that the plan depends on.

    Returns:
        A receipt for each event, and the notes of the plan.

    Raises:
        ConditionFailedError: Every attempt failed.
    """
    for tries_left in reversed(range(_TRIES)):
        plan = reader.plan(log, events)
        try:
            new = [event for place, event in enumerate(plan.events) if place not in plan.existing]
            receipts = iter(log.append(new, unless=plan.unless, after=plan.after))
            return [plan.existing.get(place) or next(receipts) for place in range(len(events))], plan.notes
        except ConditionFailedError:
            if not tries_left:
                raise
    raise AssertionError
