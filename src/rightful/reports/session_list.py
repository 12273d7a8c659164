"""The sessions of a ledger, newest first: times, row counts, producers and transcript states.

The list and the transcript states come from the projections. Rows are read only for the sessions that are
returned.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from rightful import times
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections import bindings
from rightful.projections.facts.completeness import HISTORY, State
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.session_names import Names, parents_of
from rightful.projections.facts.turn_rows import transcript_states
from rightful.projections.projected import Projected

_FORKED, _APPENDED = ("history.forked",), ("history.appended",)


class Bound(msgspec.Struct, frozen=True):
    """A transcript that is bound to a session: its URI, and the evidence of the claim."""

    uri: str
    evidence: str


class HistoryCounts(msgspec.Struct, frozen=True):
    """The number of append batches and of compactions of a history."""

    batches: int
    compactions: int


class Session(msgspec.Struct, frozen=True):
    """A session and a summary of its rows.

    Attributes:
        session: Its name.
        first_at: When the first of it happened, in RFC 3339; where it has no rows, that which names it first.
        last_at: When the last of it did. A file's time counts only where there is no other.
        at_basis: `file` where both are a file's time, an upper bound.
        events: How many rows have its name.
        producers: Who wrote them, the first one first.
        transcript: `complete`, `incomplete` or `unknown`; None where it has none.
        history: The counts of its history; None if it has none.
        bound: The transcripts that are bound to it.
        subagents: How many subagents it has: the names below its own that have no history of their own.
        forks: The names below its own whose history was begun with another one's: forks and branches.
        below: The names below its own that have another history of their own.
    """

    session: str
    first_at: str
    last_at: str
    at_basis: Literal["file"] | None
    events: int
    producers: list[str]
    transcript: State | None
    history: HistoryCounts | None
    bound: list[Bound]
    subagents: int
    forks: list[str]
    below: list[str]


class Sessions(NamedTuple):
    """Some sessions, and how many there are.

    Attributes:
        shown: The newest ones.
        total: How many fit in all.
    """

    shown: list[Session]
    total: int


def sessions(projected: Projected, part: str, limit: int) -> Sessions:
    """Return the sessions that began last, the newest first.

    Names below a session, such as subagents, forks and branches, are returned with it. Names read from a sanitised
    form are not sessions of their own.

    Args:
        projected: The projections of the ledger.
        part: Only sessions whose names contain this.
        limit: At most so many; all if 0.
    """
    facts = projected.catch_up()
    numbers, below = _numbers(facts, part)
    shown = numbers[:limit] if limit else numbers
    states = transcript_states(facts.turns, shown)
    found = [
        _session(projected.log, facts.names, number, states.get(number), below.get(number, [])) for number in shown
    ]
    found.sort(key=lambda session: session.first_at.removesuffix("Z"), reverse=True)  # a whole second has no fraction
    return Sessions(found, len(numbers))


def _numbers(facts: Facts, part: str) -> tuple[list[int], dict[int, list[str]]]:
    """Return the sessions by number, the newest first, and the names below each."""
    names = facts.names
    first, seen = names.column("first"), names.column("seen_us")
    is_known = facts.known_names(facts.watermark)
    known = np.flatnonzero(is_known & (names.column("alias") == 0))
    listed, below = [], dict[int, list[str]]()
    for number in known[np.lexsort((first[known], seen[known]))[::-1]].tolist():
        name = names.text(number)
        found = [outer for text in parents_of(name) if (outer := names.texts.find(text)) is not None]
        known_above = [number for number in found if is_known[number]]
        if known_above:
            below.setdefault(known_above[-1], []).append(name)  # the outermost: only that one is listed
        elif part in name:
            listed.append(number)
    return listed, below


def _session(log: Log, names: Names, number: int, state: State | None, below: list[str]) -> Session:
    name, count, by = names.text(number), 0, dict[str, None]()
    span, kinds = _Times(), Counter[str]()
    for page in log.of_session(name):
        count += len(page)
        by |= dict.fromkeys(row.envelope.producer for row in page)
        kinds.update(row.envelope.type for row in page if row.envelope.outcome in ACCEPTED)
        span.take(page)
    first_us, last_us = span.own or span.of_files or (names.seen_us[number],) * 2
    basis: Literal["file"] | None = None if span.own or not span.of_files else "file"
    is_bound = not kinds.keys().isdisjoint(bindings.TYPES)
    held = bindings.bindings(log.read(session=name, types=list(bindings.TYPES))).all() if is_bound else ()
    bound = [Bound(binding.uri, binding.evidence) for binding in held]
    history = HistoryCounts(kinds["history.appended"], kinds["history.compacted"]) if HISTORY & kinds.keys() else None
    if state is None and history is not None:
        state = "unknown"  # as in `completeness_of`: a history has no expected count
    first_at, last_at = times.text_of(first_us), times.text_of(last_us)
    forks = sorted(name_below for name_below in below if any(log.of_session(name_below, _FORKED)))
    others = sorted(
        name_below for name_below in below if name_below not in forks and any(log.of_session(name_below, _APPENDED))
    )
    subagents = len(below) - len(forks) - len(others)
    return Session(name, first_at, last_at, basis, count, list(by), state, history, bound, subagents, forks, others)


class _Times:
    """The first and the last time of a session's rows: event times, and times of files."""

    def __init__(self) -> None:
        self.own: tuple[int, int] | None = None
        self.of_files: tuple[int, int] | None = None

    def take(self, page: list[Stored]) -> None:
        """Add a page of rows."""
        self.own = _spanned(self.own, [row.envelope.at_us for row in page if row.envelope.at_basis is None])
        self.of_files = _spanned(self.of_files, [row.envelope.at_us for row in page if row.envelope.at_basis])


def _spanned(span: tuple[int, int] | None, more: list[int]) -> tuple[int, int] | None:
    both = [*(span or ()), *more]
    return (min(both), max(both)) if both else None
