"""Tallies: what a stateful updater stores of an arm besides its belief.

How often it was selected, how many of its rewards counted as successes, when it was last updated,
and in which order the arms came: what gptme's bandit file holds of each arm (gptme-contrib
aabb1db1, `BanditArm`), from the same settlement as the belief.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

import numpy as np

from rightful import times
from rightful.errors import UsageError
from rightful.policies import Policy
from rightful.projections.arithmetic.sequential import changes, openings, slots
from rightful.projections.arithmetic.sums import Key
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.facts.columns import Floats, Ints
from rightful.projections.facts.facts import Facts, OpeningValues

SUCCESS = 0.5
"""A reward above it counts as a success; one of exactly it does not."""


class Tally(NamedTuple):
    """What is counted of one arm, or of one arm in one context.

    Attributes:
        n: Credits, opening balances included, undecayed.
        rewards: How many of them had a reward above `SUCCESS`; balances that do not say add none.
        last_us: The time of the latest grade that credited it, or what a balance says;
            microseconds since 1970, UTC. None where no balance says and no grade credited it.
        first: The position of the first grade that credited it; 0 where a balance holds it.
    """

    n: int
    rewards: int
    last_us: int | None
    first: int


class _Credits(NamedTuple):
    """Credits in the order of an updater: two a credit, of the arm and of the arm in its context."""

    slot: Ints
    position: Ints
    at_us: Ints
    reward: Floats


def tallies(facts: Facts, settlement: Settlement, policy: Policy, through: int) -> dict[Key, Tally]:
    """Return what is counted of every arm and every arm in a context.

    The arms come first and then the contexts, arm by arm, each in the order in which an updater
    that goes through the log would have made them: those of opening balances first, by name,
    since a balance has no order; then by their first credit. What was pruned counts from its next
    credit on, where the policy replays prunes.

    Args:
        facts: The columns that were settled.
        settlement: Every unit and credit.
        policy: The rule.
        through: The position settled through.
    """
    opened = list(openings(facts, policy, through))
    keys, slot = slots(facts, settlement, opened)
    every = _in_order(facts, settlement, slot)
    dropped = _dropped(facts, settlement, policy, through, keys)
    last = np.array([positions[-1] if positions else 0 for positions in dropped.values()], np.int64)
    left = every.position > last[every.slot]
    paid = _Credits(every.slot[left], every.position[left], every.at_us[left], every.reward[left])
    opening = _of_balances([(key, values) for key, values in opened if not dropped[key]])
    found = _with_credits(list(keys), paid, opening, policy)
    orders = _creation_orders(found, every, keys, {key for key, _ in opened}, dropped)
    return {key: found[key] for key in sorted(found, key=orders.__getitem__)}


def _in_order(facts: Facts, settlement: Settlement, slot: Ints) -> _Credits:
    grade = settlement.unit_grade[settlement.credit_unit]
    columns = (facts.grades["pos"][grade], facts.grades["at"][grade], settlement.credit_reward)
    position, at_us, reward = (np.repeat(column, 2) for column in columns)
    order = np.argsort(position, kind="stable")
    order = order[slot[order] >= 0]
    return _Credits(slot[order], position[order].astype(np.int64), at_us[order], reward[order])


def _dropped(
    facts: Facts, settlement: Settlement, policy: Policy, through: int, keys: dict[Key, int]
) -> dict[Key, list[int]]:
    """Return, by key, the positions at which it was dropped, in order."""
    dropped: dict[Key, list[int]] = {key: [] for key in keys}
    for change in changes(facts, settlement, policy, through):
        for key in change.dropped:
            if key in dropped:
                dropped[key].append(change.position)
    return {key: sorted(positions) for key, positions in dropped.items()}


def _of_balances(opened: list[tuple[Key, OpeningValues]]) -> dict[Key, Tally]:
    found: dict[Key, Tally] = {}
    for key, values in opened:
        old = found.get(key, Tally(0, 0, None, 0))
        last_us = max((at for at in (old.last_us, _time(values.last_updated)) if at is not None), default=None)
        found[key] = Tally(old.n + values.n, old.rewards + (values.rewards or 0), last_us, 0)
    return found


def _time(text: str | None) -> int | None:
    """Return a file's own time; None if it is not valid, or has no offset and so cannot be compared."""
    try:
        return times.us_from(text) if text else None
    except UsageError:
        return None


