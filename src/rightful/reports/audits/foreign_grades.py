"""Which grades went astray, and on which days: the lists behind the numbers of an audit."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from rightful import times
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import CREDITED
from rightful.projections.credit.joins import FOREIGN
from rightful.projections.facts.columns import Mask
from rightful.projections.facts.facts import Facts
from rightful.reports.audits.order_bounds import Outcomes

_DAY_CHARS = len("2026-08-01")


class ForeignGrade(msgspec.Struct, frozen=True):
    """A grade that paid another run than the graded one.

    Attributes:
        grade: The position of its row.
        session: The graded session, as the grader names it.
        paid_session: The session whose arms were paid; None where several could have been.
        arms: The arms that it paid, in the order of their credits; none where several sessions could have been paid.
        certain: Whether it is foreign in every order that the evidence allows.
    """

    grade: int
    at: str
    session: str
    grader: str
    reward: float
    paid_session: str | None
    arms: tuple[str, ...]
    certain: bool


class AuditDay(msgspec.Struct, frozen=True):
    """What became of the grades of one day, UTC.

    Attributes:
        grades: How many grades the policy looked at.
        foreign: How many of the credited ones paid another run.
        foreign_bounds: The least and the most that can have paid another run.
        foreign_reward: Sum of the foreign grades' rewards.
        robbed_sessions: The sessions whose grades those are; sorted.
    """

    day: str
    grades: int
    credited: int
    foreign: int
    foreign_bounds: tuple[int, int]
    foreign_reward: float
    robbed_sessions: tuple[str, ...]


def foreign_grades(facts: Facts, settlement: Settlement, outcomes: Outcomes) -> tuple[ForeignGrade, ...]:
    """Return the grades that paid another run, by time."""
    certain = outcomes.foreign & ~outcomes.own & ~outcomes.unpaid
    paid = settlement.unit_bin == CREDITED
    foreign = np.flatnonzero((paid & (settlement.unit_kind == FOREIGN)) | (certain & ~paid))
    table = facts.grades
    row = settlement.unit_grade[foreign]
    arms: dict[int, list[str]] = {unit: [] for unit in foreign.tolist()}
    for credit in np.flatnonzero(np.isin(settlement.credit_unit, foreign)).tolist():
        arms[int(settlement.credit_unit[credit])].append(settlement.arms[int(settlement.credit_arm[credit])])
    order = np.lexsort((table["pos"][row], table["at"][row]))
    return tuple(
        ForeignGrade(
            int(table["pos"][grade]),
            times.text_of(int(table["at"][grade])),
            facts.names.text(int(table["name"][grade])),
            "/".join(facts.graders.values[int(table["grader"][grade])]),
            float(settlement.unit_reward[unit]),
            facts.names.text(int(settlement.unit_source[unit])) if paid[unit] else None,
            tuple(arms[unit]),
            bool(certain[unit]),
        )
        for unit, grade in zip(foreign[order].tolist(), row[order].tolist(), strict=True)
    )


def audit_days(
    facts: Facts, settlement: Settlement, outcomes: Outcomes, foreign: tuple[ForeignGrade, ...]
) -> tuple[AuditDay, ...]:
    """Return one row for each day on which a grade was given, oldest first."""
    day = facts.grades["at"][settlement.unit_grade] // times.DAY_US
    days, group = np.unique(day, return_inverse=True)

    def counted(mask: Mask) -> list[int]:
        return np.bincount(group[mask], minlength=len(days)).tolist()  # type: ignore[no-any-return]

    paid = settlement.unit_bin == CREDITED
    columns = zip(
        counted(np.ones(len(group), np.bool_)),
        counted(paid),
        counted(paid & (settlement.unit_kind == FOREIGN)),
        counted(outcomes.foreign & ~outcomes.own & ~outcomes.unpaid),
        counted(outcomes.foreign),
        strict=True,
    )
    by_day: dict[str, list[ForeignGrade]] = {}
    for grade in foreign:
        by_day.setdefault(grade.at[:_DAY_CHARS], []).append(grade)
    rows = []
    for number, (grades, credited, astray, low, high) in zip(days.tolist(), columns, strict=True):
        text = times.text_of(number * times.DAY_US)[:_DAY_CHARS]
        mine = by_day.get(text, [])
        reward = math.fsum(grade.reward for grade in mine if grade.paid_session is not None)
        robbed = tuple(sorted({grade.session for grade in mine}))
        rows.append(AuditDay(text, grades, credited, astray, (low, high), reward, robbed))
    return tuple(rows)
