"""Sequential arithmetic: float operations in log order, as a stateful updater does them.

Reproduces `gptme_sessions.thompson_sampling.Bandit` (gptme-contrib aabb1db1): decay first and
on every call, empty ones too; then `alpha += w * r; beta += w * (1.0 - r)` for each arm in the
order in which it was listed, twice where it is listed twice; the arm itself before the arm in
its context.

Arms do not touch each other between two decays, so the additions between them are one
`numpy.add.at` a column, which adds in the order given; a decay is one operation on all arms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rightful.policies import EventDecay, Policy
from rightful.projections.arithmetic.sums import Key
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import CONFLICTING, balance_arms, balances, pays_producer
from rightful.projections.credit.runs import quarantine_of
from rightful.projections.facts.columns import Floats, Ints, Mask
from rightful.projections.facts.facts import Balance, Decay, Facts, OpeningValues, Prune


class Running(NamedTuple):
    """One arm's state: alpha, beta, credits, mass."""

    alpha: float
    beta: float
    n: int
    mass: float

    def credited(self, weight: float, reward: float) -> Running:
        """Return the state after a credit; the float operations of `run`."""
        up, down = weight * reward, weight * (1.0 - reward)
        return Running(self.alpha + up, self.beta + down, self.n + 1, self.mass + weight)

    def opened(self, values: OpeningValues) -> Running:
        """Return the state with what a balance holds on top; the float operations of `run`."""
        mass = self.mass + ((values.alpha - 1.0) + (values.beta - 1.0))
        return Running((self.alpha - 1.0) + values.alpha, (self.beta - 1.0) + values.beta, self.n + values.n, mass)

    def decayed(self, gamma: float, prior: tuple[float, float]) -> Running:
        """Return the state after a decay toward the prior."""
        a0, b0 = prior
        return Running(a0 + gamma * (self.alpha - a0), b0 + gamma * (self.beta - b0), self.n, self.mass * gamma)


class Change(NamedTuple):
    """What happens to many arms at once: a decay by `gamma`, or the loss of some.

    Attributes:
        position: Where it stands; it happens before what is credited there.
        gamma: What the decay leaves; None where arms are dropped.
        dropped: The arms that are dropped.
        spared: The arms that a decay leaves alone: a balance holds them that contains it already.
    """

    position: int
    gamma: float | None
    dropped: list[Key]
    spared: frozenset[str]


class _State:
    """The state of every arm and context, one slot each; a slot that nothing has touched is at the prior."""

    def __init__(self, keys: dict[Key, int], prior: tuple[float, float]) -> None:
        self.slots = keys
        self.prior = prior
        self.alpha = np.full(len(keys), prior[0])
        self.beta = np.full(len(keys), prior[1])
        self.mass = np.zeros(len(keys))
        self.n = np.zeros(len(keys), np.int64)
        self.known = np.zeros(len(keys), np.bool_)
        self._masks: dict[frozenset[str], Mask] = {}

    def open(self, key: Key, values: OpeningValues) -> None:
        """Add what a balance holds of one arm above the prior (1, 1) of its file.

        The 1 is subtracted from the present value, so a first balance is reproduced bit for bit: an
        alpha of 0.1 does not survive `1 + (alpha - 1)`.
        """
        slot = self.slots[key]
        self.alpha[slot] = (self.alpha[slot] - 1.0) + values.alpha
        self.beta[slot] = (self.beta[slot] - 1.0) + values.beta
        self.mass[slot] += (values.alpha - 1.0) + (values.beta - 1.0)
        self.n[slot] += values.n
        self.known[slot] = True

    def change(self, change: Change) -> None:
        """Decay all arms toward their prior, or drop some."""
        if change.gamma is not None:
            (a0, b0), moved = self.prior, self._moved(change.spared)
            self.alpha[moved] = a0 + change.gamma * (self.alpha[moved] - a0)
            self.beta[moved] = b0 + change.gamma * (self.beta[moved] - b0)
            self.mass[moved] = self.mass[moved] * change.gamma
        for key in change.dropped:
            if (slot := self.slots.get(key)) is not None:
                self.alpha[slot], self.beta[slot] = self.prior
                self.mass[slot], self.n[slot], self.known[slot] = 0.0, 0, False

    def _moved(self, spared: frozenset[str]) -> slice | Mask:
        """Return the slots of all arms but those that are spared."""
        if not spared:
            return slice(None)
        if spared not in self._masks:
            self._masks[spared] = np.array([arm not in spared for arm, _ in self.slots], np.bool_)
        return self._masks[spared]

    def running(self) -> dict[Key, Running]:
        """Return the state of what is known."""
        columns = (self.alpha.tolist(), self.beta.tolist(), self.n.tolist(), self.mass.tolist(), self.known.tolist())
        return {
            key: Running(alpha, beta, n, mass)
            for key, alpha, beta, n, mass, known in zip(self.slots, *columns, strict=True)
            if known
        }


def run(facts: Facts, settlement: Settlement, policy: Policy, through: int) -> dict[Key, Running]:
    """Return every arm's state after all updates, decays and prunes up to a position."""
    opened = list(openings(facts, policy, through))
    keys, slot = slots(facts, settlement, opened)
    state = _State(keys, policy.prior)
    for key, values in opened:
        state.open(key, values)
    grade = settlement.unit_grade[settlement.credit_unit]
    position = np.repeat(facts.grades["pos"][grade].astype(np.int64), 2)
    order = np.argsort(position, kind="stable")
    order = order[slot[order] >= 0]
    position, slot = position[order], slot[order]
    weight = np.repeat(settlement.credit_weight, 2)[order]
    reward = np.repeat(settlement.credit_reward, 2)[order]
    up, down = weight * reward, weight * (1.0 - reward)
    done = 0
    for change in sorted(changes(facts, settlement, policy, through), key=lambda change: change.position):
        upto = int(np.searchsorted(position, change.position, "left"))
        _add(state, slot[done:upto], up[done:upto], down[done:upto], weight[done:upto])
        state.change(change)
        done = upto
    _add(state, slot[done:], up[done:], down[done:], weight[done:])
    return state.running()


