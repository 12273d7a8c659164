"""Tallies: what a stateful updater keeps of an arm beside its belief.

How often it was selected, how many of its rewards counted as successes, when it was last updated,
and in which order the arms came: what gptme's bandit file holds of each arm (gptme-contrib
aabb1db1, `BanditArm`), from the same settlement as the belief.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rightful import times
from rightful.errors import UsageError
from rightful.policies import Policy
from rightful.projections.columns import Floats, Ints
from rightful.projections.facts import Facts, Held
from rightful.projections.paying import Settlement
from rightful.projections.sequential import changes, openings, slots
from rightful.projections.sums import Key

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

    They come in the order in which an updater that goes through the log would have made them:
    those of opening balances first, by name, since a balance has no order; then by their first
    credit. What was pruned counts from its next credit on, where the policy replays prunes.

    Args:
        facts: The columns that were settled.
        settlement: Every unit and credit.
        policy: The rule.
        through: The position settled through.
    """
    opened = list(openings(facts, policy, through))
    keys, slot = slots(facts, settlement, opened)
    credits_ = _in_order(facts, settlement, slot)
    dropped = _dropped(facts, settlement, policy, through, keys)
    left = credits_.position > dropped[credits_.slot]
    credits_ = _Credits(credits_.slot[left], credits_.position[left], credits_.at_us[left], credits_.reward[left])
    held = [(key, one) for key, one in opened if dropped[keys[key]] == 0]
    return _told(list(keys), credits_, _of_balances(held), policy)


def _in_order(facts: Facts, settlement: Settlement, slot: Ints) -> _Credits:
    grade = settlement.unit_grade[settlement.credit_unit]
    columns = (facts.grades["pos"][grade], facts.grades["at"][grade], settlement.credit_reward)
    position, at_us, reward = (np.repeat(column, 2) for column in columns)
    order = np.argsort(position, kind="stable")
    order = order[slot[order] >= 0]
    return _Credits(slot[order], position[order].astype(np.int64), at_us[order], reward[order])


def _dropped(facts: Facts, settlement: Settlement, policy: Policy, through: int, keys: dict[Key, int]) -> Ints:
    """Return, by slot, the position at which it was dropped last; 0 where it never was."""
    dropped = np.zeros(len(keys), np.int64)
    for change in changes(facts, settlement, policy, through):
        for key in change.dropped:
            if (slot := keys.get(key)) is not None:
                dropped[slot] = max(dropped[slot], change.position)
    return dropped


def _of_balances(opened: list[tuple[Key, Held]]) -> dict[Key, Tally]:
    found: dict[Key, Tally] = {}
    for key, one in opened:
        old = found.get(key, Tally(0, 0, None, 0))
        last_us = max((at for at in (old.last_us, _time(one.last_updated)) if at is not None), default=None)
        found[key] = Tally(old.n + one.n, old.rewards + (one.rewards or 0), last_us, 0)
    return found


def _time(text: str | None) -> int | None:
    """Return a file's own time, where it is one; without an offset it is none that can be compared."""
    try:
        return times.us_from(text) if text else None
    except UsageError:
        return None


def _told(keys: list[Key], credits_: _Credits, opened: dict[Key, Tally], policy: Policy) -> dict[Key, Tally]:
    slot, size = credits_.slot, len(keys)
    n = np.bincount(slot, minlength=size)
    rewards = np.bincount(slot, weights=credits_.reward > SUCCESS, minlength=size).astype(np.int64)
    order = np.arange(len(slot)) if policy.arithmetic == "sequential" else np.argsort(credits_.at_us, kind="stable")
    last_us = np.zeros(size, np.int64)
    last_us[slot[order]] = credits_.at_us[order]  # of several values the last one stays
    found = {key: opened[key] for key in sorted(opened, key=_by_name)}
    used, first = np.unique(slot, return_index=True)
    for number in used[np.argsort(first, kind="stable")].tolist():
        key, at_us = keys[number], int(last_us[number])
        old = opened.get(key)
        if old is None:
            place = int(credits_.position[first[np.searchsorted(used, number)]])
            found[key] = Tally(int(n[number]), int(rewards[number]), at_us, place)
        else:
            found[key] = Tally(old.n + int(n[number]), old.rewards + int(rewards[number]), _later(old, at_us), 0)
    return found


def _later(old: Tally, at_us: int) -> int:
    """A credit that no balance contains comes after it."""
    return at_us if old.last_us is None else max(old.last_us, at_us)


def _by_name(key: Key) -> tuple[str, tuple[tuple[bool, str], ...]]:
    arm, context = key
    return arm, tuple((part is not None, part or "") for part in context or ())
