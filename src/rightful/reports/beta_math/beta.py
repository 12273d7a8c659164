"""The Beta posterior of an arm, and how far two of them lie apart.

A posterior is the pair `(alpha, beta)`; a reward lies between 0 and 1. Everything here is a
function of those numbers alone, exact to 1e-9 (mostly 1e-12) for parameters from 1e-3 to 1e6,
and without NaN for any others. `tests/reports` judges it against 40-digit arithmetic.

Of the distances, `w1` is the one for people (reward units), `hellinger` the one for thresholds
(symmetric, in [0, 1]), `tv` the share of Thompson samples that must differ, and `kl` for logs
only (it has no upper bound).
"""

from __future__ import annotations

import math

import msgspec

from rightful import errors
from rightful.reports.beta_math.best_arm import p_greater
from rightful.reports.beta_math.distances import Beta, crossings, hellinger, kl, tv, w1
from rightful.reports.beta_math.special import (
    Point,
    at,
    at_logit,
    centre,
    checked,
    log_density,
    mean,
    peak,
    tails,
)


class Comparison(msgspec.Struct, frozen=True):
    """How far the first of two posteriors lies from the second.

    Attributes:
        tv: Total variation, 0 to 1.
        kl: Kullback-Leibler divergence of the first from the second, KL(first || second); nats.
        hellinger: Hellinger distance, 0 to 1; its square is `hellinger_squared`.
        w1: Wasserstein-1 distance; reward units, 0 to 1.
        delta_mean: Mean of the first less mean of the second; reward units, -1 to 1.
        p_greater: Probability that a draw of the first exceeds an independent draw of the second.
        crossings: Rewards where the two densities are equal, ascending; none, one or two.
    """

    tv: float
    kl: float
    hellinger: float
    w1: float
    delta_mean: float
    p_greater: float
    crossings: tuple[float, ...]


def compare(a: Beta, b: Beta) -> Comparison:
    """Compare two posteriors by every measure at once.

    Args:
        a: The posterior asked about, `(alpha, beta)`, such as that of the policy under audit.
        b: The one it is held against, such as that of the `bound` policy.

    Returns:
        The comparison. Only `kl`, `delta_mean` and `p_greater` depend on the order.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    return Comparison(
        tv=tv(a, b),
        kl=kl(a, b),
        hellinger=hellinger(a, b),
        w1=w1(a, b),
        delta_mean=mean(*a) - mean(*b),
        p_greater=p_greater(a, b),
        crossings=crossings(a, b),
    )


def cdf(alpha: float, beta: float, x: float) -> float:
    """Return the probability that the reward of an arm is at most `x`: I_x(alpha, beta).

    The regularised incomplete Beta function (DLMF 8.17), by a continued fraction (TOMS 708), or by
    Gauss-Legendre quadrature of the tail where both parameters exceed 300.

    Args:
        alpha: First parameter, above 0.
        beta: Second parameter, above 0.
        x: A reward; at or below 0 the answer is 0, at or above 1 it is 1.

    Raises:
        UsageError: A parameter is not a finite number above 0, or `x` is NaN.
    """
    alpha, beta = checked(alpha, beta)
    if math.isnan(x):
        raise errors.UsageError("expected a reward, got nan; no probability belongs to it")
    if not 0.0 < x < 1.0:
        return 0.0 if x <= 0.0 else 1.0
    return tails(alpha, beta, at(x)).below


def quantile(alpha: float, beta: float, p: float) -> float:
    """Return the reward that an arm stays below with probability `p`: the inverse of `cdf`.

    Newton's method on the logarithm of the smaller tail as a function of the log odds of the reward.
    That function is concave and rising, because the log odds of a Beta have a log-concave density,
    so from the second step on the iterates rise to the root and need no bracket.

    Args:
        alpha: First parameter, above 0.
        beta: Second parameter, above 0.
        p: A probability, 0 to 1.

    Returns:
        The reward, 0 to 1; 0.0 where it is smaller than any float.

    Raises:
        UsageError: A parameter is not a finite number above 0, or `p` lies outside [0, 1].
    """
    alpha, beta = checked(alpha, beta)
    if not 0.0 <= p <= 1.0:
        raise errors.UsageError(f"expected a probability in [0, 1], got {p!r}")
    if p in (0.0, 1.0):
        return p
    if p > 0.5:  # noqa: PLR2004 - the smaller tail keeps its digits
        return _lower_quantile(beta, alpha, 1.0 - p).y
    return _lower_quantile(alpha, beta, p).x


def interval(alpha: float, beta: float, mass: float = 0.95) -> tuple[float, float]:
    """Return the equal-tailed credible interval: the quantiles at `(1 - mass) / 2` and `(1 + mass) / 2`.

    Args:
        alpha: First parameter, above 0.
        beta: Second parameter, above 0.
        mass: Probability inside the interval, above 0 and below 1.

    Returns:
        Lower and upper end; reward units.

    Raises:
        UsageError: A parameter is not a finite number above 0, or `mass` lies outside (0, 1).
    """
    alpha, beta = checked(alpha, beta)
    if not 0.0 < mass < 1.0:
        raise errors.UsageError(f"expected a mass between 0 and 1, got {mass!r}")
    tail = 0.5 * (1.0 - mass)
    return _lower_quantile(alpha, beta, tail).x, _lower_quantile(beta, alpha, tail).y


def _lower_quantile(a: float, b: float, p: float) -> Point:
    wanted, t = math.log(p), _guess(a, b, p)
    for _ in range(100):
        point = at_logit(t)
        below = tails(a, b, point).below
        if below == 0.0:  # far out in a sharp tail: come closer
            t += 0.5 * (math.log(a) - math.log(b) - t)
            continue
        slope = math.exp(log_density(a, b, point) - math.log(below))
        move = (wanted - math.log(below)) / slope if slope > 0.0 else -1.0
        if abs(move) <= 1e-15 * max(1.0, abs(t)):
            break
        t += move
        bend = a * point.y - b * point.x - slope
        if move * move * abs(bend) <= 1e-16 * max(1.0, abs(t)):
            return at_logit(t)
    return at_logit(t)


def _guess(a: float, b: float, p: float) -> float:
    """Start from the power law of the lower end or from the Gaussian of the log odds, whichever is higher."""
    log_low, log_high = centre(a, b)[2:]
    power = log_low + (b * log_high - peak(a, b) + math.log(a) + math.log(p)) / a
    if min(a, b) < 1.0:
        return power
    z = -math.sqrt(max(0.0, -2.0 * math.log(2.0 * p)))
    return max(power, log_low - log_high + z * math.sqrt(1.0 / a + 1.0 / b))
