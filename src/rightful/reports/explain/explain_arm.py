"""Explain an arm: every credit in order, with the belief after it, and every exposure that earned none.

The last running belief is the one that `posteriors` answers, to the last bit: under `exact`
arithmetic each is a sum of whole numbers rounded once, under `sequential` the float operations
of the updater, with its decays and losses as rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rightful import times
from rightful.errors import UsageError
from rightful.policies import Policy
from rightful.projections.arithmetic.exact import scaled, value
from rightful.projections.arithmetic.sequential import Change, Running, changes
from rightful.projections.arithmetic.sums import decay_of
from rightful.projections.credit.inputs import balances
from rightful.projections.credit.settle import adds_up
from rightful.projections.facts.columns import Floats, Ints, Mask
from rightful.projections.facts.facts import Balance, Facts, OpeningValues
from rightful.projections.facts.log_clock import latest_at_us
from rightful.projections.projected import Projected
from rightful.reports.beta_math.beta import interval
from rightful.reports.explain.case import Case, envelopes_at
from rightful.reports.explain.explained_rows import ExposureRow, count_states, exposure_row


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that moved the belief about an arm, and the belief after it.

    Attributes:
        kind: `opening`, `credit`, `decay` or `prune`.
        session: Of a credit: the run's own name.
        grader: Of a credit: producer and rubric. Of an opening: the balance's source.
        seq: Of a credit: the grade's own revision number.
        reward: Of a credit: what the arm got, 0 to 1.
        grade_reward: Of a credit: the reward of the whole grade, where the arm's own differs from it.
        weight: Of a credit: its weight, before decay.
        decayed: Of a credit: what decay leaves of that weight now. Of a decay: its factor.
        context: Of a credit: the context of the arm's first exposure.
        exposures: Of a credit: the positions of the exposures that earned it.
    """

    kind: str
    position: int
    id: str
    at: str
    session: str | None = None
    grader: str | None = None
    seq: int | None = None
    reward: float | None = None
    grade_reward: float | None = None
    weight: float | None = None
    decayed: float | None = None
    context: list[str | None] | None = None
    exposures: list[int] = []
    alpha: float
    beta: float
    n: int
    mass: float


class ArmExplained(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="arm"):
    """Everything that moved the belief about an arm, and what did not.

    Attributes:
        aliases: Other names that the policy counts as this arm and that the ledger knows.
        decay_at: The time of a decay by time; None where there is none.
        prior: (alpha, beta) where it begins.
        mass: Sum of their weights after decay.
        steps: Every credit, opening, decay and loss, in order, with the belief after it.
        unpaid: The exposures of the arm that earned nothing, each with the reason.
        unpaid_states: How many of each reason: a state, or the bin of the grade that reaches them.
        withheld: The positions of the exposures that withheld it.
        ci95: The 95% interval of the reward.
    """

    arm: str
    aliases: list[str]
    policy: dict[str, Any]
    through: int
    decay_at: str | None
    prior: tuple[float, float]
    alpha: float
    beta: float
    n: int
    mass: float
    mean: float
    steps: list[Step]
    unpaid: list[ExposureRow]
    unpaid_states: dict[str, int]
    withheld: list[int]
    ci95: tuple[float, float]


