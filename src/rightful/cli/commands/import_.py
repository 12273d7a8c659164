"""Import exposures, grades, opening balances and transcripts from what agent tools leave.

KIND says what the files are: `lesson-hook` (the four artifacts of the Claude Code lesson hook,
told apart by their shape), `session-records` (gptme-sessions), `bandit-state` (a bandit's
state file, of whichever tool), a transcript (`gptme`, with the lessons that it shows, `claude-code`,
`codex`, `copilot`, `grok`), `openai-agents` (the SQLite databases of the OpenAI Agents SDK's sessions,
read and never written), `agenta` (the bodies of its ingest endpoint; --json has a receipt for
each), `manifest` and `receipts` (gptme's records of single tool calls), or `auto`, which tells each
file by its content and says what it passed over. `gptme-workspace` knows where a workspace of gptme
and its tools keep all of this, and reports what exists; its PATH is the workspace's folder, or the
working folder. Else a PATH is a file, a folder (its .json and .jsonl
files, and databases by the ends of their names where the KIND reads any; links not followed) or `-`.
What is broken is reported with its file and line, and its neighbours are imported. A file that you
name must be of the KIND; in a folder, files of other kinds are passed over. Importing again adds
nothing; what has grown adds its growth. Of a transcript, which its tool appends to, only what grew
is read; its last line may be torn, and waits for the next import.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import import_workspace, logs
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.importers.engine.file_report import FileReport
    from rightful.importers.engine.loop import Import, Kind


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    from rightful.importers.engine.formats import AUTO, KINDS

    names = [*KINDS, AUTO, import_workspace.KIND]
    parser.add_argument("kind", metavar="KIND", choices=names, help=f"one of: {', '.join(names)}")
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="a file, a folder, or `-` for stdin; a workspace's folder (default .)"
    )
    parser.add_argument(
        "--again", action="store_true", help="read transcripts from their beginning, whatever was read of them before"
    )
    parser.add_argument("--session-prefix", metavar="TEXT", help="put TEXT before each session id (openai-agents only)")
    parser.add_argument(
        "--classify", action="store_true",
        help="import nothing; print what the deliveries of each record id are to each other (kind agenta)",
    )  # fmt: skip
    parser.add_argument(
        "--watch", action="store_true", help="go on importing what changes there, until SIGINT (Ctrl-C) or SIGTERM"
    )


def run(args: argparse.Namespace) -> int:
    """Import all paths and answer for each file."""
    from functools import cache

    from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
    from rightful.importers.engine.formats import AUTO, kinds
    from rightful.importers.engine.loop import STDIN, Import

    folder = import_workspace.workspace_of(args.paths) if args.kind == import_workspace.KIND else None
    if folder is not None and args.watch:
        args.paths = import_workspace.watched(folder)
    if folder is None and not args.paths:
        raise UsageError(f"`import {args.kind}` needs a PATH; nothing was imported. Name a file, a folder, or `-`.")
    if args.paths.count(STDIN) > 1:
        raise UsageError("stdin can be read once; nothing was imported. Name `-` once.")
    if args.classify:
        from rightful.cli.show.show_classified import classify

        return classify(args)
    if args.watch and STDIN in args.paths:
        raise UsageError("stdin cannot be watched; nothing was imported. Name files and folders.")
    wanted = kinds(args.kind if folder is None else AUTO) if args.session_prefix is None else [_prefixed(args)]
    with terminal.opened(args) as ledger:
        checkpoints = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log, again=args.again)
        importing = Import(
            ledger.log, wanted, ledger.log.head(), None, checkpoints, args.json, cache(lambda: kinds(AUTO))
        )
        if args.watch:
            from rightful.cli.support.import_watch import watch

            return watch(args, importing)
        if folder is not None:
            return import_workspace.run(args, folder, importing, kinds)
        return _once(args, importing)


def _once(args: argparse.Namespace, importing: Import) -> int:
    from rightful.cli.show.show_import import Teller
    from rightful.cli.support.import_progress import progress
    from rightful.importers.engine.loop import STDIN

    stdin = terminal.stdin() if STDIN in args.paths else io.BytesIO()
    log, teller = logs.of(args), Teller(quiet=args.json, again=args.again)
    reports: list[FileReport] = []
    with progress(args.paths) as told:
        shown = importing._replace(progress=told.step)
        for path in args.paths:
            for report in shown.reports(path, stdin):
                told.done(report.path)
                log.step("imported", **{key: value for key, value in report.as_dict().items() if key != "receipts"})
                teller.file(report)
                reports += [report] * args.json
            teller.folder_done(path)
    if args.json:
        terminal.print_json([report.as_dict() for report in reports])
    teller.end()
    return teller.exit_code


def _prefixed(args: argparse.Namespace) -> Kind:
    """Return the kind `openai-agents` with the prefix of its sessions.

    Raises:
        UsageError: Another kind was named, or the prefix cannot begin a session's name.
    """
    from rightful.identity import is_session
    from rightful.importers.openai_agents.sdk_databases import OpenAIAgents

    if args.kind != OpenAIAgents.NAME:
        raise UsageError(
            f"--session-prefix is for openai-agents, and KIND is {args.kind}; nothing was imported. Leave it out."
        )
    if not args.session_prefix or not is_session(f"{OpenAIAgents.NAME}:{args.session_prefix}x"):
        raise UsageError(
            f"--session-prefix {args.session_prefix!r} cannot begin a session's name; nothing was imported. "
            f"Use a short text such as app2/."
        )
    return OpenAIAgents(args.session_prefix)
