"""The log as an updater saw it when it wrote its file last, by the events' own times."""

from __future__ import annotations

import copy

import numpy as np

from rightful.policies import Policy
from rightful.projections.credit.settle import settle
from rightful.projections.facts.columns import Mask, Table
from rightful.projections.facts.facts import FILE_TIME, Facts
from rightful.reports.audits.state_beliefs import StateFile

CLOSE = 1e-9
"""How far alpha and beta may be apart to be the same but for rounding."""

LATER_US = 60_000_000
"""How much later than a file's last update its last call may be stamped: it is recorded once the file is saved."""

_STEPS = 60
_GAMMA_DIGITS = 4
_NEGLIGIBLE = 1e-6


def facts_until(facts: Facts, cutoff: int | None) -> Facts:
    """Return the facts without the grades, exposures, decays and prunes that are later than a time.

    A file's time is only an upper bound and is never later. The columns are not changed; what is
    returned is for settlements of all names and is not kept up.
    """
    found = copy.copy(facts)
    if cutoff is None:
        return found
    found.grades = _filtered(facts.grades, facts.grades["at"] <= cutoff)
    found.shown = _filtered(facts.shown, (facts.shown["at"] <= cutoff) | (facts.shown["flags"] & FILE_TIME != 0))
    found.withheld = Table(row="i4", arm="i4")  # it names rows of `shown`, and changes no belief
    found.decayed = [decay for decay in facts.decayed if decay.at_us <= cutoff]
    found.pruned = [prune for prune in facts.pruned if prune.at_us <= cutoff]
    return found


def filter_grades(facts: Facts, keep: Mask) -> Facts:
    """Return the facts with some of their grades only; for settlements, and not kept up."""
    found = copy.copy(facts)
    found.grades = _filtered(facts.grades, keep)
    return found


def _filtered(table: Table, keep: Mask) -> Table:
    found = Table(**{name: table.dtype(name).str[1:] for name in table.names})
    found.load({name: table[name][keep] for name in table.names})
    return found


def cutoffs(facts: Facts, state: StateFile, through: int) -> list[int | None]:
    """Return the times at which the file may have been written: those that leave different events.

    Its last update; what a runner has recorded up to a minute later; and whatever else, such as a
    nightly decay, which does not move that time, came before the next grade.
    """
    if state.last_us is None:
        return [None]
    grades = np.sort(facts.grades["at"][facts.grades["pos"] <= through])
    at_us = [decay.at_us for decay in facts.decayed] + [prune.at_us for prune in facts.pruned]
    others = np.sort(np.array(at_us, np.int64))
    found: dict[tuple[int, int], int | None] = {}
    soon = state.last_us + LATER_US
    for start in (state.last_us, soon):
        after = int(np.searchsorted(grades, start, "right"))
        last = int(grades[after]) - 1 if after < len(grades) else np.iinfo(np.int64).max
        for cutoff in (start, last):
            left = (int(np.searchsorted(grades, cutoff, "right")), int(np.searchsorted(others, cutoff, "right")))
            found.setdefault(left, int(cutoff))
    return list(found.values())


def count_grades(facts: Facts, state: StateFile, through: int) -> int:
    """Return how many grades the log holds of the time at which the file may have been written, or before."""
    latest = [cutoff for cutoff in cutoffs(facts, state, through) if cutoff is not None]
    held = facts.grades["pos"] <= through
    return int((held & (facts.grades["at"] <= max(latest))).sum() if latest else held.sum())


def estimated_gamma(facts: Facts, state: StateFile, policy: Policy, through: int) -> float | None:
    """Return the decay by session under which a policy gives as much evidence as the file holds.

    None where the file does not hold less than the policy gives undecayed, or holds next to nothing.
    """
    facts = facts_until(facts, state.last_us)
    settlement = settle(facts, policy, through)
    weight, slot = settlement.credit_weight, settlement.unit_slot[settlement.credit_unit]
    slots, rank = np.unique(slot, return_inverse=True)
    age = len(slots) - 1.0 - rank
    own = np.array([state.accepts(arm) for arm in settlement.arms], np.bool_)[settlement.credit_arm]
    weight, age = weight[own], age[own]
    wanted = sum(belief.alpha + belief.beta - 2.0 for (_, context), belief in state.beliefs.items() if context is None)
    if not len(weight) or not float(weight[age == 0].sum()) < wanted < float(weight.sum()) * (1.0 - _NEGLIGIBLE):
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if float((weight * middle**age).sum()) > wanted else (middle, high)
    gamma = round((low + high) / 2, _GAMMA_DIGITS)
    return gamma if 0.0 < gamma < 1.0 else None
