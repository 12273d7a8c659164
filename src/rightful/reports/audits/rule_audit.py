"""Audit: compare what a rule credits with what a reference credits, over the same log.

*Foreign* means that the credit went to another run. Where the names of two namespaces are not linked,
that cannot be known, and the rate is a pair of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from rightful.policies import PRESETS, Policy
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import BINS, CREDITED
from rightful.projections.credit.inputs import balances as in_force
from rightful.projections.credit.joins import FOREIGN, UNVERIFIABLE
from rightful.projections.credit.posteriors import Posteriors
from rightful.projections.facts.columns import Floats, Ints
from rightful.projections.facts.facts import Facts
from rightful.projections.projected import Projected
from rightful.reports.audits.foreign_grades import AuditDay, ForeignGrade, audit_days, foreign_grades
from rightful.reports.audits.order_bounds import Outcomes, bounds_of, open_sessions, possible_outcomes
from rightful.reports.beta_math.best_arm import p_best, selection_shift
from rightful.reports.beta_math.beta import Comparison, compare

_HASH_DIGITS, _SHA256_DIGITS = 12, 64
_LESSONS = 3  # best lessons that a sentence names


class ArmShift(msgspec.Struct, frozen=True):
    """How one arm's belief differs.

    Attributes:
        policy: (alpha, beta) under the audited policy.
        bound: (alpha, beta) under the reference.
        delta_mean: Mean under the policy less mean under the reference; reward, -1 to 1.
        tv: Total variation, 0 to 1.
        hellinger: Hellinger distance, 0 to 1.
        kl_bound_to_policy: KL(reference || policy); nats.
        w1: Wasserstein-1 distance; reward, 0 to 1.
    """

    arm: str
    policy: tuple[float, float]
    bound: tuple[float, float]
    delta_mean: float
    tv: float
    hellinger: float
    kl_bound_to_policy: float
    w1: float


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """How a policy credits what a reference credits. If nothing was credited, a rate is None.

    The fields are the keys of `audit --json`; the reference of the command line explains each. A field
    with `policy` is of the audited policy, and the same with `bound` of the reference.

    Attributes:
        policy: The audited policy's name, or its hash where it has none.
        policy_hash: Its hash, with the opening balances that the audit counts.
        unverifiable_grades: How many grades it credited to a run of unknown identity.
        foreign_credit_rate: Foreign grades among those that can be checked.
        foreign_grades_bounds: The least and the most grades that can have gone to another run, over every
            order that the evidence allows (`rightful.reports.audits.order_bounds`).
        policy_mass: Evidence given by the policy: sum of weights, before decay.
        best_policy: The arms with the highest mean; several where they are equal, none without any belief.
        best_changes: Whether both sides have best arms, and those differ.
        untimed_sessions: The sessions whose files have no exact times, which makes a count a range.
        unlogged_sessions: Those of them without any exposure with an exact time in the ledger.
        undecided_sessions: The graded sessions whose grade another order could pay otherwise.
        decided_until: The position before the files of the untimed sessions, if all grades up to it are earlier.
    """

    policy: str
    reference: str
    policy_hash: str
    reference_hash: str
    through: int
    grades: int
    policy_credited_grades: int
    bound_credited_grades: int
    foreign_grades: int
    unverifiable_grades: int
    foreign_grades_bounds: tuple[int, int]
    policy_credited_grades_bounds: tuple[int, int]
    foreign_credit_rate: float | None
    foreign_credit_rate_bounds: tuple[float, float] | None
    foreign_reward: float
    foreign_reward_share: float | None
    policy_mass: float
    bound_mass: float
    spurious_mass: float
    missing_mass: float
    misassigned_fraction: float | None
    lost_fraction: float | None
    overlap: float | None
    per_arm: tuple[ArmShift, ...]
    p_best_bound: dict[str, float]
    p_best_policy: dict[str, float]
    selection_shift: float
    rank_bound: tuple[str, ...]
    rank_policy: tuple[str, ...]
    best_bound: tuple[str, ...]
    best_policy: tuple[str, ...]
    best_changes: bool
    bins_policy: dict[str, int]
    bins_bound: dict[str, int]
    foreign: tuple[ForeignGrade, ...]
    days: tuple[AuditDay, ...]
    balances: tuple[str, ...]
    balances_left_out: tuple[str, ...]
    untimed_sessions: tuple[str, ...]
    unlogged_sessions: tuple[str, ...]
    undecided_sessions: tuple[str, ...]
    decided_until: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]

    def verdict(self) -> str:
        """Return the first words: what went where, in words."""
        if not self.is_ordered:
            return f"{self._range_sentence()}. {self._recorded_times_sentence()}."
        if not self.policy_credited_grades:
            return f"{short_name(self.policy)} credits none of {self.grades} grades."
        return f"{self._count_sentence()}. {self._comparison_sentence()}."

    @property
    def is_ordered(self) -> bool:
        """Whether the evidence orders all that was written; names that are not linked are counted apart."""
        credited, most = self.policy_credited_grades, self.foreign_grades + self.unverifiable_grades
        counts = (self.foreign_grades, most), (credited, credited)
        return counts == (self.foreign_grades_bounds, self.policy_credited_grades_bounds)

    def _range_sentence(self) -> str:
        """Return the bounds in words, and the count by the recorded times; one number only where both are equal."""
        low, high = self.foreign_grades_bounds
        paid = " to ".join(dict.fromkeys(map(str, self.policy_credited_grades_bounds)))
        rates = [f"{rate:.0%}" for rate in self.foreign_credit_rate_bounds or ()]
        share = f" ({' to '.join(dict.fromkeys(rates))})" if rates else ""
        where = f"of {paid} credited grades{share} went to another session's lessons"
        if low == high:
            return f"{low} {where}"
        found = f"Between {low} and {high} {where}; by the recorded times, {self.foreign_grades}"
        if not self.unverifiable_grades:
            return found
        return f"{found}; of {self.unverifiable_grades} more it is not known, because no link joins the two sessions"

    def _recorded_times_sentence(self) -> str:
        if not self.policy_credited_grades:
            return f"With these times, {short_name(self.policy)} credits none"
        best = self._comparison_sentence()
        if not self.bound_credited_grades:
            return best
        return f"With these times, {best[0].lower() + best[1:] if best.startswith('The ') else best}"

    def _count_sentence(self) -> str:
        checked = self.policy_credited_grades - self.unverifiable_grades
        where = "went to another session's lessons"
        if not self.unverifiable_grades or self.foreign_credit_rate_bounds is None:
            return f"{self.foreign_grades} of {checked} credited grades{_percent(self.foreign_credit_rate)} {where}"
        low, high = self.foreign_credit_rate_bounds
        if not checked:
            return f"Whether any of {self.unverifiable_grades} credited grades {where} could not be checked"
        return (
            f"{self.foreign_grades} of {checked} credited grades{_percent(self.foreign_credit_rate)} {where}; "
            f"{self.unverifiable_grades} more could not be checked ({low:.0%} to {high:.0%} of all)"
        )

    def _comparison_sentence(self) -> str:
        if not self.bound_credited_grades:
            return f"{short_name(self.reference)} credits no grade, so no beliefs can be compared"
        before, after = self.best_bound, self.best_policy
        if not self.best_changes and len(best := before or after) == 1:
            return f"The best lesson stays {best[0]}"
        if not self.best_changes:
            return f"The best lessons stay {_first_lessons(before or after)}, which are equal"
        if len(before) == 1 and before[0] in after:
            return f"{before[0]} is no longer best alone: {_first_lessons(after)} are equal"
        if len(after) == 1 and after[0] in before:
            return f"{after[0]} is now best alone: {_first_lessons(before)} were equal"
        return f"The best lesson changes from {_tie(before)} to {_tie(after)}"


def _tie(best: tuple[str, ...]) -> str:
    return best[0] if len(best) == 1 else f"a tie of {_first_lessons(best)}"


def _first_lessons(best: tuple[str, ...]) -> str:
    """Return the first few lessons, and how many more there are."""
    more = len(best) - _LESSONS
    named = [*best[:_LESSONS], f"{more:,} more"] if more > 0 else best
    return f"{', '.join(named[:-1])} and {named[-1]}"


def short_name(policy: str) -> str:
    """Return what to call a policy in a sentence: its name, or the first digits of its hash."""
    return policy[:_HASH_DIGITS] if len(policy) == _SHA256_DIGITS else policy


def _percent(rate: float | None) -> str:
    return "" if rate is None else f" ({rate:.0%})"


class _Side(NamedTuple):
    """One policy's answer; `outcomes`: what can have become of each grade."""

    name: str
    policy: Policy
    settlement: Settlement
    outcomes: Outcomes
    posteriors: Posteriors


