"""Posteriors: the Beta beliefs that a policy's credits add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rightful import limits
from rightful.policies import Policy
from rightful.projections.arithmetic import sequential
from rightful.projections.arithmetic.exact import UNIT, scaled, value
from rightful.projections.arithmetic.sums import Context, Key, Statistic, Sums, ordered, sums_of
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import balances
from rightful.projections.credit.settle import counters_of
from rightful.projections.facts.facts import Facts, OpeningValues


class Posterior(msgspec.Struct, frozen=True):
    """The belief about one arm.

    Attributes:
        alpha: Prior and weighted rewards.
        beta: Prior and weighted shortfalls from 1.
        n: Credits, undecayed, and those that the opening balances count.
        mass: Sum of the credits' weights after decay.
    """

    alpha: float
    beta: float
    n: int
    mass: float

    @property
    def mean(self) -> float:
        """The expected reward, 0 to 1."""
        return self.alpha / (self.alpha + self.beta)


class ContextPosterior(Posterior, frozen=True, kw_only=True):
    """The belief about one arm in one context.

    Attributes:
        arm: The arm.
        context: Its dimensions, or one of them alone under `marginals`.
    """

    arm: str
    context: Context


class Lookup(Posterior, frozen=True, kw_only=True):
    """The belief that a selector would use.

    Attributes:
        resolved: The context whose belief it is; () for the arm itself, None for an arm that
            was never credited and stands at its prior.
    """

    resolved: Context | None


class Posteriors(msgspec.Struct, frozen=True):
    """What a policy makes of the log.

    Attributes:
        policy: The rule.
        through: The position folded through.
        decay_at_us: The time of the decay; microseconds since 1970, UTC.
        arms: By arm, sorted; arms without credit stand at the prior and are not listed.
        contexts: By arm and context, sorted.
        counters: How many grades ended in each bin and what else was counted; non-zero ones only.
    """

    policy: Policy
    through: int
    decay_at_us: int
    arms: Mapping[str, Posterior]
    contexts: Sequence[ContextPosterior]
    counters: Mapping[str, int]

    def lookup(self, arm: str, context: Sequence[str | None] | None = None) -> Lookup:
        """Return the belief that a selector uses for an arm in a context.

        The exact context if it has `limits.LOOKUP_EVIDENCE` credits, else each single dimension
        in order (under `marginals`), else the arm itself, else the prior; as gptme falls back.
        """
        if (whole := self.arms.get(arm)) is None:
            return Lookup(*self.policy.prior, 0, 0.0, resolved=None)
        known = {belief.context: belief for belief in self.contexts if belief.arm == arm}
        asked = () if context is None else tuple(context)
        for candidate in (asked, *((part,) for part in asked if part is not None)):
            found = known.get(candidate)
            if candidate and found is not None and found.n >= limits.LOOKUP_EVIDENCE:
                return Lookup(found.alpha, found.beta, found.n, found.mass, resolved=candidate)
        return Lookup(whole.alpha, whole.beta, whole.n, whole.mass, resolved=())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "policy": {**self.policy.as_dict(), "hash": self.policy.hash},
            "through": self.through,
            "arms": {arm: _numbers(belief) for arm, belief in self.arms.items()},
            "contexts": [
                {"arm": belief.arm, "context": list(belief.context), **_numbers(belief)} for belief in self.contexts
            ],
            "counters": dict(self.counters),
        }


def _numbers(belief: Posterior) -> dict[str, Any]:
    return {"alpha": belief.alpha, "beta": belief.beta, "n": belief.n, "mass": belief.mass, "mean": belief.mean}


def posteriors_of(facts: Facts, settlement: Settlement, policy: Policy, through: int, decay_at_us: int) -> Posteriors:
    """Return the beliefs of a settlement of all names."""
    if policy.arithmetic == "sequential":
        running = sequential.run(facts, settlement, policy, through)
        states = {key: Posterior(state.alpha, state.beta, state.n, state.mass) for key, state in running.items()}
    else:
        states = beliefs_of(facts, sums_of(facts, settlement, policy, decay_at_us), policy, through)
    return sorted_posteriors(states, policy, through, decay_at_us, counters_of(settlement))


def sorted_posteriors(
    states: Mapping[Key, Posterior], policy: Policy, through: int, decay_at_us: int, counters: Mapping[str, int]
) -> Posteriors:
    """Return beliefs in the order in which they are shown."""
    of_contexts = [key for key in states if key[1] is not None]
    arms = {arm: states[arm, None] for arm, _ in sorted(states.keys() - of_contexts)}
    contexts = []
    for arm, context in ordered(of_contexts) if of_contexts else ():
        belief = states[arm, context]
        if context is not None and not isinstance(belief, ContextPosterior):
            belief = ContextPosterior(belief.alpha, belief.beta, belief.n, belief.mass, arm=arm, context=context)
        if isinstance(belief, ContextPosterior):
            contexts.append(belief)
    return Posteriors(policy, through, decay_at_us, arms, contexts, {key: n for key, n in counters.items() if n})


Beliefs: TypeAlias = dict[Key, tuple[Statistic, Posterior]]
"""Beliefs with the statistics, opening balances included, that they were computed from."""


def beliefs_of(
    facts: Facts, sums: Sums, policy: Policy, through: int, known: Beliefs | None = None
) -> dict[Key, Posterior]:
    """Return the belief of every arm and context from exact sums and the opening balances.

    `known` has beliefs of earlier answers under this policy. Those that have not changed are used again, new ones are
    added.
    """
    known = {} if known is None else known
    prior = (scaled(policy.prior[0]), scaled(policy.prior[1]))
    opened = _balance_totals(facts, policy, through) if facts.balances else {}
    out: dict[Key, Posterior] = {}
    for key in sums.of.keys() | opened.keys():
        totals = sums.of.get(key, (0, 0, 0))
        if key in opened:
            count, up, down = opened[key]
            totals = (totals[0] + count, totals[1] + up + down, totals[2] + up)
        found = known.get(key)
        if found is None or found[0] != totals:
            found = known[key] = totals, _belief(key, totals, prior)
        out[key] = found[1]
    return out


def _belief(key: Key, totals: Statistic, prior: tuple[int, int]) -> Posterior:
    arm, context = key
    n, mass, success = totals
    alpha, beta, weight = value(success + prior[0]), value(mass - success + prior[1]), value(mass)
    if context is None:
        return Posterior(alpha, beta, n, weight)
    return ContextPosterior(alpha, beta, n, weight, arm=arm, context=context)


def _balance_totals(facts: Facts, policy: Policy, through: int) -> dict[Key, tuple[int, int, int]]:
    """Return what the opening balances add: n, and the totals above the prior of alpha and of beta."""
    opened: dict[Key, tuple[int, int, int]] = {}
    for balance in balances(facts, policy, through):
        whole: list[tuple[str, Context | None, OpeningValues]] = [(arm, None, own) for arm, own in balance.arms.items()]
        for arm, context, values in [*whole, *balance.contexts]:
            key = (policy.arm_aliases.get(arm, arm), context)
            count, up, down = opened.get(key, (0, 0, 0))
            opened[key] = count + values.n, up + scaled(values.alpha) - UNIT, down + scaled(values.beta) - UNIT
    return opened
