"""Paying: from what each unit reaches to its bin and its credits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from rightful.policies import Policy
from rightful.projections.credit.effective_grades import EffectiveGrades
from rightful.projections.credit.inputs import (
    AMBIGUOUS,
    CONFLICTING,
    CREDITED,
    EMPTY,
    ERASED_BIN,
    IN_BALANCE,
    LATE_ONLY,
    NO_BIN,
    UNMAPPED,
    CreditInputs,
)
from rightful.projections.credit.joins import FOREIGN, Sources, Targets
from rightful.projections.facts.columns import Floats, Ints, Mask, expanded
from rightful.projections.facts.facts import Aside

PAIRS_AT_ONCE = 1 << 20
"""Pairs of unit and exposure that are looked at together; a settlement's memory grows with them."""


class Settlement(NamedTuple):
    """What a policy makes of the log. Arrays of one length a group.

    Attributes:
        unit_grade: Row of `facts.grades`.
        unit_bin: Number in `BINS`.
        unit_run: The run that was graded.
        unit_target: The run that the bound join reaches, or -1.
        unit_source: Under `newest`, the name whose exposures were paid, or -1.
        unit_kind: Under `newest`, whether that is OWN, FOREIGN or UNVERIFIABLE; else -1.
        unit_reward: The reward; NaN where there is none.
        unit_slot: Its place in the order of decay; a position.
        unit_first_us: First exposure it credits; microseconds since 1970.
        credit_unit: Row of the unit arrays.
        credit_arm: Number of the arm, aliases resolved.
        credit_context: Number of the context of the arm's first exposure, or -1.
        credit_weight: Weight, before decay.
        credit_reward: Reward of this arm.
        arms: The arms' names, by number; first those of the facts.
        counters: What else was counted.
    """

    unit_grade: Ints
    unit_bin: Ints
    unit_run: Ints
    unit_target: Ints
    unit_source: Ints
    unit_kind: Ints
    unit_reward: Floats
    unit_slot: Ints
    unit_first_us: Ints
    credit_unit: Ints
    credit_arm: Ints
    credit_context: Ints
    credit_weight: Floats
    credit_reward: Floats
    arms: list[str]
    counters: dict[str, int]


class Pairs(NamedTuple):
    """Every exposure that a unit reaches.

    Attributes:
        unit: Row of the effective grades; ascending.
        shown: Row of `CreditInputs.shown`.
        live: It counts: usable, and not after the grade.
        late: It came after the grade.
    """

    unit: Ints
    shown: Ints
    live: Mask
    late: Mask


def pay(
    inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets, sources: Sources | None
) -> Settlement:
    """Return every unit's bin and every arm's credits."""
    reward, unmapped = _rewards(inputs, effective_grades)
    every_pair = _every_pair(inputs, effective_grades, targets, sources)
    none = np.zeros(len(effective_grades.grade), np.bool_)
    contested = effective_grades.shared | _contested(inputs, effective_grades, every_pair) if sources is None else none
    bins = _bins(inputs, effective_grades, every_pair, targets if sources is None else sources, unmapped, contested)
    parts: list[Credits] = []
    late_arms, first_us = 0, np.full(len(bins), np.iinfo(np.int64).max)
    for pairs in every_pair:
        paid = pairs.live & (bins[pairs.unit] == CREDITED)
        unit, shown = pairs.unit[paid], pairs.shown[paid]
        parts.append(_credits(inputs, unit, shown))
        if pairs.late.any():
            late_arms += _late_arms(inputs, pairs)
        np.minimum.at(first_us, unit, inputs.shown.at[shown])
    owed = Credits(*[np.concatenate(columns) for columns in zip(*parts, strict=True)]) if parts[1:] else parts[0]
    weight, arm_reward, unexposed, paid_credits = _weigh(inputs, effective_grades, owed, reward)
    if inputs.balances and (inside := _in_balance(inputs, effective_grades, paid_credits)).any():
        bins[inside] = IN_BALANCE
        owed = Credits(*[column[~inside[owed.unit]] for column in owed])
        weight, arm_reward, unexposed, paid_credits = _weigh(inputs, effective_grades, owed, reward)
    nobody = np.full(len(bins), NO_BIN, np.int64)
    counters = {
        "late_exposures": late_arms,
        "pending_sessions": _pending(inputs, effective_grades, targets),
        "crossover_arms": len(crossed(inputs)),
        "per_arm_unexposed": unexposed,
        "foreign_grades": 0 if sources is None else int(((bins == CREDITED) & (sources.kind == FOREIGN)).sum()),
    }
    return Settlement(
        inputs.grades.row[effective_grades.grade],
        bins,
        effective_grades.run,
        np.where(targets.high > targets.low, targets.run, NO_BIN),
        nobody if sources is None else sources.name,
        nobody if sources is None else np.where(bins == CREDITED, sources.kind, NO_BIN),
        reward,
        effective_grades.slot,
        first_us,
        *paid_credits,
        weight,
        arm_reward,
        inputs.arms,
        counters,
    )


