"""Why each grade ended where it did: its state, and a sentence with the facts.

The states of a grade are the bins, for those that the policy pays from, and `OUTSIDE` for the others.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from rightful.projections.facts import ERASED, RETRACTION
from rightful.projections.scene import CONFLICTING, corrected
from rightful.reports.explain.bins import bin_reason, conflict_text
from rightful.reports.explain.case import Case
from rightful.reports.explain.words import bin_name, listed

OUTSIDE = (
    "superseded", "rival", "outranked", "stood-aside", "recorded-only", "ignored", "withdrawn", "left-out",
)  # fmt: skip
"""The states of grades that are in no bin."""


class Verdict(NamedTuple):
    """What became of a grade.

    Attributes:
        state: A bin, or why it is in none.
        reason: In a sentence.
        unit: Its row of the settlement's units; None where it is in no bin.
        by: The row of `facts.grades` of the grade that counts in its place, or conflicts with it; None for none.
    """

    state: str
    reason: str
    unit: int | None = None
    by: int | None = None


def verdict_of(case: Case, row: int) -> Verdict:
    """Return what became of a row of `facts.grades`."""
    unit = case.unit_of.get(row)
    if unit is not None:
        number = int(case.settlement.unit_bin[unit])
        return Verdict(bin_name(number), bin_reason(case, unit, number), unit)
    at = case.grade_at(row)
    return _left_out(case, row) if at is None else _not_effective(case, at)


def _left_out(case: Case, row: int) -> Verdict:
    """A grade that never came into the scene."""
    table, policy = case.facts.grades, case.policy
    grader = "/".join(case.grader(row))
    void = set(case.quarantine.void.tolist())
    if int(table["pos"][row]) in void:
        return Verdict("withdrawn", "This revision was withdrawn by an `event.withdrawn`, so it says nothing any more.")
    if case.facts.corrected and corrected(case.facts, np.array([row]), void, case.through)[0]:
        return Verdict("superseded", "The same grader gave it again with the right time (`extra.corrects`).")
    if policy.without_sessions and _session_gone(case, row):
        return Verdict("left-out", "The policy leaves its session out (`without_sessions`), with its whole run.")
    if table["kind"][row] == RETRACTION and policy.revision == "additive":
        return Verdict("ignored", "Under `revision: additive` every grade pays and retractions are ignored.")
    out = any(fnmatchcase(grader, one) for one in policy.without_graders)
    which = "leaves that grader out (`without_graders`)" if out else "names no such grader"
    pays = listed(list(policy.graders))
    reason = f"{grader} is recorded and never pays under this policy: it {which}; it pays from {pays}."
    return Verdict("recorded-only", reason)


def _session_gone(case: Case, row: int) -> bool:
    table = case.facts.grades
    grader = table["grader"][row]
    alike = case.scene.grades.grader == grader
    if alike.any():
        return True
    name = "/".join(case.grader(row))
    paying = any(fnmatchcase(name, one) for one in case.policy.graders)
    return paying and not any(fnmatchcase(name, one) for one in case.policy.without_graders)


def _not_effective(case: Case, at: int) -> Verdict:
    """A grade of the scene that another one stands for, or stands before."""
    grades, runs = case.scene.grades, case.scene.runs
    run = int(runs.of[grades.name[at]])
    stream = case.stream(run, int(grades.grader[at]))
    top = int(stream[-1])
    if top != at and grades.seq[top] > grades.seq[at]:
        return Verdict(
            "superseded", f"{case.says(int(grades.row[top]))} of the same grader replaces it.", by=int(grades.row[top])
        )
    if top != at:
        return _same_seq(case, at, top)
    unit = _unit_of_run(case, run)
    if grades.kind[at] == RETRACTION:
        if unit is None:
            return Verdict("stood-aside", "The grader took its grade back; another grader's grade counts in its place.")
        by = int(case.settlement.unit_grade[unit])
        return Verdict("stood-aside", f"The grader took its grade back, so {case.says(by)} counts in its place.", by=by)
    return _beaten(case, at, unit)


def _same_seq(case: Case, at: int, top: int) -> Verdict:
    grades = case.scene.grades
    by = int(grades.row[top])
    unit = case.unit_of.get(by)
    if unit is not None and case.settlement.unit_bin[unit] == CONFLICTING:
        if grades.conflicting[at]:
            what = conflict_text(case, int(grades.pos[at]))
            return Verdict("rival", f"Its id is in conflict: {what}. An `event.withdrawn` settles it.", by=by)
        if grades.conflicting[top]:
            what = conflict_text(case, int(grades.pos[top]))
            return Verdict("rival", f"The id of {case.says(by)}, of one `seq` with it, is in conflict: {what}.", by=by)
        reason = (
            f"It and {case.says(by)} have one `seq`, and the two do not say the same; nobody can tell which counts."
        )
        return Verdict("rival", reason, by=by)
    return Verdict(
        "superseded", f"It has the `seq` of {case.says(by)} of the same grader, which stands for both.", by=by
    )


def _beaten(case: Case, at: int, unit: int | None) -> Verdict:
    """The newest grade of a grader whose run is paid from another one."""
    grades = case.scene.grades
    if unit is not None:
        by = int(case.settlement.unit_grade[unit])
        rank = int(grades.rank[case.units.grade[unit]])
        if rank == int(grades.rank[at]) and case.settlement.unit_bin[unit] == CONFLICTING:
            return Verdict(
                "rival",
                f"It and {case.says(by)} are of graders of one rank; nobody can tell which of the two counts.",
                by=by,
            )
        return Verdict("outranked", _outranked(case, at, by), by=by)
    home = _home(case, at)
    for other in case.units.grade.tolist():
        if grades.rank[other] < grades.rank[at] and _home(case, other) == home:
            return Verdict("outranked", _outranked(case, at, int(grades.row[other])), by=int(grades.row[other]))
    return Verdict("outranked", "A grader that the policy ranks higher grades the same run under another name.")


def _outranked(case: Case, at: int, by: int) -> str:
    grader = "/".join(case.grader(int(case.scene.grades.row[at])))
    return f"{case.says(by)} grades the same run, and the policy ranks that grader before {grader}, so it pays alone."


def _home(case: Case, at: int) -> int:
    """Return the run that a grade speaks of: that of its `exposure_session`, where a link joins it to one."""
    grades, runs = case.scene.grades, case.scene.runs
    target = int(grades.target[at])
    if target >= 0 and len(case.component(target)) > 1 and not runs.ambiguous[target]:
        return int(runs.of[target])
    return int(runs.of[grades.name[at]])


def _unit_of_run(case: Case, run: int) -> int | None:
    live = case.scene.grades.kind[case.units.grade] != ERASED
    found = np.flatnonzero((case.units.run == run) & live)
    return int(found[0]) if len(found) else None
