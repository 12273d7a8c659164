"""Show everything that a session said and did: each entry once, in order, with gaps marked.

SESSION is a session name, or its value without the namespace. If nothing was recorded under that name, the entries of
the names that links join to it are shown. Gaps are listed at the top; contradicting rows are listed at each entry. Text
of the session is always indented and cannot steer the terminal; lines at the margin are written by this command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightful.cli.output import terminal
from rightful.cli.support import options
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.ledger import Ledger
    from rightful.projections.bindings import Binding
    from rightful.projections.transcripts.entries import Entry, Transcript

READERS = ("agenta-runner", "agenta-api")
"""The readers in whose form `--as` gives the messages."""

_ENTRIES = 200
_TURNS = 5
_HOLES = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the session, what of it is shown, and in which form."""
    parser.add_argument("session", metavar="SESSION", help="session name, or its value without the namespace")
    parser.add_argument(
        "--require-complete", action="store_true",
        help="show nothing and exit with 1 unless the transcript is complete",
    )  # fmt: skip
    parser.add_argument("--revisions", action="store_true", help="show every row of each entry")
    parser.add_argument(
        "--all", action="store_true", help="also show hidden entries, tool data, usage and quarantined rows"
    )
    parser.add_argument("--full", action="store_true", help="show all entries and their whole text")
    parser.add_argument("--turn", metavar="TURN", help="turn whose entries to show")
    parser.add_argument(
        "--limit", type=int, metavar="N",
        help="number of last entries to show; 0 for all (default: 200, with --json all)",
    )  # fmt: skip
    parser.add_argument(
        "--as", dest="reader", choices=READERS, metavar="READER",
        help=f"format in which to print the messages as JSON: {' or '.join(READERS)}",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the transcript."""
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must be 0 (all entries) or more; nothing was shown.")
    if args.reader and (args.turn is not None or args.limit is not None or args.revisions or args.all):
        raise UsageError("--as excludes --turn, --limit, --revisions and --all; nothing was shown. Omit them.")
    with options.open_for_reading(args) as ledger:
        session = options.session_with_rows(ledger, args.session)
        transcript = ledger.transcript(session, require_complete=args.require_complete, revisions=args.revisions)
        is_empty = all(entry.kind == "data" for entry in transcript.entries)
        bound = (
            [line for binding in _bound(ledger, session) for line in _bound_lines(args, ledger, binding)]
            if is_empty
            else []
        )
    if bound:
        transcript.why = "its transcript is bound but not imported under this name"
    if args.reader:
        _note(transcript)
        terminal.print_json(_messages(transcript, args.reader))
        return terminal.DONE
    before = _cut(transcript, args)
    if args.json:
        terminal.print_json(transcript.as_dict())
        return terminal.DONE
    from rightful.cli.show import show_transcript

    show_transcript.show(transcript, show_transcript.View(before, all=args.all, full=args.full, bound=tuple(bound)))
    return terminal.DONE


def _bound(ledger: Ledger, session: str) -> list[Binding]:
    """Return the transcripts that are bound to a session, or to a name that links join to it, and not imported."""
    from rightful.projections import bindings
    from rightful.projections.transcripts.session_rows import names_of

    names = names_of(ledger.projected(), session)
    rows = (row for name in names for row in ledger.log.read(session=name, types=list(bindings.TYPES)))
    return list(bindings.bindings(rows).all())


def _bound_lines(args: argparse.Namespace, ledger: Ledger, binding: Binding) -> list[str]:
    """Say where a transcript stands that is bound, and which command imports or shows it."""
    import shlex

    from rightful.locate.evidence import evidence_of
    from rightful.locate.find_transcripts import path_of

    path = path_of(binding.uri)
    file = None if path is None else evidence_of(path)
    if path is None or file is None:
        return [f"bound to {path or binding.uri} ({binding.evidence}), which cannot be read as a transcript here"]
    native, words = f"{file.tool}:{file.native_id}", ["rightful", *(["--ledger", args.ledger] if args.ledger else [])]
    if file.native_id is not None and any(ledger.log.of_session(native)):
        said = f"bound to {path} ({binding.evidence}), imported as {native}; show it with:"
        return [said, shlex.join([*words, "transcript", native])]
    command = shlex.join([*words, "import", file.tool, path])
    return [f"bound to {path} ({binding.evidence}), not imported; import it with:", command]


def _cut(transcript: Transcript, args: argparse.Namespace) -> int:
    """Leave of the entries what was asked for; return how many stand before them."""
    if args.turn is not None:
        turns = {entry.turn for entry in transcript.entries}
        if args.turn not in turns:
            named = ", ".join(sorted(turn for turn in turns if isinstance(turn, str))[:_TURNS]) or "none"
            raise UsageError(f"no entry has turn {args.turn!r}; nothing was shown. The turns are: {named}.")
        transcript.entries = [entry for entry in transcript.entries if entry.turn == args.turn]
    default = 0 if args.json or args.full else _ENTRIES
    limit = default if args.limit is None else args.limit
    places = [at for at, entry in enumerate(transcript.entries) if args.json or args.all or _is_visible(entry)]
    before = max(len(places) - limit, 0) if limit else 0
    if before:
        transcript.entries = transcript.entries[places[before] :]
    return before


def _is_visible(entry: Entry) -> bool:
    from rightful.cli.show import show_transcript

    return show_transcript.is_visible(entry)


def _messages(transcript: Transcript, reader: str) -> list[dict[str, Any]]:
    from rightful.projections.transcripts import agenta_readers

    return agenta_readers.runner(transcript) if reader == READERS[0] else agenta_readers.api(transcript)


def _note(transcript: Transcript) -> None:
    """Say what the list of messages cannot: that something is missing."""
    from rightful.projections.facts.completeness import words

    if transcript.completeness == "incomplete":
        more = len(transcript.holes) - _HOLES
        holes = [
            *map(words, transcript.holes[:_HOLES]),
            *([f"and {terminal.plural(more, 'hole')} more"] if more > 0 else []),
        ]
        terminal.note_stderr(f"the transcript is incomplete: {'; '.join(holes)}.")
    if transcript.ambiguous:
        terminal.note_stderr(f"nothing is recorded under {transcript.session} itself: {transcript.ambiguous}.")
