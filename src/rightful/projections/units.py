"""Units: which grades a policy pays from, and which are retracted or in conflict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rightful.projections.columns import Ints, Mask
from rightful.projections.facts import ERASED, GRADE, RETRACTION
from rightful.projections.scene import CONFLICTING, ERASED_BIN, NOBODY, RETRACTED, Grades, Scene


class Units(NamedTuple):
    """The grades that the policy pays from: one a run, or each event under `additive`.

    Attributes:
        grade: Row of `Scene.grades`.
        run: The run it belongs to.
        bin: Why it pays nobody; `NOBODY` where that is not settled yet.
        slot: Position of the first grade event of the run (of the event itself under `additive`).
        since: Time of the earliest grade of the run (of the event itself under `additive`);
            microseconds since 1970. What an opening balance holds of a run a later regrade cannot
            take out of it again.
    """

    grade: Ints
    run: Ints
    bin: Ints
    slot: Ints
    since: Ints


def units_of(scene: Scene) -> Units:
    """Return the units of a scene: one a run, or each grade event under `additive`; erased grades too."""
    grades, runs = scene.grades, scene.runs
    run = runs.of[grades.name].astype(np.int64)
    erased = np.flatnonzero(grades.kind == ERASED)
    live = np.flatnonzero(grades.kind != ERASED)
    if scene.policy.revision == "additive":
        chosen, state = live, np.where(grades.conflicting[live], CONFLICTING, NOBODY)
        slot, since = grades.pos[live], grades.at[live]
    else:
        chosen, state = _effective(scene, run, live)
        kept = ~_outranked(scene, chosen, state, run)
        chosen, state = chosen[kept], state[kept]
        slot = _first_grade(grades, run, live)[run[chosen]] if len(chosen) else np.empty(0, np.int64)
        since = _earliest(grades, run, live)[run[chosen]] if len(chosen) else np.empty(0, np.int64)
    grade = np.concatenate([chosen, erased])
    return Units(
        grade,
        run[grade],
        np.concatenate([state, np.full(len(erased), ERASED_BIN, np.int64)]),
        np.concatenate([slot, grades.pos[erased]]),
        np.concatenate([since, grades.at[erased]]),
    )


def _outranked(scene: Scene, rows: Ints, state: Ints, run: Ints) -> Mask:
    """Say which units another grader of the same run outranks, though under another name.

    A grade whose `exposure_session` is linked into a run speaks of that run, whatever its own name
    for it is. So `credit` and the session records of one run are two graders of it, of whom the
    policy says who pays. Two of the same rank stay, and are ambiguous where they meet.
    """
    grades, runs = scene.grades, scene.runs
    named = np.maximum(grades.target[rows], 0)
    speaks_of = (grades.target[rows] >= 0) & runs.joined()[named] & ~runs.ambiguous[named]
    home = np.where(speaks_of, runs.of[named], run[rows])
    standing = state != RETRACTED
    best = np.full(len(runs.of), np.iinfo(np.int64).max)
    np.minimum.at(best, home[standing], grades.rank[rows][standing])
    beaten: Mask = standing & (grades.rank[rows] > best[home])
    return beaten


def _first_grade(grades: Grades, run: Ints, live: Ints) -> Ints:
    """Return, by run, the position of its first grade event."""
    first = np.zeros(int(run.max()) + 1, np.int64)
    counted = live[grades.kind[live] == GRADE]
    first[run[live][::-1]] = grades.pos[live][::-1]
    first[run[counted][::-1]] = grades.pos[counted][::-1]
    return first


def _earliest(grades: Grades, run: Ints, live: Ints) -> Ints:
    """Return, by run, the time of its earliest grade; what was taken back was given before."""
    earliest = np.full(int(run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(earliest, run[live], grades.at[live])
    return earliest


def _effective(scene: Scene, run: Ints, live: Ints) -> tuple[Ints, Ints]:
    """Return the effective grade of each run and whether it is retracted or in conflict.

    Of one grader the highest `seq` counts, and of equal ones the latest; of several graders the
    one that the policy ranks first and that has not taken its grade back.
    """
    grades = scene.grades
    order = live[np.lexsort((grades.at[live], grades.seq[live], grades.grader[live], run[live]))]
    top = _last_of_groups(run[order], grades.grader[order])
    rows = order[top]
    state = np.where(grades.kind[rows] == RETRACTION, RETRACTED, NOBODY)
    state[_ties(scene, order, top)] = CONFLICTING
    rank = grades.rank[rows]
    choice = np.lexsort((rank, state == RETRACTED, run[rows]))
    rows, state, rank = rows[choice], state[choice], rank[choice]
    first = _first_of_groups(run[rows])
    second = first + 1
    rival = np.zeros(len(first), np.bool_)
    within = second < len(rows)
    a, b = first[within], second[within]
    rival[within] = (
        (run[rows[a]] == run[rows[b]]) & (rank[a] == rank[b]) & (state[a] != RETRACTED) & (state[b] != RETRACTED)
    )
    chosen = state[first]
    chosen[rival] = CONFLICTING
    return rows[first], chosen


def _last_of_groups(*keys: Ints) -> Ints:
    """Return the last index of each group of equal keys; the keys are sorted."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    changed = np.zeros(len(keys[0]) - 1, np.bool_)
    for key in keys:
        changed |= key[1:] != key[:-1]
    return np.append(np.flatnonzero(changed), len(keys[0]) - 1)


def _first_of_groups(*keys: Ints) -> Ints:
    """Return the first index of each group of equal keys; the keys are sorted."""
    last = _last_of_groups(*keys)
    return np.append(0, last[:-1] + 1) if len(last) else last


def _ties(scene: Scene, order: Ints, top: Ints) -> Mask:
    """Say, for each stream, whether its highest `seq` says two things, or says one in conflict."""
    grades = scene.grades
    tied = grades.conflicting[order[top]].copy()
    starts = np.append(0, top[:-1] + 1) if len(top) else top
    shared = np.flatnonzero((top > starts) & (grades.seq[order[top]] == grades.seq[order[np.maximum(top - 1, 0)]]))
    for stream in shared.tolist():
        rows = order[starts[stream] : top[stream] + 1]
        rows = rows[grades.seq[rows] == grades.seq[order[top[stream]]]]
        says = {_said(scene, int(row)) for row in rows}
        tied[stream] = len(says) > 1 or bool(grades.conflicting[rows].any())
    return tied


def _said(scene: Scene, row: int) -> tuple[object, ...]:
    """Return what a grade row says, without its time."""
    grades = scene.grades
    aside = int(grades.aside[row])
    more = scene.facts.asides[aside] if aside >= 0 else None
    kind, outcome, target = int(grades.kind[row]), int(grades.outcome[row]), int(grades.target[row])
    return (kind, repr(float(grades.reward[row])), outcome, target, repr(more))
