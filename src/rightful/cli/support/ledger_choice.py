"""The choice of the ledger, for all commands."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rightful.cli.output import logs, terminal
from rightful.errors import LedgerNotFoundError, StorageError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.cli.output.logs import Log
    from rightful.ledger import Ledger

FOLDER = ".rightful"
"""The default name of a ledger's folder."""

_LOCATION_BYTES = 8_192  # a .git or commondir file holds one path


def open_ledger(args: argparse.Namespace, *, readonly: bool = False) -> Ledger:
    """Open the ledger of a command; use it in a `with` statement.

    Raises:
        LedgerNotFoundError: There is none; only `init` and `demo` create one.
        StorageError: It cannot be opened.
    """
    from rightful import ledger as app

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
        terminal.note_stderr(f"{terminal.plural(len(spool.waiting()), 'hook call')} still in the spool: {why}")
        return
    log.step("drained", files=drained.files, aside=len(drained.aside))
    if drained.files:
        terminal.note_stderr(f"{terminal.plural(drained.files, 'hook call')} from the spool recorded.")
    for path in drained.aside:
        terminal.note_stderr(
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
