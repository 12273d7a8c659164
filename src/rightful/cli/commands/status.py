"""Show the state of a ledger, and whether exposures, grades and bindings are still being recorded.

First the facts: the number of events, the time of the last one, the size on disk, the processes that have it open, and
how far the projections are folded. Then, per producer and day, how many sessions have an exposure, a grade and a
binding, and the bins of their grades. Then warnings. --sessions lists the sessions instead. Nothing is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightful import limits
from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice, options
from rightful.errors import RightfulError, UsageError
from rightful.integrations.spool.spool_files import Spool
from rightful.storage import locks

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from rightful.cli.support.options import NamedPolicy
    from rightful.ledger import Ledger
    from rightful.reports.session_coverage import Alarm, Day

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the disk's own is
_DAYS = 14
_RUNS = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the policy of the bins, how many days, and whether warnings are an answer of no."""
    parser.add_argument(
        "--policy", metavar="NAME|FILE|JSON", help="policy that assigns grades to bins (default: bound)"
    )
    parser.add_argument(
        "--days", type=int, metavar="N",
        help=f"number of last days to show and check; 0 for all (default: {_DAYS})",
    )  # fmt: skip
    parser.add_argument("--check", action="store_true", help="exit with 1 on warnings or hook input set aside")
    parser.add_argument(
        "--sessions", metavar="TEXT", nargs="?", const="",
        help="list sessions instead, newest first; TEXT must be in the name",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, metavar="N", help="number of sessions to list; 0 for all (default: 20)")


def run(args: argparse.Namespace) -> int:
    """Print the facts, the coverage and the warnings."""
    if args.days is not None and args.days < 0:
        raise UsageError("--days must be 0 (all days) or more; nothing was counted.")
    if args.sessions is not None:
        return _list(args)
    if args.limit is not None:
        raise UsageError("--limit needs --sessions; nothing was counted.")
    from rightful.reports.contradictions import contradictions

    policy = options.policy_named(args.policy or "bound")
    with ledger_choice.open_ledger(args, readonly=True) as ledger:
        facts, unended = _facts(ledger)
        code, conflict = terminal.DONE, None
        try:
            rows, warnings, why = _coverage(args, ledger, policy)
            conflict = None if rows is None else _conflict(ledger)
            warnings = [*warnings, *contradictions(ledger.log, everything=args.check)]
        except RightfulError as error:
            rows, warnings, why = None, [], str(error)
            code = error.exit_code if args.check else code
    if unended:
        from rightful.reports.unended_runs import alarms

        warnings = [*warnings, *alarms(unended, facts["last_recorded_at"], _days(args))]
    if args.check and (warnings or facts["spool"]["aside"]) and code == terminal.DONE:
        code = terminal.CHECK_SAID_NO
    if args.json:
        terminal.print_json({**facts, **_document(args, policy, rows, warnings, why)})
    else:
        _show(facts)
        _show_coverage(args, policy, rows, warnings, why)
        if conflict is not None:
            terminal.wrap_stdout(conflict)
        if rows and not warnings and not facts["spool"]["aside"]:
            terminal.wrap_stdout("No warnings.")
    return code


def _list(args: argparse.Namespace) -> int:
    if args.check or args.days is not None or args.policy is not None:
        raise UsageError("--sessions excludes --check, --days and --policy; nothing was listed. Omit them.")
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit must be 0 (all sessions) or more; nothing was listed.")
    from rightful.cli.show import show_sessions

    return show_sessions.run(args)


def _facts(ledger: Ledger) -> tuple[dict[str, Any], dict[str, datetime] | None]:
    """Return the facts, and the runs without an end with their times."""
    status = ledger.status()
    folder, spool = Path(status.path), Spool(status.path, os.environ)
    unended = _unended(ledger, folder)
    facts = {
        "path": status.path,
        "id": status.id,
        "events": status.events,
        "last_recorded_at": status.last_recorded_at,
        "watermark": status.watermark,
        "bytes": _bytes_on_disk(folder),
        "openers": [who for who in locks.holders(folder / "ledger.lock") if who != f"pid {os.getpid()}"],
        "spool": {"waiting": len(spool.waiting()), "aside": len(spool.aside())},
        "unended_runs": None if unended is None else list(unended),
    }
    return facts, unended


def _unended(ledger: Ledger, folder: Path) -> dict[str, datetime] | None:
    """Return the runs without an end; None where a row cannot be read, as the coverage says."""
    from rightful.reports.unended_runs import find_unended_runs

    try:
        return find_unended_runs(ledger.log, folder)
    except RightfulError:
        return None


