"""The last line of `credit`: its result, from the receipts and the bin of the grade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightful.policies import Policy
from rightful.projections.credit.inputs import CREDITED, UNMAPPED
from rightful.reports.explain.bin_reasons import why
from rightful.reports.explain.case import case_of
from rightful.reports.explain.grade_outcomes import grade_outcome
from rightful.reports.explain.phrases import bin_name, listed

if TYPE_CHECKING:
    from rightful.importers.shared.grade_numbers import GradeContent
    from rightful.ledger import Ledger
    from rightful.log.rows import Receipt
    from rightful.projections.facts.facts import Facts
    from rightful.reports.explain.case import Case

_POLICY = Policy()


def sentence(ledger: Ledger, receipts: Sequence[Receipt], graded: GradeContent, *, empty: bool) -> str:
    """Return the result of a credit.

    Args:
        ledger: The ledger.
        receipts: The receipts of the exposure and the grade; none if nothing was appended.
        graded: The grade.
        empty: Whether the exposure lists no arm.
    """
    if not receipts:
        return "nothing was recorded"
    grade = receipts[-1]
    if grade.position is None or any(receipt.outcome in {"invalid", "conflict"} for receipt in receipts):
        return ", ".join(
            f"{what} {receipt.outcome}" for what, receipt in zip(("exposure", "grade"), receipts, strict=True)
        )
    facts = ledger.projected().catch_up()
    row = int(np.flatnonzero(facts.grades["pos"] == grade.position)[0])
    touched = [int(number) for number in (facts.grades["name"][row], facts.grades["target"][row]) if number >= 0]
    case = case_of(facts, _POLICY, facts.watermark, touched)
    reason = _no_credit_reason(case, row, graded) or (None if grade.outcome == "duplicate" else _replaced(case, row))
    return f"{_recorded(facts, row, receipts, paid=reason is None and not empty)}{'; ' + reason if reason else ''}"


def _recorded(facts: Facts, row: int, receipts: Sequence[Receipt], *, paid: bool) -> str:
    if all(receipt.outcome == "duplicate" for receipt in receipts):
        return "already there: credited once" if paid else "already there"
    if receipts[-1].outcome == "duplicate":
        return "the exposure appended, the grade already there"
    before = _previous_seq(facts, row)
    return "appended" if before is None else f"appended; replaces grade seq {before}"


def _previous_seq(facts: Facts, row: int) -> int | None:
    """Return the highest seq below that of a grade, of the same grader and session; None for the first."""
    table = facts.grades
    own = (table["name"] == table["name"][row]) & (table["grader"] == table["grader"][row])
    lower = table["seq"][own & (table["seq"] < table["seq"][row])]
    return int(lower.max()) if len(lower) else None


def _replaced(case: Case, row: int) -> str | None:
    """Return the grades of other graders, such as imported ones, that this one replaces; None if there are none."""
    at = case.grade_at(row)
    others = [] if at is None else case.competing_claims(case.claim_of[at])
    labels = [case.grade_label(int(case.inputs.grades.row[case.claims.grade[other]])) for other in others]
    return f"replaces {listed(labels)} for credit" if labels else None


def _no_credit_reason(case: Case, row: int, graded: GradeContent) -> str | None:
    """Return why a grade gives no credit under `bound`, or that another one counts; None if it gives credit."""
    unit = case.unit_of.get(row)
    if unit is None:
        return _other_grade_reason(case, row)
    number = int(case.settlement.unit_bin[unit])
    if number == CREDITED:
        return None
    if number == UNMAPPED:
        words = ", ".join(_POLICY.outcomes)
        return f"gives no credit under bound: unmapped outcome {graded.outcome!r}; the policy maps only {words}"
    return f"gives no credit under bound: {bin_name(number)} ({why(case, unit, number)})"


def _other_grade_reason(case: Case, row: int) -> str:
    found = grade_outcome(case, row)
    if found.state == "rival":
        return f"gives no credit under bound: conflicting ({found.reason.rstrip('.')})"
    if found.by is None and found.state != "outranked":
        return f"gives no credit under bound: {found.state} ({found.reason.rstrip('.')})"
    unit = None if found.by is None else case.unit_of.get(found.by)
    number = CREDITED if unit is None else int(case.settlement.unit_bin[unit])
    if number == CREDITED:
        return "another grade of that session counts under bound"
    return f"another grade of that session counts under bound, and gives no credit: {bin_name(number)}"