def _rewards(inputs: CreditInputs, effective_grades: EffectiveGrades) -> tuple[Floats, Mask]:
    """Return each unit's reward, and where its outcome word has none."""
    worth = [inputs.policy.outcomes.get(word, float("nan")) for word in inputs.facts.outcomes.values]
    by_word = np.array([*worth, float("nan")])
    given = inputs.grades.reward[effective_grades.grade]
    reward = np.where(np.isnan(given), by_word[inputs.grades.outcome[effective_grades.grade]], given)
    return reward, np.isnan(reward)


def _every_pair(
    inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets, sources: Sources | None
) -> Iterable[Pairs]:
    """Return all pairs, some units at a time; they can be iterated over again.

    A session of many grades and many exposures has their product of pairs, so they are not all
    in memory at once.
    """
    low, high = (targets.low, targets.high) if sources is None else (sources.low, sources.high)
    count = np.where(effective_grades.bin == NO_BIN, high - low, 0)
    part = np.cumsum(count) // PAIRS_AT_ONCE
    ends = np.append(np.flatnonzero(part[1:] != part[:-1]) + 1, len(count))
    slices = [slice(start, end) for start, end in pairwise([0, *ends.tolist()])]
    order = targets.reach.order if sources is None else sources.order
    every_pair = _PairSlices(inputs, inputs.grades.at[effective_grades.grade], order, low, count, slices)
    return [every_pair.of(slices[0])] if len(slices) == 1 else every_pair


class _PairSlices(msgspec.Struct, frozen=True):
    """The pairs of all units, made slice by slice in each iteration.

    Attributes:
        inputs: The exposures and grades.
        grade_at: The time of each unit's grade.
        order: Rows of `CreditInputs.shown`, so that what a unit reaches is one range.
        low: The start of each unit's range in `order`.
        count: The length of each unit's range.
        slices: The units that are looked at together.
    """

    inputs: CreditInputs
    grade_at: Ints
    order: Ints
    low: Ints
    count: Ints
    slices: list[slice]

    def of(self, part: slice) -> Pairs:
        """Return the pairs of a slice of the units."""
        unit, place = expanded(self.low[part], self.count[part])
        unit, shown = unit + part.start, self.order[place]
        return Pairs(unit, shown, *in_time(self.inputs, self.grade_at[unit], shown))

    def __iter__(self) -> Iterator[Pairs]:
        return map(self.of, self.slices)


def in_time(inputs: CreditInputs, grade_at: Ints, shown: Ints) -> tuple[Mask, Mask]:
    """Return which exposures count for a grade of a time, and which came after it."""
    at, usable = inputs.shown.at[shown], inputs.shown.usable[shown]
    late = np.zeros(len(shown), np.bool_)
    if inputs.policy.join == "newest":
        return usable & ~inputs.shown.superseded[shown] & (at <= grade_at), late
    if inputs.policy.causal_order == "strict":
        skew_us = round(inputs.policy.skew_s * 1_000_000)
        late = usable & (inputs.shown.late_from[shown] > grade_at + skew_us)
    return usable & ~late, late


