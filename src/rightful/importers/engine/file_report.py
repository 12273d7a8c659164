"""What became of one file of an import, and the words that tell notes from problems."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from rightful import limits
from rightful.importers.sources.text_files import Problem
from rightful.log.classify import STANDS
from rightful.log.rows import Receipt

NOTE, SKIPPED = "note: ", "skipped: "
"""How the words of a problem begin that is none: what is worth knowing, and what is not meant for us."""

BEFORE = "not repeated; `--again` reads the whole file"
"""How the words of a note end on what was wrong in the part read before."""

_SUFFIXES_SHOWN = 8


class Span(NamedTuple):
    """What was read of a file that grows; bytes.

    Attributes:
        begin: Where the reading began: what stands before it was imported earlier.
        end: Where it stopped: behind the last whole object.
        size: The file's size.
    """

    begin: int
    end: int
    size: int


class Answers:
    """The ledger's answer for each record of a file, in the order of the file.

    Args:
        keeps: Whether the receipts are kept; else only how many there were of each outcome.

    Attributes:
        counts: How many receipts there were of each outcome.
        stored: How many of them say of each outcome that a row was stored now.
    """

    def __init__(self, *, keeps: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.stored: Counter[str] = Counter()
        self._keeps = keeps
        self._receipts: list[dict[str, Any] | None] = []
        self._next = 0

    def expect(self) -> None:
        """Keep a place for the answer for a record that waits."""
        if self._keeps:
            self._receipts.append(None)

    def add_receipt(self, line: int, receipt: Receipt) -> None:
        """Take the answer for the first record that waits."""
        self.counts[receipt.outcome] += 1
        self.stored[receipt.outcome] += is_stored(receipt)
        if self._keeps:
            self._next = self._receipts.index(None, self._next)
            self._receipts[self._next] = _receipt(line, receipt)

    def add_refusal(self, problem: Problem) -> None:
        """Take note that a record is not imported."""
        self.counts["invalid"] += 1
        if self._keeps:
            self._receipts.append(_receipt(problem.line, Receipt(None, "invalid", None, None, problem.what)))

    def as_dict(self) -> dict[str, Any]:
        """Return the receipts and counts with the keys of `ingest --json`."""
        return {"receipts": self._receipts, "counts": dict(self.counts)}


def is_stored(receipt: Receipt) -> bool:
    """Say whether a receipt is for a row that was stored now, not for one that stood there."""
    if receipt.position is None or receipt.outcome == "duplicate":
        return False
    return not (receipt.reason or "").startswith(STANDS)


def _receipt(line: int | None, receipt: Receipt) -> dict[str, Any]:
    said = receipt._asdict() | {"line": line}
    return said if receipt.reason is not None else {name: said[name] for name in said if name != "reason"}


class FileReport(msgspec.Struct):
    """What became of one file.

    Attributes:
        path: The file as it was named or found; a folder where it is about what was not looked at in it.
        appended: Events that are new in the ledger.
        duplicate: Events that stood there already.
        problems: What was not imported, what is worth knowing (it begins with `NOTE`), and why
            the file was passed over (`SKIPPED`).
        conflicts: Events that contradict one of the same id; kept, and pay nobody.
        repeated: Those of the duplicates that were appended since the import began.
        lost: How many of the problems say that something was not imported, the unlisted ones too.
        notes: How many are worth knowing.
        is_read: Whether the file could be opened and is of a kind that was asked for.
        waits: Whether it is to be read again, though it be the same.
        passed: How many files it says were passed over.
        kinds: How many events of each type were appended.
        start_details: How many starts only add to one that the file had told of the same session.
        before: How many problems stand in the part read before.
        span: What was read of a file that grows; None of any other, which is read whole.
        answers: What the ledger answered for each record, of a kind that says so.
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
    waits: bool = False
    passed: int = 0
    kinds: dict[str, int] = {}
    start_details: int = 0
    before: int = 0
    span: Span | None = None
    answers: Answers | None = None

    @classmethod
    def unread(cls, path: str, problem: Problem, *, files: int = 1) -> FileReport:
        """Return the report of a file that could not be read, or of files that are not meant to be."""
        if not problem.lost:
            problem = problem._replace(what=SKIPPED + problem.what)
        passed = 0 if problem.lost else files
        return cls(path, problems=[problem], lost=int(problem.lost), is_read=False, passed=passed)

    @classmethod
    def unlooked(cls, folder: str, others: Counter[str]) -> FileReport:
        """Return the report of the files of a folder that nobody looked at, by the suffix of their names."""
        most = sorted(others.items(), key=lambda item: (-item[1], item[0]))
        said = [f"{count} {suffix or 'without suffix'}" for suffix, count in most[:_SUFFIXES_SHOWN]]
        if rest := most[_SUFFIXES_SHOWN:]:
            said.append(f"{sum(count for _, count in rest)} with {len(rest)} other suffixes")
        files = others.total()
        many = "1 file with another suffix" if files == 1 else f"{files} files with other suffixes"
        what = f"{many}: {', '.join(said)}"
        return cls.unread(folder, Problem(None, what, lost=False), files=files)

    def as_dict(self) -> dict[str, Any]:
        """Return the report with the keys of `import --json`."""
        problems = [{"line": problem.line, "what": problem.what} for problem in self.problems]
        said = {"path": self.path, "appended": self.appended, "duplicate": self.duplicate, "problems": problems}
        said |= {} if self.answers is None else self.answers.as_dict()
        return said if self.span is None else said | {"bytes": self.span._asdict()}

    @property
    def is_old(self) -> bool:
        """Whether it was imported before, and brought nothing new."""
        was_read = bool(self.duplicate) or (self.span is not None and self.span.begin > 0)
        return self.is_read and was_read and not (self.appended or self.conflicts or self.repeated or self.waits)

    @property
    def exit_code(self) -> int:
        """3 when something conflicts, 2 when something was not imported, else 0."""
        if self.conflicts:
            return 3
        return 2 if self.lost else 0


class ProblemList:
    """Lists the problems and notes of one file in its report, up to a limit, and counts them.

    Args:
        report: Where they are listed.
    """

    def __init__(self, report: FileReport) -> None:
        self._report = report
        self._unlisted: Counter[bool] = Counter()

    def add(self, problem: Problem) -> None:
        """List a problem or a note, or count it with those that are not listed any more."""
        problems = self._report.problems
        if not problem.lost and not problem.what.startswith(SKIPPED):
            problem = problem._replace(what=NOTE + problem.what)
            if problem in takewhile(lambda listed: listed.line == problem.line, reversed(problems)):
                return  # two objects of one line, and the same to say of both
            self._report.notes += 1
        self._report.lost += problem.lost
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
