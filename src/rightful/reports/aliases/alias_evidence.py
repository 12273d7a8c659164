"""What speaks against two names of arms being one lesson: a run that was shown both, or titles that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, count
from typing import Any

import msgspec
import numpy as np

from rightful.policies import Policy
from rightful.projections.credit.inputs import canonical_arms, credit_inputs
from rightful.projections.facts.columns import Column, Ints
from rightful.projections.projected import Projected

_LOW = 0xFFFFFFFF
_READ_OF_AN_ARM = 4  # exposures whose titles are read, of its first and of its last; a title changes seldom

Pairs = dict[frozenset[int], int]
"""Pairs of numbers that one run has, each with the number of such a run."""


class RunArms:
    """Which arms each run was shown or denied, whatever the policy leaves out: links and unique aliases followed."""

    def __init__(self, projected: Projected, policy: Policy) -> None:
        facts = projected.facts
        everything = msgspec.structs.replace(policy, without_sessions=())
        inputs = credit_inputs(facts, everything, facts.watermark, None)
        shown = inputs.shown
        row_of = np.full(len(facts.shown), -1, np.int64)
        row_of[shown.row] = np.arange(len(shown.row))
        row = np.repeat(np.arange(len(shown.row)), shown.size)
        place = np.arange(len(row)) - np.repeat(np.cumsum(shown.size) - shown.size, shown.size) + shown.start[row]
        held = row_of[facts.withheld["row"]]
        run = inputs.runs.of[shown.session].astype(np.int64)
        self._log, self._facts = projected.log, facts
        arm = facts.arms_shown["arm"][place].astype(np.int64)
        self._run = run[np.concatenate([row, held[held >= 0]])]
        self._arm = np.concatenate([arm, facts.withheld["arm"][held >= 0].astype(np.int64)])
        order = np.argsort(arm, kind="stable")
        self._ordered, self._pos_ordered = arm[order], shown.pos[row][order]
        self._numbers = {arm: number for number, arm in enumerate(facts.arms.values)}
        self._canonical, self._arms = canonical_arms(facts, policy)

    def session(self, run: int) -> str:
        """Return the own name of a run."""
        return self._facts.names.text(run)

    def values_together(self, value_of: Mapping[str, int]) -> Pairs:
        """Return the pairs of values that arms of one run have.

        Args:
            value_of: The value of an arm; an arm without one is left out.
        """
        value = self._column(value_of)[self._arm]
        return _together(self._run[value >= 0], value[value >= 0])

    def arms_together(self, groups: Iterable[Iterable[str]]) -> dict[frozenset[str], int]:
        """Return the pairs of arms of one group that one run has, with such a run; under the policy's aliases."""
        group_of = {arm: number for number, group in enumerate(groups) for arm in group}
        group = np.array([group_of.get(arm, -1) for arm in self._arms] or [-1], np.int64)
        arm = self._canonical[self._arm].astype(np.int64)
        among = group[arm] >= 0
        run, arm = self._run[among], arm[among]
        keys, run_group = np.unique(run << 32 | group[arm], return_inverse=True)
        found = _together(run_group.astype(np.int64), arm)
        return {frozenset(self._arms[number] for number in pair): int(keys[key]) >> 32 for pair, key in found.items()}

    def titles(self, arms: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the titles that the first and the last exposures of arms give them, in lower case."""
        found = {}
        for arm in arms:
            number = self._numbers.get(arm, -1)
            low, high = np.searchsorted(self._ordered, number, "left"), np.searchsorted(self._ordered, number, "right")
            positions = self._pos_ordered[low:high].tolist()
            read = dict.fromkeys([*positions[:_READ_OF_AN_ARM], *positions[-_READ_OF_AN_ARM:]])
            titles = (self._title(position, arm) for position in read)
            found[arm] = frozenset(title for title in titles if title)
        return found

    def _title(self, position: int, arm: str) -> str | None:
        """Return what an exposure calls an arm: details stand in `extra.lessons`, in the order of the arms."""
        event: Any = next(iter(self._log.read(after=position - 1, until=position))).event
        if event is None:
            return None
        details = (event.extra or {}).get("lessons")
        if not isinstance(details, list) or len(details) != len(event.arms):
            return None
        for listed, detail in zip(event.arms, details, strict=True):
            title = detail.get("title") if isinstance(detail, dict) else None
            if listed.arm == arm and isinstance(title, str):
                return title.strip().casefold()
        return None

    def _column(self, value_of: Mapping[str, int]) -> Ints:
        return np.array([value_of.get(arm, -1) for arm in self._facts.arms.values] or [-1], np.int64)


def _together(run: Ints, value: Column) -> Pairs:
    pairs = np.unique(run << 32 | value)
    found: Pairs = {}
    for step in count(1):
        first_of_pair, other = pairs[:-step], pairs[step:]
        same = first_of_pair >> 32 == other >> 32
        if not same.any():
            break
        codes, first = np.unique((first_of_pair[same] & _LOW) << 32 | other[same] & _LOW, return_index=True)
        runs = (first_of_pair[same] >> 32)[first].tolist()
        for code, of in zip(codes.tolist(), runs, strict=True):
            found.setdefault(frozenset({code >> 32, code & _LOW}), of)
    return found


def differing(titles: Mapping[str, frozenset[str]]) -> tuple[str, str] | None:
    """Return two arms whose titles are known and have none in common."""
    for arm, other in combinations(titles, 2):
        if titles[arm] and titles[other] and titles[arm].isdisjoint(titles[other]):
            return arm, other
    return None
