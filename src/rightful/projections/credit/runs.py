"""Runs: which session names the links join, for any prefix of the log.

A run is a connected component of links with exactly one name that is never the `other` of a
link; that is the own name of the run. Everything else is ambiguous and credits no arm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rightful.projections.facts import identity_claims
from rightful.projections.facts.columns import Column, Ints, Mask
from rightful.projections.facts.facts import CWD_WINDOW, NATIVE, Facts


class Quarantine(NamedTuple):
    """Which rows do not count, by position.

    Attributes:
        unusable: Rows of an id in conflict; sorted.
        void: Rows that were withdrawn, or that a settled conflict left out; sorted.
    """

    unusable: Ints
    void: Ints


class Runs(NamedTuple):
    """Which run each name belongs to.

    Attributes:
        of: For each name, the number of the own name of its run.
        ambiguous: For each name, whether its links do not say which run it belongs to.
        reused: For each name, whether two runs started under it, or a row of it claims another session's transcript:
            its run is not known.
    """

    of: Column
    ambiguous: Mask
    reused: Mask

    def is_linked(self) -> Mask:
        """Return which names share their run with another name."""
        shared: Mask = self.of != np.arange(len(self.of))
        shared[self.of[shared]] = True
        return shared


class Links(NamedTuple):
    """The links in force: columns of one row a pair."""

    session: Ints
    other: Ints
    marked: Mask


def quarantine_of(facts: Facts, through: int) -> Quarantine:
    """Return which rows up to a position stand in conflict, and which were withdrawn.

    An id in conflict pays no arm until withdrawals leave exactly one of its rows; so the order
    of arrival decides nothing. An event of any other id is withdrawn by its own producer alone.
    """
    unusable: list[int] = []
    void: list[int] = []
    settled: set[str] = set()
    for event_id in facts.quarantine:
        known = facts.conflicting(event_id, through)  # none where the conflict is behind the position
        gone = {revision for _, revision in facts.withdrawals(event_id, through)} if known else set()
        left = [position for revision, position in known.items() if revision not in gone]
        void += [position for revision, position in known.items() if revision in gone]
        if known:
            settled.add(event_id)
        if len(left) > 1:
            unusable += left
    for event_id in facts.named.keys() - settled:
        void += facts.withdrawn_rows(event_id, through)
    return Quarantine(np.array(sorted(unusable), np.int64), np.array(sorted(void), np.int64))


def withdrawn_by(facts: Facts, position: int, through: int) -> list[int]:
    """Return the positions of the withdrawals that leave the row at a position without effect."""
    for event_id in facts.quarantine:
        known = facts.conflicting(event_id, through)
        if position in known.values():
            found = facts.withdrawals(event_id, through)
            return sorted(at for at, revision in found if known.get(revision) == position)
    for event_id, rows in facts.named.items():
        for at, producer in rows.values():
            if at == position:
                return sorted(by for by, _ in facts.withdrawals(event_id, through, producer))
    return []


def runs_of(facts: Facts, through: int, quarantine: Quarantine, among: Mask | None = None) -> Runs:
    """Return the runs that the links up to a position make.

    `among` limits the names, as a mask; it must be closed under `Names.closure`, or the answer is about half of a run.
    """
    size = len(facts.names)
    of = np.arange(size, dtype=np.int32)
    ambiguous = np.zeros(size, np.bool_)
    links = _in_force(facts, through, quarantine, among)
    as_session = np.bincount(links.session, minlength=size)
    as_other = np.bincount(links.other, minlength=size)
    simple = (as_session[links.session] == 1) & (as_other[links.session] == 0)
    simple &= (as_other[links.other] == 1) & (as_session[links.other] == 0)
    of[links.other[simple]] = links.session[simple]
    rest = ~simple
    _join(Links(links.session[rest], links.other[rest], links.marked[rest]), of, ambiguous)
    reused = np.zeros(size, np.bool_)
    for number in _reused(facts, through, quarantine):
        ambiguous |= of == of[number]
        reused[number] = True
    of[ambiguous] = np.flatnonzero(ambiguous)
    return Runs(of, ambiguous, reused)


IN_FORCE, UNUSABLE, VOID, ELSEWHERE, UNLINKS, UNDONE, WEAKER, SECOND_GUESS = range(8)
"""What a link or unlink comes to: see `link_states`."""


def link_states(facts: Facts, through: int, quarantine: Quarantine, among: Mask | None = None) -> Column:
    """Return what each row of `facts.links` up to a position comes to.

    `IN_FORCE`; `UNUSABLE`, its id stands in conflict; `VOID`, it was withdrawn; `ELSEWHERE`, not
    among the names asked for; `UNLINKS`, it withdraws others; `UNDONE`, it was unlinked later;
    `WEAKER`, a `cwd-window` claim on a name that better evidence claims; `SECOND_GUESS`, a native
    `cwd-window` claim of a run that has a native name by better evidence.
    """
    table = facts.links
    end = int(np.searchsorted(table["pos"], through, "right"))
    pos, session, other = (table[name][:end].astype(np.int64) for name in ("pos", "session", "other"))
    relation, evidence, unlink = (table[name][:end] for name in ("relation", "evidence", "unlink"))
    state = np.full(end, IN_FORCE, np.int8)
    state[np.isin(pos, quarantine.unusable)] = UNUSABLE
    state[np.isin(pos, quarantine.void)] = VOID
    if among is not None:
        state[~among[session]] = ELSEWHERE
    keep = state == IN_FORCE
    state[keep & (unlink == 1)] = UNLINKS
    undone = {(int(session[row]), int(other[row])): int(pos[row]) for row in np.flatnonzero(keep & (unlink == 1))}
    keep &= unlink == 0
    for (own, linked), at in undone.items():
        before = keep & (session == own) & (other == linked) & (pos < at)
        state[before], keep = UNDONE, keep & ~before
    weak = evidence == CWD_WINDOW
    strong = keep & ~weak
    state[keep & weak & (relation == NATIVE) & np.isin(session, session[strong & (relation == NATIVE)])] = SECOND_GUESS
    state[keep & weak & np.isin(other, other[strong])] = WEAKER
    return state


def _in_force(facts: Facts, through: int, quarantine: Quarantine, among: Mask | None) -> Links:
    keep = link_states(facts, through, quarantine, among) == IN_FORCE
    table = facts.links
    session, other = (table[name][: len(keep)].astype(np.int64) for name in ("session", "other"))
    relation = table["relation"][: len(keep)]
    session, other, marked = session[keep], other[keep], relation[keep] != NATIVE
    pair, first = np.unique(session << 32 | other, return_index=True)
    marked_pairs = np.isin(pair, (session << 32 | other)[marked])
    return Links(session[first], other[first], marked_pairs)


def _join(links: Links, of: Column, ambiguous: Mask) -> None:
    """Join the components that are more than one pair."""
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        parent.setdefault(number, number)
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    pairs = list(zip(links.session.tolist(), links.other.tolist(), links.marked.tolist(), strict=True))
    for session, other, _ in pairs:
        parent[root(session)] = root(other)
    members: dict[int, list[int]] = defaultdict(list)
    for number in list(parent):
        members[root(number)].append(number)
    others = {other for _, other, _ in pairs}
    marked = {other for _, other, is_marked in pairs if is_marked}
    for component in members.values():
        owners = [number for number in component if number not in others]
        natives = [number for number in component if number in others and number not in marked]
        if len(owners) == 1 and len(natives) <= 1:
            of[component] = owners[0]
        else:
            ambiguous[component] = True


def _reused(facts: Facts, through: int, quarantine: Quarantine) -> Iterable[int]:
    nonces: dict[int, set[str]] = defaultdict(set)
    left_out = {*quarantine.unusable.tolist(), *quarantine.void.tolist()}
    for start in facts.starts:
        if start.position <= through and start.position not in left_out:
            nonces[start.name].add(start.nonce)
    contradicted = {claim.name for claim in identity_claims.in_force(facts, through)}
    return sorted({number for number, seen in nonces.items() if len(seen) > 1} | contradicted)
