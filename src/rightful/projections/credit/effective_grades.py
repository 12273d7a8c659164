"""Units: which grades a policy pays from, and which are retracted or in conflict.

Two steps. Supersession, retraction and `seq` conflicts are decided within a *stream*: the grades of one
grader under the names of one run. The grade in force of each stream is a *claim*. Then each claim is placed
in the run that it speaks of, and the graders are ranked there. So the order of arrival decides nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rightful.projections.credit.inputs import CONFLICTING, ERASED_BIN, NO_BIN, RETRACTED, CreditInputs
from rightful.projections.facts.columns import Ints, Mask
from rightful.projections.facts.facts import ERASED, RETRACTION

_BEHIND = 1 << 40  # more than any position: a retraction gives a run its slot only where no grade does


class Claims(NamedTuple):
    """What each stream says of a run: its grade in force, or why there is none.

    Under `additive` each grade event is a stream of its own, and so is an erased grade.

    Attributes:
        grade: Row of `CreditInputs.grades`.
        run: The run of the grade's own name.
        bin: CONFLICTING, RETRACTED or ERASED_BIN; `NO_BIN` where the grade is in force.
        slot: Position of the stream's first grade event; above `_BEHIND` where it has retractions only.
        since: Time of the stream's earliest event; microseconds since 1970.
    """

    grade: Ints
    run: Ints
    bin: Ints
    slot: Ints
    since: Ints


class EffectiveGrades(NamedTuple):
    """The grades that the policy pays from: one a run, or each event under `additive`.

    Attributes:
        grade: Row of `CreditInputs.grades`.
        run: The run of the grade's own name.
        bin: Why it pays no arm; `NO_BIN` if that is not settled yet.
        slot: Position of the first grade event of the run (of the event itself under `additive`).
        since: Time of the earliest grade of the run (of the event itself under `additive`);
            microseconds since 1970. What an opening balance holds of a run a later regrade cannot
            take out of it again.
        place: Where its claim is placed: equal for all that speak of one run.
        shared: The same grader grades the same run under another run's name too.
    """

    grade: Ints
    run: Ints
    bin: Ints
    slot: Ints
    since: Ints
    place: Ints
    shared: Mask


def claims_of(inputs: CreditInputs) -> Claims:
    """Return the claims of a settlement: one per stream, or each grade event under `additive`; erased grades too."""
    grades = inputs.grades
    run = inputs.runs.of[grades.name].astype(np.int64)
    erased = np.flatnonzero(grades.kind == ERASED)
    live = np.flatnonzero(grades.kind != ERASED)
    if inputs.policy.revision == "additive":
        state = np.where(grades.conflicting[live], CONFLICTING, NO_BIN)
        found = Claims(live, run[live], state, grades.pos[live], grades.at[live])
    else:
        found = _in_force(inputs, run, live)
    return Claims(
        np.concatenate([found.grade, erased]),
        np.concatenate([found.run, run[erased]]),
        np.concatenate([found.bin, np.full(len(erased), ERASED_BIN, np.int64)]),
        np.concatenate([found.slot, grades.pos[erased]]),
        np.concatenate([found.since, grades.at[erased]]),
    )


def _in_force(inputs: CreditInputs, run: Ints, live: Ints) -> Claims:
    """Return the claim of each stream: of one grader the highest `seq` counts, and of equal ones the latest."""
    grades = inputs.grades
    order = live[np.lexsort((grades.at[live], grades.seq[live], grades.grader[live], run[live]))]
    if not len(order):
        none = np.empty(0, np.int64)
        return Claims(none, none, none, none, none)
    begins = (np.diff(run[order]) != 0) | (np.diff(grades.grader[order]) != 0)
    starts = np.append(0, np.flatnonzero(begins) + 1)
    top = np.append(starts[1:], len(order)) - 1
    rows = order[top]
    state = np.where(grades.kind[rows] == RETRACTION, RETRACTED, NO_BIN)
    state[_ties(inputs, order, starts, top)] = CONFLICTING
    taken_back = grades.kind[order] == RETRACTION
    slot = np.minimum.reduceat(np.where(taken_back, grades.pos[order] + _BEHIND, grades.pos[order]), starts)
    since = np.minimum.reduceat(grades.at[order], starts)
    return Claims(rows, run[rows], state, slot, since)


def places_of(inputs: CreditInputs, claims: Claims, reached: Mask) -> Ints:
    """Return where each claim is placed: one number for all claims that speak of one run.

    A grade in force speaks of the run of its `exposure_session`, else of its own. One whose `exposure_session`
    is unmatched or ambiguous is placed alone, and so is an erased one. What is retracted or in conflict stays
    in its own run. A name whose links disagree is a run of its own, where only grades of that name meet.
    """
    if inputs.policy.revision == "additive":
        return claims.run
    runs, grades = inputs.runs, inputs.grades
    named = grades.target[claims.grade]
    doubtful = runs.ambiguous[grades.name[claims.grade]]
    own = np.where(doubtful, claims.run + len(runs.of), claims.run)
    alone = 2 * len(runs.of) + np.arange(len(named))
    speaks_of = np.where(reached, runs.of[np.maximum(named, 0)], alone)
    place = np.where((named < 0) | (claims.bin != NO_BIN), own, speaks_of)
    return np.where(claims.bin == ERASED_BIN, alone, place)


def find_effective_grades(inputs: CreditInputs, claims: Claims, place: Ints) -> tuple[EffectiveGrades, Ints]:
    """Return the effective grades, and the claim of each.

    Of the graders of one place the one that the policy ranks first counts, unless it took its grade back;
    two of one rank conflict, and a grader in conflict blocks those of lower rank.
    """
    shared = np.zeros(len(place), np.bool_)
    everyone = np.arange(len(place))
    if inputs.policy.revision == "additive":
        return EffectiveGrades(claims.grade, claims.run, claims.bin, claims.slot, claims.since, place, shared), everyone
    places, at = np.unique(place, return_inverse=True)
    bins, kept, slot, since = claims.bin, everyone, claims.slot, claims.since
    if len(places) < len(place):
        kept, bins, shared = _ranked(inputs, claims, at, len(places))
        slot, since = _lowest(slot, at, len(places))[at], _lowest(since, at, len(places))[at]
    columns = (claims.grade, claims.run, bins, slot % _BEHIND, since, place)
    grade, run, bins, slot, since, place = [column[kept] for column in columns]
    return EffectiveGrades(grade, run, bins, slot, since, place, shared[kept]), kept


def _ranked(inputs: CreditInputs, claims: Claims, at: Ints, places: int) -> tuple[Ints, Ints, Mask]:
    """Return which claims count at their place, the bin of every claim, and which share it with their like."""
    grader, rank = inputs.grades.grader[claims.grade], inputs.grades.rank[claims.grade]
    is_graded = claims.bin != RETRACTED
    level = np.where(is_graded, rank, rank + len(inputs.policy.graders))
    first = np.flatnonzero(level == _lowest(level, at, places)[at])
    where = at[first]
    rivals = _lowest(grader[first], where, places) < -_lowest(-grader[first], where, places)
    several = np.bincount(where, minlength=places) > 1
    alone = np.zeros(len(first), np.bool_)  # represents all of its place, where only one counts
    alone[np.unique(where, return_index=True)[1]] = True
    clash = rivals[where] & is_graded[first]
    bins, shared = claims.bin.copy(), np.zeros(len(at), np.bool_)
    bins[first[clash]] = CONFLICTING
    shared[first] = several[where] & (bins[first] == NO_BIN)
    return first[alone | ~(clash | ~is_graded[first])], bins, shared


def _lowest(values: Ints, at: Ints, places: int) -> Ints:
    """Return the lowest value at each place."""
    lowest = np.full(places, np.iinfo(np.int64).max)
    np.minimum.at(lowest, at, values)
    return lowest


def _ties(inputs: CreditInputs, order: Ints, starts: Ints, top: Ints) -> Mask:
    """Return, for each stream, whether its highest `seq` says two things, or says one in conflict."""
    grades = inputs.grades
    tied = grades.conflicting[order[top]].copy()
    shared = np.flatnonzero((top > starts) & (grades.seq[order[top]] == grades.seq[order[np.maximum(top - 1, 0)]]))
    for stream in shared.tolist():
        rows = order[starts[stream] : top[stream] + 1]
        rows = rows[grades.seq[rows] == grades.seq[order[top[stream]]]]
        contents = {_content(inputs, int(row)) for row in rows}
        tied[stream] = len(contents) > 1 or bool(grades.conflicting[rows].any())
    return tied


def _content(inputs: CreditInputs, row: int) -> tuple[object, ...]:
    """Return what a grade row says, without its time."""
    grades = inputs.grades
    aside = int(grades.aside[row])
    aside_fields = inputs.facts.asides[aside] if aside >= 0 else None
    kind, outcome, target = int(grades.kind[row]), int(grades.outcome[row]), int(grades.target[row])
    return (kind, repr(float(grades.reward[row])), outcome, target, repr(aside_fields))
