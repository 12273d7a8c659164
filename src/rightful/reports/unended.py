"""Runs that were started and never ended: `rightful run` was killed, or its machine was."""

from __future__ import annotations

from pathlib import Path

from rightful import limits
from rightful.events import SessionEnded, SessionStarted
from rightful.ledger.log import Log
from rightful.producers import running, running_lives

_TYPES = ("session.started", "session.ended")


def unended(log: Log, ledger: Path) -> list[str]:
    """Return the runs among the last `limits.STATUS_ROWS` rows that have no end and are not there, the oldest first.

    Args:
        log: The ledger's log.
        ledger: Its folder, where a run that is there holds a file.
    """
    live = ledger / running.RUNS / running_lives.LIVE
    there = set(running_lives.living(live))
    begun: dict[str, None] = {}
    for row in log.read(types=_TYPES, after=max(log.head() - limits.STATUS_ROWS, 0)):
        match row.event:
            case SessionStarted(producer=running.PRODUCER, session=name):
                begun[name] = None
            case SessionEnded(producer=running.PRODUCER, session=name):
                begun.pop(name, None)
            case _:
                pass
    there.update(running_lives.living(live))  # one may have begun meanwhile
    return [name for name in begun if name not in there]
