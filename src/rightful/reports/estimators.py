"""What a lesson does to rewards, and how far such a number can be trusted.

Three claims are kept apart, here and in every table: the *credited reward* is the posterior
(`beta`), an *association* is a difference between runs with and without an arm, and an *effect*
needs an arm that was withheld by chance, with the probability of injection recorded. Only `ips`
and `snips` speak of effects, and only of runs where that probability lay strictly between 0 and 1.

All arithmetic is `math.fsum`: the order of runs changes no digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

import msgspec

from rightful import errors


class EligibleRun(msgspec.Struct, frozen=True):
    """A graded run in which an arm was eligible: it would have been injected but for chance.

    Attributes:
        injected: Whether the arm was in the exposure (True) or among the withheld (False).
        p_inject: Probability of injection, the same number for either outcome; None when not recorded.
        reward: The effective grade's reward, 0 to 1.
    """

    injected: bool
    p_inject: float | None
    reward: float


class RateBounds(msgspec.Struct, frozen=True):
    """A rate of which some cases cannot be checked.

    Attributes:
        rate_checked: The rate among the cases that were checked; None if none was.
        low: The rate over all cases if every unverifiable one is own.
        high: The rate over all cases if every unverifiable one is foreign.
    """

    rate_checked: float | None
    low: float
    high: float


class Difference(msgspec.Struct, frozen=True):
    """Mean reward with an arm less mean reward without it: an association, not an effect.

    Attributes:
        difference: Reward units, -1 to 1.
        se: Welch's standard error; reward units; None with fewer than two runs on a side.
        df: Welch-Satterthwaite degrees of freedom; None likewise, and when no reward varies.
    """

    difference: float
    se: float | None
    df: float | None


class Effect(msgspec.Struct, frozen=True):
    """What injection does to the reward, from chance withholding.

    Attributes:
        injected: Estimated mean reward if every eligible run had the arm; IPS may leave [0, 1].
        withheld: The same if none had it.
        effect: `injected - withheld`; reward units.
        se: Linearised standard error of the effect; reward units; None for IPS.
        ess_injected: Effective sample size of the injected runs; runs.
        ess_withheld: Effective sample size of the withheld runs; runs.
    """

    injected: float
    withheld: float
    effect: float
    se: float | None
    ess_injected: float
    ess_withheld: float


def wilson(successes: int, trials: int, mass: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a rate (Wilson, JASA 22, 1927).

    `(k + z**2 / 2 -+ z sqrt(k (n - k) / n + z**2 / 4)) / (n + z**2)`. A full log is a census whose
    rate has no sampling error: use this only to speak of other periods.

    Args:
        successes: How many of the trials count; 0 to `trials`.
        trials: How many there were.
        mass: Coverage, above 0 and below 1.

    Returns:
        Lower and upper end, 0 to 1; (0, 1) without trials.

    Raises:
        UsageError: The counts are negative or crossed, or `mass` lies outside (0, 1).
    """
    if not 0 <= successes <= trials:
        raise errors.UsageError(f"expected 0 <= successes <= trials, got {successes} of {trials}")
    if not trials:
        return 0.0, 1.0
    z = _normal(0.5 + 0.5 * _fraction(mass, "mass"))
    centre = successes + 0.5 * z * z
    half = z * math.sqrt(successes * (trials - successes) / trials + 0.25 * z * z)
    low, high = (centre - half) / (trials + z * z), (centre + half) / (trials + z * z)
    return low, (min(1.0, high) if successes < trials else 1.0)


def bounds_with_unverifiable(own: int, foreign: int, unverifiable: int) -> RateBounds:
    """Bound a foreign-credit rate when the owner of some grades is unknown.

    `foreign / (own + foreign)` between `foreign / all` and `(foreign + unverifiable) / all`: bounds,
    not a guess.

    Args:
        own: Grades credited to their own run; a count.
        foreign: Grades credited to another run; a count.
        unverifiable: Grades whose owner is unknown; a count.

    Returns:
        The rate and its bounds; (None, 0, 1) if there are no grades.

    Raises:
        UsageError: A count is negative.
    """
    if min(own, foreign, unverifiable) < 0:
        raise errors.UsageError(f"expected counts, got {own} own, {foreign} foreign, {unverifiable} unverifiable")
    checked, everything = own + foreign, own + foreign + unverifiable
    rate = foreign / checked if checked else None
    if not everything:
        return RateBounds(rate, 0.0, 1.0)
    return RateBounds(rate, foreign / everything, (foreign + unverifiable) / everything)


