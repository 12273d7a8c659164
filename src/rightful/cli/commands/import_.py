"""Import exposures, grades, opening balances and transcripts from the files of agent tools.

KIND is the format of the files: `lesson-hook` (the four files of the Claude Code lesson hook, distinguished by their
shape), `session-records` (gptme-sessions), `bandit-state` (the state file of any supported bandit), a
transcript (`gptme`, including the lessons it shows, `claude-code`, `codex`, `copilot`, `grok`),
`openai-agents` (the SQLite session databases of the OpenAI Agents SDK, opened read-only), `agenta` (request bodies of
its ingest endpoint; --json has a receipt for each), `manifest` and `receipts` (gptme's records of single tool
calls), or `auto`, which recognises each file by its content and reports the files it skipped.

PATH is a file, a folder or `-` for stdin. In a folder, the .json and .jsonl files are read, and database files if the
KIND reads databases; links are not followed, and files of other kinds are skipped. A file that you name must be of the
KIND. For `gptme-workspace`, PATH is the folder of one workspace (default: the working folder); the files of gptme and
its tools are found and reported wherever they are kept.

An invalid record is reported with its file and line; the other records are imported. Importing again adds only new
records. A transcript that has grown is read from where the last import ended. An incomplete last line is left for the
next import.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rightful.cli.output import logs, terminal
from rightful.cli.support import import_workspace, ledger_choice
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.importers.engine.file_report import FileReport
    from rightful.importers.engine.formats import Kind
    from rightful.importers.engine.loop import Import


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    from rightful.importers.engine.formats import AUTO, KINDS

    names = [*KINDS, AUTO, import_workspace.KIND]
    parser.add_argument("kind", metavar="KIND", choices=names, help=f"format of the files: {', '.join(names)}")
    parser.add_argument(
        "paths", metavar="PATH", nargs="*",
        help="file, folder, or `-` for stdin; for gptme-workspace its folder (default: .)",
    )  # fmt: skip
    parser.add_argument(
        "--again", action="store_true", help="read transcripts from the start, including parts imported before"
    )
    parser.add_argument(
        "--session-prefix", metavar="TEXT", help="text to put before each session id (openai-agents only)"
    )
    parser.add_argument(
        "--classify", action="store_true",
        help="import nothing; print how deliveries of one record id relate (agenta only)",
    )  # fmt: skip
    parser.add_argument("--watch", action="store_true", help="keep importing changes until SIGINT (Ctrl-C) or SIGTERM")


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
        raise UsageError(f"`import {args.kind}` needs a PATH; nothing was imported. Pass a file, a folder, or `-`.")
    if args.paths.count(STDIN) > 1:
        raise UsageError("stdin can be read only once; nothing was imported. Pass `-` once.")
    if args.classify:
        from rightful.cli.show.show_classified import classify

        return classify(args)
    if args.watch and STDIN in args.paths:
        raise UsageError("stdin cannot be watched; nothing was imported. Name files and folders.")
    wanted = kinds(args.kind if folder is None else AUTO) if args.session_prefix is None else [_prefixed(args)]
    with ledger_choice.open_ledger(args) as ledger:
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
    from rightful.cli.show.show_import import ImportPrinter
    from rightful.cli.support.import_progress import progress
    from rightful.importers.engine.loop import STDIN

    stdin = terminal.stdin_bytes() if STDIN in args.paths else io.BytesIO()
    log, printer = logs.of(args), ImportPrinter(quiet=args.json, again=args.again)
    reports: list[FileReport] = []
    with progress(args.paths) as bar:
        tracked = importing._replace(progress=bar.step)
        for path in args.paths:
            for report in tracked.reports(path, stdin):
                bar.done(report.path)
                log.step("imported", **{key: value for key, value in report.as_dict().items() if key != "receipts"})
                printer.file(report)
                reports += [report] * args.json
            printer.finish_folder(path)
    if args.json:
        terminal.print_json([report.as_dict() for report in reports])
    printer.end()
    return printer.exit_code


def _prefixed(args: argparse.Namespace) -> Kind:
    """Return the kind `openai-agents` with the prefix of its sessions.

    Raises:
        UsageError: Another kind was named, or the prefix cannot begin a session's name.
    """
    from rightful.identity import is_session
    from rightful.importers.openai_agents.sdk_databases import OpenAIAgents

    if args.kind != OpenAIAgents.NAME:
        raise UsageError(
            f"--session-prefix is only for openai-agents, got KIND {args.kind}; nothing was imported. Omit it."
        )
    if not args.session_prefix or not is_session(f"{OpenAIAgents.NAME}:{args.session_prefix}x"):
        raise UsageError(
            f"--session-prefix {args.session_prefix!r} is not valid in a session name; nothing was imported. "
            f"Use a short text such as app2/."
        )
    return OpenAIAgents(args.session_prefix)
