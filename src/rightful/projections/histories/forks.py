"""The history that a fork started from: its items are not entries of the fork, but its compactions name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rightful.log.rows import Stored
from rightful.projections.transcripts.session_facts import Fact, SessionRows

RowsOf = Callable[[str, int], Iterable[Stored]]
"""Gives all rows of a session up to a position."""


def parent_facts(facts: Iterable[Fact], others: RowsOf | None) -> list[list[Fact]]:
    """Return the facts of the sessions whose history one was begun with, the earliest session first.

    Each fork lies behind the position that it names, so this ends.
    """
    found: list[list[Fact]] = []
    fork = _fork(facts)
    while others is not None and fork is not None and fork.body is not None:
        gathered = SessionRows(keeps=False)
        for row in others(fork.body.of, fork.body.through):
            gathered.take(row)
        found.insert(0, gathered.facts())
        fork = _fork(found[0])
    return found


def _fork(facts: Iterable[Fact]) -> Fact | None:
    """Return the fork that a history begins with: it lies behind the position that it names, and nothing before it."""
    known = [
        fact for fact in facts if fact.kind.startswith("history_") and fact.body is not None and not fact.withdrawn
    ]
    for fact in sorted(known, key=lambda fact: fact.position):
        if fact.kind != "history_forked":
            return None
        if fact.body is not None and fact.body.through < fact.position:
            return fact
    return None
