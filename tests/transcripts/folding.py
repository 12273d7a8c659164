"""Rows of one session, made by the real log over a recorder in memory, and folded."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.ledger.memory import MemoryRecorder

from rightful.ledger.log import Log
from rightful.ledger.recorded import Stored
from rightful.projections.transcripts import Transcript, fold

SESSION = "t:a"


def log_of(events: Sequence[dict[str, Any]], sizes: Iterable[int] = ()) -> Log:
    """A log to which events were appended in batches of these sizes, the rest at once."""
    log = Log(MemoryRecorder(), path="here", clock=lambda: 1_785_500_000_000_000, entropy=bytes)
    rest = list(events)
    for size in sizes:
        log.append(rest[:size])
        rest = rest[size:]
    receipts = log.append(rest)
    assert "invalid" not in {one.outcome for one in receipts}, receipts
    return log


def rows_of(log: Log, session: str = SESSION) -> list[Stored]:
    return [row for page in log.of_session(session) for row in page]


def folded(
    events: Sequence[dict[str, Any]], session: str = SESSION, sizes: Iterable[int] = (), **how: Any
) -> Transcript:
    return fold(session, rows_of(log_of(events, sizes), session), **how)


def cut(events: Sequence[Any], random_: random.Random) -> list[int]:
    """Sizes of batches."""
    return [random_.randint(0, 3) for _ in range(len(events))]