def _coverage(
    args: argparse.Namespace, ledger: Ledger, policy: NamedPolicy
) -> tuple[list[Day] | None, list[Alarm], str | None]:
    """Return coverage and warnings; None and why where a plain `status` would fold for too long."""
    behind = ledger.projected().behind()
    is_requested = args.check or args.days is not None or args.policy is not None
    if behind > limits.STATUS_ROWS and not is_requested:
        why = (
            f"{behind:,} rows are not folded yet. "
            f"`rightful posteriors` folds and saves them; `rightful status --days {_DAYS}` folds them without saving."
        )
        return None, [], why
    options.catch_up(ledger)
    from rightful.reports import alarms, session_coverage

    ground = session_coverage.ground_of(ledger.projected(), policy.policy)
    rows = session_coverage.days_of(ground)
    return rows, [*session_coverage.drops(rows, _days(args)), *alarms.alarms(ground, ledger.log)], None


def _conflict(ledger: Ledger) -> str | None:
    """Return how many rows conflict with an earlier row, and where they can be seen; None if there are none."""
    from rightful.projections.credit.runs import quarantine_of

    facts = ledger.projected().catch_up()
    rows = quarantine_of(facts, facts.watermark).unusable
    if not len(rows):
        return None
    outcomes = [row.envelope.outcome for at in rows for page in ledger.log.scan(int(at) - 1, int(at)) for row in page]
    count = outcomes.count("conflict")
    have, last = ("row has", "it") if count == 1 else ("rows have", "the last of them")
    return f"{count:,} {have} the id of another row and other content. `rightful explain '#{rows[-1]}'` shows {last}."


def _days(args: argparse.Namespace) -> int:
    return _DAYS if args.days is None else int(args.days)


def _bytes_on_disk(folder: Path) -> int:
    """What the folder takes, by the blocks that are allocated: the map is sparse. Opens no file."""
    found = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_blocks * _BLOCK_BYTES for path in found)


def _document(
    args: argparse.Namespace, policy: NamedPolicy, rows: list[Day] | None, warnings: list[Alarm], why: str | None
) -> dict[str, Any]:
    """All days in JSON, unless `--days` limits them."""
    from rightful.reports import session_coverage

    kept = None if rows is None else session_coverage.newest(rows, args.days or 0)
    hashed = {**policy.policy.as_dict(), "hash": policy.policy.hash}
    held = None if rows is None else session_coverage.transcripts(rows)
    return {"policy": hashed, "transcripts": held, "coverage": kept, "why_no_coverage": why, "warnings": warnings}


def _show(facts: dict[str, Any]) -> None:
    from rightful.cli.output import tables

    last, behind = facts["last_recorded_at"], facts["watermark"] < facts["events"]
    tables.show_facts(
        {
            "ledger": facts["path"],
            "id": facts["id"],
            "events": f"{facts['events']:,}",
            "last recorded": last.isoformat(" ", "seconds") if last else "never",
            "projected": f"{facts['watermark']:,} of {facts['events']:,}"
            + (" (the next credit query, such as `rightful posteriors`, processes the rest)" if behind else ""),
            "on disk": tables.size(facts["bytes"]),
            "also open in": ", ".join(facts["openers"]) or "no other process",
            **_spooled(**facts["spool"]),
            **_killed(facts["unended_runs"]),
        }
    )


def _spooled(waiting: int, aside: int) -> dict[str, str]:
    """Return what a hook could not write, where there is something."""
    parts = [f"{terminal.plural(waiting, 'call')} {'waits' if waiting == 1 else 'wait'}"] if waiting else []
    parts += [f"{terminal.plural(aside, 'input')} set aside"] if aside else []
    said = f"{' and '.join(parts)}; `rightful hook status claude-code` shows details"
    return {"hook's spool": said} if parts else {}


def _killed(runs: list[str] | None) -> dict[str, str]:
    """Return which runs were killed, where there are some."""
    if not runs:
        return {}
    more = f"{len(runs) - _RUNS} earlier and " if len(runs) > _RUNS else ""
    said = f"{more}{', '.join(runs[-_RUNS:])}; `rightful locate SESSION` finds what one left"
    return {"runs without end": said}


def _show_coverage(
    args: argparse.Namespace, policy: NamedPolicy, rows: list[Day] | None, warnings: list[Alarm], why: str | None
) -> None:
    if why is not None:
        terminal.wrap_stdout(f"\nNo coverage: {why}")
    if rows:
        from rightful.cli.show import show_coverage

        show_coverage.show_transcripts(rows)
        show_coverage.show(rows, _days(args), policy.title)
    for warning in warnings:
        terminal.wrap_stdout(f"warning: {warning.what}")
