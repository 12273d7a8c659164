"""Show the history of a session: what the model would see next, everything ever in it, or its compactions.

SESSION is a session name, or its value without the namespace. By default the view is shown: the appended items, with
summaries in place of compacted items, without popped and cleared items. Nothing is ever deleted: --full shows each item
and its fate, --diff shows what each compaction covered and its summary, and --at shows the history at an earlier
position or time. If the session's own history is empty, the history of the one name that links join to it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import options
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.cli.show.history_answer import HistoryAnswer
    from rightful.ledger import Ledger

_ITEMS = 200
_COMPACTIONS = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the session, what of its history is shown, as of when, and how much."""
    parser.add_argument("session", metavar="SESSION", help="session name, or its value without the namespace")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="show every item that was ever in the history, and its fate")
    which.add_argument("--diff", action="store_true", help="show what each compaction covered (-) and its summary (+)")
    parser.add_argument(
        "--at", metavar="POSITION|TIME",
        help="last position, or time of recording, to include (default: everything)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, metavar="N",
        help="number of last items or compactions; 0 for all (default: 200 or 20; --json: all)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="show whole texts and encoded data, without limits")


def run(args: argparse.Namespace) -> int:
    """Print the history."""
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must be 0 (all items) or more; nothing was shown.")
    with options.open_for_reading(args) as ledger:
        at = _position(ledger, args.at)
        answer = _answer(ledger, options.session_with_rows(ledger, args.session), at)
        if answer.is_empty and at is not None and not args.at.isdecimal():
            terminal.note_stderr(
                "Nothing of it had been recorded by then; --at is a time of recording, not the time of an event."
            )
    if args.json:
        from rightful.cli.show import history_documents as documents

        make = documents.full if args.full else documents.diff if args.diff else documents.view
        terminal.print_json(make(answer, args.limit or 0))
        return terminal.DONE
    from rightful.cli.show import show_history

    show = show_history.full if args.full else show_history.diff if args.diff else show_history.view
    default = 0 if args.all else _COMPACTIONS if args.diff else _ITEMS
    show(answer, default if args.limit is None else args.limit, whole=args.all)
    return terminal.DONE


def _position(ledger: Ledger, given: str | None) -> int | None:
    """Return the position that `--at` gives, or the last one that was recorded by the time that it gives.

    Raises:
        UsageError: It is after the end of this ledger; a typing error must not look like the end.
    """
    if given is None:
        return None
    head, at = ledger.log.head(), options.position_or_time(given, "--at", "shown")
    if isinstance(at, str):
        from rightful import times
        from rightful.projections.facts.log_clock import position_at

        return position_at(ledger.log, head, times.us_from(at))
    if at > head:
        raise UsageError(f"--at {given} is after the end of this ledger, position {head}; nothing was shown.")
    return at


def _answer(ledger: Ledger, session: str, at: int | None) -> HistoryAnswer:
    """Return the history of a session; where its own is empty, that of the one name of its run that has one."""
    from rightful.cli.show.history_answer import answer_of
    from rightful.projections.transcripts.session_rows import names_of

    own = answer_of(ledger, session, at)
    if not own.is_empty:
        return own
    options.catch_up(ledger)
    found = [answer_of(ledger, name, at) for name in names_of(ledger.projected(), session)[1:]]
    joined = [history for history in found if not history.is_empty]
    if len(joined) == 1:
        return joined[0]._replace(requested=session)
    return own._replace(joined=tuple(history.session for history in joined))
