"""Lines for people: ours at the margin, what a session said indented below it. Loads rich, so it is imported late.

Every heading begins at the margin and every text is indented, also where it is folded, so that no text can pass for
a heading.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

from rightful import times
from rightful.cli.output import terminal
from rightful.cli.output.item_text import TAB
from rightful.cli.output.terminal import safe

_INDENT = "    "
_LINES = 20
_CHARS = 2_000
_NARROWEST = 4


def print_stdout(*lines: str) -> None:
    """Print lines of ours: made safe, and folded so that what does not fit is indented like what a session said."""
    room = _room()
    terminal.write_stdout("".join(f"{part}\n" for line in lines for part in _with_hanging_indent(safe(line), room)))


def _room() -> int | None:
    """Return how wide a text may be; None where nothing limits it."""
    width = terminal.columns(sys.stdout)
    return None if width is None else max(width - len(_INDENT), _NARROWEST)


def _with_hanging_indent(line: str, room: int | None) -> list[str]:
    if room is None or cell_len(line) <= room + len(_INDENT):
        return [line]
    first, *rest = _folded(line, room)
    return [first, *(f"{_INDENT}{part}" for part in rest)]


def text(said: str, option: str | None) -> Iterator[str]:
    """Yield a text's lines, indented and folded; of a long one the beginning, and how much is left.

    Args:
        said: The text.
        option: The option that shows all of a long one; None to shorten nothing.
    """
    said = said.replace("\r\n", "\n").rstrip("\n")
    if not said:
        return
    kept = said if option is None else "\n".join(said[:_CHARS].split("\n")[:_LINES])
    room = _room()
    for line in kept.split("\n"):
        for part in _folded(safe(line.expandtabs(TAB)), room):
            yield f"{_INDENT}{part}".rstrip()
    if len(kept) < len(said):
        yield f"{_INDENT}[{len(said) - len(kept):,} more characters; {option} shows all]"


def _folded(line: str, room: int | None) -> list[str]:
    """Return a line cut to the room, at spaces where it can."""
    if room is None:
        return [line]
    found, at = [], 0
    while len(line) - at > room or cell_len(line[at:]) > room:
        part = line[at : at + room + 1]
        head = (chop_cells(part, room) or [part])[0]  # what takes no room at all is not cut
        space = head.rfind(" ")
        cut = space + 1 if space > room // 2 else len(head)
        found.append(line[at : at + cut].rstrip())
        at += cut
    return [*found, line[at:]]


def time_text(at_us: int, *, is_bound: bool = False) -> str:
    """Return a time to the second; `before` it where it is only an upper bound."""
    return ("before " if is_bound else "") + times.at_of(at_us).strftime("%Y-%m-%d %H:%M:%SZ")
