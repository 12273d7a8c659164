"""Run a command as an agent session with its own identity.

The environment of the command contains a session name, a nonce and the ledger. The command has a private temporary
folder, its own tool log if the tool supports that, and with `--worktree` its own git work tree and index. Its start and
end, its transcript and its commits are recorded. Terminal, signals, streams and exit code belong to the command; this
program writes its own messages to stderr.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

_REST = "..."  # argparse.REMAINDER, whose module need not be loaded to declare it

_APART = (
    "not isolated from other sessions: ports, caches, the user's configuration and credentials, databases, sockets, "
    "and other files outside of this folder"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--item", metavar="ITEM", help="work item of the run; recorded")
    parser.add_argument("--session", metavar="NAME", help="name of the run, usable once (default: a new name)")
    parser.add_argument(
        "--worktree",
        nargs="?",
        const="",
        metavar="PATH",
        help="run in a new git work tree and branch (default PATH: in the ledger's folder)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the work tree and the temporary folder")
    parser.add_argument("--harness", metavar="TOOL", help="agent tool, if it cannot be inferred from the command name")
    parser.add_argument("--model", metavar="MODEL", help="model of the agent; recorded")
    parser.add_argument("--cwd", metavar="DIR", help="folder to run the command in (default: the working folder)")
    parser.add_argument("--report", metavar="FILE", help="file for a JSON report of the run")
    parser.add_argument("--quiet", action="store_true", help="do not print notes")
    parser.add_argument("words", metavar="CMD", nargs=_REST, help="command and its arguments, after `--`")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from rightful.runs import process

    command = _command(args)
    cwd = _folder(args)
    _check_report(args.report)
    if os.sep not in command[0] and shutil.which(command[0]) is None:
        terminal.warn_stderr(f"{command[0]}: program not found; nothing was started or recorded.")
        return process.NOT_FOUND
    session = _session(args)
    with process.blocked_signals() as mask:
        from rightful.cli.support import run_end, run_start

        with ledger_choice.open_ledger(args) as ledger:
            place = run_start.begin(args, ledger, command, cwd, session)
        if place is None:
            return terminal.CONFLICT
        if not args.quiet:
            for line in run_start.notes(place):
                terminal.note_stderr(line)
            terminal.note_stderr(f"this is {place.identity.session}{f'; {_APART}' if place.live_files.before else ''}.")
        if (number := process.pending_end_signal()) is not None:
            ended = process.CommandEnd(process.BY_SIGNAL + number)
        else:
            ended = process.run(place.setup.command, place.environment, place.cwd, mask)
        if ended.why is not None:
            terminal.warn_stderr(f"{command[0]} could not be started: {ended.why}.")
        return run_end.end(args, place, ended.code)


def _command(args: argparse.Namespace) -> list[str]:
    words: list[str] = args.words
    if words[:1] != ["--"] or not words[1:]:
        raise UsageError(
            "the command to run is missing; nothing was started. Put it after `--`: rightful run -- claude -p hello"
        )
    if args.json:
        raise UsageError("stdout belongs to the command; nothing was started. Use --report FILE instead of --json.")
    if not words[1]:
        raise UsageError("the command's name is empty; nothing was started.")
    return words[1:]


def _folder(args: argparse.Namespace) -> Path:
    if args.cwd is not None and not args.cwd:
        raise UsageError("--cwd is empty; nothing was started. Name a folder, or omit it.")
    try:
        cwd = Path(args.cwd or ".").resolve()
        if cwd.is_dir():
            return cwd
    except (OSError, ValueError):
        pass
    raise UsageError(f"--cwd {args.cwd} is not a folder; nothing was started. Name an existing folder.")


def _check_report(report: str | None) -> None:
    """Refuse a report that cannot be written, before the command runs for an hour."""
    if report is None:
        return
    path = Path(report)
    try:
        if report and path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK) and not path.is_dir():
            return
    except (OSError, ValueError):
        pass
    raise UsageError(
        f"--report {report!r} cannot be written; nothing was started. Name a file in an existing folder that you can "
        f"write to."
    )


def _session(args: argparse.Namespace) -> str | None:
    from rightful.identity import is_session
    from rightful.runs.run_identity import NAMESPACE

    if args.session is None:
        return None
    name = args.session if ":" in args.session else f"{NAMESPACE}:{args.session}"
    if not is_session(name):
        raise UsageError(
            f"--session {args.session!r} is not a valid session name; nothing was started. Choose another."
        )
    return str(name)
