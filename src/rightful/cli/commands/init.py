"""Create a ledger.

Without PATH, the ledger is created at `--ledger`, else at RIGHTFUL_LEDGER, else as `.rightful` in the working
folder. In a linked git work tree it is created in the main work tree. An existing ledger is not changed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rightful import ledger as app
from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import LedgerNotFoundError, UsageError
from rightful.storage.environment import store_files

if TYPE_CHECKING:
    import argparse

_BEGUN = frozenset({"ledger.lock", "writer.lock", "queue.lock", store_files.HALF_MADE, ".gitignore"})
"""What an `init` that was killed may leave; it is made whole by another one."""

_IGNORED = "# A ledger holds what sessions said; it does not belong in a repository.\n*\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("path", metavar="PATH", nargs="?", help="folder of the new ledger; created if missing")


def run(args: argparse.Namespace) -> int:
    """Make the ledger, unless it is there."""
    if args.path is not None and not args.path.strip():
        raise UsageError("PATH is empty; nothing was created. Pass the path of a folder, or omit it.")
    path = (
        args.path
        or ledger_choice.named_ledger(args.ledger)
        or str(ledger_choice.default_parent(Path.cwd()) / ledger_choice.FOLDER)
    )
    created = _create(path)
    with app.open(path, readonly=True) as ledger:
        folder, own_id, events = str(ledger.path), ledger.id, ledger.log.head()
    if args.json:
        terminal.print_json({"path": folder, "id": own_id, "created": created})
    elif created:
        terminal.print_stdout(f"Created the ledger {folder}.")
    else:
        terminal.print_stdout(
            f"{folder} is already a ledger, with {terminal.plural(events, 'event')}; nothing was changed."
        )
    return terminal.DONE


def _create(path: str) -> bool:
    """Make the ledger and return True, or find that it is there."""
    if app.folder_of(path).is_file():
        raise UsageError(f"{path} is a file; it was not changed and nothing was created. Name a new or empty folder.")
    try:
        app.open(path, readonly=True).close()
    except LedgerNotFoundError:
        folder = app.folder_of(path)
        if folder.is_dir() and any(entry.name not in _BEGUN for entry in folder.iterdir()):
            own = folder / ledger_choice.FOLDER
            raise UsageError(f"{folder} is not empty; nothing was created. Name an own folder, such as {own}") from None
        app.open(path, create=True).close()
        _ignore(folder)
        return True
    return False


def _ignore(folder: Path) -> None:
    """Keep the ledger out of a git repository around it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError), os.fdopen(os.open(folder / ".gitignore", flags, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(_IGNORED)
