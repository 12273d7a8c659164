"""The common loop of every import: files in, events appended, problems out.

Importing is repeatable: an event's id comes from what the file says, so importing again adds
nothing and a file that has grown adds its growth. What cannot be imported is reported with its
file and line, and never stops what stands beside it.
"""

from __future__ import annotations

import io
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from rightful import limits
from rightful.errors import ConditionFailedError, InvalidEventError, RightfulError
from rightful.ledger.classify import STANDS
from rightful.producers.file_reports import PASSED_OVER, Answers, FileReport, Told
from rightful.producers.files import NO_OBJECT, Digested, Found, OpenFile, Problem, objects_of, opened
from rightful.producers.folders import walk
from rightful.producers.foreign import described
from rightful.producers.recognising import ONLY, foreign, recognised

if TYPE_CHECKING:
    from eventsourcing.dcb.api import DCBQuery

    from rightful.ledger.log import Log
    from rightful.ledger.recorded import Receipt

STDIN = "-"
"""The path that means standard input."""

Wire = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""Called after each transaction with the file's path, how much of it was read, and its size; bytes."""

_TRIES = 50  # decisions anew when other writers grade the same sessions meanwhile


class Origin(NamedTuple):
    """Where rows come from.

    Attributes:
        path: The file as it was named or found; `-` for standard input.
        mtime_us: When the file was last written; microseconds since 1970, UTC; None for a pipe.
        is_named: Whether somebody named it; else it was found in a folder, where it may be foreign.
    """

    path: str
    mtime_us: int | None
    is_named: bool = True

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 - a name is compared, no path is built


class Plan(NamedTuple):
    """Events that are ready to be appended, and what must not have been written since they were made.

    Attributes:
        events: The events.
        unless: What must not have been written behind `after`.
        after: The position up to which the log was read.
        standing: The receipt of each event, by its place, that is not appended, since the log
            has the same fact in another form, or (`stale`, without a position) a later one.
        notes: What is worth knowing of events that stand in the log already, or will.
    """

    events: list[Wire]
    unless: DCBQuery | None = None
    after: int | None = None
    standing: Mapping[int, Receipt] = {}
    notes: tuple[Problem, ...] = ()


class End(NamedTuple):
    """How the reading of a file ended.

    Attributes:
        sha256: SHA-256 of its bytes as they were read, in hexadecimal.
        is_whole: Whether all of it could be read.
    """

    sha256: str
    is_whole: bool


