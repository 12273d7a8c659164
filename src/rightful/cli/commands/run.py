"""Run a command as an agent session with an identity of its own.

The command gets a name, a nonce and the ledger in its environment, a private folder for temporary
files, the tool's log to itself where the tool allows that, and with `--worktree` its own git work tree
and index. Its start and end, its transcript and its commits are recorded. Terminal, signals, streams
and exit code are the command's own; what is said here goes to stderr.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

_REST = "..."  # argparse.REMAINDER, whose module need not be loaded to declare it

_APART = (
    "not kept apart from other sessions: ports, caches, the user's configuration and credentials, databases, "
    "sockets, and whatever else is named outside of this folder"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--item", metavar="ITEM", help="the work item that it is dispatched for; recorded")
    parser.add_argument("--session", metavar="NAME", help="the run's own name, instead of a new one; used once")
    parser.add_argument(
        "--worktree",
        nargs="?",
        const="",
        metavar="PATH",
        help="run in a git work tree of its own, on a new branch; at PATH, else in the ledger's folder",
    )
    parser.add_argument("--keep", action="store_true", help="keep the work tree and the temporary folder in any case")
    parser.add_argument("--harness", metavar="TOOL", help="which agent tool it is, where its name does not say it")
    parser.add_argument("--model", metavar="MODEL", help="which model it uses; recorded")
    parser.add_argument("--cwd", metavar="DIR", help="where to run it; default the working folder")
    parser.add_argument("--report", metavar="FILE", help="write what is known of the run to a file, as JSON")
    parser.add_argument("--quiet", action="store_true", help="leave notes out")
    parser.add_argument("words", metavar="CMD", nargs=_REST, help="behind `--`: the command and its arguments")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from rightful.runs import process as running_process

    command = _command(args)
    cwd = _folder(args)
    _check_report(args.report)
    if os.sep not in command[0] and shutil.which(command[0]) is None:
        terminal.warn_stderr(f"{command[0]}: there is no such program; nothing was started or recorded.")
        return running_process.NOT_FOUND
    session = _session(args)
    with running_process.held() as mask:
        from rightful.cli.support import run_end, run_start

        with terminal.open_ledger(args) as ledger:
            place = run_start.begin(args, ledger, command, cwd, session)
        if place is None:
            return terminal.CONFLICT
        if not args.quiet:
            for line in run_start.notes(place):
                terminal.note_stderr(line)
            terminal.note_stderr(f"this is {place.identity.session}{f'; {_APART}' if place.held.before else ''}.")
        if (number := running_process.ending()) is not None:
            ended = running_process.Ended(running_process.BY_SIGNAL + number)
        else:
            ended = running_process.run(place.own.command, place.environment, place.cwd, mask)
        if ended.why is not None:
            terminal.warn_stderr(f"{command[0]} could not be started: {ended.why}.")
        return run_end.end(args, place, ended.code)


def _command(args: argparse.Namespace) -> list[str]:
    words: list[str] = args.words
    if words[:1] != ["--"] or not words[1:]:
        raise UsageError(
            "the command to run is missing; nothing was started. Give it behind `--`: rightful run -- claude -p hello"
        )
    if args.json:
        raise UsageError("stdout is the command's own; nothing was started. Use --report FILE instead of --json.")
    if not words[1]:
        raise UsageError("the command's name is empty; nothing was started.")
    return words[1:]


def _folder(args: argparse.Namespace) -> Path:
    if args.cwd is not None and not args.cwd:
        raise UsageError("--cwd is empty; nothing was started. Name a folder, or leave it out.")
    try:
        cwd = Path(args.cwd or ".").resolve()
        if cwd.is_dir():
            return cwd
    except (OSError, ValueError):
        pass
    raise UsageError(f"--cwd {args.cwd} is no folder; nothing was started. Name one that is there.")


def _check_report(asked: str | None) -> None:
    """Refuse a report that cannot be written, before the command runs for an hour."""
    if asked is None:
        return
    path = Path(asked)
    try:
        if asked and path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK) and not path.is_dir():
            return
    except (OSError, ValueError):
        pass
    raise UsageError(
        f"--report {asked!r} cannot be written; nothing was started. Name a file in a folder that is there and that "
        f"you can write to."
    )


def _session(args: argparse.Namespace) -> str | None:
    from rightful.identity import is_session
    from rightful.runs.run_identity import NAMESPACE

    if args.session is None:
        return None
    name = args.session if ":" in args.session else f"{NAMESPACE}:{args.session}"
    if not is_session(name):
        raise UsageError(f"--session {args.session!r} can be no session's name; nothing was started. Choose another.")
    return str(name)