def audit(
    projected: Projected,
    policy: tuple[str, Policy],
    reference: tuple[str, Policy],
    *,
    as_of: int | str | datetime | None = None,
    decay_at: datetime | str | float | None = None,
    balances: Sequence[str] = (),
) -> Audit:
    """Compare two policies on one log.

    Both sides count the same opening balances, whatever the policies say of them. A balance is a sum
    that some updater wrote, so a rule replayed on top of it would be compared with its own result.

    Args:
        projected: The projections of the ledger.
        policy: Name and rule to audit.
        reference: Name and rule to hold it against.
        as_of: A position, or a time: the prefix recorded by then. All of the log if None.
        decay_at: The time of the decay; the largest event time up to the position if None.
        balances: Patterns of the sources whose opening balances both sides count.
    """
    through = projected.prefix(as_of)
    sources = {balance.source for balance in in_force(projected.facts, PRESETS["bound"], through)}
    counted = tuple(balances)
    sides = []
    for name, asked in (policy, reference):
        rule = _with_balances(asked, counted, sources)
        beliefs = projected.posteriors(rule, as_of=through, decay_at=decay_at)
        sides.append(_Side(name, rule, *_settled(projected, rule, through), beliefs))
    left_out = sorted(source for source in sources if not any(fnmatchcase(source, pattern) for pattern in counted))
    return _compared(projected.facts, sides[0], sides[1], through, counted=counted, left_out=tuple(left_out))


