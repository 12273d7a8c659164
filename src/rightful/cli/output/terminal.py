"""Terminal output, and the choice of the ledger, for all commands."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

from rightful.errors import LedgerNotFoundError, StorageError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from rightful.cli.support.logs import Log
    from rightful.ledger import Ledger
    from rightful.log.rows import Receipt

FOLDER = ".rightful"
"""The default name of a ledger's folder."""

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
_LOCATION_BYTES = 8_192  # a .git or commondir file holds one path


def open_ledger(args: argparse.Namespace, *, readonly: bool = False) -> Ledger:
    """Open the ledger of a command; use it in a `with` statement.

    Raises:
        LedgerNotFoundError: There is none; only `init` and `demo` create one.
        StorageError: It cannot be opened.
    """
    from rightful import ledger as app
    from rightful.cli.support import logs

    path = ledger_path(args.ledger)
    try:
        ledger = app.open(path, readonly=readonly)
    except LedgerNotFoundError:
        refuse_parent(path)
        raise
    gc.enable()  # all is loaded; see `cli.main`
    logs.of(args).step("opened", path=str(ledger.path), id=ledger.id, events=ledger.log.head())
    if not readonly:
        _drain(ledger, logs.of(args))
    return ledger


def _drain(ledger: Ledger, log: Log) -> None:
    """Append the spooled events of hooks before the command's own work. Failures leave them in the spool."""
    from rightful.integrations.spool.spool_folders import may_wait

    if not may_wait(os.path.realpath(ledger.path), os.environ):
        return
    from rightful import limits
    from rightful.integrations.spool import spool_drain
    from rightful.integrations.spool.spool_files import Spool

    spool = Spool(str(ledger.path), os.environ)
    try:
        if not spool.waiting():
            return
        drained = spool_drain.drain(spool, ledger.log, timeout_s=limits.HOOK_WAIT_S)
    except Exception as error:  # noqa: BLE001 - an error of the spool must not stop the command
        why = str(error) or type(error).__name__
        note_stderr(f"{plural(len(spool.waiting()), 'hook call')} still in the spool: {why}")
        return
    log.step("drained", files=drained.files, aside=len(drained.aside))
    for path in drained.aside:
        note_stderr(
            f"{path} was set aside: it contains an event that can never be stored. "
            f"`rightful hook status claude-code` shows the reason."
        )


def ledger_path(option: str | None, *, start: Path | None = None) -> str:
    """Return where the ledger is: `--ledger`, else RIGHTFUL_LEDGER, else the nearest `.rightful` upwards.

    Args:
        option: The value of `--ledger`.
        start: Where the search begins; the working folder if None.

    Raises:
        UsageError: The name is empty.
        LedgerNotFoundError: None is named and none was found.
    """
    if path := named_ledger(option):
        return path
    start = start or Path.cwd()
    for folder in _upwards(start):
        if _is_ours(folder / FOLDER):
            return str(folder / FOLDER)
    raise LedgerNotFoundError(str(default_parent(start) / FOLDER))


def named_ledger(option: str | None) -> str | None:
    """Return the ledger of `--ledger`, else of RIGHTFUL_LEDGER; None if neither is given.

    Raises:
        UsageError: The name is empty: an unset variable of a script must not select another ledger.
    """
    for where, name in (("--ledger", option), ("RIGHTFUL_LEDGER", os.environ.get("RIGHTFUL_LEDGER"))):
        if name is not None and not name.strip():
            raise UsageError(f"{where} is empty; nothing was done. Pass the path of a folder, or omit it.")
        if name is not None:
            return name
    return None


def refuse_parent(path: str) -> None:
    """Refuse the folder that contains a ledger: the ledger itself must be named.

    Raises:
        StorageError: There is no ledger at the path, and one in its `.rightful`.
    """
    from rightful import ledger as app

    own = app.folder_of(path) / FOLDER
    if (own / "store").is_dir():
        raise StorageError(f"there is no ledger at {path}; nothing was made", f"One is inside: pass --ledger {own}.")


def default_parent(start: Path) -> Path:
    """Return the folder for a new ledger: the main work tree if `start` is in a linked one, else `start`."""
    return main_work_tree(start) or start


def _upwards(start: Path) -> Iterator[Path]:
    """Yield the folders to search; the main work tree first, so that all work trees of a repository share a ledger."""
    if main := main_work_tree(start):
        yield main
        yield from main.parents
    yield start
    yield from start.parents


def _is_ours(folder: Path) -> bool:
    """Return whether it is a folder of this user: another user may have created one in a shared parent."""
    try:
        return folder.is_dir() and (os.geteuid() in {0, folder.stat().st_uid})
    except OSError:
        return False


def main_work_tree(start: Path) -> Path | None:
    """Return the main work tree, if `start` is in a linked git work tree; None elsewhere.

    Reads the `.git` file and the `commondir` it leads to; git is not run. A submodule's `.git`
    file leads to no `commondir`, and a bare repository has no main work tree.
    """
    for folder in (start, *start.parents):
        dot_git = folder / ".git"
        if dot_git.is_dir():
            return None
        if dot_git.is_file() and (text := _location(dot_git)).startswith("gitdir:"):
            own = folder / text.removeprefix("gitdir:").strip()
            if not (common := _location(own / "commondir")):
                continue
            shared = Path(os.path.normpath(own / common))
            return shared.parent if shared.name == ".git" and shared.is_dir() else None
    return None


def _location(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(_LOCATION_BYTES)).strip()
    except (OSError, ValueError):  # a NUL in a path is a ValueError
        return ""


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