def _bins(
    inputs: CreditInputs,
    effective_grades: EffectiveGrades,
    every_pair: Iterable[Pairs],
    targets: Targets | Sources,
    unmapped: Mask,
    contested: Mask,
) -> Ints:
    """Return the one reason for which each unit ends where it does; the first that fits.

    Opening balances come later: what they contain is decided by the arms that a unit pays.
    """
    live, arms, late, erased = np.zeros((4, len(effective_grades.grade)), np.bool_)
    for pairs in every_pair:
        live[pairs.unit[pairs.live]] = True
        arms[pairs.unit[pairs.live & (inputs.shown.size[pairs.shown] > 0)]] = True
        late[pairs.unit[pairs.late]] = True
        erased[pairs.unit[inputs.shown.erased[pairs.shown]]] = True
    return np.select(
        [effective_grades.bin != NO_BIN, unmapped, targets.bin != NO_BIN, contested, arms, live],
        [effective_grades.bin, UNMAPPED, targets.bin, AMBIGUOUS, CREDITED, EMPTY],
        np.where(late, LATE_ONLY, np.where(erased, ERASED_BIN, CONFLICTING)),
    )


def _in_balance(inputs: CreditInputs, effective_grades: EffectiveGrades, owed: Credits) -> Mask:
    """Return which units an opening balance contains: it holds an arm that the unit pays, up to its time or later."""
    inside = np.zeros(len(effective_grades.grade), np.bool_)
    until = inputs.contained_until()
    inside[owed.unit[effective_grades.since[owed.unit] <= until[owed.arm]]] = True
    return inside


def _contested(inputs: CreditInputs, effective_grades: EffectiveGrades, every_pair: Iterable[Pairs]) -> Mask:
    """Return which units reach an exposure that the effective grade of another run reaches too."""
    size = len(inputs.shown.row)
    lowest, highest = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, np.int64)
    for pairs in every_pair:
        shown, place = pairs.shown[pairs.live], effective_grades.place[pairs.unit[pairs.live]]
        np.minimum.at(lowest, shown, place)
        np.maximum.at(highest, shown, place)
    shared = lowest < highest
    contested = np.zeros(len(effective_grades.grade), np.bool_)
    for pairs in every_pair:
        contested[pairs.unit[pairs.live & shared[pairs.shown]]] = True
    return contested


class Credits(NamedTuple):
    """(unit, arm) pairs, by unit."""

    unit: Ints
    arm: Ints
    context: Ints


def _arms_of(inputs: CreditInputs, shown: Ints) -> tuple[Ints, Ints]:
    """Return (place in `shown`, arm) for every arm that some exposures list."""
    place, listed = expanded(inputs.shown.start[shown], inputs.shown.size[shown])
    return place, inputs.canonical[inputs.facts.arms_shown.columns["arm"][listed]]


