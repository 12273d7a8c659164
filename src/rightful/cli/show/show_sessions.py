"""What `rightful status --sessions` says: a few lines a session, since names are long and columns few."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice, options

if TYPE_CHECKING:
    import argparse

    from rightful.reports.session_list import Session

LIMIT = 20
"""The default number of listed sessions."""


def run(args: argparse.Namespace) -> int:
    """Print the newest sessions."""
    from rightful.reports.session_list import sessions

    limit = LIMIT if args.limit is None else args.limit
    with ledger_choice.open_ledger(args, readonly=True) as ledger:
        options.catch_up(ledger)
        found = sessions(ledger.projected(), args.sessions, limit)
    if args.json:
        terminal.print_json({"sessions": found.shown, "total": found.total})
        return terminal.DONE
    for session in found.shown:
        terminal.print_stdout(session.session)
        terminal.wrap_stdout(
            f"    {_when(session)}; {terminal.plural(session.events, 'event')}{_by(session)}",
            f"    {_transcript(session)}",
        )
    if not found.total:
        fits = f"whose name contains {args.sessions!r} " if args.sessions else ""
        terminal.wrap_stdout(f"No session {fits}is in this ledger.")
    elif len(found.shown) < found.total:
        terminal.wrap_stdout(f"and {found.total - len(found.shown):,} that began before; --limit 0 lists all.")
    return terminal.DONE


def _when(session: Session) -> str:
    first, last = (_short(text) for text in (session.first_at, session.last_at))
    if session.at_basis is not None:
        return f"before {last}"
    if first == last:
        return first
    return f"{first} to {last.partition(' ')[2] if first[:10] == last[:10] else last}"


def _short(text: str) -> str:
    """Return a time to the second, as in a transcript."""
    return f"{text[:10]} {text[11:19]}Z"


def _by(session: Session) -> str:
    return f" by {', '.join(session.producers)}" if session.producers else ""


def _transcript(session: Session) -> str:
    said = "no transcript" if session.transcript is None else f"transcript {session.transcript}"
    if (kept := session.history) is not None:
        compacted = f", {terminal.plural(kept.compactions, 'compaction')}" if kept.compactions else ""
        said += f"; history of {terminal.plural(kept.batches, 'batch', 'batches')}{compacted}"
    if session.bound:
        evidence = ", ".join(sorted({held.evidence for held in session.bound}))
        said += f"; {terminal.plural(len(session.bound), 'file')} bound ({evidence})"
    if session.subagents:
        said += f"; {terminal.plural(session.subagents, 'subagent')}"
    if session.forks:
        said += f"; {terminal.plural(len(session.forks), 'fork')}: {options.names_text(session.forks)}"
    if session.below:
        said += f"; {terminal.plural(len(session.below), 'session')} below it: {options.names_text(session.below)}"
    return said