def _settled(projected: Projected, rule: Policy, through: int) -> tuple[Settlement, Outcomes]:
    """Return what a rule makes of the log, and what can have become of each grade."""
    if rule.join == "newest":
        found = projected.trace_settlement(rule, through)
        return found.settlement, possible_outcomes(found)
    settlement = projected.settle(rule, through)
    paid = settlement.unit_bin == CREDITED
    return settlement, Outcomes(paid, np.zeros(len(paid), np.bool_), ~paid)


def _with_balances(rule: Policy, balances: tuple[str, ...], sources: Collection[str]) -> Policy:
    """Return a rule with the opening balances that the audit counts; in a ledger without any, the rule itself."""
    if not sources:
        return rule
    whole = all(any(fnmatchcase(source, pattern) for pattern in balances) for source in sources)
    return structs.replace(rule, balances=None if whole else balances)


def _compared(facts: Facts, policy: _Side, bound: _Side, through: int, **balances: tuple[str, ...]) -> Audit:
    paid = policy.settlement.unit_bin == CREDITED
    kind = policy.settlement.unit_kind
    reward = policy.settlement.unit_reward
    foreign, unknown = paid & (kind == FOREIGN), paid & (kind == UNVERIFIABLE)
    credited, foreigners, unchecked = int(paid.sum()), int(foreign.sum()), int(unknown.sum())
    listed = foreign_grades(facts, policy.settlement, policy.outcomes)
    shifts, beliefs = _shifts(policy, bound)
    best_policy, best_bound = p_best(beliefs[0]), p_best(beliefs[1])
    sides = zip(beliefs, (policy, bound), strict=True)
    bests = [_best_arms(belief) if side.posteriors.arms else () for belief, side in sides]
    return Audit(
        policy=policy.name,
        reference=bound.name,
        policy_hash=policy.policy.hash,
        reference_hash=bound.policy.hash,
        through=through,
        grades=len(paid),
        policy_credited_grades=credited,
        bound_credited_grades=int((bound.settlement.unit_bin == CREDITED).sum()),
        foreign_grades=foreigners,
        unverifiable_grades=unchecked,
        foreign_credit_rate=_share(foreigners, credited - unchecked),
        foreign_reward=_total(reward[foreign]),
        foreign_reward_share=_share(_total(reward[foreign]), _total(reward[paid])),
        per_arm=shifts,
        p_best_bound=best_bound,
        p_best_policy=best_policy,
        selection_shift=selection_shift(best_policy, best_bound),
        rank_bound=_rank(beliefs[1]),
        rank_policy=_rank(beliefs[0]),
        best_bound=bests[1],
        best_policy=bests[0],
        best_changes=() not in bests and bests[0] != bests[1],
        bins_policy=_bins(policy.settlement),
        bins_bound=_bins(bound.settlement),
        foreign=listed,
        days=audit_days(facts, policy.settlement, policy.outcomes, listed),
        decided_until=policy.outcomes.decided_until,
        balances=balances["counted"],
        balances_left_out=balances["left_out"],
        **bounds_of(policy.outcomes),
        **open_sessions(facts, policy.outcomes),
        **_masses(facts, policy.settlement, bound.settlement),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _total(values: Floats) -> float:
    return math.fsum(values.tolist())


def _bins(settlement: Settlement) -> dict[str, int]:
    count = np.bincount(settlement.unit_bin, minlength=len(BINS)).tolist()
    return {name: count[number] for number, name in enumerate(BINS) if count[number]}


def _masses(facts: Facts, policy: Settlement, bound: Settlement) -> dict[str, Any]:
    """Compare the evidence that each gives for (grade, arm)."""
    names = {arm: number for number, arm in enumerate(dict.fromkeys([*facts.arms.values, *policy.arms, *bound.arms]))}
    p_keys, p_mass = _by_credit(policy, names)
    b_keys, b_mass = _by_credit(bound, names)
    keys = np.union1d(p_keys, b_keys)
    p, b = np.zeros(len(keys)), np.zeros(len(keys))
    p[np.searchsorted(keys, p_keys)] = p_mass
    b[np.searchsorted(keys, b_keys)] = b_mass
    policy_mass, bound_mass = _total(p), _total(b)
    spurious, missing = _total(np.maximum(p - b, 0.0)), _total(np.maximum(b - p, 0.0))
    return {
        "policy_mass": policy_mass,
        "bound_mass": bound_mass,
        "spurious_mass": spurious,
        "missing_mass": missing,
        "misassigned_fraction": _share(spurious, policy_mass),
        "lost_fraction": _share(missing, bound_mass),
        "overlap": _share(_total(np.minimum(p, b)), _total(np.maximum(p, b))),
    }


def _by_credit(settlement: Settlement, names: dict[str, int]) -> tuple[Ints, Floats]:
    number = np.array([names[arm] for arm in settlement.arms] or [0], np.int64)
    grade = settlement.unit_grade[settlement.credit_unit]
    keys, slot = np.unique(grade * (len(names) + 1) + number[settlement.credit_arm], return_inverse=True)
    mass = np.bincount(slot, weights=settlement.credit_weight, minlength=len(keys))
    return keys, mass.astype(np.float64)


def _shifts(policy: _Side, bound: _Side) -> tuple[tuple[ArmShift, ...], list[dict[str, tuple[float, float]]]]:
    """Return every arm's shift, and the beliefs of both sides about all arms that either credits."""
    arms = sorted(policy.posteriors.arms.keys() | bound.posteriors.arms.keys())
    beliefs: list[dict[str, tuple[float, float]]] = []
    for side in (policy, bound):
        known = side.posteriors.arms
        beliefs.append(
            {arm: (known[arm].alpha, known[arm].beta) if arm in known else side.policy.prior for arm in arms}
        )
    shifts = []
    for arm in arms:
        p, b = beliefs[0][arm], beliefs[1][arm]
        away: Comparison = compare(b, p)
        shifts.append(ArmShift(arm, p, b, -away.delta_mean, away.tv, away.hellinger, away.kl, away.w1))
    return tuple(shifts), beliefs


def _best_arms(belief: dict[str, tuple[float, float]]) -> tuple[str, ...]:
    means = {arm: alpha / (alpha + beta) for arm, (alpha, beta) in belief.items()}
    return tuple(sorted(arm for arm, mean in means.items() if mean == max(means.values())))


def _rank(belief: dict[str, tuple[float, float]]) -> tuple[str, ...]:
    return tuple(sorted(belief, key=lambda arm: (-belief[arm][0] / sum(belief[arm]), arm)))