def _credits(inputs: CreditInputs, unit: Ints, shown: Ints) -> Credits:
    """Return each unit's arms, each once, with the context of its first exposure.

    Under the `sequential` arithmetic an arm listed twice stays twice, as a stateful updater
    treats it.
    """
    row, arm = _arms_of(inputs, shown)
    unit, shown = unit[row], shown[row]
    if inputs.policy.arithmetic == "sequential":
        order = np.lexsort((np.arange(len(row)), inputs.shown.pos[shown], unit))
        return Credits(unit[order], arm[order], inputs.shown.context[shown[order]])
    context_rank = inputs.facts.context_rank()[inputs.shown.context[shown]]
    order = np.lexsort((inputs.shown.pos[shown], context_rank, inputs.shown.at[shown], arm, unit))
    unit, arm = unit[order], arm[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (unit[1:] != unit[:-1]) | (arm[1:] != arm[:-1])
    return Credits(unit[first], arm[first], inputs.shown.context[shown[order[first]]])


def _weigh(
    inputs: CreditInputs, effective_grades: EffectiveGrades, owed: Credits, reward: Floats
) -> tuple[Floats, Floats, int, Credits]:
    """Return each credit's weight and reward, how many per-arm rewards named no exposed arm, and the credits left."""
    split = inputs.policy.credit in {"split", "salience_split"}
    count = np.bincount(owed.unit, minlength=len(effective_grades.grade))
    weight = 1.0 / count[owed.unit] if split else np.ones(len(owed.unit))
    arm_reward = reward[owed.unit]
    unexposed = 0
    aside = inputs.grades.aside[effective_grades.grade]
    ends = np.cumsum(count)
    said_of_arms = np.flatnonzero((aside >= 0) & (count > 0)).tolist()
    names = {arm: number for number, arm in enumerate(inputs.arms)} if said_of_arms else {}
    for unit in said_of_arms:
        mine = slice(int(ends[unit] - count[unit]), int(ends[unit]))
        said: Aside = inputs.facts.asides[int(aside[unit])]
        own = owed.arm[mine]
        if said.per_arm is not None:
            given = _by_number(said.per_arm, names, inputs.policy)
            arm_reward[mine] = [given.get(arm, old) for arm, old in zip(own.tolist(), arm_reward[mine], strict=True)]
            unexposed += len(given.keys() - set(own.tolist()))
        if said.salience is not None and inputs.policy.credit.startswith("salience"):
            given = _by_number(said.salience, names, inputs.policy)
            matter = np.array([given.get(arm, 0.0) for arm in own.tolist()])
            total = matter.sum() if split else 1.0
            weight[mine] = matter / total if total > 0 else 0.0
    kept = weight > 0
    return weight[kept], arm_reward[kept], unexposed, Credits(*[column[kept] for column in owed])


def _by_number(said: dict[str, float], names: dict[str, int], policy: Policy) -> dict[int, float]:
    """Return what a grade says of arms by canonical number; unknown arms get numbers of their own below -1."""
    by_arm: dict[str, float] = {}
    for arm, value in sorted(said.items()):
        by_arm.setdefault(policy.arm_aliases.get(arm, arm), value)
    return {names.get(arm, -2 - place): value for place, (arm, value) in enumerate(by_arm.items())}


def _late_arms(inputs: CreditInputs, pairs: Pairs) -> int:
    """Return how many (unit, arm) were dropped because every exposure of the arm came after the grade."""
    keys = []
    for mask in (pairs.late, pairs.live):
        row, arm = _arms_of(inputs, pairs.shown[mask])
        keys.append(np.unique(pairs.unit[mask][row] << 32 | arm))
    return int((~np.isin(keys[0], keys[1])).sum())


def _pending(inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets) -> int:
    """Return how many runs were shown arms and are reached by no effective grade."""
    listing = inputs.shown.usable & (inputs.shown.size > 0)
    waiting = np.zeros(len(inputs.runs.of), np.bool_)
    waiting[inputs.runs.of[inputs.shown.session[listing]]] = True
    waiting[targets.run[effective_grades.bin == NO_BIN]] = False
    return int(waiting.sum())


def crossed(inputs: CreditInputs) -> Ints:
    """Return the (run, arm) that were both shown and withheld, each as one number: run << 32 | arm."""
    withheld = inputs.facts.withheld.columns
    if not len(withheld["row"]):
        return np.empty(0, np.int64)
    row = np.searchsorted(inputs.shown.row, withheld["row"])
    inside = row < len(inputs.shown.row)
    inside[inside] = inputs.shown.row[row[inside]] == withheld["row"][inside]
    inside[inside] = inputs.shown.usable[row[inside]]
    held_run = inputs.runs.of[inputs.shown.session[row[inside]]].astype(np.int64)
    held = np.unique(held_run << 32 | inputs.canonical[withheld["arm"][inside]])
    if not len(held):
        return held
    rows = np.flatnonzero(inputs.shown.usable)
    shown_row, arm = _arms_of(inputs, rows)
    shown_run = inputs.runs.of[inputs.shown.session[rows[shown_row]]].astype(np.int64)
    shown = shown_run << 32 | arm
    place = np.minimum(np.searchsorted(held, shown), len(held) - 1)  # `isin` would hash all that was shown
    both = np.zeros(len(held), np.bool_)
    both[place[held[place] == shown]] = True
    return held[both]
