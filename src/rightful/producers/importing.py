"""The common loop of every import: files in, events appended, problems out.

Importing is repeatable: an event's id comes from what the file says, so importing again adds
nothing and a file that has grown adds its growth. What cannot be imported is reported with its
file and line, and never stops what stands beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import msgspec

from rightful import limits
from rightful.errors import ConditionFailedError, InvalidEventError
from rightful.producers.files import NO_OBJECT, Found, OpenFile, Problem, objects_of, opened, walk

if TYPE_CHECKING:
    from eventsourcing.dcb.api import DCBQuery

    from rightful.ledger.log import Log
    from rightful.ledger.recorded import Receipt

STDIN = "-"
"""The path that means standard input."""

Wire = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""Called after each transaction with the file's path, how much of it was read, and its size; bytes."""

_PEEK = 32  # objects of a file that are looked at before it is passed over as foreign
_TRIES = 50  # decisions anew when other writers grade the same sessions meanwhile


class Origin(NamedTuple):
    """Where rows come from.

    Attributes:
        path: The file as it was named or found; `-` for standard input.
        mtime_us: When the file was last written; microseconds since 1970, UTC; None for a pipe.
    """

    path: str
    mtime_us: int | None

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 - a name is compared, no path is built


class Plan(NamedTuple):
    """Events that are ready to be appended, and what must not have been written since they were made."""

    events: list[Wire]
    unless: DCBQuery | None = None
    after: int | None = None


class Reader(Protocol):
    """Turns the objects of one file into events."""

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Yield the events of one object, in wire form.

        Raises:
            InvalidEventError: The object has not the form it should have. Its neighbours are read on.
        """

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return events as they are to be appended, after a look at what stands in the log."""


class Kind(Protocol):
    """One kind of source.

    Attributes:
        NAME: What the command line calls it.
    """

    NAME: str

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is of this kind, by its shape alone."""

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file."""


