"""The outcome of each exposure: the grade that pays it, or why none does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rightful.projections.credit.inputs import AMBIGUOUS, BINS, CREDITED, NO_BIN
from rightful.projections.facts.columns import Ints
from rightful.reports.explain.bin_reasons import conflict_text, why
from rightful.reports.explain.case import Case
from rightful.reports.explain.phrases import SESSION_EXCLUDED, bin_name, count, listed, span
from rightful.reports.explain.run_membership import run_of

STATES = (
    "paid", "repeated", "unweighted", "unpaid", "late", "pending", "nothing-shown", "not-newest", "other-name",
    "shadowed", "unclear", "conflicting", "erased", "withdrawn", "left-out",
)  # fmt: skip
"""The states of an exposure."""


class ExposureOutcome(NamedTuple):
    """The outcome of an exposure.

    Attributes:
        state: One of `STATES`.
        grade: The row of `facts.grades` that pays it, or that it has to do with; None for none.
        bin: Of an exposure that a grade reaches and does not pay: that grade's bin.
    """

    state: str
    reason: str
    grade: int | None = None
    bin: str | None = None


def exposure_outcome(case: Case, row: int) -> ExposureOutcome:
    """Return what became of a row of `facts.shown`."""
    shown = case.exposure_at(row)
    position = int(case.facts.shown["pos"][row])
    if shown is None:
        if position in set(case.quarantine.void.tolist()):
            return ExposureOutcome("withdrawn", f"{case.withdrawn_text(position)} counts.")
        return ExposureOutcome("left-out", SESSION_EXCLUDED)
    if case.inputs.shown.erased[shown]:
        return ExposureOutcome("erased", "Its content was erased, so the arms shown are unknown. It counts as missing.")
    if not case.inputs.shown.usable[shown]:
        what = conflict_text(case, position)
        return ExposureOutcome(
            "conflicting", f"Its id is in conflict: {what}. It pays no arm until an `event.withdrawn` settles it."
        )
    units = case.reaching(shown)
    live, late = case.counts_for(units, shown)
    if not case.inputs.shown.size[shown]:
        return _nothing_shown(case, row, units[live])
    if live.any():
        return _reached(case, row, shown, units[live])
    if len(units):
        return _late(case, shown, units[late] if late.any() else units)
    return _not_reached(case, row, shown)


def _nothing_shown(case: Case, row: int, units: Ints) -> ExposureOutcome:
    withheld = len(case.withheld_of(row))
    what = f"It only withheld {count(withheld, 'arm')}" if withheld else "It lists no arm"
    by = int(case.settlement.unit_grade[units[0]]) if len(units) else None
    graded = f"; its run is graded by {case.grade_label(by)}" if by is not None else ""
    return ExposureOutcome(
        "nothing-shown", f"{what}, so there is no arm to pay{graded}. A withheld arm is never credited.", by
    )


def _reached(case: Case, row: int, shown: int, units: Ints) -> ExposureOutcome:
    """An exposure that counts for a grade: the first that pays it, else why the first one does not."""
    paying = units[case.settlement.unit_bin[units] == CREDITED]
    if not len(paying):
        unit = int(units[0])
        by, number = int(case.settlement.unit_grade[unit]), int(case.settlement.unit_bin[unit])
        if number == AMBIGUOUS and len(runs := _runs_of(case, units)) > 1:
            what = (
                f"The grades of {count(len(runs), 'run')} reach it: {listed(runs)}. Only one run may pay for an "
                "exposure"
            )
            return ExposureOutcome("unpaid", f"{what}, and nothing records which.", by, BINS[number])
        because = f"{bin_name(number)} ({why(case, unit, number)})"
        return ExposureOutcome(
            "unpaid", f"The grade that reaches it, {case.grade_label(by)}, pays no arm: {because}.", by, BINS[number]
        )
    unit = int(paying[0])
    by = int(case.settlement.unit_grade[unit])
    mine = case.settlement.credit_arm[case.settlement.credit_unit == unit]
    listed_arms = _canonical_arms(case, row)
    if not np.isin(listed_arms, mine).any():
        return ExposureOutcome(
            "unweighted",
            f"{case.grade_label(by)} is credited, but its salience gives every arm here a weight of 0.",
            by,
        )
    before = None if case.policy.arithmetic == "sequential" else _earlier_exposures(case, unit, shown)
    if before is not None and np.isin(listed_arms, before[1]).all():
        first = int(case.inputs.shown.pos[before[0]])
        what = (
            f"Every arm here had been shown to the same run before (first in #{first}); an arm is credited once per run"
        )
        return ExposureOutcome("repeated", f"{what}, by {case.grade_label(by)}.", by)
    more = f" and {count(len(paying) - 1, 'more grade')}" if len(paying) > 1 else ""
    bound = ", but its only time is that of its file, an upper bound" if case.inputs.shown.file_time[shown] else ""
    return ExposureOutcome("paid", f"{case.grade_label(by)}{more} paid its arms{bound}.", by)


def _runs_of(case: Case, units: Ints) -> list[str]:
    """Return the runs whose effective grades could pay, each with the first of them."""
    found: dict[int, str] = {}
    for unit in units[case.effective_grades.bin[units] == NO_BIN].tolist():
        run = int(case.settlement.unit_run[unit])
        found.setdefault(run, f"{case.grade_label(int(case.settlement.unit_grade[unit]))} of {case.distinct_name(run)}")
    return list(found.values())


def _canonical_arms(case: Case, row: int) -> Ints:
    start, size = int(case.facts.shown["start"][row]), int(case.facts.shown["count"][row])
    arms: Ints = case.canonical[case.facts.arms_shown["arm"][start : start + size]]
    return arms


def _earlier_exposures(case: Case, unit: int, shown: int) -> tuple[int, Ints] | None:
    """Return the first exposure of a unit before one, and the arms of all of them; by time, then by position."""
    reached = case.reached(unit)
    live = reached[case.timing(unit, reached)[0]]
    at, pos = case.inputs.shown.at, case.inputs.shown.pos
    earlier = live[(at[live] < at[shown]) | ((at[live] == at[shown]) & (pos[live] < pos[shown]))]
    if not len(earlier):
        return None
    earlier = earlier[np.lexsort((pos[earlier], at[earlier]))]
    return int(earlier[0]), np.concatenate([_canonical_arms(case, int(case.inputs.shown.row[row])) for row in earlier])


def _late(case: Case, shown: int, units: Ints) -> ExposureOutcome:
    """An exposure that came after every grade that reaches it; the last of them is the nearest."""
    grade_at = case.inputs.grades.at[case.effective_grades.grade[units]]
    unit = int(units[int(np.argmax(grade_at))])
    by = int(case.settlement.unit_grade[unit])
    after = span(int(case.inputs.shown.late_from[shown] - grade_at.max()))
    return ExposureOutcome(
        "late", f"It came {after} after the grade {case.grade_label(by)}, so it cannot have earned that grade.", by
    )


def _not_reached(case: Case, row: int, shown: int) -> ExposureOutcome:
    name = int(case.facts.shown["name"][row])
    if case.sources is not None:
        return ExposureOutcome(
            "not-newest", "Its session was never the newest one with exposures at a grade, so no grade pays it."
        )
    session = int(case.inputs.shown.session[shown])
    if case.facts.names.alias[name]:
        found = _of_alias(case, name, session)
        if found is not None:
            return found
    if case.inputs.runs.ambiguous[session]:
        return ExposureOutcome("unclear", run_of(case, session).reason)
    return _pending(case, session)


def _of_alias(case: Case, name: int, session: int) -> ExposureOutcome | None:
    """An exposure under a sanitised form; None where it fits one session, which has no other exposures."""
    text, fitting = case.text(name), case.facts.names.fitting(name, case.through)
    form = f"It was read from a file whose name is only a sanitised form of a session id ({text})"
    if len(fitting) > 1:
        fits = listed([case.distinct_name(name) for name in fitting])
        return ExposureOutcome(
            "unclear", f"{form}, and more than one name fits it: {fits}. It is not known which session it belongs to."
        )
    if session == name:
        return ExposureOutcome(
            "unclear", f"{form}, and no name in the ledger fits it. A grade under the full name would reach it."
        )
    run = case.inputs.runs.of[session]
    exact = (case.inputs.runs.of[case.inputs.shown.name] == run) & ~np.array(case.facts.names.alias, np.bool_)[
        case.inputs.shown.name
    ]
    if exact.any():
        first = int(case.inputs.shown.pos[np.flatnonzero(exact)[0]])
        own = case.text(session)
        whose = "the session with exactly that name" if own == text else f"{own}, the session that it fits,"
        return ExposureOutcome("shadowed", f"{form}; {whose} has exposures of its own (#{first}), and those count.")
    return None


def _pending(case: Case, session: int) -> ExposureOutcome:
    """An exposure of a clear run that no grade reaches."""
    run = int(case.inputs.runs.of[session])
    mine = np.flatnonzero(case.effective_grades.run == run)
    for unit in mine.tolist():
        row = int(case.settlement.unit_grade[unit])
        target = int(case.facts.grades["target"][row])
        if target >= 0:
            what = (
                f"The grade of its run, {case.grade_label(row)}, names {case.text(target)} as the session that "
                "earned it"
            )
            return ExposureOutcome("other-name", f"{what}, and only that session is paid.", row)
    members = case.component(session)
    rows = case.facts.grades_of.rows(members)
    others = int((case.facts.grades["pos"][rows] <= case.through).sum()) if not len(mine) else 0
    if others:
        reason = f"of the {count(others, 'grade')} that its run has, this policy pays from none"
        return ExposureOutcome("pending", f"It waits for a grade: {reason}.")
    return ExposureOutcome("pending", f"It waits for a grade: none of {case.text(run)} is recorded.")
