"""Sequential arithmetic: float operations in log order, as a stateful updater does them.

Reproduces `gptme_sessions.thompson_sampling.Bandit` (gptme-contrib aabb1db1): decay first and
on every call, empty ones too; then `alpha += w * r; beta += w * (1.0 - r)` for each arm in the
order in which it was listed, twice where it is listed twice; the arm itself before the arm in
its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rightful.policies import Policy
from rightful.projections.facts import Facts
from rightful.projections.paying import Settlement
from rightful.projections.runs import quarantined
from rightful.projections.scene import balances
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
        for arm, (alpha, beta, n) in one.arms.items():
            state[policy.arm_aliases.get(arm, arm), None] = Running(a0 + (alpha - 1.0), b0 + (beta - 1.0), n, 0.0)
        for arm, context, alpha, beta, n in one.contexts:
            state[policy.arm_aliases.get(arm, arm), context] = Running(a0 + (alpha - 1.0), b0 + (beta - 1.0), n, 0.0)
    for _, change in sorted(_changes(facts, settlement, policy, through), key=lambda pair: pair[0]):
        change.apply(state, (a0, b0))
    return state


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
    arms: list[str]
    contexts: list[Key]

    def apply(self, state: dict[Key, Running], prior: tuple[float, float]) -> None:  # noqa: ARG002 - one signature
        for key in [*((arm, None) for arm in self.arms), *self.contexts]:
            state.pop(key, None)


def _changes(
    facts: Facts, settlement: Settlement, policy: Policy, through: int
) -> Iterator[tuple[int, _Update | _Decay | _Prune]]:
    quarantine = quarantined(facts, through)
    left_out = {*quarantine.unusable.tolist(), *quarantine.void.tolist()}
    for decayed in facts.decayed:
        if decayed.position <= through and decayed.position not in left_out:
            yield decayed.position, _Decay(decayed.gamma)
    for pruned in facts.pruned:
        if pruned.position <= through and pruned.position not in left_out:
            yield pruned.position, _Prune(pruned.arms, list(pruned.contexts))
    yield from _updates(facts, settlement, policy)


def _updates(facts: Facts, settlement: Settlement, policy: Policy) -> Iterator[tuple[int, _Update]]:
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
        decay = facts.asides[aside].decay_rate if aside >= 0 else None
        if policy.decay is None:
            decay = None
        mine = owed.get(unit, [])
        if mine or decay is not None:
            yield grades.get("pos", row), _Update(decay, mine)