def explain_arm(
    projected: Projected,
    policy: Policy,
    arm: str,
    *,
    as_of: int | str | datetime | None = None,
    decay_at: datetime | str | float | None = None,
) -> ArmExplained:
    """Return every credit of an arm with the belief after it, and its exposures without credit.

    Args:
        projected: The projections, with their log.
        policy: The rule.
        arm: The arm's name; an alias of the policy is replaced by its arm.
        as_of: A position, or a time of recording. All of the log if None.
        decay_at: The time of a decay; the largest event time up to the position if None.

    Raises:
        UsageError: No exposure and no opening balance up to the position names it.
    """
    through = projected.prefix(as_of)
    facts = projected.facts
    at_us = latest_at_us(projected.log, facts, through) if decay_at is None else times.us_from(decay_at)
    arm = policy.arm_aliases.get(arm, arm)
    alike = [name for name in facts.arms.values if policy.arm_aliases.get(name, name) == arm]
    shown, held = _rows_of(facts, alike, through)
    opened = [
        (balance, held_there)
        for balance in balances(facts, policy, through)
        for name, held_there in balance.arms.items()
        if policy.arm_aliases.get(name, name) == arm
    ]
    if not (len(shown) or len(held) or opened):
        raise UsageError(f"no exposure and no balance up to position {through} names the arm {arm!r}.")
    names = np.unique(facts.shown["name"][shown]).tolist()
    case = Case(facts, policy, through, facts.names.closure(names) if adds_up(policy) else None)
    credits_of = _credits(case, arm, shown, at_us)
    steps, last = _steps(projected, case, arm, credits_of, opened)
    unpaid_rows = shown[~credits_of.paid].tolist()
    envelopes = envelopes_at(projected.log, facts.shown["pos"][unpaid_rows].tolist())
    unpaid = [exposure_row(case, row, envelopes) for row in unpaid_rows]
    return ArmExplained(
        arm=arm,
        aliases=[name for name in alike if name != arm],
        policy={**policy.as_dict(), "hash": policy.hash},
        through=through,
        decay_at=times.text_of(at_us) if policy.decay is not None and at_us else None,
        prior=policy.prior,
        alpha=last.alpha,
        beta=last.beta,
        n=last.n,
        mass=last.mass,
        mean=last.alpha / (last.alpha + last.beta),
        steps=steps,
        unpaid=unpaid,
        unpaid_states=count_states(row.bin or row.state for row in unpaid),
        withheld=facts.shown["pos"][held].tolist(),
        ci95=interval(last.alpha, last.beta),
    )


def _rows_of(facts: Facts, arms: list[str], through: int) -> tuple[Ints, Ints]:
    """Return the rows of `facts.shown` that list one of some arms, and those that withheld one."""
    of = {arm: number for number, arm in enumerate(facts.arms.values)}
    numbers = [of[arm] for arm in arms]
    places = np.flatnonzero(np.isin(facts.arms_shown["arm"], numbers))
    table = facts.shown
    filled = np.flatnonzero(table["count"])
    starts = table["start"][filled]
    shown = np.unique(filled[np.searchsorted(starts, places, "right") - 1]) if len(places) else np.empty(0, np.int64)
    held = np.unique(facts.withheld["row"][np.isin(facts.withheld["arm"], numbers)]).astype(np.int64)
    return shown[table["pos"][shown] <= through], held[table["pos"][held] <= through]


class _Credits(NamedTuple):
    """The credits of one arm, in order of their grades' positions.

    Attributes:
        credit: Rows of the settlement's credits.
        unit: Whose each is.
        position: The position of its grade.
        decay: What decay leaves of it.
        exposures: The positions of the exposures that earned it.
        paid: For each row of `facts.shown` that lists the arm, whether it is one of them.
    """

    credit: Ints
    unit: Ints
    position: Ints
    decay: Floats
    exposures: list[list[int]]
    paid: Mask


def _credits(case: Case, arm: str, shown: Ints, at_us: int) -> _Credits:
    found = case.settlement
    number = found.arms.index(arm) if arm in found.arms else -1
    mine = np.flatnonzero(found.credit_arm == number)
    position = case.facts.grades["pos"][found.unit_grade[found.credit_unit[mine]]].astype(np.int64)
    order = np.argsort(position, kind="stable")
    mine, position = mine[order], position[order]
    exact = case.policy.arithmetic == "exact"
    decay = decay_of(found, case.policy, at_us)[mine] if exact else np.ones(len(mine))
    exposures, paid = _earned(case, found.credit_unit[mine], shown)
    return _Credits(mine, found.credit_unit[mine], position, decay, exposures, paid)


def _earned(case: Case, units: Ints, shown: Ints) -> tuple[list[list[int]], Mask]:
    """Return, for each unit, the positions of the arm's exposures that count for it; and which do for any."""
    at = np.searchsorted(case.inputs.shown.row, shown)
    inside = at < len(case.inputs.shown.row)
    inside[inside] = case.inputs.shown.row[at[inside]] == shown[inside]
    scene_rows = at[inside]
    places = case.place[scene_rows]
    by_place = np.argsort(places)
    places, scene_rows = places[by_place], scene_rows[by_place]
    paid, exposures = np.zeros(len(case.inputs.shown.row), np.bool_), []
    for unit in units.tolist():
        low, high = np.searchsorted(places, [case.low[unit], case.high[unit]])
        reached = scene_rows[low:high]
        live = np.sort(reached[case.timing(unit, reached)[0]])
        paid[live] = True
        exposures.append(case.inputs.shown.pos[live].tolist())
    out = np.zeros(len(shown), np.bool_)
    out[inside] = paid[at[inside]]
    return exposures, out


