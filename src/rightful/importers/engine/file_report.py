"""The result of importing one file, and the prefixes that distinguish notes and skipped files from problems."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from rightful import limits
from rightful.importers.sources.text_files import Problem
from rightful.log.classify import STORED_AT
from rightful.log.rows import Receipt

NOTE, SKIPPED = "note: ", "skipped: "
"""Prefixes of entries that are not problems: notes, and files that are not imported."""

KNOWN = "in the part that an earlier import read; `--again` reads the whole file and lists each one"
"""Suffix of the problem that counts the problems of earlier imports of the same file."""

_SUFFIXES_SHOWN = 8


class Span(NamedTuple):
    """The part of a growing file that was read, as byte offsets.

    Attributes:
        begin: Where reading began. The bytes before it were imported earlier.
        end: Where reading stopped: after the last complete object.
        size: The file's size.
    """

    begin: int
    end: int
    size: int


class Answers:
    """The receipt of each record of a file, in the order of the file.

    Args:
        keeps: Whether to keep the receipts; if not, only their outcomes are counted.

    Attributes:
        counts: The number of receipts by outcome.
        stored: The number of receipts by outcome for which a row was stored now.
    """

    def __init__(self, *, keeps: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.stored: Counter[str] = Counter()
        self._keeps = keeps
        self._receipts: list[dict[str, Any] | None] = []
        self._next = 0

    def expect(self) -> None:
        """Reserve a place for the receipt of a pending record."""
        if self._keeps:
            self._receipts.append(None)

    def add_receipt(self, line: int, receipt: Receipt) -> None:
        """Add the receipt of the first pending record."""
        self.counts[receipt.outcome] += 1
        self.stored[receipt.outcome] += is_stored(receipt)
        if self._keeps:
            self._next = self._receipts.index(None, self._next)
            self._receipts[self._next] = _receipt(line, receipt)

    def add_refusal(self, problem: Problem) -> None:
        """Add a receipt `invalid` for a record that is not imported."""
        self.counts["invalid"] += 1
        if self._keeps:
            self._receipts.append(_receipt(problem.line, Receipt(None, "invalid", None, None, problem.what)))

    def as_dict(self) -> dict[str, Any]:
        """Return the receipts and counts with the keys of `ingest --json`."""
        return {"receipts": self._receipts, "counts": dict(self.counts)}


def is_stored(receipt: Receipt) -> bool:
    """Return whether a receipt is for a row that was stored now, not for an existing row."""
    if receipt.position is None or receipt.outcome == "duplicate":
        return False
    return not (receipt.reason or "").startswith(STORED_AT)


def _receipt(line: int | None, receipt: Receipt) -> dict[str, Any]:
    document = receipt._asdict() | {"line": line}
    if receipt.reason is None:
        del document["reason"]
    return document


class FileReport(msgspec.Struct):
    """The result of importing one file.

    Attributes:
        path: The file as it was named or found; the folder, if it is about files in it that were not opened.
        appended: Events that are new in the ledger.
        duplicate: Events that were already in the ledger.
        problems: What was not imported, notes (prefix `NOTE`), and why the file was skipped (prefix `SKIPPED`).
        unlisted: How many problems (True) and notes (False) are beyond the limit.
        conflicts: Events in conflict: other content under the id of a stored event. They are in quarantine, and that
            id earns no credit.
        repeated: Those of the duplicates that were appended since the import began.
        lost: The number of problems, including unlisted ones and those of the part that earlier imports read.
        notes: The number of notes.
        is_read: Whether the file could be opened and is of an accepted kind.
        waits: Whether the file must be read again even if it does not change.
        passed: The number of files that this report says were skipped.
        kinds: The number of appended events by type.
        start_details: The number of starts that only add to an earlier start of the same session in this file.
        span: The part of a growing file that was read; None for other files, which are read whole.
        answers: The receipt of each record, for kinds that answer for each record.
    """

    path: str
    appended: int = 0
    duplicate: int = 0
    problems: list[Problem] = []
    unlisted: Counter[bool] = msgspec.field(default_factory=Counter)
    conflicts: int = 0
    repeated: int = 0
    lost: int = 0
    notes: int = 0
    is_read: bool = True
    waits: bool = False
    passed: int = 0
    kinds: dict[str, int] = {}
    start_details: int = 0
    span: Span | None = None
    answers: Answers | None = None

    def add_problem(self, problem: Problem) -> None:
        """Add a problem or a note; beyond a limit, only count it."""
        if not problem.lost and not problem.what.startswith(SKIPPED):
            problem = problem._replace(what=NOTE + problem.what)
            if problem in takewhile(lambda listed: listed.line == problem.line, reversed(self.problems)):
                return  # the same note for two objects of one line
            self.notes += 1
        self.lost += problem.lost
        if len(self.problems) < limits.PROBLEMS_COUNT:
            self.problems.append(problem)
            return
        if self.unlisted:
            self.problems.pop()
        self.unlisted[problem.lost] += 1
        self.problems.append(_unlisted(self.unlisted[True], self.unlisted[False]))

    @classmethod
    def unread(cls, path: str, problem: Problem, *, files: int = 1) -> FileReport:
        """Return the report of a file that could not be read, or of skipped files."""
        if not problem.lost:
            problem = problem._replace(what=SKIPPED + problem.what)
        passed = 0 if problem.lost else files
        return cls(path, problems=[problem], lost=int(problem.lost), is_read=False, passed=passed)

    @classmethod
    def unopened(cls, folder: str, others: Counter[str]) -> FileReport:
        """Return the report of the files of a folder that were not opened, counted by suffix."""
        most = sorted(others.items(), key=lambda item: (-item[1], item[0]))
        counts = [f"{count} {suffix or 'without suffix'}" for suffix, count in most[:_SUFFIXES_SHOWN]]
        if rest := most[_SUFFIXES_SHOWN:]:
            counts.append(f"{sum(count for _, count in rest)} with {len(rest)} other suffixes")
        files = others.total()
        many = "1 file with another suffix" if files == 1 else f"{files} files with other suffixes"
        return cls.unread(folder, Problem(None, f"{many}: {', '.join(counts)}", lost=False), files=files)

    def as_dict(self) -> dict[str, Any]:
        """Return the report with the keys of `import --json`."""
        problems = [{"line": problem.line, "what": problem.what} for problem in self.problems]
        document = {"path": self.path, "appended": self.appended, "duplicate": self.duplicate, "problems": problems}
        document |= {} if self.answers is None else self.answers.as_dict()
        return document if self.span is None else document | {"bytes": self.span._asdict()}

    @property
    def is_old(self) -> bool:
        """Whether the file was imported before and has nothing new."""
        was_read = bool(self.duplicate) or (self.span is not None and self.span.begin > 0)
        return self.is_read and was_read and not (self.appended or self.conflicts or self.repeated or self.waits)

    @property
    def exit_code(self) -> int:
        """3 when something conflicts, 2 when something was not imported, else 0."""
        if self.conflicts:
            return 3
        return 2 if self.lost else 0


def _unlisted(lost: int, notes: int) -> Problem:
    kinds = ((lost, "problem"), (notes, "note"))
    counts = [f"{count} more {what}{'s' * (count > 1)}" for count, what in kinds if count]
    are = "is" if lost + notes == 1 else "are"
    mark = "" if lost else NOTE
    return Problem(None, f"{mark}{' and '.join(counts)} of this file {are} not listed", lost=lost > 0)
