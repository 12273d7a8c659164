"""First use: in which order an updater that is called in time made its arms, and its arms in contexts.

A bandit keeps its arms in the order in which they were first updated, and a seeded sample draws
in that order. The log knows it: by the time of the first grade of the run that credits an arm,
then by the exposure that shows it, then by its place in that exposure. The order in which rows
came to the ledger decides nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from rightful.projections.arithmetic.sequential import slots
from rightful.projections.arithmetic.sums import Key
from rightful.projections.credit.settle import SettlementTrace

Use: TypeAlias = tuple[int, int, int, str]
"""When a key was first used: time of the grade and of the exposure (microseconds since 1970, UTC), place, arm."""

_Listed: TypeAlias = dict[int, tuple[int, int]]


def first_uses(made: SettlementTrace) -> dict[Key, Use]:
    """Return the first use of every arm that is credited, and of every arm in a context."""
    settlement = made.settlement
    keys, slot = slots(made.inputs.facts, settlement, [])
    unit = np.repeat(settlement.credit_unit, 2)
    arm = np.repeat(settlement.credit_arm, 2)
    at_us = made.effective_grades.since[unit]
    earliest = np.full(len(keys), np.iinfo(np.int64).max)
    counts = slot >= 0
    np.minimum.at(earliest, slot[counts], at_us[counts])
    counts[counts] = at_us[counts] == earliest[slot[counts]]
    named, listed = list(keys), _Lists(made)
    found: dict[Key, Use] = {}
    for place in np.flatnonzero(counts).tolist():
        key, number = named[slot[place]], int(arm[place])
        use = (int(at_us[place]), *listed.of(int(unit[place]))[number], settlement.arms[number])
        found[key] = min(found.get(key, use), use)
    return found


class _Lists:
    """Where each unit's exposures list its arms."""

    def __init__(self, made: SettlementTrace) -> None:
        self._shown = made.inputs.shown
        self._arms = made.inputs.facts.arms_shown["arm"]
        self._ranges = made.targets if made.sources is None else made.sources
        self._order = made.targets.reach.order if made.sources is None else made.sources.order
        self._canonical = made.inputs.canonical
        self._known: dict[int, _Listed] = {}

    def of(self, unit: int) -> _Listed:
        """Return the earliest exposure of each arm, by its time, and the arm's place in it."""
        if unit not in self._known:
            found = self._known[unit] = {}
            for row in self._order[int(self._ranges.low[unit]) : int(self._ranges.high[unit])].tolist():
                at_us, start = int(self._shown.at[row]), int(self._shown.start[row])
                arms = self._canonical[self._arms[start : start + int(self._shown.size[row])]].tolist()
                for place, arm in enumerate(arms):
                    found[arm] = min(found.get(arm, (at_us, place)), (at_us, place))
        return self._known[unit]
