"""Find the transcript of a session, find the transcripts that records lack, or check bound transcripts.

With SESSION, the answer has two parts: which transcripts were found, and which of them belongs to the session. The
evidence is listed by rank: the id that a tool wrote into the file, the marker in the user's first turn, a pointer file,
the folder of the run, folder and time. Files with weaker evidence, or that two sessions claim, are only candidates. The
modification time of a file is never used.

With --missing, one search covers every record of a `session-records.jsonl` whose transcript is not at the recorded
path. --bind records `transcript.bound` for each transcript with an owner. --write-back writes their paths into the file
and keeps every other byte.

With --check, bound transcripts are compared with their recorded hash: unchanged, grown, changed, moved or gone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import LedgerNotFoundError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.ledger import Ledger
    from rightful.locate.find_transcripts import LedgerSessions, SearchFolders
    from rightful.locate.record_lines import RecordRows

_HISTORIES = "openai-agents"  # the namespace of sessions whose program writes into the ledger itself
_PEEK = 32  # rows that are looked at to tell what a file is that holds no session records


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is sought, where, and what is recorded."""
    parser.add_argument(
        "session", metavar="SESSION", nargs="?",
        help="session name or value; need not be in the ledger",
    )  # fmt: skip
    parser.add_argument("--missing", metavar="FILE", help="session-records.jsonl whose missing transcripts to find")
    parser.add_argument(
        "--check", action="store_true", help="compare bound transcripts with their hash (SESSION, or all sessions)"
    )
    parser.add_argument(
        "--root", metavar="DIR", action="append", default=[],
        help="folder to search (repeatable; default: the folders that the tools use)",
    )  # fmt: skip
    parser.add_argument("--bind", action="store_true", help="record transcript.bound for each transcript with an owner")
    parser.add_argument(
        "--write-back", action="store_true",
        help="write the found paths into the --missing file; keep a backup",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code.

    Raises:
        UsageError: Nothing was asked for, or options that exclude each other.
    """
    if args.missing is not None and (args.check or args.session is not None):
        raise UsageError("SESSION, --missing FILE and --check exclude each other; nothing was searched. Pass one.")
    if args.missing is None and not args.check and args.session is None:
        raise UsageError("a SESSION, --missing FILE or --check is required; nothing was searched. Pass one.")
    if args.write_back and args.missing is None:
        raise UsageError("--write-back needs --missing FILE, the file to write to; nothing was searched.")
    if args.check and args.bind:
        raise UsageError("--check binds nothing; nothing was searched. Locate the session with --bind.")
    if args.check:
        return _check(args)
    return _session(args) if args.missing is None else _missing(args)


@contextlib.contextmanager
def _ledger(args: argparse.Namespace) -> Iterator[Ledger | None]:
    """Open the ledger; None where there is none and nothing has to be written to it."""
    try:
        opened = ledger_choice.open_ledger(args, readonly=not args.bind)
    except LedgerNotFoundError:
        if args.bind or args.check or args.ledger is not None:
            raise
        yield None
        return
    with opened:
        yield opened


def _places(args: argparse.Namespace, ledger: Ledger | None, *more: str | None) -> SearchFolders:
    from rightful.locate import find_transcripts

    here = Path.cwd()
    workspaces = [here, ledger_choice.default_parent(here), *(Path(folder) for folder in more if folder is not None)]
    return find_transcripts.search_folders(
        args.root, os.environ, Path.home(), workspaces, None if ledger is None else ledger.path
    )


def _session(args: argparse.Namespace) -> int:
    from rightful.cli.output import tables
    from rightful.cli.show import show_located
    from rightful.locate import bind, find_transcripts
    from rightful.log.log import now_us

    with _ledger(args) as ledger:
        known = find_transcripts.ledger_sessions(None if ledger is None else ledger.log)
        name = _named(ledger, known, args.session)
        session = known.sessions.get(name)
        where = _places(args, ledger, None if session is None else session.folder)
        with tables.progress("reading transcripts", None, "files") as advance:
            answer, scan = find_transcripts.locate(known, name, where, advance)
        bound = bind.bind(ledger.log, [answer], now_us) if ledger is not None and args.bind else ()
    before = known.bindings.of(name)
    if args.json:
        terminal.print_json(show_located.answer_document(answer, scan, before, bound))
    else:
        show_located.show_answer(answer, scan, before, bound)
    return terminal.highest_code(
        [show_located.failed(bound), terminal.CHECK_SAID_NO if answer.owner is None else terminal.DONE]
    )


def _named(ledger: Ledger | None, known: LedgerSessions, text: str) -> str:
    """Return the session that a person means.

    Raises:
        UsageError: There is none, or its transcript is the ledger's own: what a program appended to a history.
    """
    from rightful.locate import find_transcripts

    if ledger is not None and text not in known.sessions and (name := _session_beginning(ledger, text)) is not None:
        return name
    try:
        return find_transcripts.resolve_name(known, text)
    except UsageError:
        names = [candidate for candidate in (text, f"{_HISTORIES}:{text}") if candidate.startswith(f"{_HISTORIES}:")]
        found = [candidate for candidate in names if ledger is not None and any(ledger.log.of_session(candidate))]
        if not found:
            if ledger is not None:
                _refuse_several(ledger, text)
            raise
    raise UsageError(
        f"{found[0]} has no transcript file: its entries are recorded in this ledger, and nothing was searched. "
        f"`rightful transcript` and `rightful history` show them."
    )


def _session_beginning(ledger: Ledger, text: str) -> str | None:
    """Return the session of the ledger that is meant, as every other command finds it; None where there is none."""
    from rightful.cli.support import options

    with contextlib.suppress(UsageError):
        name = options.session_named(ledger, text)
        return None if name.startswith(f"{_HISTORIES}:") else name
    return None


def _refuse_several(ledger: Ledger, text: str) -> None:
    """Raise the error of every other command, which lists them, if several sessions of the ledger begin so."""
    from rightful.cli.support import options

    if options.sessions_beginning(ledger.projected().facts, text):
        options.session_named(ledger, text)


def _missing(args: argparse.Namespace) -> int:
    from rightful import limits
    from rightful.backfill import reference_repair, target_file
    from rightful.cli.output import tables
    from rightful.cli.show import show_located
    from rightful.locate import bind, find_transcripts, record_lines
    from rightful.log.log import now_us

    real = target_file.resolved(args.missing)
    looked = target_file.read_plannable(real, limits.REPLACED_BYTES)
    if looked.data is None:
        raise UsageError(f"--missing {args.missing}: file not found; nothing was searched.")
    read = record_lines.rows_of(looked.data, real)
    if read.rows and (kind := _kind_of(read)) is not None:
        raise UsageError(
            f"--missing {args.missing} contains no session records, it looks like a file of the kind {kind}; nothing "
            f"was searched. Name a session-records.jsonl."
        )
    with _ledger(args) as ledger:
        known = find_transcripts.ledger_sessions(None if ledger is None else ledger.log)
        where = _places(args, ledger, record_lines.workspace_of(real))
        with tables.progress("reading transcripts", None, "files") as advance:
            found = find_transcripts.find_missing(known, read.rows, where, advance)
        answers = list(found.answers.values())
        bound = bind.bind(ledger.log, answers, now_us) if ledger is not None and args.bind else ()
    owners = {answer.session: answer.owner.file.path for answer in answers if answer.owner is not None}
    written = reference_repair.write_back(real, looked, found.rows, owners) if args.write_back else None
    if args.json:
        terminal.print_json(show_located.missing_document(real, read, found, bound, written))
    else:
        show_located.show_missing(real, read, found, bound, written)
    unowned = any(row.session is None or row.session.name not in owners for row in found.rows)
    return terminal.highest_code([show_located.failed(bound), terminal.CHECK_SAID_NO if unowned else terminal.DONE])


def _kind_of(read: RecordRows) -> str | None:
    """Return which kind rows look like, none of which is a session record; None where they look like nothing."""
    from itertools import islice

    from rightful.importers.engine.formats import AUTO, kinds
    from rightful.importers.session_records import SessionRecords

    own = SessionRecords()
    if any(own.recognises(row.value) or row.session is not None for row in read.rows):
        return None
    every = kinds(AUTO)
    return next((kind.NAME for row in islice(read.rows, _PEEK) for kind in every if kind.recognises(row.value)), None)


def _check(args: argparse.Namespace) -> int:
    from rightful.cli.output import tables
    from rightful.cli.show import show_located
    from rightful.locate import check_bound, find_transcripts

    with _ledger(args) as ledger:
        known = find_transcripts.ledger_sessions(None if ledger is None else ledger.log)
        name = None if args.session is None else _named(ledger, known, args.session)
        with tables.progress("looking at transcripts", None, "files") as advance:
            found = check_bound.check(known, _places(args, ledger), name, advance)
        split = {session: uris for session, uris in known.bindings.split().items() if name in {None, session}}
    if args.json:
        terminal.print_json(show_located.check_document(found, split))
    else:
        show_located.show_check(found, split)
    return terminal.DONE if all(checked.is_good for checked in found) else terminal.CHECK_SAID_NO
