"""The rows of an explanation: each exposure and each grade with what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from rightful import times
from rightful.encoding.envelope import Envelope
from rightful.projections.credit.inputs import BINS
from rightful.projections.facts.facts import ERASED, FILE_TIME, GRADE, RETRACTION
from rightful.reports.explain.bin_reasons import outside_balance
from rightful.reports.explain.case import Case
from rightful.reports.explain.exposure_outcomes import exposure_outcome
from rightful.reports.explain.grade_outcomes import grade_outcome
from rightful.reports.explain.phrases import Remedy
from rightful.reports.explain.remedies import remedies_of

KINDS = {GRADE: "grade", RETRACTION: "retraction", ERASED: "erased"}


class ExposureRow(msgspec.Struct, frozen=True, kw_only=True):
    """An exposure and what became of it.

    Attributes:
        at: When it happened.
        at_basis: `file` where that is a file's time, only an upper bound.
        session: The session that was shown it.
        arms: What was shown, in order.
        context: The dimensions of a contextual bandit.
        state: What became of it.
        grade: The position of the grade that pays it, or that it has to do with.
        bin: Where it is `unpaid`, that grade's bin.
    """

    position: int
    id: str
    at: str
    at_basis: str | None
    session: str
    producer: str
    arms: list[str]
    withheld: list[str]
    context: list[str | None] | None
    state: str
    reason: str
    grade: int | None
    bin: str | None


class GradeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A grade or a retraction and what became of it.

    Attributes:
        session: The graded session, as the grader names it.
        grader: Producer and rubric.
        kind: `grade`, `retraction` or `erased`.
        seq: The grader's own revision number.
        reward: The reward; None if it has an outcome word, or nothing.
        exposure_session: The session that earned it, where the grade names one.
        state: A bin, or why it is in none.
        bin: The settlement's name of the bin; None where it is in none.
        exposures: The positions of the exposures that count for it.
        arms: The arms that it paid.
        outside_balance: Of a grade in-balance, the arms that it would pay and that no balance of its time holds.
        remedies: The events that would make it count.
    """

    position: int
    id: str
    at: str
    session: str
    grader: str
    kind: str
    seq: int
    reward: float | None
    outcome: str | None
    exposure_session: str | None
    state: str
    bin: str | None
    reason: str
    exposures: list[int]
    arms: list[str]
    outside_balance: list[str]
    remedies: list[Remedy]


def exposure_row(case: Case, row: int, envelopes: dict[int, Envelope]) -> ExposureRow:
    """Return a row of `facts.shown` with what became of it."""
    facts, table = case.facts, case.facts.shown
    position, context = int(table["pos"][row]), int(table["ctx"][row])
    exposure, envelope = exposure_outcome(case, row), envelopes[position]
    return ExposureRow(
        position=position,
        id=envelope.id,
        at=times.text_of(int(table["at"][row])),
        at_basis="file" if int(table["flags"][row]) & FILE_TIME else None,
        session=case.text(int(table["name"][row])),
        producer=envelope.producer,
        arms=case.arms_of(row),
        withheld=case.withheld_of(row),
        context=None if context < 0 else list(facts.contexts.values[context]),
        state=exposure.state,
        reason=exposure.reason,
        grade=None if exposure.grade is None else int(facts.grades["pos"][exposure.grade]),
        bin=exposure.bin,
    )


def grade_row(case: Case, row: int, envelopes: dict[int, Envelope]) -> GradeRow:
    """Return a row of `facts.grades` with what became of it."""
    facts, table = case.facts, case.facts.grades
    position, target = int(table["pos"][row]), int(table["target"][row])
    reward, outcome = float(table["reward"][row]), int(table["outcome"][row])
    verdict, kind = grade_outcome(case, row), int(table["kind"][row])
    unit, reached, paid = verdict.unit, np.empty(0, np.int64), np.empty(0, np.int64)
    if unit is not None:
        reached = case.reached(unit)
        paid = case.settlement.credit_arm[case.settlement.credit_unit == unit]
    return GradeRow(
        position=position,
        id=envelopes[position].id,
        at=times.text_of(int(table["at"][row])),
        session=case.text(int(table["name"][row])),
        grader=envelopes[position].producer if kind == ERASED else "/".join(case.grader(row)),
        kind=KINDS[kind],
        seq=int(table["seq"][row]),
        reward=None if np.isnan(reward) else reward,
        outcome=None if outcome < 0 else facts.outcomes.values[outcome],
        exposure_session=None if target < 0 else case.text(target),
        state=verdict.state,
        bin=None if unit is None else BINS[int(case.settlement.unit_bin[unit])],
        reason=verdict.reason,
        exposures=[] if unit is None else case.inputs.shown.pos[reached[case.timing(unit, reached)[0]]].tolist(),
        arms=[case.settlement.arms[arm] for arm in paid.tolist()],
        outside_balance=outside_balance(case, unit) if verdict.state == "in-balance" and unit is not None else [],
        remedies=remedies_of(case, row, verdict),
    )


def rows_through(table: Any, rows: Iterable[int], through: int) -> list[int]:  # noqa: ANN401 - a table of facts
    """Return the rows up to a position, each once, in log order."""
    found = np.unique(np.array(list(rows), np.int64))
    rows_in_range: list[int] = found[table["pos"][found] <= through].tolist()
    return rows_in_range


def count_states(states: Iterable[str]) -> dict[str, int]:
    """Return how many of each state there are, most first."""
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
