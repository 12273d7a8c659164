"""Text output of `status --sessions`: a few lines per session, because names are too long for a table."""

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
        producers = f" by {', '.join(session.producers)}" if session.producers else ""
        events = terminal.plural(session.events, "event")
        terminal.print_stdout(session.session)
        terminal.wrap_stdout(f"    {_when(session)}; {events}{producers}", f"    {_transcript(session)}")
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
    return f"{text[:10]} {text[11:19]}Z"


def _transcript(session: Session) -> str:
    text = "no transcript" if session.transcript is None else f"transcript {session.transcript}"
    if (kept := session.history) is not None:
        compacted = f", {terminal.plural(kept.compactions, 'compaction')}" if kept.compactions else ""
        text += f"; history of {terminal.plural(kept.batches, 'batch', 'batches')}{compacted}"
    if session.bound:
        evidence = ", ".join(sorted({binding.evidence for binding in session.bound}))
        text += f"; {terminal.plural(len(session.bound), 'file')} bound ({evidence})"
    if session.subagents:
        text += f"; {terminal.plural(session.subagents, 'subagent')}"
    if session.forks:
        text += f"; {terminal.plural(len(session.forks), 'fork')}: {options.names_text(session.forks)}"
    if session.below:
        text += f"; {terminal.plural(len(session.below), 'session')} below it: {options.names_text(session.below)}"
    return text