def _with_credits(keys: list[Key], paid: _Credits, opened: dict[Key, Tally], policy: Policy) -> dict[Key, Tally]:
    slot, size = paid.slot, len(keys)
    n = np.bincount(slot, minlength=size)
    rewards = np.bincount(slot, weights=paid.reward > SUCCESS, minlength=size).astype(np.int64)
    order = np.arange(len(slot)) if policy.arithmetic == "sequential" else np.argsort(paid.at_us, kind="stable")
    last_us = np.zeros(size, np.int64)
    last_us[slot[order]] = paid.at_us[order]  # of several values the last one stays
    found = dict(opened)
    used, first = np.unique(slot, return_index=True)
    for number, place in zip(used.tolist(), first.tolist(), strict=True):
        at_us, old = int(last_us[number]), opened.get(keys[number])
        tally = Tally(int(n[number]), int(rewards[number]), at_us, int(paid.position[place]))
        if old is not None:
            tally = Tally(old.n + tally.n, old.rewards + tally.rewards, _later(old, at_us), 0)
        found[keys[number]] = tally
    return found


def _later(old: Tally, at_us: int) -> int:
    """A credit that no balance contains comes after it."""
    return at_us if old.last_us is None else max(old.last_us, at_us)


CreationOrder: TypeAlias = tuple[bool, int, str, int, tuple[tuple[bool, str], ...]]
"""Where a key stands: arms before contexts, contexts by their arm."""


def _creation_orders(
    found: Collection[Key], every: _Credits, keys: dict[Key, int], opened: set[Key], dropped: dict[Key, list[int]]
) -> dict[Key, CreationOrder]:
    """Return the place of each key in the order in which an updater made them.

    An updater keeps one map of contexts an arm, which is there from the arm's first context until
    its last one is pruned; so an arm can be older than every context that is left of it.
    """
    used, first = np.unique(every.slot, return_index=True)
    firsts = dict(zip(used.tolist(), first.tolist(), strict=True))
    lives: dict[Key, list[tuple[int, int]]] = {}
    for key, slot in keys.items():
        some = [firsts[slot]] if slot in firsts else []
        places = np.flatnonzero(every.slot == slot).tolist() if dropped[key] else some
        lives[key] = _lives(key, places, every, opened, dropped[key])
    of_arm: dict[str, list[tuple[int, int]]] = {}
    for (arm, context), spans in lives.items():
        if context is not None:
            of_arm.setdefault(arm, []).extend(spans)
    orders: dict[Key, CreationOrder] = {}
    for arm, context in found:
        own = lives[arm, context][-1][0]
        whole = own if context is None else _since(of_arm[arm])
        named = tuple((part is not None, part or "") for part in context or ())
        orders[arm, context] = (context is not None, whole, arm, own, named)
    return orders


_FOREVER = 1 << 62


def _lives(key: Key, places: list[int], every: _Credits, opened: set[Key], dropped: list[int]) -> list[tuple[int, int]]:
    """Return the stretches in which a key was there: the place of its first credit (-1: a balance) and of its drop."""
    ends = [int(np.searchsorted(every.position, position)) for position in dropped]
    starts = ([-1] if key in opened else []) + places
    spans: list[tuple[int, int]] = []
    for start in starts:
        if not spans or start >= spans[-1][1]:
            spans.append((start, next((end for end in ends if end > start), _FOREVER)))
    return spans


def _since(spans: list[tuple[int, int]]) -> int:
    """Return since when at least one of several keys has been there, through to the end."""
    since, until = _FOREVER, -1
    for start, end in sorted(spans):
        if start >= until:
            since = start
        until = max(until, end)
    return since
