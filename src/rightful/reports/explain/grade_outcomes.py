"""Why each grade ended where it did: its state, and a sentence with the facts.

The states of a grade are the bins, for those that the policy pays from, and `OUTSIDE` for the others.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from rightful.projections.credit.inputs import CONFLICTING, corrected
from rightful.projections.facts.facts import RETRACTION
from rightful.reports.explain.bin_reasons import bin_reason, conflict_text
from rightful.reports.explain.case import Case
from rightful.reports.explain.phrases import SESSION_EXCLUDED, bin_name, listed

OUTSIDE = (
    "superseded", "rival", "outranked", "stood-aside", "recorded-only", "ignored", "withdrawn", "left-out",
)  # fmt: skip
"""The states of grades that are in no bin."""


class GradeOutcome(NamedTuple):
    """The outcome of a grade.

    Attributes:
        state: A bin, or why it is in none.
        unit: Its row of the settlement's units; None where it is in no bin.
        by: The row of `facts.grades` of the grade that counts in its place, or conflicts with it; None for none.
    """

    state: str
    reason: str
    unit: int | None = None
    by: int | None = None


def grade_outcome(case: Case, row: int) -> GradeOutcome:
    """Return what became of a row of `facts.grades`."""
    unit = case.unit_of.get(row)
    if unit is not None:
        number = int(case.settlement.unit_bin[unit])
        return GradeOutcome(bin_name(number), bin_reason(case, unit, number), unit)
    at = case.grade_at(row)
    return _excluded(case, row) if at is None else _not_effective(case, at)


def _excluded(case: Case, row: int) -> GradeOutcome:
    """Return the verdict of a grade that is not among the inputs."""
    table, policy = case.facts.grades, case.policy
    grader = "/".join(case.grader(row))
    void = set(case.quarantine.void.tolist())
    if (position := int(table["pos"][row])) in void:
        return GradeOutcome("withdrawn", f"{case.withdrawn_text(position)} counts.")
    if case.facts.corrected and corrected(case.facts, np.array([row]), void, case.through)[0]:
        return GradeOutcome("superseded", "The same grader recorded it again with the right time (`extra.corrects`).")
    if policy.without_sessions and _session_gone(case, row):
        return GradeOutcome("left-out", SESSION_EXCLUDED)
    if table["kind"][row] == RETRACTION and policy.revision == "additive":
        return GradeOutcome("ignored", "Under `revision: additive` every grade pays and retractions are ignored.")
    out = any(fnmatchcase(grader, pattern) for pattern in policy.without_graders)
    which = "leaves that grader out (`without_graders`)" if out else "names no such grader"
    pays = listed(list(policy.graders))
    reason = f"{grader} is recorded and never pays under this policy: it {which}; it pays from {pays}."
    return GradeOutcome("recorded-only", reason)


def _session_gone(case: Case, row: int) -> bool:
    table = case.facts.grades
    grader = table["grader"][row]
    alike = case.inputs.grades.grader == grader
    if alike.any():
        return True
    name = "/".join(case.grader(row))
    paying = any(fnmatchcase(name, pattern) for pattern in case.policy.graders)
    return paying and not any(fnmatchcase(name, pattern) for pattern in case.policy.without_graders)


def _not_effective(case: Case, at: int) -> GradeOutcome:
    """Return the verdict of a grade of the inputs that is not effective: another grade counts instead, or none."""
    grades = case.inputs.grades
    stream = case.stream(int(case.inputs.runs.of[grades.name[at]]), int(grades.grader[at]))
    top = int(stream[-1])
    if top != at and grades.seq[top] > grades.seq[at]:
        return GradeOutcome(
            "superseded",
            f"{case.grade_label(int(grades.row[top]))} of the same grader replaces it.",
            by=int(grades.row[top]),
        )
    if top != at:
        return _same_seq(case, at, top)
    claim = case.claim_of[at]
    others = case.competing_claims(claim)
    if grades.kind[at] == RETRACTION:
        if not others:
            return GradeOutcome("stood-aside", "The grader retracted its grade, as did all graders of the run.")
        by = _row(case, others[0])
        return GradeOutcome(
            "stood-aside", f"The grader retracted its grade, so {case.grade_label(by)} counts instead.", by=by
        )
    if not others:
        return GradeOutcome(
            "outranked", "A grader that the policy ranks higher grades the same run under another name."
        )
    return _outranked(case, at, _row(case, others[0]))


def _row(case: Case, claim: int) -> int:
    return int(case.inputs.grades.row[case.claims.grade[claim]])


def _same_seq(case: Case, at: int, other: int) -> GradeOutcome:
    """Return what became of a grade that has its `seq` in common with another one of its stream."""
    grades = case.inputs.grades
    by = int(grades.row[other])
    claim = case.claim_of.get(other)
    if claim is not None and case.claims.bin[claim] == CONFLICTING:
        if grades.conflicting[at]:
            what = conflict_text(case, int(grades.pos[at]))
            return GradeOutcome("rival", f"Its id is in conflict: {what}. An `event.withdrawn` settles it.", by=by)
        if grades.conflicting[other]:
            what = conflict_text(case, int(grades.pos[other]))
            return GradeOutcome(
                "rival", f"The id of {case.grade_label(by)}, with the same `seq`, is in conflict: {what}.", by=by
            )
        reason = (
            f"It and {case.grade_label(by)} have the same `seq` but different content; it is not known which "
            "one counts."
        )
        return GradeOutcome("rival", reason, by=by)
    return GradeOutcome(
        "superseded",
        f"It has the same `seq` as {case.grade_label(by)} of the same grader, which counts for both.",
        by=by,
    )


def _outranked(case: Case, at: int, by: int) -> GradeOutcome:
    """Return what became of the newest grade of a grader whose run is paid from another one."""
    grades = case.inputs.grades
    other = case.grade_at(by)
    if other is not None and grades.rank[other] == grades.rank[at]:
        reason = (
            f"It and {case.grade_label(by)} are from graders of the same rank; it is not known which of the two counts."
        )
        return GradeOutcome("rival", reason, by=by)
    grader = "/".join(case.grader(int(grades.row[at])))
    reason = (
        f"{case.grade_label(by)} grades the same run, and the policy ranks that grader before {grader}, so it "
        "pays alone."
    )
    return GradeOutcome("outranked", reason, by=by)
