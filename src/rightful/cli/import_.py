"""Import exposures, grades, opening balances and session records from what agent tools leave.

KIND says what the files are: `lesson-hook` (the four artifacts of the Claude Code lesson hook,
told apart by their shape), `session-records` (gptme-sessions), `bandit-state` (a bandit's
state file, of whichever tool), `gptme` (the lessons that its conversations show), `agenta` (the
bodies of its ingest endpoint; --json has a receipt for each), or `auto`, which tells each file by
its content and says what it passed over. A PATH is a file, a folder (its .json and .jsonl files,
links not followed) or `-`. What is broken is reported with its file and line, and its neighbours
are imported. A file that you name must be of the KIND; in a folder, files of other kinds are
passed over. Importing again adds nothing; what has grown adds its growth.
"""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rightful.cli import common, logs
from rightful.errors import StorageError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.producers.file_reports import FileReport
    from rightful.producers.files import Problem
    from rightful.producers.importing import Kind, Progress

KINDS = {
    "lesson-hook": "rightful.producers.lesson_hook:LessonHook",
    "session-records": "rightful.producers.session_records:SessionRecords",
    "bandit-state": "rightful.producers.bandit_state:BanditState",
    "gptme": "rightful.producers.gptme:Gptme",
    "agenta": "rightful.producers.agenta:Agenta",
}
"""Where each kind is, loaded when it is asked for."""

_PROBLEM = "problem: "  # in text only: there, notes and what is passed over stand beside it
_ALIKE_COUNT = 3  # problems of one form that are told one by one
_VARYING = re.compile(r"\d+|'[^']*'|`[^`]*`")
_NOUNS = {
    "exposure.recorded": "exposure",
    "grade.recorded": "grade",
    "session.started": "start",
    "session.ended": "end",
    "session.linked": "link",
    "balance.opened": "opening balance",
}

_OUTCOMES = ("refined", "reemitted", "stale")
"""What is stored beside what is appended; told apart for kinds that answer for each record."""

AUTO = "auto"
"""The kind that tells by content."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("kind", metavar="KIND", choices=[*KINDS, AUTO], help=f"one of: {', '.join([*KINDS, AUTO])}")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file, a folder, or `-` for stdin")


def run(args: argparse.Namespace) -> int:
    """Import all paths and answer for each file."""
    from rightful.producers.importing import STDIN, import_paths

    if args.paths.count(STDIN) > 1:
        raise UsageError("stdin can be read once; nothing was imported. Name `-` once.")
    stdin = common.stdin() if STDIN in args.paths else io.BytesIO()
    reports: list[FileReport] = []
    notes = _Alike()
    broken: BrokenPipeError | StorageError | None = None
    log = logs.of(args)
    with common.opened(args) as ledger, _progress() as progress:
        options: dict[str, Any] = {"stdin": stdin, "progress": progress, "receipts": args.json}
        for report in import_paths(ledger.log, kinds(args.kind), args.paths, **options):
            reports.append(report)
            log.step("imported", **{key: value for key, value in report.as_dict().items() if key != "receipts"})
            if not args.json and broken is None:
                broken = _told(report, notes)
    if broken is not None:
        raise broken
    if args.json:
        common.print_json([report.as_dict() for report in reports])
    else:
        notes.complain_of_rest()
        common.say(_total(reports))
    return common.worst(report.exit_code for report in reports)


def kinds(name: str) -> list[Kind]:
    """Return the kinds that a name means: one, or all for `auto`."""
    from importlib import import_module

    wanted = KINDS if name == AUTO else {name: KINDS[name]}
    found: list[Kind] = []
    for place in wanted.values():
        module, _, attribute = place.partition(":")
        found.append(getattr(import_module(module), attribute)())
    return found


class _Alike:
    """Counts what is said in one form, and says it a few times only."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def complain(self, place: str, what: str) -> None:
        """Say it of a place, unless it was said in that form often enough."""
        form = _VARYING.sub("", what)
        self._counts[form] += 1
        self._first.setdefault(form, what)
        if self._counts[form] <= _ALIKE_COUNT:
            common.complain(f"{place}: {what}")

    @property
    def rest(self) -> dict[str, int]:
        """How often each was not said any more, by how it was said first."""
        return {self._first[form]: over for form, count in self._counts.items() if (over := count - _ALIKE_COUNT) > 0}

    def complain_of_rest(self) -> None:
        """Say of each form how often it was not said."""
        for what, count in self.rest.items():
            common.complain(f"{count:,} more like this: {what}; --json lists them.")


def _told(report: FileReport, notes: _Alike) -> BrokenPipeError | StorageError | None:
    """Answer for a file; return why that cannot be done any more. What is still to be imported is imported."""
    try:
        _tell(report, notes)
    except (BrokenPipeError, StorageError) as error:
        return error
    return None


def _tell(report: FileReport, notes: _Alike) -> None:
    """Say what became of a file: notes, alike with those of all files, and then problems, with those of the file."""
    from rightful.producers.file_reports import NOTE, PASSED_OVER

    if report.is_read:
        common.put(
            common.safe(f"{report.path}: {_counts([report])}") + "\n", flush=True
        )  # before what is wrong with it
    problems = _Alike()
    marked = [problem.what.startswith((NOTE, PASSED_OVER)) for problem in report.problems]
    for problem in (one for one, mark in zip(report.problems, marked, strict=True) if mark):
        notes.complain(_place(report, problem), problem.what)
    for problem in (one for one, mark in zip(report.problems, marked, strict=True) if not mark):
        problems.complain(_place(report, problem), f"{_PROBLEM}{problem.what}")
    if more := sum(problems.rest.values()):
        common.complain(f"{report.path}: {_PROBLEM}{more:,} more like these; --json lists them.")


def _place(report: FileReport, problem: Problem) -> str:
    return report.path if problem.line is None else f"{report.path}:{problem.line}"


def _counts(reports: list[FileReport], *, kinds: bool = False) -> str:
    """Return how many events of some files are new, and of what kind, and how many were there."""
    repeated = sum(report.repeated for report in reports)
    others = sum((report.answers.counts for report in reports if report.answers is not None), Counter[str]())
    told = {outcome: others[outcome] for outcome in _OUTCOMES if others[outcome]}
    counts = {
        "appended": sum(report.appended for report in reports) - sum(told.values()),
        **told,
        "there already": sum(report.duplicate for report in reports) - repeated,
        "repeated in this import": repeated,
    }
    words = common.counted(counts)
    of = sum((Counter(report.kinds) for report in reports), Counter[str]())
    listed = ", ".join(common.many(of[kind], noun) for kind, noun in _NOUNS.items() if of[kind])
    return words.replace("appended", f"appended ({listed})", 1) if kinds and listed else words


def _total(reports: list[FileReport]) -> str:
    read = [report for report in reports if report.is_read]
    passed = sum(report.passed for report in reports)
    notes = sum(report.notes for report in reports)
    found = [common.many(sum(report.lost for report in reports), "problem")]
    found += [common.many(notes, "note")] * (notes > 0) + [f"{passed:,} passed over"] * (passed > 0)
    return f"{common.many(len(read), 'file')}: {_counts(read, kinds=True)}; {', '.join(found)}."


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show how far an import is, where a person is watching a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    shared = sys.stdout.isatty()  # elsewhere rich would take the answer away from where it was sent
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared) as shown:
        task = shown.add_task("", total=None)
        yield lambda path, done, size: shown.update(
            task, description=common.safe(path), completed=done, total=max(size, done)
        )