def difference_in_means(runs: Iterable[EligibleRun]) -> Difference:
    """Compare mean rewards with and without an arm (Welch, Biometrika 34, 1947).

    `se**2 = s1**2 / n1 + s0**2 / n0`; `df = se**4 / ((s1**2 / n1)**2 / (n1 - 1) + (s0**2 / n0)**2 / (n0 - 1))`.
    Selection, category and broad keywords confound it; with one constant `p_inject` it equals `snips`.

    Args:
        runs: Graded runs; `p_inject` is not read.

    Returns:
        The difference with its standard error and degrees of freedom.

    Raises:
        UsageError: One side has no run. Collect more before asking.
    """
    rewards: tuple[list[float], list[float]] = ([], [])
    for run in runs:
        rewards[run.injected].append(run.reward)
    without, having = rewards
    _both_sides(len(having), len(without))
    difference = math.fsum(having) / len(having) - math.fsum(without) / len(without)
    if min(len(having), len(without)) < 2:  # noqa: PLR2004 - one run has no spread
        return Difference(difference, None, None)
    parts = [(_variance(side) / len(side), len(side) - 1) for side in (having, without)]
    square = math.fsum(part for part, _ in parts)
    if not square:
        return Difference(difference, 0.0, None)
    return Difference(difference, math.sqrt(square), square**2 / math.fsum(part**2 / free for part, free in parts))


def with_overlap(runs: Iterable[EligibleRun]) -> tuple[list[EligibleRun], int]:
    """Keep the runs that chance decided, and count those that it did not.

    Args:
        runs: Graded runs, of any `p_inject`.

    Returns:
        The runs with `0 < p_inject < 1`, and how many were left out; show that count.

    Raises:
        UsageError: A `p_inject` lies outside [0, 1].
    """
    with_chance, dropped = [], 0
    for run in runs:
        if run.p_inject is not None and not 0.0 <= run.p_inject <= 1.0:
            raise errors.UsageError(f"expected a probability of injection in [0, 1], got {run.p_inject!r}")
        if run.p_inject is None or run.p_inject in (0.0, 1.0):
            dropped += 1
        else:
            with_chance.append(run)
    return with_chance, dropped


def ips(runs: Iterable[EligibleRun]) -> Effect:
    """Estimate the effect by inverse propensity scores (Horvitz and Thompson 1952).

    `1/n sum Z y / p - 1/n sum (1 - Z) y / (1 - p)`: unbiased, and so variable that `snips` is the
    one to show; print the effective sample sizes with either.

    Args:
        runs: Runs that chance decided, as `with_overlap` keeps them.

    Returns:
        The effect, without standard error.

    Raises:
        UsageError: One side has no run, or a `p_inject` is missing, 0 or 1.
    """
    having, without = _weighted(runs)
    count = len(having) + len(without)
    injected = math.fsum(weight * reward for weight, reward in having) / count
    withheld = math.fsum(weight * reward for weight, reward in without) / count
    return Effect(injected, withheld, injected - withheld, None, _ess(having), _ess(without))


def snips(runs: Iterable[EligibleRun]) -> Effect:
    """Estimate the effect by self-normalised propensity scores (Hajek 1971; Swaminathan and Joachims 2015).

    `sum(Z y / p) / W1 - sum((1 - Z) y / (1 - p)) / W0` with W the sums of the weights. Linearised
    variance: `sum psi**2 / n**2`, `psi = n Z (y - mu1) / (W1 p) - n (1 - Z) (y - mu0) / (W0 (1 - p))`.

    Args:
        runs: Runs that chance decided, as `with_overlap` keeps them.

    Returns:
        The effect with its standard error.

    Raises:
        UsageError: One side has no run, or a `p_inject` is missing, 0 or 1.
    """
    sides = _weighted(runs)
    means, squares = [], []
    for side in sides:
        total = math.fsum(weight for weight, _ in side)
        mean = math.fsum(weight * reward for weight, reward in side) / total
        means.append(mean)
        squares += [(weight * (reward - mean) / total) ** 2 for weight, reward in side]
    injected, withheld = means
    return Effect(
        injected, withheld, injected - withheld, math.sqrt(math.fsum(squares)), _ess(sides[0]), _ess(sides[1])
    )


def effective_sample_size(weights: Sequence[float]) -> float:
    """Return how many equal weights would be as precise: `(sum w)**2 / sum w**2` (Kish 1965).

    Args:
        weights: Importance weights, 0 or more, of any scale.

    Returns:
        A number of runs, 0 to `len(weights)`.

    Raises:
        UsageError: A weight is negative or not finite.
    """
    if not all(0.0 <= weight < math.inf for weight in weights):
        raise errors.UsageError("expected finite weights of 0 or more")
    largest = max(weights, default=0.0)
    if not largest:
        return 0.0
    relative = [weight / largest for weight in weights]
    return math.fsum(relative) ** 2 / math.fsum(weight * weight for weight in relative)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of many arms for the share of false finds (Benjamini and Hochberg 1995).

    `q_(i) = min over j >= i of m p_(j) / j`, ranks ascending. Call an arm found where `q <= level`.

    Args:
        p_values: One a test, 0 to 1, of the arms that have enough runs; others do not belong here.

    Returns:
        The q-values, 0 to 1, in the given order.

    Raises:
        UsageError: A p-value lies outside [0, 1].
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise errors.UsageError("expected p-values in [0, 1]; none was adjusted")
    count, least = len(p_values), 1.0
    q_values = [1.0] * count
    for rank, place in sorted(enumerate(sorted(range(count), key=p_values.__getitem__), start=1), reverse=True):
        least = min(least, count / rank * p_values[place])
        q_values[place] = least
    return q_values


