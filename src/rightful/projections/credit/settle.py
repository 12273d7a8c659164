"""Settling: every grade ends in one bin, and credited ones pay arms. Pure, for any prefix.

`settle` computes with whole columns, because a ledger has millions of rows: *units* (the
grades that a policy pays from), *pairs* (unit, exposure it reaches) and *credits* (unit, arm).
It settles all names, or a set of names closed under `Names.closure`; the settlements of
disjoint closed sets add up to the settlement of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rightful.policies import ArmDecay, Policy, SessionDecay
from rightful.projections.arithmetic.sums import Sums, sums_of
from rightful.projections.credit.bins_and_credits import Settlement, pay
from rightful.projections.credit.effective_grades import (
    Claims,
    EffectiveGrades,
    claims_of,
    find_effective_grades,
    places_of,
)
from rightful.projections.credit.inputs import BINS, NO_BIN, CreditInputs, credit_inputs
from rightful.projections.credit.joins import Sources, Targets, bound_targets, newest_sources
from rightful.projections.credit.runs import Runs, quarantine_of, runs_of
from rightful.projections.facts.columns import Ints, Mask
from rightful.projections.facts.facts import Facts

BLOCK_ROWS = 1 << 17
"""Exposures and grades that are settled at once; what a settlement needs grows with them."""


class SettlementTrace(NamedTuple):
    """A settlement and its inputs, for explanations.

    Attributes:
        inputs: The exposures and grades that were looked at.
        claims: The grade in force of every stream.
        place: Where each claim is placed: equal for all that speak of one run.
        effective_grades: The claims that the policy pays from.
        targets: What each of them reaches by the bound rule.
        sources: What each of them pays by the newest-file rule; None under the bound rule.
        settlement: What the policy made of them.
    """

    inputs: CreditInputs
    claims: Claims
    place: Ints
    effective_grades: EffectiveGrades
    targets: Targets
    sources: Sources | None
    settlement: Settlement


def settle(
    facts: Facts, policy: Policy, through: int, names: Iterable[int] | Mask | None = None, runs: Runs | None = None
) -> Settlement:
    """Return what a policy makes of the log up to a position.

    `names` is a set of names closed under `Names.closure`, as numbers or as a mask; None means all. It is only for
    the `bound` join: the newest session is sought among all.
    """
    return trace_settlement(facts, policy, through, names, runs).settlement


def trace_settlement(
    facts: Facts, policy: Policy, through: int, names: Iterable[int] | Mask | None = None, runs: Runs | None = None
) -> SettlementTrace:
    """Return what `settle` does, with what it was made from."""
    inputs = credit_inputs(facts, policy, through, names, runs)
    claims = claims_of(inputs)
    every = bound_targets(inputs, claims.grade)
    place = places_of(inputs, claims, every.bin == NO_BIN)
    effective_grades, kept = find_effective_grades(inputs, claims, place)
    targets = every.of(kept)
    sources = None if policy.join == "bound" else newest_sources(inputs, effective_grades, targets)
    return SettlementTrace(
        inputs, claims, place, effective_grades, targets, sources, pay(inputs, effective_grades, targets, sources)
    )


def adds_up(policy: Policy) -> bool:
    """Return whether a policy's answer is the sum of its answers for disjoint closed sets of names."""
    ordered = isinstance(policy.decay, SessionDecay | ArmDecay) or policy.arithmetic == "sequential"
    return policy.join == "bound" and not ordered


def tally(
    facts: Facts, policy: Policy, through: int, decay_at_us: int, runs: Runs | None = None
) -> tuple[Sums, dict[str, int]]:
    """Return what a policy's credits add up to, and its counters, without keeping the credits.

    Settles one block of names after the other, so that memory does not grow with the log; for
    policies that `adds_up`.
    """
    sums, counters = Sums(), Counter[str]()
    runs = runs_of(facts, through, quarantine_of(facts, through)) if runs is None else runs
    for block in _blocks(facts):
        settlement = trace_settlement(facts, policy, through, block, runs).settlement
        sums.add(sums_of(facts, settlement, policy, decay_at_us).of)
        counters.update(counters_of(settlement))
    return sums, dict(counters)


def counters_of(settlement: Settlement) -> dict[str, int]:
    """Return how many units ended in each bin, and what else was counted.

    The bins are exclusive: their sum is the number of units.
    """
    count = np.bincount(settlement.unit_bin, minlength=len(BINS)).tolist()
    assert sum(count[: len(BINS)]) == len(settlement.unit_bin), "every grade stream is in exactly one bin"
    return {**{f"{name}_grades": count[number] for number, name in enumerate(BINS)}, **settlement.counters}


def _blocks(facts: Facts) -> Iterator[Mask | None]:
    """Yield closed sets of names with about `BLOCK_ROWS` rows each; None for all of them at once."""
    shown, grades = facts.shown.columns["name"], facts.grades.columns["name"]
    if len(shown) + len(grades) <= BLOCK_ROWS:
        yield None
        return
    label = facts.names.labels()
    rows = np.bincount(shown, minlength=len(label)) + np.bincount(grades, minlength=len(label))
    of_label = np.cumsum(np.bincount(label, weights=rows, minlength=len(label))).astype(np.int64) // BLOCK_ROWS
    block = of_label[label]
    for number in np.unique(block).tolist():
        yield block == number
