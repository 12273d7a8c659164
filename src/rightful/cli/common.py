"""What every command shares: which ledger is meant, what is printed and how."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rightful.errors import LedgerNotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from rightful.app import Ledger

FOLDER = ".rightful"
"""Name of a ledger's folder where nobody names another."""

DONE: Final = 0
CHECK_SAID_NO: Final = 1
INVALID: Final = 2
CONFLICT: Final = 3
STORAGE: Final = 4

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LOCATION_BYTES = 8_192  # a .git or commondir file holds one path


def opened(args: argparse.Namespace, *, readonly: bool = False) -> Ledger:
    """Open the ledger that a command is meant for; use it in a `with` statement.

    Raises:
        LedgerNotFoundError: There is none; only `init` and `demo` make one.
        StorageError: It cannot be opened.
    """
    from rightful import app
    from rightful.cli import logs

    ledger = app.open(located(args.ledger), readonly=readonly)
    logs.of(args).step("opened", path=str(ledger.path), id=ledger.id, events=ledger.log.head())
    return ledger


def located(asked: str | None, *, start: Path | None = None) -> str:
    """Return where the ledger is: as asked, else RIGHTFUL_LEDGER, else the nearest `.rightful` upwards.

    Args:
        asked: What `--ledger` said.
        start: Where the search begins; the working folder if None.

    Raises:
        LedgerNotFoundError: Nobody named one and none was found.
    """
    if named := asked or os.environ.get("RIGHTFUL_LEDGER"):
        return named
    start = start or Path.cwd()
    for folder in _upwards(start):
        if _is_ours(folder / FOLDER):
            return str(folder / FOLDER)
    raise LedgerNotFoundError(str(home(start) / FOLDER))


def home(start: Path) -> Path:
    """Return where a ledger of this place belongs: the main work tree in a linked one, else `start`."""
    return main_work_tree(start) or start


def _upwards(start: Path) -> Iterator[Path]:
    """The main work tree comes first, so that all work trees of a repository share one ledger."""
    if main := main_work_tree(start):
        yield main
        yield from main.parents
    yield start
    yield from start.parents


def _is_ours(folder: Path) -> bool:
    """Say whether it is a folder and ours: a stranger may have planted one in a shared parent."""
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
    print(json_text(document))


def json_text(document: object) -> str:
    """Return a document as JSON text: structs and times included, non-finite numbers refused."""
    return json.dumps(document, default=_builtins, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _builtins(value: object) -> Any:  # noqa: ANN401 - any JSON value
    import msgspec

    return msgspec.to_builtins(value)


def say(text: str) -> None:
    """Print text for people on stdout, safe for a terminal."""
    print(safe(text))


def complain(text: str) -> None:
    """Print a sentence on stderr, safe for a terminal. Nobody reading it is no reason to stop the work."""
    try:
        print(f"rightful: {safe(text)}", file=sys.stderr)
    except BrokenPipeError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """Let a stream that nobody reads any more lead nowhere, or the interpreter complains at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def safe(text: object) -> str:
    r"""Return text that cannot steer a terminal or deceive a reader.

    Control characters (but newline and tab), format characters such as the bidirectional ones,
    lone surrogates and the Unicode line separators come back as `\x1b`, `\u202e` …
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    from unicodedata import category

    return "".join(
        _spelled(char) if not char.isprintable() and char not in "\n\t" and category(char) in _ESCAPED else char
        for char in shown
    )


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as words: `12 appended, 1 duplicate`; `nothing` when there are none."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def worst(codes: Iterable[int]) -> int:
    """Return the highest of several exit codes."""
    return max(codes, default=DONE)
