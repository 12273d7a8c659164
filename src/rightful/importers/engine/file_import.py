"""The import of one file: its objects become events that are appended, or problems that are reported."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from rightful import limits
from rightful.errors import ConditionFailedError, InvalidEventError, RightfulError
from rightful.importers.engine.file_report import SKIPPED, Answers, FileReport, ProblemList, is_stored
from rightful.importers.engine.other_tools import described
from rightful.importers.engine.recognition import ONLY, mismatch_text
from rightful.importers.engine.renewal import Ranges
from rightful.importers.sources.text_files import NO_OBJECT, Found, Problem

if TYPE_CHECKING:
    from rightful.importers.engine.formats import End, GrowingReader, Kind, NotYetError, Reader, Wire
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
        self.add_problem = ProblemList(self.report).add

    def keep_answers(self, *, keeps: bool) -> None:
        """Answer for each record.

        Args:
            keeps: Whether to keep the receipts; if not, only their outcomes are counted.
        """
        self.report.answers = Answers(keeps=keeps)

    def add(self, reader: Reader, item: Found | Problem) -> None:
        """Add the events of an object to those to append."""
        if isinstance(item, Problem):
            self.is_whole = self.is_whole and not item.lost
            self._add_problem_and_answer(item)
            return
        self._add_events(item.line, reader.events, item)

    def finish(self, reader: Reader, end: End) -> None:
        """Add the events of the file as a whole, and append all pending events."""
        self._add_events(1, reader.finish, end)
        self.flush(reader)

    def _add_events(self, line: int, events: Callable[[T], Iterable[Wire | Problem]], of: T) -> None:
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
        self.add_problem(problem)
        if self.report.answers is not None and problem.lost:
            self.report.answers.add_refusal(problem)

    def internal_error(self, line: int | None, error: Exception) -> None:
        """Report an unexpected exception as a problem; the import continues with the next file."""
        self.has_internal_error = True
        what = f"internal error ({type(error).__name__}: {error}, in {_raised_in(error)})"
        self._add_problem_and_answer(Problem(line, f"{what}: not everything here was imported; please report it"))

    def defer(self, error: NotYetError) -> FileReport:
        """Return the report of a file that the next import must read, with the reason."""
        self.report.waits = True
        self.add_problem(Problem(None, error.what, lost=False))
        return self.report

    def flush(self, reader: Reader) -> None:
        """Append all pending events."""
        waiting, self.waiting = self.waiting, []
        for start in range(0, len(waiting), limits.IMPORT_EVENTS):
            part = waiting[start : start + limits.IMPORT_EVENTS]
            receipts, notes = _append(self.log, reader, [event for _, event in part])
            for note in notes:
                self.add_problem(note)
            for (line, event), receipt in zip(part, receipts, strict=True):
                self._count(line, event, receipt)
                if self.report.answers is not None:
                    self.report.answers.add_receipt(line, receipt)
            self._append_after(reader, part, receipts)
            self._note_derived([event for _, event in part], receipts)
            self.log.recorder.rest()
            self._written()

    def _note_derived(self, events: list[Wire], receipts: list[Receipt]) -> None:
        """Record which events were derived, and restore those that an earlier reader withdrew."""
        self.ranges.take(receipts)
        if self.renewal is not None:
            self.renewal.take_events(events)
        if self.derived is not None and (again := self.derived.take(events, receipts)):
            self._append(again)

    def change(self, reader: GrowingReader, renewal: Renewal) -> None:
        """Append the events that the newer reader derives from changes before the older reader's import."""
        self._add_events(1, renewal.changes, reader)
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
            self.add_problem(Problem(None, f"{len(events):,} {what}: {why}", lost=False))

    def _append(self, events: list[Wire]) -> None:
        for event, receipt in zip(events, self.log.append(events), strict=True):
            self._count(None, event, receipt)

    def _append_after(self, reader: Reader, part: list[tuple[int, Wire]], receipts: list[Receipt]) -> None:
        """Append the events that depend on the receipts of a part."""
        more = reader.after(self.log, [event for _, event in part], receipts)
        for event, receipt in zip(more, self.log.append(more) if more else (), strict=True):
            self._count(part[0][0], event, receipt)

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
            self.add_problem(problems[0]._replace(what=f"{what}. Nothing was imported from the file{unread}"))
        else:
            for item in problems:
                self.add_problem(item)

    def _skip_with(self, problem: Problem, shape: str | None, *, named: bool) -> None:
        self.report.is_read = False
        self.report.passed = int(not named)
        what = problem.what if shape is None else f"{shape}; not imported by this version"
        if named:
            self.add_problem(
                problem._replace(what=what if shape is not None else f"{what}; nothing was imported from it")
            )
        else:
            self.add_problem(Problem(problem.line, SKIPPED + what, lost=False))

    def _count(self, line: int | None, event: Wire, receipt: Receipt) -> None:
        kind: str = event["type"]
        match receipt.outcome:
            case "duplicate":
                self.report.duplicate += 1
                self.report.repeated += receipt.position is not None and receipt.position > self._began
            case "stale" if not is_stored(receipt):
                pass  # an older copy, which the reader's plan skipped with a note; or an existing row
            case "invalid":
                self.add_problem(Problem(line, receipt.reason or "Expected an event"))
            case "conflict":
                self.report.conflicts += 1
                what = f"conflicts with the event stored under its id: {receipt.reason}"
                self.add_problem(
                    Problem(line, f"{what}; it stays in quarantine until an `event.withdrawn` settles the conflict")
                )
            case _:
                self.report.appended += 1
                if kind == "session.started":
                    self.report.start_details += event["session"] in self._started
                    self._started.add(event["session"])
                self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1


def _raised_in(error: Exception) -> str:
    """Return the module and the line that raised an error, without the path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - a name is shown, no path is built


def _append(log: Log, reader: Reader, events: list[Wire]) -> tuple[list[Receipt], tuple[Problem, ...]]:
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
