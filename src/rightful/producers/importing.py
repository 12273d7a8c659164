"""The common loop of every import: files in, events appended, problems out.

Importing is repeatable: an event's id comes from what the file says, so importing again adds
nothing and a file that has grown adds its growth. What cannot be imported is reported with its
file and line, and never stops what stands beside it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, takewhile
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

NOTE, PASSED_OVER = "note: ", "passed over: "
"""How the words of a problem begin that is none: what is worth knowing, and what is not meant for us."""

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
        problems: What was not imported, what is worth knowing (it begins with `NOTE`), and why
            the file was passed over (`PASSED_OVER`).
        conflicts: Events that contradict one of the same id; kept, and pay nobody.
        repeated: Those of the duplicates that were appended since the import began.
        lost: How many of the problems say that something was not imported, the unlisted ones too.
        notes: How many are worth knowing.
        is_read: Whether the file could be opened and is of a kind that was asked for.
        kinds: How many events of each type were appended.
    """

    path: str
    appended: int = 0
    duplicate: int = 0
    problems: list[Problem] = []
    conflicts: int = 0
    repeated: int = 0
    lost: int = 0
    notes: int = 0
    is_read: bool = True
    kinds: dict[str, int] = {}

    @classmethod
    def unread(cls, path: str, problem: Problem) -> FileReport:
        """Return the report of a file that could not be read, or is not meant to be."""
        if not problem.lost:
            problem = problem._replace(what=PASSED_OVER + problem.what)
        return cls(path, problems=[problem], lost=int(problem.lost), is_read=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the report with the keys of `import --json`."""
        problems = [{"line": one.line, "what": one.what} for one in self.problems]
        return {"path": self.path, "appended": self.appended, "duplicate": self.duplicate, "problems": problems}

    @property
    def exit_code(self) -> int:
        """3 when something conflicts, 2 when something was not imported, else 0."""
        if self.conflicts:
            return 3
        return 2 if self.lost else 0


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
        kinds: The kinds that may come. Inside a folder a file is taken only if one of its first
            objects is recognised, and is passed over otherwise, which is no problem. A file that
            is named must be of these kinds.
        paths: Files, folders, or `-`.
        stdin: What `-` means.
        progress: Told how far it is.

    Raises:
        StorageError: The ledger cannot be written. What was reported before is in it.
    """
    importing = _Import(log, list(kinds), log.head(), progress)
    for path in paths:
        if path == STDIN:
            yield importing.stream(Origin(path, None), stdin)
        elif not os.path.isdir(path):  # noqa: PTH112 - the path is shown as it was given
            yield importing.file(path, named=True)
        else:
            for item in walk(path):
                yield importing.file(item, named=False) if isinstance(item, str) else FileReport.unread(*item)


class _Import(NamedTuple):
    """What all files of one import share.

    Attributes:
        log: Where the events go.
        kinds: The kinds that may come.
        began: The last position when the import began.
        progress: Told how far it is.
    """

    log: Log
    kinds: list[Kind]
    began: int
    progress: Progress | None

    def file(self, path: str, *, named: bool) -> FileReport:
        """Import one file."""
        try:
            with opened(path, follow=named) as file:
                return self.stream(Origin(path, file.mtime_us), file.stream, file=file, named=named)
        except ValueError:  # a NUL in the path
            return FileReport.unread(path, Problem(None, "this cannot be a path"))
        except OSError as error:
            if error.filename != path:
                raise
            return FileReport.unread(path, Problem(None, f"could not be read: {error.strerror}"))

    def stream(
        self, origin: Origin, stream: BinaryIO, *, file: OpenFile | None = None, named: bool = True
    ) -> FileReport:
        """Import what a stream holds."""
        run = _Run(self, origin.path, lambda: _tell(self.progress, file))
        return _imported(run, self.kinds, origin, objects_of(stream), named=named)


def _imported(
    run: _Run, kinds: list[Kind], origin: Origin, items: Iterator[Found | Problem], *, named: bool
) -> FileReport:
    kind: Kind | None = kinds[0]
    if len(kinds) > 1 or not named:
        kind, items = _recognised(kinds, items)
    if kind is None:
        run.pass_over(items, kinds, named=named)
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

    def __init__(self, shared: _Import, path: str, written: Callable[[], None]) -> None:
        self._log = shared.log
        self._began = shared.began
        self._written = written
        self._unlisted: Counter[bool] = Counter()
        self.waiting: list[tuple[int, Wire]] = []
        self.report = FileReport(path, problems=[], kinds={})

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
            for (line, event), receipt in zip(part, receipts, strict=True):
                self._count(line, event["type"], receipt)
            self._written()

    def pass_over(self, items: Iterator[Found | Problem], kinds: list[Kind], *, named: bool) -> None:
        """Say why a file is not imported: what is wrong with it, or that nobody knows its form.

        Args:
            items: What it holds.
            kinds: What it could have been.
            named: Whether somebody named it; that it is foreign is a problem then.
        """
        head = list(islice(items, _PEEK))
        foreign = next((item for item in head if isinstance(item, Found)), None)
        if foreign is not None:
            names = ", ".join(kind.NAME for kind in kinds)
            keys = ", ".join(f"`{key[:32]}`" for key in islice(foreign.value, 5)) or "no keys"
            head = [Problem(foreign.line, f"an object with {keys} is not of {names}")]
        for item in head:
            assert isinstance(item, Problem), "there is no object"
            if foreign is not None or item.what.startswith(NO_OBJECT):
                self.report.is_read = False
                self._tell(item if named else item._replace(lost=False, what=PASSED_OVER + item.what))
            else:
                self._tell(item)

    def _count(self, line: int, kind: str, receipt: Receipt) -> None:
        match receipt.outcome:
            case "duplicate":
                self.report.duplicate += 1
                self.report.repeated += receipt.position is not None and receipt.position > self._began
            case "invalid":
                self._tell(Problem(line, receipt.reason or "Expected an event"))
            case "conflict":
                self.report.conflicts += 1
                what = f"conflicts with what stands under its id: {receipt.reason}"
                self._tell(Problem(line, f"{what}; that id pays nobody until an `event.withdrawn` settles it"))
            case _:
                self.report.appended += 1
                self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1

    def _tell(self, problem: Problem) -> None:
        """List a problem or a note, up to a limit, and count it."""
        problems = self.report.problems
        if not problem.lost and not problem.what.startswith(PASSED_OVER):
            problem = problem._replace(what=NOTE + problem.what)
            if problem in takewhile(lambda one: one.line == problem.line, reversed(problems)):
                return  # two objects of one line, and the same to say of both
            self.report.notes += 1
        self.report.lost += problem.lost
        if len(problems) < limits.PROBLEMS_COUNT:
            problems.append(problem)
            return
        if self._unlisted:
            problems.pop()
        self._unlisted[problem.lost] += 1
        problems.append(_unlisted(self._unlisted[True], self._unlisted[False]))


def _unlisted(lost: int, notes: int) -> Problem:
    said = [f"{count} more {what}{'s' * (count > 1)}" for count, what in ((lost, "problem"), (notes, "note")) if count]
    are = "is" if lost + notes == 1 else "are"
    mark = "" if lost else NOTE
    return Problem(None, f"{mark}{' and '.join(said)} of this file {are} not listed", lost=lost > 0)


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
