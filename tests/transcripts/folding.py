"""Rows of one session, made by the real log over a recorder in memory, and folded."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.log.memory import MemoryRecorder
from tests.transcripts.sequences import Told

from rightful.log.log import Log
from rightful.log.rows import Stored
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


def conversation(document: Mapping[str, Any]) -> list[Told]:
    """Return what a transcript's JSON tells, in the form of `Case.right`."""
    return [_told(one) for one in document["entries"]]


def _told(entry: Mapping[str, Any]) -> Told:
    marks = tuple(mark for mark in ("late", "conflicts", "unpaired") if entry.get(mark))
    match entry["kind"]:
        case "message":
            return (entry["role"], entry["text"], *marks)
        case "tool_call":
            shown = (entry.get("name"), entry.get("arguments"), entry.get("output"), entry.get("is_error", False))
            return ("call", entry["call"], *shown, *marks)
        case "interaction_requested":
            return ("asked", entry["interaction"], *marks)
        case "interaction_answered":
            return ("answered", entry["interaction"], entry["payload"]["approved"], *marks)
        case "usage":
            return ("usage", entry["counts"], *marks)
        case "turn_ended":
            return ("ended", entry["turn"], entry.get("stop_reason"), *marks)
        case other:
            return (other, entry.get("text"), *marks)
