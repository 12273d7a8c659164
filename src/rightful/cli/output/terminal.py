"""Terminal output, for all commands."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

from rightful.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rightful.log.rows import Receipt

UNSETTLED = (
    "It stays in quarantine until an `event.withdrawn` settles it; a grade or an exposure with that id gives no credit "
    "until then"
)
"""What an id in conflict means."""

DONE: Final = 0
CHECK_SAID_NO: Final = 1
INVALID: Final = 2
CONFLICT: Final = 3
STORAGE: Final = 4

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NARROWEST = 20  # columns; nothing can be read in fewer
_WIDTH_DIGITS = 4


def print_json(document: object) -> None:
    """Print one JSON document on stdout. All but ASCII is escaped, so a terminal is safe from it."""
    write_stdout(json_text(document) + "\n")


def json_text(document: object) -> str:
    """Return a document as JSON text: structs and times included, non-finite numbers refused."""
    return json.dumps(document, default=_builtins, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _builtins(value: object) -> Any:  # noqa: ANN401 - any JSON value
    import msgspec

    return msgspec.to_builtins(value)


def print_stdout(*lines: str) -> None:
    """Print lines on stdout, made safe for a terminal: each text is exactly one line."""
    write_stdout("".join(f"{safe(line)}\n" for line in lines))


def wrap_stdout(*lines: str) -> None:
    """Print prose on stdout, made safe for a terminal and wrapped at its width.

    Only a newline at the very beginning of a text is taken as ours: it parts what follows from
    what stands above.
    """
    width = columns(sys.stdout)
    for line in lines:
        ours = "\n" if line.startswith("\n") else ""
        write_stdout(f"{ours}{wrapped(safe(line.removeprefix(ours)), width)}\n")


def warn_stderr(text: str) -> None:
    """Print a sentence on stderr, one line that is safe for a terminal.

    A closed stderr must not stop the work.
    """
    width = columns(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
    try:
        print(wrapped(f"rightful: {safe(text)}", width), file=sys.stderr)
    except OSError:
        detach(sys.stderr)


def note_stderr(text: str) -> None:
    """Print a note on stderr: information that is not a problem."""
    warn_stderr(f"note: {text}")


def columns(stream: TextIO | None) -> int | None:
    """Return the width of a stream: COLUMNS, else its terminal's; None if it is unlimited."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting[:_WIDTH_DIGITS]) >= _NARROWEST:
        return int(setting[:_WIDTH_DIGITS])
    try:
        return None if stream is None else os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def wrapped(text: str, width: int | None) -> str:
    """Return text with each line wrapped at spaces; no word is cut. Without a width, return it unchanged."""
    if width is None or all(len(line) <= width for line in text.split("\n")):
        return text
    import re
    import textwrap

    lines = []
    for line in text.split("\n"):
        hang = re.match(r"(?: +(?:\S+ )*\S+ {2,}| *)", line)  # indentation, and a first column of a list
        indent = " " * (hang.end() if hang else 0)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [line]
    return "\n".join(lines)


def write_stdout(text: str, *, flush: bool = False) -> None:
    """Write text to stdout unchanged.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
        StorageError: It cannot be written, as on a full disk.
    """
    try:
        print(text, end="", flush=flush)
    except BrokenPipeError:
        raise
    except OSError as error:
        detach(sys.stdout)  # or the interpreter complains of what is left at exit
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        raise StorageError(
            f"the answer could not be written to stdout: {why}; recorded events are kept",
            "Free disk space or redirect the answer, and run the command again.",
        ) from None


def fill_closed_streams() -> None:
    """Point closed standard streams at /dev/null. sys.stdin stays None so that readers can detect it.

    Else the next file that is opened gets the descriptor, be it the ledger's own, and what the
    interpreter or a library prints is written into it. Stdout then cannot be written, as on a full
    disk: an answer that goes nowhere is none.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # what is opened takes the lowest number that is free: this one
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lasts
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as stdout


def buffer_stdout() -> None:
    """Write all of an answer, or say that it could not be, also under PYTHONUNBUFFERED.

    That takes the buffer away, and with it who goes on after a write that was cut short: on a full
    disk, or when a reader goes away, the rest of a long answer would be lost without an error.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)


def stdin_bytes() -> BinaryIO:
    """Return the bytes of stdin.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdin is None:
        raise UsageError("stdin is closed; nothing was read. Name a file, or open stdin.")
    return sys.stdin.buffer


def detach(stream: TextIO) -> None:
    """Point a stream without a reader at /dev/null, so that the interpreter prints no error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def safe(text: object) -> str:
    r"""Return text that cannot steer a terminal or deceive a reader, not even by a line of its own.

    Control characters, newline and tab among them, format characters such as the bidirectional
    ones, lone surrogates and the Unicode line separators come back as `\n`, `\x1b`, `\u202e` …
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    from unicodedata import category

    return "".join(_spelled(char) if not char.isprintable() and category(char) in _ESCAPED else char for char in plain)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts as words: `12 appended, 1 duplicate`; `nothing` when there are none."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def problem_of(receipt: Receipt) -> str:
    """Return the problem of an event that is invalid or in conflict with a stored one."""
    settled = "" if receipt.outcome != "conflict" else f". {UNSETTLED}"
    return f"{receipt.outcome}: {receipt.reason}{settled}"


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Return a count with its noun: `1 grade`, `2 grades`."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def highest_code(codes: Iterable[int]) -> int:
    """Return the highest of several exit codes."""
    return max(codes, default=DONE)
