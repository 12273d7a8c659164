"""`import gptme-workspace`: import what a workspace of gptme and its tools keep, wherever they keep it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful.cli.output import logs, terminal
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from rightful.cli.show.show_import import Totals
    from rightful.importers.engine.file_report import FileReport
    from rightful.importers.engine.formats import Kind
    from rightful.importers.engine.loop import Import
    from rightful.importers.gptme.gptme_workspace import Place

KIND = "gptme-workspace"
"""What the command line calls it."""


class ImportedPlace(NamedTuple):
    """What became of one place.

    Attributes:
        place: The place.
        reports: A report for each of its files.
    """

    place: Place
    reports: list[FileReport]

    @property
    def read(self) -> list[FileReport]:
        """The reports of files that were read, or should have been."""
        return [report for report in self.reports if report.is_read or report.lost]


def workspace_of(paths: list[str]) -> Path:
    """Return the folder of the workspace: the one that is named, else the working folder.

    Raises:
        UsageError: Several are named, or it is not a folder.
    """
    if len(paths) > 1:
        raise UsageError(f"{KIND} takes one DIR, and {len(paths)} were given; nothing was imported. Name one.")
    folder = Path(paths[0] if paths else ".")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; nothing was imported. Name the workspace's folder.")
    return folder.absolute()


def places(folder: Path) -> list[Place]:
    """Return the places of a workspace, by this process's environment."""
    from rightful.importers.gptme import gptme_workspace

    return gptme_workspace.places(folder, os.environ, Path.home())


def watched(folder: Path) -> list[str]:
    """Return what is watched of a workspace: what exists, and the usual places that may still appear."""
    every = places(folder)
    return list(dict.fromkeys(path for place in every for path in place.paths() or [place.path] * place.is_one))


def run(args: argparse.Namespace, folder: Path, importing: Import, kinds: Callable[[str], list[Kind]]) -> int:
    """Import all places and report each, those that do not exist too.

    Args:
        args: The options.
        folder: The workspace's folder.
        importing: The import.
        kinds: Returns the kinds of a name.
    """
    from rightful.cli.show.show_import import Totals
    from rightful.cli.support.import_progress import progress

    log, totals, every = logs.of(args), Totals(), places(folder)
    found: list[ImportedPlace] = []
    with progress([path for place in every for path in place.paths()]) as bar:
        step = importing._replace(progress=bar.step)
        for place in every:
            here = step._replace(kinds=[kind for name in place.kinds for kind in kinds(name)])
            reports: list[FileReport] = []
            for path in place.paths():
                for report in here.path(path):
                    bar.done(report.path)
                    log.step("imported", path=report.path, appended=report.appended, duplicate=report.duplicate)
                    totals.add(report)
                    reports.append(report)
            found.append(ImportedPlace(place, reports))
    if args.json:
        terminal.print_json({"workspace": str(folder), "places": [_document(item) for item in found]})
    else:
        _show(folder, found, totals)
    if not any(item.read for item in found):
        terminal.warn_stderr(
            f"nothing of gptme was found for {folder}. Run the command in the workspace, or name its folder."
        )
        return max(totals.exit_code, terminal.CHECK_SAID_NO)
    return totals.exit_code


def _show(folder: Path, found: list[ImportedPlace], totals: Totals) -> None:
    """Print the places as a table, what is wrong in their files, and the totals."""
    from rightful.cli.output import tables
    from rightful.cli.show.show_import import RepeatedMessages
    from rightful.importers.engine.file_report import NOTE, SKIPPED

    rows = [row for item in found if (row := _row(folder, item)) is not None]
    tables.show_table({"what": "", "where": "", "files": "n", "new events": "n", "already in the ledger": "n"}, rows)
    said = RepeatedMessages()
    for item in found:
        for place, what in _problems(item.reports):
            if not what.startswith(SKIPPED):
                said.warn(place, what if what.startswith(NOTE) else f"problem: {what}")
    said.warn_rest()
    totals.print()


def _row(folder: Path, item: ImportedPlace) -> list[object] | None:
    """Return the row of a place; None for an unusual place that does not exist."""
    path = os.path.relpath(item.place.path, folder) if Path(item.place.path).is_relative_to(folder) else item.place.path
    if not item.place.paths():
        return [item.place.what, path, "absent", "", ""] if item.place.is_usual else None
    new = sum(report.appended for report in item.reports)
    known = sum(report.duplicate - report.repeated for report in item.reports)
    return [item.place.what, path, f"{len(item.read):,}", f"{new:,}", f"{known:,}"]


def _problems(reports: Iterable[FileReport]) -> Iterator[tuple[str, str]]:
    for report in reports:
        for problem in report.problems:
            place = report.path if problem.line is None else f"{report.path}:{problem.line}"
            yield place, problem.what


def _document(item: ImportedPlace) -> dict[str, Any]:
    place = item.place
    return {
        "what": place.what,
        "path": place.path,
        "exists": bool(place.paths()),
        "files": [report.as_dict() for report in item.reports],
    }