class FileReport(msgspec.Struct):
    """What became of one file.

    Attributes:
        path: The file as it was named or found.
        appended: Events that are new in the ledger.
        duplicate: Events that stood there already.
        problems: What was not imported, or is worth knowing.
        conflicts: Events that contradict one of the same id; kept, and pay nobody.
    """

    path: str
    appended: int = 0
    duplicate: int = 0
    problems: list[Problem] = []
    conflicts: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report with the keys of `import --json`."""
        problems = [{"line": one.line, "what": one.what} for one in self.problems]
        return {"path": self.path, "appended": self.appended, "duplicate": self.duplicate, "problems": problems}

    @property
    def exit_code(self) -> int:
        """3 when something conflicts, 2 when something was not imported, else 0."""
        if self.conflicts:
            return 3
        return 2 if any(one.lost for one in self.problems) else 0


def import_paths(
    log: Log,
    kinds: Iterable[Kind],
    paths: Iterable[str],
    *,
    stdin: BinaryIO,
    progress: Progress | None = None,
) -> Iterator[FileReport]:
    """Import files, the JSON files below folders, or standard input; yield a report for each.

    Args:
        log: Where the events go.
        kinds: The kinds that may come. With several, and inside a folder, a file is taken only
            if one of its first objects is recognised, and is reported as passed over otherwise.
        paths: Files, folders, or `-`.
        stdin: What `-` means.
        progress: Told how far it is.

    Raises:
        StorageError: The ledger cannot be written. What was reported before is in it.
    """
    offered = list(kinds)
    for path in paths:
        if path == STDIN:
            yield _import_stream(log, offered, Origin(path, None), stdin, progress=progress)
        elif not os.path.isdir(path):  # noqa: PTH112 - the path is shown as it was given
            yield _import_file(log, offered, path, named=True, progress=progress)
        else:
            for item in walk(path):
                if isinstance(item, str):
                    yield _import_file(log, offered, item, named=False, progress=progress)
                else:
                    yield FileReport(item[0], problems=[item[1]])


def _import_file(log: Log, kinds: list[Kind], path: str, *, named: bool, progress: Progress | None) -> FileReport:
    try:
        with opened(path, follow=named) as file:
            origin = Origin(path, file.mtime_us)
            return _import_stream(log, kinds, origin, file.stream, file=file, named=named, progress=progress)
    except ValueError:  # a NUL in the path
        return FileReport(path, problems=[Problem(None, "this cannot be a path")])
    except OSError as error:
        if error.filename != path:
            raise
        return FileReport(path, problems=[Problem(None, f"could not be read: {error.strerror}")])


def _import_stream(
    log: Log,
    kinds: list[Kind],
    origin: Origin,
    stream: BinaryIO,
    *,
    file: OpenFile | None = None,
    named: bool = True,
    progress: Progress | None = None,
) -> FileReport:
    run = _Run(log, origin.path, lambda: _tell(progress, file))
    items = objects_of(stream)
    kind: Kind | None = kinds[0]
    if len(kinds) > 1 or not named:
        kind, items = _recognised(kinds, items)
    if kind is None:
        run.pass_over(items, kinds)
        return run.report
    reader = kind.reader(origin)
    for item in items:
        run.take(reader, item)
    run.flush(reader)
    return run.report


def _tell(progress: Progress | None, file: OpenFile | None) -> None:
    if progress is not None and file is not None:
        progress(file.path, file.stream.tell(), file.size)


def _recognised(kinds: list[Kind], items: Iterator[Found | Problem]) -> tuple[Kind | None, Iterator[Found | Problem]]:
    """Return the kind of the first object that any kind recognises, and all items from the first on."""
    head = list(islice(items, _PEEK))
    hits = (kind for item in head if isinstance(item, Found) for kind in kinds if kind.recognises(item.value))
    return next(hits, None), chain(head, items)


class _Run:
    """The import of one file: what waits to be appended, and what became of the rest."""

    def __init__(self, log: Log, path: str, written: Callable[[], None]) -> None:
        self._log = log
        self._written = written
        self._unlisted = 0
        self.waiting: list[tuple[int, Wire]] = []
        self.report = FileReport(path, problems=[])

    def take(self, reader: Reader, item: Found | Problem) -> None:
        """Turn an object into events that wait; append them when they are enough."""
        if isinstance(item, Problem):
            self._tell(item)
            return
        try:
            for event in reader.events(item):
                if isinstance(event, Problem):
                    self._tell(event)
                else:
                    self.waiting.append((item.line, event))
        except InvalidEventError as error:
            self._tell(Problem(item.line, str(error)))
        if len(self.waiting) >= limits.IMPORT_EVENTS:
            self.flush(reader)

    def flush(self, reader: Reader) -> None:
        """Append what waits, and close the report's list of problems when it is too long."""
        waiting, self.waiting = self.waiting, []
        for start in range(0, len(waiting), limits.IMPORT_EVENTS):
            part = waiting[start : start + limits.IMPORT_EVENTS]
            receipts = _append(self._log, reader, [event for _, event in part])
            for (line, _), receipt in zip(part, receipts, strict=True):
                self._count(line, receipt)
            self._written()

    def pass_over(self, items: Iterator[Found | Problem], kinds: list[Kind]) -> None:
        """Say why a file is not imported: what is wrong with it, or that nobody knows its form."""
        for item in islice(items, _PEEK):
            if isinstance(item, Problem):
                self._tell(item._replace(lost=item.lost and not item.what.startswith(NO_OBJECT)))
            else:
                names = ", ".join(kind.NAME for kind in kinds)
                keys = ", ".join(f"`{key[:32]}`" for key in islice(item.value, 5)) or "no keys"
                self.report.problems = [
                    Problem(item.line, f"passed over: an object with {keys} is not of {names}", lost=False)
                ]
                return

    def _count(self, line: int, receipt: Receipt) -> None:
        match receipt.outcome:
            case "duplicate":
                self.report.duplicate += 1
            case "invalid":
                self._tell(Problem(line, receipt.reason or "Expected an event"))
            case "conflict":
                self.report.conflicts += 1
                self._tell(Problem(line, f"conflicts with what stands under its id: {receipt.reason}"))
            case _:
                self.report.appended += 1

    def _tell(self, problem: Problem) -> None:
        problems = self.report.problems
        if len(problems) < limits.PROBLEMS_COUNT:
            problems.append(problem)
            return
        self._unlisted += 1
        if self._unlisted > 1:
            problems.pop()
        problems.append(Problem(None, f"{self._unlisted} more problems of this file are not listed"))


def _append(log: Log, reader: Reader, events: list[Wire]) -> list[Receipt]:
    """Append events, decided anew for as long as other writers wrote what the decision rests on.

    Raises:
        ConditionFailedError: They never stopped.
    """
    for tries_left in reversed(range(_TRIES)):
        plan = reader.plan(log, events)
        try:
            return log.append(plan.events, unless=plan.unless, after=plan.after)
        except ConditionFailedError:
            if not tries_left:
                raise
    raise AssertionError
