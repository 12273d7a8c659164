"""Sufficient statistics: what credits add up to, exact and mergeable.

For each arm, and for each arm in each context: n (credits), the mass (sum of weights) and the
success (sum of weight times reward). Both sums are whole numbers of 2**-SCALE_BITS, so the order
of credits and the way in which they were split decide nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from rightful.policies import ArmDecay, Policy, SessionDecay, TimeDecay
from rightful.projections.arithmetic.decay import arm_weights, session_weights, time_weights
from rightful.projections.arithmetic.exact import group_sums
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.facts.columns import Floats, Ints
from rightful.projections.facts.facts import Facts

Context: TypeAlias = tuple[str | None, ...]
Key: TypeAlias = tuple[str, Context | None]
"""An arm, or an arm in a context."""

Statistic: TypeAlias = tuple[int, int, int]
"""n, mass, success; the latter two in units of 2**-SCALE_BITS."""


class Sums:
    """The statistics of all arms and contexts.

    Attributes:
        of: For each (arm, None) and (arm, context), its statistic.
    """

    def __init__(self, of: dict[Key, Statistic] | None = None) -> None:
        self.of: dict[Key, Statistic] = {} if of is None else of

    def add(self, other: Mapping[Key, Statistic], sign: int = 1) -> None:
        """Add other statistics, or subtract them with `sign` -1."""
        if sign == 1 and self.of.keys().isdisjoint(other):  # such as the first, and the contexts after the arms
            self.of.update(other)
            return
        for key, (n, mass, success) in other.items():
            old = self.of.get(key, (0, 0, 0))
            new = (old[0] + sign * n, old[1] + sign * mass, old[2] + sign * success)
            if new == (0, 0, 0):
                self.of.pop(key, None)
            else:
                self.of[key] = new

    def copy(self) -> Sums:
        """Return the same statistics, to be changed apart."""
        return Sums(dict(self.of))

    def rows(self) -> Iterator[tuple[str, Context | None, int, int, int]]:
        """Yield (arm, context, n, mass, success), sorted."""
        for arm, context in ordered(self.of):
            yield arm, context, *self.of[arm, context]


def ordered(keys: Collection[Key]) -> list[Key]:
    """Return keys by arm; an arm before its contexts, and what is not known before what is.

    There are many keys and few contexts, so the contexts are put in order once.
    """
    contexts = sorted({context for _, context in keys}, key=_context_order)
    rank = {context: place for place, context in enumerate(contexts)}
    return sorted(keys, key=lambda key: (key[0], rank[key[1]]))


def _context_order(context: Context | None) -> tuple[bool, tuple[tuple[bool, str], ...]]:
    return context is not None, tuple((part is not None, part or "") for part in context or ())


def sums_of(facts: Facts, settlement: Settlement, policy: Policy, decay_at_us: int) -> Sums:
    """Return what a settlement's credits add up to under a policy's decay.

    Args:
        facts: The columns that were settled.
        settlement: Every unit and credit.
        policy: The rule; its decay weighs the credits.
        decay_at_us: The time of a `time` decay; microseconds since 1970, UTC.
    """
    weight = settlement.credit_weight
    if policy.decay is not None:
        weight = weight * decay_of(settlement, policy, decay_at_us)
    sums = Sums()
    none = np.zeros(len(weight), np.int64)
    _sum(sums, settlement, weight, none, [None])
    contexts = facts.contexts.values
    if len(contexts):
        place = settlement.credit_context
        _sum(sums, settlement, weight, place, contexts)
        if policy.marginals:
            for dimension, values in _marginals(contexts):
                _sum(sums, settlement, weight, np.where(place < 0, -1, dimension[place]), values)
    return sums


def _sum(sums: Sums, settlement: Settlement, weight: Floats, place: Ints, contexts: Sequence[Context | None]) -> None:
    """Add the credits by arm and context; `place` is the number in `contexts`, -1 for none of them."""
    chosen = place >= 0
    key = settlement.credit_arm[chosen] * len(contexts) + place[chosen]
    keys, slot, count = _grouped(key, len(settlement.arms) * len(contexts))
    w = weight[chosen]
    mass = group_sums(slot, w, len(count))
    success = group_sums(slot, w * settlement.credit_reward[chosen], len(count))
    part: dict[Key, Statistic] = {}
    for pair, at in keys:
        part[settlement.arms[pair // len(contexts)], contexts[pair % len(contexts)]] = (
            count[at],
            mass[at],
            success[at],
        )
    sums.add(part)


def _grouped(key: Ints, size: int) -> tuple[list[tuple[int, int]], Ints, list[int]]:
    """Return the keys in use with their slots, each value's slot, and how many values a slot has."""
    if size <= max(2 * len(key), 1 << 16):
        count = np.bincount(key, minlength=size)
        used = np.flatnonzero(count).tolist()
        return list(zip(used, used, strict=True)), key, count.tolist()
    keys, slot, count = np.unique(key, return_inverse=True, return_counts=True)
    return list(zip(keys.tolist(), range(len(keys)), strict=True)), slot, count.tolist()


def _marginals(contexts: list[Context]) -> Iterator[tuple[Ints, list[Context]]]:
    """Yield, for each dimension, the one-value context of each context, and those contexts.

    A context of one dimension is its own marginal and is not counted twice; nor is a value that
    an earlier dimension of the same context has.
    """
    for dimension in range(max(map(len, contexts))):
        values: dict[Context, int] = {}
        of = np.full(len(contexts), -1, np.int64)
        for number, context in enumerate(contexts):
            if (
                len(context) > max(dimension, 1)
                and context[dimension] is not None
                and context[dimension] not in context[:dimension]
            ):
                of[number] = values.setdefault((context[dimension],), len(values))
        if values:
            yield of, list(values)


def decay_of(settlement: Settlement, policy: Policy, decay_at_us: int) -> Floats:
    """Return what the policy's decay leaves of each credit, as a factor of its weight."""
    unit, slot = settlement.credit_unit, settlement.unit_slot
    match policy.decay:
        case TimeDecay(half_life=half_life):
            return time_weights(settlement.unit_first_us[unit], decay_at_us, half_life)
        case SessionDecay(gamma=gamma):
            slots, rank = np.unique(slot[unit], return_inverse=True)
            return session_weights(rank, len(slots), gamma)
        case ArmDecay(gamma=gamma):
            return _arm_decay(settlement, gamma)
        case _:
            return np.ones(len(unit))


def _arm_decay(settlement: Settlement, gamma: float) -> Floats:
    arm = settlement.credit_arm
    order = np.lexsort((settlement.unit_slot[settlement.credit_unit], arm))
    count: Ints = np.bincount(arm) if len(arm) else np.zeros(0, np.int64)
    starts = np.cumsum(count) - count
    index = np.empty(len(arm), np.int64)
    index[order] = np.arange(len(arm)) - starts[arm[order]]
    return arm_weights(index, count[arm], gamma)
