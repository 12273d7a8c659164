"""The class of the deliveries of each record id, without an import: `import agenta --classify`.

The records go through a ledger of their own that is deleted, so the rules are the ledger's.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rightful.cli.output import terminal
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.importers.engine.file_report import FileReport

_CLASSES = (
    ("conflict", "conflict"),
    ("reemitted", "resume re-emission"),
    ("refined", "progressive"),
    ("stale", "progressive"),
    ("duplicate", "exact retry"),
    ("appended", "single"),
)
"""The class of an id for each outcome of its deliveries; the first that applies counts."""


class Classified(msgspec.Struct):
    """The deliveries of one record id.

    Attributes:
        id: The record's id, or the event id that is derived if the record has none.
        class_: How they relate to each other.
        outcomes: The outcome that the ledger would return for each, in order.
        lines: The line of each.
    """

    id: str
    class_: str = msgspec.field(name="class")
    outcomes: list[str] = []
    lines: list[int] = []


def classify(args: argparse.Namespace) -> int:
    """Print the class of each record id, and return the exit code.

    Raises:
        UsageError: The kind has no such records, or other options exclude --classify.
    """
    if args.kind != "agenta":
        raise UsageError(f"--classify is for the kind agenta, got {args.kind}. Nothing was read. Use `import agenta`.")
    if args.watch or args.again:
        raise UsageError("--classify imports nothing, so it takes neither --watch nor --again. Nothing was read.")
    reports = list(_reports(args))
    found = classified(reports)
    for report in reports:
        for problem in report.problems:
            place = report.path if problem.line is None else f"{report.path}:{problem.line}"
            terminal.warn_stderr(f"{place}: {problem.what}")
    if args.json:
        terminal.print_json(found)
    else:
        from rightful.cli.output.tables import show_table

        rows = [(record.id, record.class_, len(record.outcomes), ", ".join(map(str, record.lines))) for record in found]
        show_table({"record id": "", "class": "", "deliveries": "", "lines": ""}, rows)
    return max((report.exit_code for report in reports), default=terminal.DONE)


def _reports(args: argparse.Namespace) -> Iterator[FileReport]:
    from rightful import ledger as app
    from rightful.importers.agenta.agenta_records import Agenta
    from rightful.importers.engine.loop import STDIN, Import

    stdin = terminal.stdin_bytes() if STDIN in args.paths else io.BytesIO()
    with (
        tempfile.TemporaryDirectory(prefix="rightful-") as folder,
        app.open(Path(folder) / "ledger", create=True) as ledger,
    ):
        importing = Import(ledger.log, [Agenta()], 0, None, None, receipts=True)
        for path in args.paths:
            yield from importing.reports(path, stdin)


def classified(reports: Iterable[FileReport]) -> list[Classified]:
    """Return the deliveries of each record id, in the order of the first of each."""
    found: dict[str, Classified] = {}
    for report in reports:
        receipts: list[dict[str, Any]] = [] if report.answers is None else report.answers.as_dict()["receipts"]
        for receipt in receipts:
            if receipt["id"] is not None:
                record = found.setdefault(receipt["id"], Classified(receipt["id"], ""))
                record.outcomes.append(receipt["outcome"])
                record.lines.append(receipt["line"])
    for record in found.values():
        record.class_ = next(name for outcome, name in _CLASSES if outcome in record.outcomes)
    return list(found.values())