def _steps(
    projected: Projected, case: Case, arm: str, found: _Credits, opened: list[tuple[Balance, OpeningValues]]
) -> tuple[list[Step], Running]:
    exact = case.policy.arithmetic == "exact"
    walk = _exact(case, found, opened) if exact else _sequential(case, arm, found, opened)
    moved = list(walk)
    envelopes = envelopes_at(projected.log, [position for _, position, _, _ in moved])
    steps = []
    for kind, position, more, state in moved:
        envelope = envelopes[position]
        steps.append(
            Step(
                kind=kind, position=position, id=envelope.id, at=times.text_of(envelope.at_us),
                alpha=state.alpha, beta=state.beta, n=state.n, mass=state.mass, **more,
            )
        )  # fmt: skip
    return steps, moved[-1][3] if moved else Running(*case.policy.prior, 0, 0.0)


_Moved = tuple[str, int, dict[str, Any], Running]


def _exact(case: Case, found: _Credits, opened: list[tuple[Balance, OpeningValues]]) -> Iterator[_Moved]:
    """Yield the prefix sums, each rounded once."""
    whole, prior = scaled(1.0), (scaled(case.policy.prior[0]), scaled(case.policy.prior[1]))
    n, mass, success = 0, 0, 0

    def state() -> Running:
        return Running(value(success + prior[0]), value(mass - success + prior[1]), n, value(mass))

    for balance, held in opened:
        n, mass = n + held.n, mass + scaled(held.alpha) + scaled(held.beta) - 2 * whole
        success += scaled(held.alpha) - whole
        yield "opening", balance.position, {"grader": balance.source}, state()
    for at, credit in enumerate(found.credit.tolist()):
        weight = float(case.settlement.credit_weight[credit] * found.decay[at])
        n, mass = n + 1, mass + scaled(weight)
        success += scaled(weight * float(case.settlement.credit_reward[credit]))
        yield "credit", int(found.position[at]), _credit(case, found, at), state()


def _sequential(case: Case, arm: str, found: _Credits, opened: list[tuple[Balance, OpeningValues]]) -> Iterator[_Moved]:
    """Yield the states of an updater, its decays and losses among them."""
    fresh = Running(*case.policy.prior, 0, 0.0)
    state, known = fresh, False
    for balance, held in opened:
        state, known = state.opened(held), True
        yield "opening", balance.position, {"grader": balance.source}, state
    for change, at in _in_order(case, found):
        if change is None:
            credit = found.credit[at]
            weight, reward = (
                float(column[credit]) for column in (case.settlement.credit_weight, case.settlement.credit_reward)
            )
            state, known = state.credited(weight, reward), True
            yield "credit", int(found.position[at]), _credit(case, found, at), state
        elif change.gamma is not None and arm not in change.spared:
            state = state.decayed(change.gamma, case.policy.prior)
            if known:
                yield "decay", change.position, {"decayed": change.gamma}, state
        elif (arm, None) in change.dropped and known:
            state, known = fresh, False
            yield "prune", change.position, {}, state


def _in_order(case: Case, found: _Credits) -> Iterator[tuple[Change | None, int]]:
    """Yield changes and the places of credits by position; a change before what is credited there."""
    moves = sorted(changes(case.facts, case.settlement, case.policy, case.through), key=lambda change: change.position)
    at = 0
    for change in moves:
        while at < len(found.position) and found.position[at] < change.position:
            yield None, at
            at += 1
        yield change, -1
    for rest in range(at, len(found.position)):
        yield None, rest


def _credit(case: Case, found: _Credits, at: int) -> dict[str, Any]:
    """Return what a step says of a credit."""
    credit, unit = int(found.credit[at]), int(found.unit[at])
    settlement = case.settlement
    row = int(settlement.unit_grade[unit])
    reward, whole = float(settlement.credit_reward[credit]), float(settlement.unit_reward[unit])
    context = int(settlement.credit_context[credit])
    return {
        "session": case.text(int(settlement.unit_run[unit])),
        "grader": "/".join(case.grader(row)),
        "seq": int(case.facts.grades["seq"][row]),
        "reward": reward,
        "grade_reward": None if reward == whole or np.isnan(whole) else whole,
        "weight": float(settlement.credit_weight[credit]),
        "decayed": float(settlement.credit_weight[credit] * found.decay[at]),
        "context": None if context < 0 else list(case.facts.contexts.values[context]),
        "exposures": found.exposures[at],
    }
