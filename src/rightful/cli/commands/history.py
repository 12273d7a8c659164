"""Show what the model would see next of a session, everything that was ever in its history, or its compactions.

SESSION is its name, or the value behind the namespace. By default the view is shown: what was appended, with what
compactions put in the place of others, without what was taken back or cleared. Nothing of that is ever deleted:
--full shows each item and what became of it, --diff what each compaction covered and what stands for it, and --at
how it was at any position or time. A session whose own history is empty is shown by the one name that links join to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli.output import terminal
from rightful.cli.support import options
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.cli.show.history_answer import Seen
    from rightful.ledger import Ledger

_ITEMS = 200
_COMPACTIONS = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the session, what of its history is shown, as of when, and how much."""
    parser.add_argument("session", metavar="SESSION", help="its name, or the value behind the namespace")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--full", action="store_true", help="show everything that was ever in it, and what became of each item"
    )
    which.add_argument(
        "--diff", action="store_true", help="show what each compaction covered (-) and what stands for it (+)"
    )
    parser.add_argument(
        "--at", metavar="POSITION|TIME",
        help="show it as it was when the ledger ended there, or at a time of recording; default as it is now",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, metavar="N",
        help="only the last N items, with --diff compactions; 0 for all; default 200 and 20, and all with --json",
    )  # fmt: skip
    parser.add_argument(
        "--all", action="store_true", help="shorten no text, nor what is encoded, and leave out nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Print the history."""
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit is a number of items, 0 for all; nothing was shown.")
    with options.opened(args) as ledger:
        at = _position(ledger, args.at)
        seen = _seen(ledger, options.session_with_rows(ledger, args.session), at)
        if seen.is_empty and at is not None and not args.at.isdecimal():
            terminal.note_stderr(
                "Nothing of it had been recorded by then; --at is the time of recording, not that of an event."
            )
    if args.json:
        from rightful.cli.show import history_documents as documents

        make = documents.full if args.full else documents.diff if args.diff else documents.view
        terminal.print_json(make(seen, args.limit or 0))
        return terminal.DONE
    from rightful.cli.show import show_history as told

    show = told.full if args.full else told.diff if args.diff else told.view
    default = 0 if args.all else _COMPACTIONS if args.diff else _ITEMS
    show(seen, default if args.limit is None else args.limit, whole=args.all)
    return terminal.DONE


def _position(ledger: Ledger, given: str | None) -> int | None:
    """Return the position that `--at` gives, or the last one that was recorded by the time that it gives.

    Raises:
        UsageError: It is none of this ledger: a number that was mistyped must not look like the end.
    """
    if given is None:
        return None
    head, at = ledger.log.head(), options.moment(given, "--at", "shown")
    if isinstance(at, str):
        from rightful import times
        from rightful.projections.facts.log_clock import position_at

        return position_at(ledger.log, head, times.us_from(at))
    if at > head:
        raise UsageError(f"--at {given} is beyond the end of this ledger, position {head}; nothing was shown.")
    return at


def _seen(ledger: Ledger, session: str, at: int | None) -> Seen:
    """Return the history of a session; where its own is empty, that of the one name of its run that has one."""
    from rightful.cli.show.history_answer import seen
    from rightful.projections.transcripts.session_rows import names_of

    own = seen(ledger, session, at)
    if not own.is_empty:
        return own
    options.catch_up(ledger)
    found = [seen(ledger, name, at) for name in names_of(ledger.projected(), session)[1:]]
    joined = [one for one in found if not one.is_empty]
    if len(joined) == 1:
        return joined[0]._replace(asked=session)
    return own._replace(joined=tuple(one.session for one in joined))