def _add(state: _State, slot: Ints, up: Floats, down: Floats, weight: Floats) -> None:
    if len(slot):
        np.add.at(state.alpha, slot, up)
        np.add.at(state.beta, slot, down)
        np.add.at(state.mass, slot, weight)
        np.add.at(state.n, slot, 1)
        state.known[slot] = True


def openings(facts: Facts, policy: Policy, through: int) -> Iterator[tuple[Key, OpeningValues]]:
    """Yield what the opening balances hold, arm by arm, then context by context."""
    canonical = policy.arm_aliases.get
    for balance in balances(facts, policy, through):
        yield from (((canonical(arm, arm), None), values) for arm, values in balance.arms.items())
        yield from (((canonical(arm, arm), context), values) for arm, context, values in balance.contexts)


def slots(facts: Facts, settlement: Settlement, opened: list[tuple[Key, OpeningValues]]) -> tuple[dict[Key, int], Ints]:
    """Return each key's slot, and two slots a credit: of the arm, and of the arm in its context or -1."""
    contexts = facts.contexts.values
    width = len(contexts) + 1
    plain = settlement.credit_arm * width
    inside = np.where(settlement.credit_context >= 0, plain + 1 + settlement.credit_context, -1)
    codes = np.stack([plain, inside], axis=1).reshape(-1)
    used, place = np.unique(codes, return_inverse=True)
    found: dict[Key, int] = {}
    for key, _ in opened:
        found.setdefault(key, len(found))
    of_code = np.full(len(used), -1, np.int64)
    for at, code in enumerate(used.tolist()):
        if code >= 0:
            arm, context = divmod(code, width)
            key = (settlement.arms[arm], contexts[context - 1] if context else None)
            of_code[at] = found.setdefault(key, len(found))
    return found, of_code[place]


def changes(facts: Facts, settlement: Settlement, policy: Policy, through: int) -> Iterator[Change]:
    """Yield what other updaters decayed and dropped, if the policy replays it.

    A decay belongs to its producer: only those of producers count from whose graders the policy pays. It
    spares the arms that a balance holds which contains it already; a balance of other arms contains nothing.
    """
    if not isinstance(policy.decay, EventDecay):
        return
    quarantine = quarantine_of(facts, through)
    left_out = {*quarantine.unusable.tolist(), *quarantine.void.tolist()}
    opened = balances(facts, policy, through, quarantine)
    contained = _Contained(opened, policy, [max(balance.through_us, balance.at_us) for balance in opened])
    producers = {event.producer for event in facts.decayed} | {event.producer for event in facts.pruned}
    paying = {producer for producer in producers if pays_producer(policy, producer)}

    def counts(event: Decay | Prune) -> bool:
        return event.position <= through and event.position not in left_out and event.producer in paying

    for decayed in filter(counts, facts.decayed):
        yield Change(decayed.position, decayed.gamma, [], contained.at(decayed.at_us))
    canonical = policy.arm_aliases.get
    for pruned in filter(counts, facts.pruned):
        arms: list[Key] = [(canonical(arm, arm), None) for arm in pruned.arms]
        inside: list[Key] = [(canonical(arm, arm), context) for arm, context in pruned.contexts]
        spared = contained.at(pruned.at_us)
        yield Change(pruned.position, None, [key for key in (*arms, *inside) if key[0] not in spared], spared)
    yield from _called(facts, settlement, _Contained(opened, policy, [balance.through_us for balance in opened]))


class _Contained:
    """Which arms a balance holds that contains what happened at a time.

    Args:
        opened: The balances.
        policy: The rule, for its names of arms.
        until_us: The latest time that each balance contains; microseconds since 1970.
    """

    def __init__(self, opened: list[Balance], policy: Policy, until_us: list[int]) -> None:
        self._until = sorted(
            zip(until_us, (balance_arms(balance, policy) for balance in opened), strict=True), key=_first
        )
        self._times = [until for until, _ in self._until]
        self._known: dict[int, frozenset[str]] = {}

    def at(self, at_us: int) -> frozenset[str]:
        """Return the arms whose state in a balance contains what happened then."""
        place = bisect_left(self._times, at_us)
        if place not in self._known:
            self._known[place] = frozenset(arm for _, arms in self._until[place:] for arm in arms)
        return self._known[place]


def _first(pair: tuple[int, set[str]]) -> int:
    return pair[0]


def _called(facts: Facts, settlement: Settlement, contained: _Contained) -> Iterator[Change]:
    """Yield the decays that came with a call of the updater, whichever bin it ended in; of calls in conflict none."""
    aside = facts.grades["aside"][settlement.unit_grade]
    position = facts.grades["pos"][settlement.unit_grade]
    at_us = facts.grades["at"][settlement.unit_grade]
    for unit in np.flatnonzero((aside >= 0) & (settlement.unit_bin != CONFLICTING)).tolist():
        gamma = facts.asides[int(aside[unit])].decay_rate
        if gamma is not None:
            yield Change(int(position[unit]), gamma, [], contained.at(int(at_us[unit])))
