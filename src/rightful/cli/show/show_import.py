"""Text output of `import`: a line per file, and the totals."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.errors import StorageError
from rightful.importers.engine.file_report import KNOWN, NOTE, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rightful.importers.engine.file_report import FileReport
    from rightful.importers.sources.text_files import Problem

_PROBLEM = "problem: "  # in text only, next to notes and skipped files
_ADVICE = "A line with a problem was not imported; the rest of its file was. Repair the file and import it again."
_ALIKE_COUNT = 3  # problems of one form that are printed one by one
_VARYING = re.compile(r"\d+|'[^']*'|`[^`]*`")
_NOUNS = {
    "exposure.recorded": "exposure",
    "grade.recorded": "grade",
    "session.started": "start",
    "start_details": "start detail",
    "session.ended": "end",
    "session.linked": "link",
    "balance.opened": "opening balance",
    "message.recorded": "message",
    "thought.recorded": "thought",
    "tool_call.snapshotted": "tool call",
    "tool_result.snapshotted": "tool result",
    "usage.recorded": "usage",
    "error.recorded": "error",
    "turn.ended": "turn",
    "interaction.requested": "request",
    "interaction.answered": "answer",
    "data.recorded": "other record",
    "history.appended": "history item",
    "history.compacted": "compaction",
    "history.popped": "undo",
    "history.cleared": "clearing",
    "history.forked": "fork",
    "event.withdrawn": "withdrawal",
}
_OF_KIND, _UNKNOWN_FORMAT = "a file of kind ", "a file of an unknown format"
_NOT_IMPORTED = "not imported by this version"
_REASONS = 5  # reasons for skipping files that the line for a folder lists
_OUTCOMES = ("refined", "reemitted", "stale")
"""The stored outcomes other than `appended`; counted separately for kinds with a receipt per record."""


class RepeatedMessages:
    """Prints at most `limit` messages of each form, and counts the others. Numbers and quoted texts do not differ."""

    def __init__(self, limit: int = _ALIKE_COUNT) -> None:
        self._limit = limit
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def warn(self, place: str, what: str) -> None:
        """Print a message about a place, or only count it."""
        form = _VARYING.sub("", what)
        self._counts[form] += 1
        self._first.setdefault(form, what)
        if self._counts[form] <= self._limit:
            terminal.warn_stderr(f"{place}: {what}")

    @property
    def rest(self) -> dict[str, int]:
        """The number of messages of each form that were only counted, by the first message."""
        return {self._first[form]: over for form, count in self._counts.items() if (over := count - self._limit) > 0}

    def warn_rest(self) -> None:
        """Print for each form how many messages were only counted."""
        for what, count in self.rest.items():
            terminal.warn_stderr(f"{count:,} more like this: {what}; --json lists them.")


class ImportPrinter:
    """Prints the report of each file. If stdout fails, nothing more is printed, and the import goes on.

    Args:
        quiet: Only count: the reports are printed in another form.
        by_folder: Print one line for the files of a folder that have no problem and no note.
        again: Print the notes of files without new events too.

    Attributes:
        broken: The error of stdout.
    """

    def __init__(self, *, quiet: bool = False, by_folder: bool = True, again: bool = False) -> None:
        self._quiet = quiet
        self._again = again
        self._by_folder = by_folder
        self._same_folder: list[FileReport] = []
        self.broken: BrokenPipeError | StorageError | None = None
        self._notes = RepeatedMessages()
        self._passes = RepeatedMessages(limit=1)
        self._waiting: list[tuple[str, str]] = []
        self._unrecognised: list[str] = []
        self._read = self._reported = 0
        self._totals = Totals()
        self._old: dict[str, FileReport] = {}

    @property
    def exit_code(self) -> int:
        """The highest of all files; at least 1 if no file of a folder was recognised."""
        return max(self._totals.exit_code, terminal.CHECK_SAID_NO if self._unrecognised else terminal.DONE)

    def file(self, report: FileReport) -> None:
        """Count a report, and print it."""
        self._totals.add(report)
        self._reported += 1
        self._read += report.is_read or bool(report.lost)
        passes = [problem for problem in report.problems if problem.what.startswith(SKIPPED)]
        self._waiting += [(_place(report, problem), problem.what) for problem in passes]
        if self._quiet or self.broken is not None:
            return
        try:
            if report.is_old and not report.lost and not (self._again and report.notes):
                self._old[report.path] = report
            else:
                self._old.pop(report.path, None)
                self._print_report(report)
        except (BrokenPipeError, StorageError) as error:
            self.broken = error

    def _print_report(self, report: FileReport) -> None:
        """Print a report, or keep it for the line of its folder."""
        if self._same_folder and (report.problems or _folder(report) != _folder(self._same_folder[0])):
            self._print_folder()
        if self._by_folder and report.is_read and not report.problems:
            self._same_folder.append(report)
        else:
            _print_report(report, self._notes)

    def _print_folder(self) -> None:
        """Print the reports that were kept: a line for a single one, else a line for their folder."""
        reports, self._same_folder = self._same_folder, []
        if len(reports) == 1:
            _print_counts(reports[0])
        elif reports:
            counts = Counter[str]()
            for report in reports:
                counts.update(_events(report))
            _print_line(f"{_folder(reports[0])}: {len(reports):,} files, {_words(counts)}")

    def finish_folder(self, folder: str) -> None:
        """Print the skipped files of a folder: one by one, or in one line if none was recognised."""
        try:
            self._print_folder()
        except (BrokenPipeError, StorageError) as error:
            self.broken = error
        if self._reported and not self._read:
            self._unrecognised.append(_unrecognised(folder, self._waiting))
            self._waiting.clear()
        self.print_skipped()
        self._read = self._reported = 0

    def print_skipped(self) -> None:
        """Print the files that were skipped since the last call, each reason once."""
        waiting, self._waiting = self._waiting, []
        for place, what in [] if self._quiet or self.broken is not None else waiting:
            self._passes.warn(place, what)

    def end(self) -> None:
        """Print what remains, and the totals.

        Raises:
            BrokenPipeError: The reader of stdout has gone.
            StorageError: It cannot be written.
        """
        if self.broken is not None:
            raise self.broken
        if self._quiet:
            return
        if len(self._old) == 1:
            _print_report(next(iter(self._old.values())), self._notes)
        elif self._old:
            terminal.print_stdout(f"{len(self._old):,} files: nothing new.")
        self._notes.warn_rest()
        self._passes.warn_rest()
        self._note_omitted()
        terminal.print_stdout(*self._unrecognised)
        if not self._unrecognised or self._totals.has_more:
            self._totals.print()

    def _note_omitted(self) -> None:
        notes = sum(report.notes for report in self._old.values()) if len(self._old) > 1 else 0
        if notes:
            what = f"{terminal.plural(notes, 'note')} on files without new events"
            terminal.warn_stderr(f"{NOTE}{what} {'is' if notes == 1 else 'are'} not repeated; --json lists them.")


class Totals:
    """Totals over all files of an import."""

    def __init__(self) -> None:
        self.exit_code = terminal.DONE
        self._lost: dict[str, int] = {}
        self._lost_in_old = 0
        self._has_bad_lines = False
        self._files: set[str] = set()
        self._passed: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, report: FileReport) -> None:
        """Add a report; several reports of a growing file count as one file."""
        self.exit_code = max(self.exit_code, report.exit_code)
        self._has_bad_lines |= report.lost > report.conflicts and report.is_read and _has_bad_line(report)
        if report.is_read:
            self._files.add(report.path)
            self._kinds.update(report.kinds)
            self._kinds["session.started"] -= report.start_details
            self._kinds["start_details"] += report.start_details
            self._counts.update(_events(report))
        self._counts["notes"] += report.notes
        is_total = report.span is not None  # the report of a growing file counts its earlier problems too
        self._lost[report.path] = report.lost + (0 if is_total else self._lost.get(report.path, 0))
        self._lost_in_old += report.lost if report.is_old else 0
        self._passed[report.path] = report.passed

    @property
    def has_more(self) -> bool:
        """Whether there is more to report than skipped files."""
        return bool(self._files or any(self._lost.values()))

    def print(self) -> None:
        """Print what to do about lines that were not imported, and the last line of an import."""
        if self._has_bad_lines:
            terminal.warn_stderr(_ADVICE)
        terminal.print_stdout(self.line())

    def line(self) -> str:
        """Return the last line of an import."""
        passed = sum(self._passed.values())
        old = f" ({self._lost_in_old:,} of them in files that were read before)" if self._lost_in_old else ""
        found = [terminal.plural(sum(self._lost.values()), "problem") + old]
        found += [terminal.plural(self._counts["notes"], "note")] * (self._counts["notes"] > 0)
        found += [f"{passed:,} skipped"] * (passed > 0)
        words = _words(self._counts, "nothing new")
        if listed := [terminal.plural(self._kinds[kind], noun) for kind, noun in _NOUNS.items() if self._kinds[kind]]:
            words = words.replace("appended", f"appended ({', '.join(listed)})", 1)
        return f"{terminal.plural(len(self._files), 'file')}: {words}; {', '.join(found)}."


def _unrecognised(folder: str, passed: list[tuple[str, str]]) -> str:
    """Return the line for a folder of which nothing was recognised, with the most frequent reasons."""
    counts = Counter(_reason(what) for _, what in passed)
    reasons = [_counted(what, count) for what, count in counts.most_common(_REASONS)]
    more = len(counts) - _REASONS
    reasons += [f"and {terminal.plural(more, 'other reason')}"] * (more > 0)
    return f"{folder}: nothing was imported: {'; '.join(reasons)}. --json lists each file."


def _reason(what: str) -> str:
    """Return why a file was skipped, without the details of this file."""
    short, _, more = what.removeprefix(SKIPPED).partition(";")
    if short.startswith(_OF_KIND):
        return f"{short} (use `rightful import {short.removeprefix(_OF_KIND)}`)"
    if short.startswith("an object with"):
        return _UNKNOWN_FORMAT
    return f"{short} (recognised, but {_NOT_IMPORTED})" if more.strip() == _NOT_IMPORTED else short


def _counted(reason: str, count: int) -> str:
    if reason.startswith((_OF_KIND, _UNKNOWN_FORMAT)):
        return f"{terminal.plural(count, 'file')}{reason.removeprefix('a file')}"
    return reason if count == 1 else f"{count:,} times {reason}"


def _has_bad_line(report: FileReport) -> bool:
    return any(problem.lost and (problem.line or problem.what.endswith(KNOWN)) for problem in report.problems)


def _folder(report: FileReport) -> str:
    return os.path.dirname(report.path) or "."  # noqa: PTH120 - shown as it was given


def _print_report(report: FileReport, notes: RepeatedMessages) -> None:
    if report.is_read:
        _print_counts(report)
    _print_problems(report, notes)


def _print_counts(report: FileReport) -> None:
    _print_line(f"{report.path}: {_words(_events(report))}{_grown(report)}")


def _print_line(line: str) -> None:
    terminal.write_stdout(f"{terminal.safe(line)}\n", flush=True)


def _print_problems(report: FileReport, notes: RepeatedMessages) -> None:
    """Print notes and known problems, limited over all files, and then new problems, limited per file."""
    problems = RepeatedMessages()
    for problem in report.problems:
        if problem.what.startswith(NOTE):
            notes.warn(_place(report, problem), problem.what)
        elif problem.what.endswith(KNOWN):
            notes.warn(_place(report, problem), f"{_PROBLEM}{problem.what}")
    for problem in report.problems:
        if not problem.what.startswith((NOTE, SKIPPED)) and not problem.what.endswith(KNOWN):
            problems.warn(_place(report, problem), f"{_PROBLEM}{problem.what}")
    if more := sum(problems.rest.values()):
        terminal.warn_stderr(f"{report.path}: {_PROBLEM}{more:,} more like these; --json lists them.")


def _place(report: FileReport, problem: Problem) -> str:
    return report.path if problem.line is None else f"{report.path}:{problem.line}"


def _events(report: FileReport) -> dict[str, int]:
    stored, there = dict.fromkeys(_OUTCOMES, 0), report.duplicate - report.repeated
    if report.answers is not None:
        stored = {outcome: report.answers.stored[outcome] for outcome in _OUTCOMES}
        there += report.answers.counts["stale"] - stored["stale"]
    return stored | {"appended": report.appended - sum(stored.values()), "there": there, "repeated": report.repeated}


def _words(counts: Mapping[str, int], without: str = "nothing") -> str:
    """Return how many events are new, and how many were already stored; the text `without` if there are none."""
    names = {outcome: outcome for outcome in ("appended", *_OUTCOMES)}
    names |= {"there": "already in the ledger", "repeated": "repeated in this import"}
    words = terminal.counts_text({name: counts[key] for key, name in names.items()})
    return without if words == "nothing" else words


def _grown(report: FileReport) -> str:
    """Return how much of a file was read, if its beginning was imported earlier."""
    span = report.span
    if span is None or not span.begin:
        return ""
    if span.begin == span.end:
        return f" (nothing new in {_size(span.size)})"
    return f" (read {_size(span.end - span.begin)} that were new, of {_size(span.size)})"


def _size(count: int) -> str:
    if count < 10_000:  # noqa: PLR2004 - five digits are harder to read
        return terminal.plural(count, "byte")
    return f"{count / 1e3:,.0f} kB" if count < 10_000_000 else f"{count / 1e6:,.0f} MB"  # noqa: PLR2004 - as above