class Reader(Protocol):
    """Turns the objects of one file into events."""

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Yield the events of one object, in wire form.

        Raises:
            InvalidEventError: The object has not the form it should have. Its neighbours are read on.
        """

    def finish(self, end: End) -> Iterable[Wire | Problem]:
        """Yield what can be said only when the file was read to its end.

        Raises:
            InvalidEventError: The file as a whole has not the form it should have.
        """
        del end
        return ()

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return events as they are to be appended, after a look at what stands in the log."""
        del log
        return Plan(events)

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return what is to be recorded of how events were received; nothing for most kinds."""
        del log, events, receipts
        return []


class Kind(Protocol):
    """One kind of source.

    Attributes:
        NAME: What the command line calls it.
    """

    NAME: str

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is of this kind, by its shape alone."""

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: A file of that name cannot be read as this kind.
        """


def import_paths(
    log: Log,
    kinds: Iterable[Kind],
    paths: Iterable[str],
    *,
    stdin: BinaryIO,
    progress: Progress | None = None,
    receipts: bool = False,
) -> Iterator[FileReport]:
    """Import files, the JSON files below folders, or standard input; yield a report for each.

    Args:
        log: Where the events go.
        kinds: The kinds that may come. Inside a folder a file is taken only if one of its first
            `limits.FOREIGN_OBJECTS` objects is recognised, and is passed over otherwise, which is
            no problem. A file that is named must be of these kinds.
        paths: Files, folders, or `-`.
        stdin: What `-` means.
        progress: Told how far it is.
        receipts: Whether the reports of kinds that answer for each record hold the receipts.

    Raises:
        StorageError: The ledger cannot be written. What was reported before is in it.
    """
    importing = _Import(log, list(kinds), log.head(), progress, receipts)
    for path in paths:
        if path == STDIN:
            yield importing.stream(Origin(path, None), stdin)
        elif not os.path.isdir(path):  # noqa: PTH112 - the path is shown as it was given
            yield importing.file(path, named=True)
        else:
            others: Counter[str] = Counter()
            for item in walk(path, others=others):
                yield importing.file(item, named=False) if isinstance(item, str) else FileReport.unread(*item)
            if others:
                yield FileReport.unlooked(path, others)


class _Import(NamedTuple):
    """What all files of one import share.

    Attributes:
        log: Where the events go.
        kinds: The kinds that may come.
        began: The last position when the import began.
        progress: Told how far it is.
        receipts: Whether receipts are kept, of kinds that answer for each record.
    """

    log: Log
    kinds: list[Kind]
    began: int
    progress: Progress | None
    receipts: bool

    def file(self, path: str, *, named: bool) -> FileReport:
        """Import one file."""
        try:
            with opened(path, follow=named) as file:
                return self.stream(Origin(path, file.mtime_us, named), file.stream, file=file)
        except ValueError:  # a NUL in the path
            return FileReport.unread(path, Problem(None, "this cannot be a path"))
        except OSError as error:
            if error.filename != path:
                raise
            return FileReport.unread(path, Problem(None, f"could not be read: {error.strerror}"))

    def stream(self, origin: Origin, stream: BinaryIO, *, file: OpenFile | None = None) -> FileReport:
        """Import what a stream holds."""
        run = _Run(self, origin.path, lambda: _tell(self.progress, file))
        digested = Digested(stream)
        items = objects_of(io.BufferedReader(digested))
        return _imported(run, self.kinds, origin, items, digested)


def _imported(
    run: _Run, kinds: list[Kind], origin: Origin, items: Iterator[Found | Problem], digested: Digested
) -> FileReport:
    kind: Kind | None = kinds[0]
    if len(kinds) > 1 or not origin.is_named:
        try:
            kind, items = recognised(kinds, origin.name, items)
        except (RightfulError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - as in `_Run`
            run.mistake(None, error)
            return run.report
    if kind is None:
        run.pass_over(items, kinds, named=origin.is_named)
        return run.report
    if getattr(kind, "ANSWERS", False):
        run.answer()
    try:
        reader = kind.reader(origin)
    except InvalidEventError as error:
        return FileReport.unread(origin.path, Problem(None, error.what))
    for item in items:
        run.take(reader, item)
    run.finish(reader, digested.sha256)
    return run.report


def _tell(progress: Progress | None, file: OpenFile | None) -> None:
    if progress is not None and file is not None:
        progress(file.path, file.stream.tell(), file.size)


class _Run:
    """The import of one file: what waits to be appended, and what became of the rest."""

    def __init__(self, shared: _Import, path: str, written: Callable[[], None]) -> None:
        self._log = shared.log
        self._began = shared.began
        self._written = written
        self._is_whole = True
        self._keeps = shared.receipts
        self.waiting: list[tuple[int, Wire]] = []
        self.report = FileReport(path, problems=[], kinds={})
        self._tell = Told(self.report).tell

    def answer(self) -> None:
        """Answer for each record, since the file's kind does."""
        self.report.answers = Answers(keeps=self._keeps)

    def take(self, reader: Reader, item: Found | Problem) -> None:
        """Turn an object into events that wait; append them when they are enough."""
        if isinstance(item, Problem):
            self._is_whole = self._is_whole and not item.lost
            self._refuse(item)
            return
        self._gather(item.line, lambda: reader.events(item))
        if len(self.waiting) >= limits.IMPORT_EVENTS:
            self.flush(reader)

    def finish(self, reader: Reader, sha256: str) -> None:
        """Take what can be said only of the whole file, and append what waits."""
        self._gather(1, lambda: reader.finish(End(sha256, self._is_whole)))
        self.flush(reader)

    def _gather(self, line: int, events: Callable[[], Iterable[Wire | Problem]]) -> None:
        try:
            for event in events():
                if isinstance(event, Problem):
                    self._refuse(event)
                    if event.what.startswith(PASSED_OVER):
                        self.report.is_read, self.report.passed = False, 1
                else:
                    self.waiting.append((line, event))
                    if self.report.answers is not None:
                        self.report.answers.expect()
        except InvalidEventError as error:
            self._refuse(Problem(line, str(error)))
        except (RightfulError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one odd object must not end an import of many files
            self.mistake(line, error)

    def _refuse(self, problem: Problem) -> None:
        """Tell of a problem, and answer `invalid` for a record that is not imported."""
        self._tell(problem)
        if self.report.answers is not None and problem.lost:
            self.report.answers.refuse(problem)

    def mistake(self, line: int | None, error: Exception) -> None:
        """Say that we did not foresee something: loudly, since it is lost, and without an end of the import."""
        what = f"a mistake of ours ({type(error).__name__}: {error}, in {_raised_in(error)})"
        self._refuse(Problem(line, f"{what}: what stands here was not imported whole; please report it"))

    def flush(self, reader: Reader) -> None:
        """Append what waits, and close the report's list of problems when it is too long."""
        waiting, self.waiting = self.waiting, []
        for start in range(0, len(waiting), limits.IMPORT_EVENTS):
            part = waiting[start : start + limits.IMPORT_EVENTS]
            receipts, notes = _append(self._log, reader, [event for _, event in part])
            for note in notes:
                self._tell(note)
            for (line, event), receipt in zip(part, receipts, strict=True):
                self._count(line, event["type"], receipt)
                if self.report.answers is not None:
                    self.report.answers.give(line, receipt)
            self._follow(reader, part, receipts)
            self._written()

    def _follow(self, reader: Reader, part: list[tuple[int, Wire]], receipts: list[Receipt]) -> None:
        """Append what is to be recorded of how a part was received."""
        more = reader.after(self._log, [event for _, event in part], receipts)
        for event, receipt in zip(more, self._log.append(more) if more else (), strict=True):
            self._count(part[0][0], event["type"], receipt)

    def pass_over(self, items: Iterator[Found | Problem], kinds: list[Kind], *, named: bool) -> None:
        """Say why a file is not imported: what is wrong with it, or that nobody knows its form.

        Args:
            items: What it holds.
            kinds: What it could have been.
            named: Whether somebody named it; that it is foreign is a problem then.
        """
        head = list(items)
        found = [item for item in head if isinstance(item, Found)]
        told = described(os.path.basename(self.report.path), [one.value for one in found])  # noqa: PTH119 - as above
        problems = [item for item in head if isinstance(item, Problem)]
        if found:
            unread = "".join(f"; {item.what}" for item in problems if item.what.startswith(ONLY))
            problems = [Problem(found[0].line, foreign(found[0], kinds) + unread)]
        for item in problems:
            if found or item.what.startswith(NO_OBJECT):
                self.report.is_read = False
                self.report.passed = int(not named)
                what = item.what if told is None else f"{told}; not imported by this version"
                self._tell(item._replace(what=what) if named else Problem(item.line, PASSED_OVER + what, lost=False))
            else:
                self._tell(item)

    def _count(self, line: int, kind: str, receipt: Receipt) -> None:
        match receipt.outcome:
            case "duplicate":
                self.report.duplicate += 1
                self.report.repeated += receipt.position is not None and receipt.position > self._began
            case "stale" if receipt.position is None or (receipt.reason or "").startswith(STANDS):
                pass  # an older copy, which the reader's plan left out and told of; or one that stands there
            case "invalid":
                self._tell(Problem(line, receipt.reason or "Expected an event"))
            case "conflict":
                self.report.conflicts += 1
                what = f"conflicts with what stands under its id: {receipt.reason}"
                self._tell(Problem(line, f"{what}; that id pays nobody until an `event.withdrawn` settles it"))
            case _:
                self.report.appended += 1
                self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1


def _raised_in(error: Exception) -> str:
    """Return the module and the line that raised an error, without the path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - a name is shown, no path is built


def _append(log: Log, reader: Reader, events: list[Wire]) -> tuple[list[Receipt], tuple[Problem, ...]]:
    """Append events, decided anew for as long as other writers wrote what the decision rests on.

    Returns:
        A receipt for each event, and what is worth knowing of them.

    Raises:
        ConditionFailedError: They never stopped.
    """
    for tries_left in reversed(range(_TRIES)):
        plan = reader.plan(log, events)
        try:
            new = [event for place, event in enumerate(plan.events) if place not in plan.standing]
            receipts = iter(log.append(new, unless=plan.unless, after=plan.after))
            return [plan.standing.get(place) or next(receipts) for place in range(len(events))], plan.notes
        except ConditionFailedError:
            if not tries_left:
                raise
    raise AssertionError
