"""Import exposures and grades from the files that agent tools leave.

KIND says what the files are: `lesson-hook` (the four artifacts of the Claude Code lesson hook,
told apart by their shape), `session-records` (gptme-sessions), or `auto`, which tells each file
by its content and says what it passed over. A PATH is a file, a folder (its .json and .jsonl
files, links not followed) or `-`. What is broken is reported with its file and line, and its
neighbours are imported. Importing again adds nothing; what has grown adds its growth.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rightful.cli import common, logs
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.producers.importing import FileReport, Kind, Progress

KINDS = {
    "lesson-hook": "rightful.producers.lesson_hook:LessonHook",
    "session-records": "rightful.producers.session_records:SessionRecords",
}
"""Where each kind is, loaded when it is asked for."""

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
    reports: list[FileReport] = []
    log = logs.of(args)
    with common.opened(args) as ledger, _progress() as progress:
        for report in import_paths(ledger.log, kinds(args.kind), args.paths, stdin=sys.stdin.buffer, progress=progress):
            reports.append(report)
            log.step("imported", **report.as_dict())
            if not args.json:
                _tell(report)
    if args.json:
        common.print_json([report.as_dict() for report in reports])
    else:
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


def _tell(report: FileReport) -> None:
    common.say(f"{report.path}: {_counts(report.appended, report.duplicate)}")
    for problem in report.problems:
        place = report.path if problem.line is None else f"{report.path}:{problem.line}"
        common.complain(f"{place}: {problem.what}")


def _counts(appended: int, duplicate: int) -> str:
    return common.counted({"appended": appended, "there already": duplicate})


def _total(reports: list[FileReport]) -> str:
    appended = sum(report.appended for report in reports)
    duplicate = sum(report.duplicate for report in reports)
    lost = sum(problem.lost for report in reports for problem in report.problems)
    files = f"{len(reports)} file" + "s" * (len(reports) != 1)
    found = f"{lost} problem" + "s" * (lost != 1)
    return f"{files}: {_counts(appended, duplicate)}; {found}."


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show how far an import is, where a person is watching a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda path, done, size: shown.update(
            task, description=common.safe(path), completed=done, total=max(size, done)
        )
