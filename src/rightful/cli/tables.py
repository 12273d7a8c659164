"""Tables and progress for people. Loads rich, so it is imported inside the function that draws."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from rightful.cli.common import safe

_PIPED_COLUMNS = 160  # nobody's window limits what is written to a file or a pipe
_KIB = 1024


class Advance(Protocol):
    """Says that so much more is done."""

    def __call__(self, done: int = 1) -> None:
        """Take what was done since the last call."""


def _console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPED_COLUMNS
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def show_table(
    columns: Mapping[str, str], rows: Iterable[Sequence[object]], *, title: str | None = None, note: str | None = None
) -> None:
    """Print a table on stdout.

    Args:
        columns: Each column's heading, and its unit, which stands below it; "" for text. Columns
            with a unit hold numbers, and stand to the right.
        rows: The cells; text is made safe for a terminal.
        title: What the table is of.
        note: What to know about it; stands below.
    """
    table = Table(title=title and safe(title), caption=note and safe(note), box=box.SIMPLE, title_justify="left")
    for heading, unit in columns.items():
        shown = Text(f"{heading}\n{unit}" if unit else heading)
        table.add_column(shown, justify="right" if unit else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    _console().print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Print facts on stdout, each below the other."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(Text(name), Text(safe(fact)))
    _console().print(table)


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Show how far long work is, on stderr, when somebody looks at it; nothing is shown otherwise.

    Args:
        what: What is being done.
        total: How much there is to do; None when that is not known.
        unit: What is counted, in the plural: `rows`, `files`.
    """
    console = _console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(safe(what), total=total)

        def advance(done: int = 1) -> None:
            bar.advance(task, done)

        yield advance


def size(size_bytes: int) -> str:
    """Return a size in the unit that reads best: `512 B`, `1.5 MiB`."""
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIB:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KIB
    return f"{amount:.1f} TiB"
