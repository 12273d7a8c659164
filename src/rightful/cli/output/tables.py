"""Tables and progress for people. Loads rich, so it is imported inside the function that draws."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from rightful.cli.output import terminal
from rightful.cli.output.terminal import safe

_UNLIMITED = 1 << 20  # columns of a file or a pipe
_SHORTEST = 20  # characters that are left of a name at least
_SENTENCE = 100  # columns of the terminal that a sentence in a table takes at most
_NARROW = 30  # columns that it is left at least
_COUNTS = ("", "n", "number")  # units that say nothing more of a number than its heading
_GAP = 2  # columns of the terminal between two of a table
_KIB = 1024


class Advance(Protocol):
    """Reports progress."""

    def __call__(self, done: int = 1) -> None:
        """Add the amount done since the last call."""


def width() -> int:
    """Return how wide a table may be; columns."""
    return terminal.columns(sys.stdout) or _UNLIMITED


def draws() -> bool:
    """Return whether stdout accepts more than ASCII. If not, pictures are omitted or drawn in ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


class _Sheet(io.StringIO):
    """Collects what rich draws for stdout. Rich itself would exit on a closed pipe."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Stdout's."""
        return sys.stdout.encoding or "ascii"

    def isatty(self) -> bool:
        """Return whether stdout is a terminal."""
        return sys.stdout.isatty()


def _console(stream: TextIO, *, width: int) -> Console:
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def _print(table: Table) -> None:
    sheet = _Sheet()
    _console(sheet, width=width()).print(table)
    terminal.write_stdout(sheet.getvalue())


def show_table(
    columns: Mapping[str, str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    note: str | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Print a table on stdout; cards, one a row, where it is too wide.

    Sentences are wrapped, so that they make no line longer than what reads well.

    Args:
        columns: Each column's heading, and its unit, which stands below it; "" for text. Columns
            with a unit hold numbers, and stand to the right. A heading may have lines of its own.
        rows: The cells; text is made safe for a terminal. The first cell is a name, which is
            shortened in the middle where it does not fit.
        title: What the table is of.
        note: What to know about it; stands below.
        drop: Headings of the columns that can be spared, in this order, where the table is too wide. No
            other is ever left out.
    """
    lines = [[*heading.split("\n"), *([unit] if unit else [])] for heading, unit in columns.items()]
    headings = ["\n".join(map(safe, of)) for of in lines]
    cells = [[safe(cell) for cell in row] for row in rows]
    names = list(columns)
    title, note = title and safe(title), note and safe(note)
    shown = _wrapped(cells, _SENTENCE)
    fitting = _fitting(headings, shown, [])
    if fitting is None:
        shown = _wrapped(cells, min(max(width() // 2, _NARROW), _SENTENCE))
        fitting = _fitting(headings, shown, [names.index(heading) for heading in drop])
    if fitting is None:
        _cards(columns, cells, title, note)
        return
    kept, room = fitting
    table = Table(
        title=title, caption=note, box=box.SIMPLE, title_justify="left", padding=(0, _GAP - 1, 0, 0),
        caption_justify="left",
    )  # fmt: skip
    for number in kept:
        justify = "right" if columns[names[number]] else "left"
        table.add_column(Text(headings[number]), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for name, row in zip(_shortened([row[0] for row in shown], room), shown, strict=True):
        table.add_row(Text(name), *(Text(row[number]) for number in kept[1:]))
    _print(table)


def _wrapped(cells: list[list[str]], room: int) -> list[list[str]]:
    """Return the cells with sentences wrapped; the first of a row is a name."""
    return [[first, *(terminal.wrapped(cell, room) for cell in others)] for first, *others in cells]


def _fitting(headings: list[str], cells: list[list[str]], drop: list[int]) -> tuple[list[int], int] | None:
    """Return which columns are shown, and how wide the first may be; None where they do not fit."""
    widths = [
        max(cell_len(line) for text in (heading, *(row[number] for row in cells)) for line in text.split("\n"))
        for number, heading in enumerate(headings)
    ]
    least = min(widths[0], _SHORTEST)
    kept = list(range(len(headings)))
    for spared in (None, *drop):
        kept = [number for number in kept if number != spared]
        room = width() - _GAP * len(kept) - 1 - sum(widths[number] for number in kept[1:])
        if room >= least or len(kept) == 1:
            return kept, max(room, least)
    return None


def _cards(columns: Mapping[str, str], cells: list[list[str]], title: str | None, note: str | None) -> None:
    """Print each row over a few lines: its name, whole, and below it whatever else is known of it."""
    labels = [
        safe(" ".join(heading.split())) + (f" ({safe(unit)})" if unit not in _COUNTS else "")
        for heading, unit in columns.items()
    ]
    parts = [title] if title else []
    for row in cells:
        lines = [""]
        said = [(label, " ".join(cell.split())) for label, cell in zip(labels, row, strict=True) if cell.strip()]
        for number, piece in enumerate(f"{label}: {cell}" if label else cell for label, cell in said):
            joined = f"{lines[-1]}   {piece}"
            if number > 1 and cell_len(joined) <= width():
                lines[-1] = joined
            else:
                lines.append(f"  {piece}" if number else piece)
        parts.append("\n".join(terminal.wrapped(line, width()) for line in lines[1:]))
    terminal.write_stdout("\n" + "\n\n".join([*parts, *([terminal.wrapped(note, width())] if note else [])]) + "\n")


def _shortened(names: list[str], room: int) -> list[str]:
    """Return names that fit; those that would look alike then stay whole, and are folded."""
    short = [shortened(name, room) for name in names]
    alike = Counter(short)
    return [
        shortened_name if alike[shortened_name] == 1 else name
        for shortened_name, name in zip(short, names, strict=True)
    ]


def shortened(name: str, room: int) -> str:
    """Return a name that fits, what is left out marked in its middle; its last part stays whole if it can."""
    if cell_len(name) <= room or cell_len(name) != len(name):
        return name
    mark = "…" if draws() else "..."
    last = len(name) - name.rstrip("/").rfind("/")
    whole = 1 < last <= room - len(mark) - 4
    tail = last if whole else (room - len(mark)) * 2 // 3  # names of one kind differ at their ends
    return name[: room - len(mark) - tail] + mark + name[-tail:]


def show_facts(facts: Mapping[str, object]) -> None:
    """Print facts on stdout, each below the other."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(Text(safe(name)), Text(safe(fact)))
    _print(table)


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Show the progress of long work on stderr, if it is a terminal.

    Args:
        what: What is being done.
        total: How much there is to do; None when that is not known.
        unit: What is counted, in the plural: `rows`, `files`.
    """
    console = _console(sys.stderr, width=terminal.columns(sys.stderr) or _UNLIMITED)
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
