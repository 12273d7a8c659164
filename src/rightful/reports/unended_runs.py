"""Runs that were started and never ended: `rightful run` was killed, or its machine was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from rightful import limits
from rightful.events import SessionEnded, SessionStarted
from rightful.log.log import Log
from rightful.reports.explain.phrases import count, listed
from rightful.reports.session_coverage import Alarm
from rightful.runs import live_runs, run_identity

_TYPES = ("session.started", "session.ended")


def find_unended_runs(log: Log, ledger: Path) -> dict[str, datetime]:
    """Return the runs without an end that are not there, and when each was recorded to begin, the oldest first.

    Those are sought that began among the last `limits.STATUS_ROWS` rows.

    Args:
        log: The ledger's log.
        ledger: Its folder, where a run that is there holds a file.
    """
    live = ledger / run_identity.RUNS / live_runs.LIVE
    there = set(live_runs.live_sessions(live))
    begun: dict[str, datetime] = {}
    for row in log.read(types=_TYPES, after=max(log.head() - limits.STATUS_ROWS, 0)):
        match row.event:
            case SessionStarted(producer=run_identity.PRODUCER, session=name):
                begun[name] = row.recorded_at
            case SessionEnded(producer=run_identity.PRODUCER, session=name):
                begun.pop(name, None)
            case _:
                pass
    there.update(live_runs.live_sessions(live))  # one may have begun meanwhile
    return {name: at for name, at in begun.items() if name not in there}


def alarms(runs: Mapping[str, datetime], last: datetime | None, days: int) -> list[Alarm]:
    """Return that there are such runs, if any began within the last days of the ledger; 0 for all."""
    names = [name for name, at in runs.items() if not days or last is None or last - at < timedelta(days=days)]
    if not names:
        return []
    what = (
        f"{count(len(names), 'run')} never ended and {'is' if len(names) == 1 else 'are'} no longer running "
        f"({listed(names)}): the process was killed, or its machine stopped. `rightful locate SESSION` finds what it "
        "left."
    )
    return [Alarm("unended-runs", what, session=names[-1])]