def sample_size(sd: float, delta: float, epsilon: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return how many eligible runs it takes to see an effect.

    `N = (z_{1 - alpha/2} + z_power)**2 sd**2 / (delta**2 epsilon (1 - epsilon))`, rounded up: the
    two-sided z test of two means with a share epsilon withheld.

    Args:
        sd: Standard deviation of a run's reward; reward units, above 0.
        delta: The effect to be seen; reward units, not 0.
        epsilon: Share of eligible runs in which the arm is withheld, above 0 and below 1.
        alpha: Rate of false alarms, two-sided.
        power: Probability of seeing an effect of that size.

    Returns:
        Eligible runs, injected and withheld together; a count.

    Raises:
        UsageError: A share lies outside (0, 1), `sd` is not above 0 or `delta` is 0.
    """
    _positive(sd, "sd")
    _positive(abs(delta), "delta")
    spread = _fraction(epsilon, "epsilon") * (1.0 - epsilon)
    z = _normal(1.0 - 0.5 * _fraction(alpha, "alpha")) + _normal(_fraction(power, "power"))
    return math.ceil((z * sd / delta) ** 2 / spread)


def confidence_sequence_margin(sd: float, t: int, t_opt: float, alpha: float = 0.05) -> float:
    """Return the margin of an asymptotic confidence sequence, which may be looked at after every run.

    `sd sqrt(2 (t rho2 + 1) / (t**2 rho2) ln(sqrt(t rho2 + 1) / alpha))` with
    `rho2 = (-2 ln alpha + ln(1 - 2 ln alpha)) / t_opt` (Waudby-Smith et al., arXiv 2103.06476).
    For an effect, `sd = se sqrt(t)`. Start at 20 withheld runs: from 5 on it fails in 7% instead of 5%.

    Args:
        sd: Standard deviation of one observation; the unit of the margin, 0 or more.
        t: Observations so far; a count of at least 1.
        t_opt: The count at which the margin is to be tightest; above 0, fixed beforehand.
        alpha: Probability that the mean is ever outside, above 0 and below 1.

    Returns:
        Half the width of the interval, in the unit of `sd`.

    Raises:
        UsageError: An argument lies outside its range.
    """
    if not 0.0 <= sd < math.inf:
        raise errors.UsageError(f"expected a finite sd of 0 or more, got {sd!r}")
    _positive(float(t), "t")
    log_alpha = math.log(_fraction(alpha, "alpha"))
    scaled = t * (-2.0 * log_alpha + math.log(1.0 - 2.0 * log_alpha)) / _positive(t_opt, "t_opt")
    return sd * math.sqrt(2.0 * (scaled + 1.0) / (t * scaled) * (0.5 * math.log(scaled + 1.0) - log_alpha))


Weighted = list[tuple[float, float]]


def _weighted(runs: Iterable[EligibleRun]) -> tuple[Weighted, Weighted]:
    """Return (weight, reward) of the injected and of the withheld runs."""
    having: Weighted = []
    without: Weighted = []
    for run in runs:
        p = run.p_inject
        if p is None or not 0.0 < p < 1.0:
            raise errors.UsageError(
                f"a run with probability of injection {p!r} says nothing of an effect; leave it out by `with_overlap`"
            )
        if run.injected:
            having.append((1.0 / p, run.reward))
        else:
            without.append((1.0 / (1.0 - p), run.reward))
    _both_sides(len(having), len(without))
    return having, without


def _ess(side: Weighted) -> float:
    return effective_sample_size([weight for weight, _ in side])


def _variance(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _both_sides(having: int, without: int) -> None:
    if not having or not without:
        raise errors.UsageError(
            f"{having} injected and {without} withheld runs cannot be compared; both sides need one"
        )


def _normal(p: float) -> float:
    return NormalDist().inv_cdf(p)


def _fraction(value: float, name: str) -> float:
    if not 0.0 < value < 1.0:
        raise errors.UsageError(f"expected {name} between 0 and 1, got {value!r}")
    return value


def _positive(value: float, name: str) -> float:
    if not 0.0 < value < math.inf:
        raise errors.UsageError(f"expected a finite {name} above 0, got {value!r}")
    return value
