"""Sequential arithmetic: float operations in log order, as a stateful updater does them.

Reproduces `gptme_sessions.thompson_sampling.Bandit` (gptme-contrib aabb1db1): decay first and
on every call, empty ones too; then `alpha += w * r; beta += w * (1.0 - r)` for each arm in the
order in which it was listed, twice where it is listed twice; the arm itself before the arm in
its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rightful.policies import EventDecay, Policy
from rightful.projections.facts import Decayed, Facts, Pruned
from rightful.projections.paying import Settlement
from rightful.projections.runs import quarantined
from rightful.projections.scene import IN_BALANCE, balances
from rightful.projections.sums import Key


class Running(NamedTuple):
    """One arm's state: alpha, beta, credits, mass."""

    alpha: float
    beta: float
    n: int
    mass: float


def run(facts: Facts, settlement: Settlement, policy: Policy, through: int) -> dict[Key, Running]:
    """Return every arm's state after all updates, decays and prunes up to a position."""
    a0, b0 = policy.prior
    state: dict[Key, Running] = {}
    for one in balances(facts, through):
        for arm, amounts in one.arms.items():
            _open(state, (policy.arm_aliases.get(arm, arm), None), policy, *amounts)
        for arm, context, alpha, beta, n in one.contexts:
            _open(state, (policy.arm_aliases.get(arm, arm), context), policy, alpha, beta, n)
    for _, change in sorted(_changes(facts, settlement, policy, through), key=lambda pair: pair[0]):
        change.apply(state, (a0, b0))
    return state


def _open(state: dict[Key, Running], key: Key, policy: Policy, alpha: float, beta: float, n: int) -> None:
    """Add what a balance holds of one arm."""
    old = state.get(key, Running(*policy.prior, 0, 0.0))
    up, down = alpha - 1.0, beta - 1.0
    state[key] = Running(old.alpha + up, old.beta + down, old.n + n, old.mass + (up + down))


class _Update(NamedTuple):
    """One call of the updater."""

    decay: float | None
    credits: list[tuple[Key, Key | None, float, float]]

    def apply(self, state: dict[Key, Running], prior: tuple[float, float]) -> None:
        if self.decay is not None:
            _Decay(self.decay).apply(state, prior)
        for key, in_context, weight, reward in self.credits:
            for one in (key, in_context):
                if one is not None:
                    old = state.get(one, Running(*prior, 0, 0.0))
                    alpha, beta = old.alpha + weight * reward, old.beta + weight * (1.0 - reward)
                    state[one] = Running(alpha, beta, old.n + 1, old.mass + weight)


class _Decay(NamedTuple):
    gamma: float

    def apply(self, state: dict[Key, Running], prior: tuple[float, float]) -> None:
        a0, b0 = prior
        for key, old in state.items():
            alpha, beta = a0 + self.gamma * (old.alpha - a0), b0 + self.gamma * (old.beta - b0)
            state[key] = Running(alpha, beta, old.n, old.mass * self.gamma)


class _Prune(NamedTuple):
    keys: list[Key]

    def apply(self, state: dict[Key, Running], prior: tuple[float, float]) -> None:  # noqa: ARG002 - one signature
        for key in self.keys:
            state.pop(key, None)


def _changes(
    facts: Facts, settlement: Settlement, policy: Policy, through: int
) -> Iterator[tuple[int, _Update | _Decay | _Prune]]:
    quarantine = quarantined(facts, through)
    left_out = {*quarantine.unusable.tolist(), *quarantine.void.tolist()}
    if isinstance(policy.decay, EventDecay):
        balanced_us = max((one.through_us for one in balances(facts, through, quarantine)), default=-1)
        said: list[Decayed | Pruned] = [*facts.decayed, *facts.pruned]
        for one in said:
            if one.position <= through and one.position not in left_out and one.at_us > balanced_us:
                yield one.position, _change(one, policy)
    yield from _updates(facts, settlement, policy, left_out)


def _change(said: Decayed | Pruned, policy: Policy) -> _Decay | _Prune:
    if isinstance(said, Decayed):
        return _Decay(said.gamma)
    canonical = policy.arm_aliases.get
    keys: list[Key] = [(canonical(arm, arm), None) for arm in said.arms]
    return _Prune([*keys, *((canonical(arm, arm), context) for arm, context in said.contexts)])


def _updates(facts: Facts, settlement: Settlement, policy: Policy, left_out: set[int]) -> Iterator[tuple[int, _Update]]:
    owed: dict[int, list[tuple[Key, Key | None, float, float]]] = {}
    contexts = facts.contexts.values
    columns = (
        settlement.credit_unit, settlement.credit_arm, settlement.credit_context,
        settlement.credit_weight, settlement.credit_reward,
    )  # fmt: skip
    for unit, arm, context, weight, reward in zip(*(column.tolist() for column in columns), strict=True):
        name = settlement.arms[arm]
        in_context = (name, contexts[context]) if context >= 0 else None
        owed.setdefault(unit, []).append(((name, None), in_context, weight, reward))
    grades = facts.grades
    for unit, row in enumerate(settlement.unit_grade.tolist()):
        aside = grades.get("aside", row)
        position, decay = grades.get("pos", row), None
        happened = settlement.unit_bin[unit] != IN_BALANCE and position not in left_out
        if aside >= 0 and happened and isinstance(policy.decay, EventDecay):
            decay = facts.asides[aside].decay_rate
        mine = owed.get(unit, [])
        if mine or decay is not None:
            yield position, _Update(decay, mine)
