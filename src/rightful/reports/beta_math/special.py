"""The functions beneath the Beta posterior: logarithms that do not cancel, and its two tails.

A posterior may be as sharp as Beta(1e6, 1e6), where `lgamma` differences lose nine digits, or as
loose as Beta(1e-3, 1), half of which lies below 1e-301. So nothing here subtracts large
logarithms, and a place is a `Point`: a reward with its complement and both logarithms, which
neither end of [0, 1] can swallow. Standard library alone, except for the nodes of one quadrature.

Sources: Loader, "Fast and accurate computation of binomial probabilities" (2000), for the saddle
point form; DiDonato and Morris, ACM TOMS 708 (1992), for choosing a method by parameter;
Press et al., Numerical Recipes 6.4, for the continued fraction; DLMF 5.11 and 8.17.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from rightful import errors

_HALF_LOG_TAU = 0.5 * math.log(math.tau)
_HALF = 0.5
"""Up to here `ln(1 + u) - u` is a short series, beyond it loses no digits."""
_SERIES_FROM = 10.0
_SHARP = 300.0
"""Both parameters above it: a tail is nearly Gaussian, and one quadrature beats a long fraction."""
_LEAST = 1e-12
_MOST = 1e15
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


class Point(NamedTuple):
    """A reward between 0 and 1, near either end too.

    Attributes:
        x: The reward, 0 to 1; it may have underflowed to 0.
        y: 1 - x, likewise.
        log_x: Natural logarithm of the reward, finite for any interior point.
        log_y: Natural logarithm of its complement.
    """

    x: float
    y: float
    log_x: float
    log_y: float


class Tails(NamedTuple):
    """How much of a posterior lies below a point, and how much above; each to its own precision."""

    below: float
    above: float


def at(x: float) -> Point:
    """Return the point of a reward strictly between 0 and 1."""
    return Point(x, 1.0 - x, math.log(x), math.log1p(-x))


def at_logit(t: float) -> Point:
    """Return the point whose log odds `ln(x / (1 - x))` are `t`, any finite number."""
    small = math.exp(-abs(t))
    near, far = -math.log1p(small), -abs(t) - math.log1p(small)
    low = Point(small / (1.0 + small), 1.0 / (1.0 + small), far, near)
    return low if t < 0.0 else mirrored(low)


def mirrored(point: Point) -> Point:
    """Swap a point and its complement: `below` of Beta(a, b) is `above` of Beta(b, a) there."""
    return Point(point.y, point.x, point.log_y, point.log_x)


def checked(alpha: float, beta: float) -> tuple[float, float]:
    """Return the two parameters if they are those of a posterior, within what can be computed.

    More evidence than 1e15 counts as 1e15 with the same mean, and a parameter below 1e-12 as 1e-12:
    rewards are counted one by one, so no ledger comes near either.

    Raises:
        UsageError: One is zero, negative, NaN or infinite. Fix the prior or what produced it.
    """
    if not (0.0 < alpha < math.inf and 0.0 < beta < math.inf):
        raise errors.UsageError(
            f"expected a posterior with finite alpha and beta above 0, got ({alpha!r}, {beta!r}); nothing was computed"
        )
    excess = max(1.0, alpha / _MOST, beta / _MOST)
    return max(alpha / excess, _LEAST), max(beta / excess, _LEAST)


def centre(a: float, b: float) -> Point:
    """Return the point of the mean, `a / (a + b)`, with its logarithms."""
    x, y = a / (a + b), b / (a + b)
    log_small = math.log(min(a, b)) - math.log(a + b)
    log_large = math.log1p(-min(x, y))
    return Point(x, y, *((log_small, log_large) if a < b else (log_large, log_small)))


def mean(alpha: float, beta: float) -> float:
    """Return the posterior mean `alpha / (alpha + beta)`; reward units.

    Raises:
        UsageError: A parameter is not a finite number above 0.
    """
    alpha, beta = checked(alpha, beta)
    return alpha / (alpha + beta)


def log1pmx(u: float) -> float:
    """Compute `ln(1 + u) - u` for u > -1 without cancelling; it is about -u**2 / 2 near 0."""
    if abs(u) >= _HALF:
        return math.log1p(u) - u
    r = u / (2.0 + u)
    square, total, power = r * r, 0.0, 1.0
    for odd in range(3, 41, 2):
        total += power / odd
        power *= square
    return r * (2.0 * square * total - u)


def stirling(z: float) -> float:
    """Return what Stirling's formula leaves: `ln Gamma(z) - ((z - 1/2) ln z - z + ln(2 pi) / 2)` (DLMF 5.11.1)."""
    if z < _SERIES_FROM:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - _HALF_LOG_TAU
    inverse = 1.0 / z
    square = inverse * inverse
    return inverse * functools.reduce(lambda total, term: total * square + term, reversed(_STIRLING))


def stirling_slope(z: float) -> float:
    """Return the derivative of `stirling`: `digamma(z) - ln z + 1 / (2 z)` (DLMF 5.11.2)."""
    if z < _SERIES_FROM:
        steps = math.ceil(_SERIES_FROM - z)
        far = z + steps
        passed = math.fsum(1.0 / (z + i) for i in range(steps))
        return stirling_slope(far) - 0.5 / far + math.log(far) - passed - math.log(z) + 0.5 / z
    square = 1.0 / (z * z)
    terms = [-(2 * k + 1) * term for k, term in enumerate(_STIRLING)]
    return square * functools.reduce(lambda total, term: total * square + term, reversed(terms))


def stirling_bend(z: float) -> float:
    """Return the second derivative of `stirling`: `trigamma(z) - 1 / z - 1 / (2 z**2)` (DLMF 5.15.8)."""
    if z < _SERIES_FROM:
        steps = math.ceil(_SERIES_FROM - z)
        far = z + steps
        passed = math.fsum((z + i) ** -2.0 for i in range(steps))
        return stirling_bend(far) + 1.0 / far + 0.5 / far**2 + passed - 1.0 / z - 0.5 / z**2
    square = 1.0 / (z * z)
    terms = [(2 * k + 1) * (2 * k + 2) * term for k, term in enumerate(_STIRLING)]
    return square / z * functools.reduce(lambda total, term: total * square + term, reversed(terms))


def digamma(z: float) -> float:
    """Compute psi(z), the derivative of `ln Gamma`, for z > 0.

    Below 10 by the recurrence `psi(z) = psi(z + 1) - 1 / z`, from there by the asymptotic series
    `ln z - 1 / (2 z) - 1 / (12 z**2) + ...` (DLMF 5.5.2, 5.11.2).

    Raises:
        UsageError: `z` is not a finite number above 0.
    """
    if not 0.0 < z < math.inf:
        raise errors.UsageError(f"expected a finite number above 0 for digamma, got {z!r}")
    steps = max(0, math.ceil(_SERIES_FROM - z))
    far = z + steps
    return math.fsum([math.log(far), -0.5 / far, stirling_slope(far), *(-1.0 / (z + i) for i in range(steps))])


def log_ratio(q: float, p: float) -> float:
    """Compute `ln(q / p) - (q - p) / p` without cancelling, for q and p above 0."""
    ratio = (q - p) / p
    return log1pmx(ratio) if abs(ratio) < _HALF else math.log(q) - math.log(p) - ratio


def log_density(a: float, b: float, point: Point) -> float:
    """Compute `ln(x**a * y**b / B(a, b))`: the density of the *log odds* at a point (Loader's form).

    The density of the reward itself is this over `x * y`.
    """
    return peak(a, b) + saddle(a, b, point)


def peak(a: float, b: float) -> float:
    """Compute the logarithm of the log odds' density where it is highest, at `x = a / (a + b)`."""
    n = a + b
    height = 0.5 * (math.log(a) + math.log(b) - math.log(n)) - _HALF_LOG_TAU
    return height - (stirling(a) + stirling(b) - stirling(n))


def saddle(a: float, b: float, point: Point) -> float:
    """Compute how far below its peak that logarithm lies: `a ln(n x / a) + b ln(n y / b)`, 0 or less."""
    excess = b * point.x - a * point.y
    return _deviance(a, a + b, excess, point.log_x) + _deviance(b, a + b, -excess, point.log_y)


def _deviance(part: float, whole: float, excess: float, log_share: float) -> float:
    """`part * ln(whole * share / part) - excess`, where `whole * share = part + excess`."""
    ratio = excess / part
    if abs(ratio) < _HALF:
        return part * log1pmx(ratio)
    return part * (log_share + math.log(whole) - math.log(part)) - excess


def tails(a: float, b: float, point: Point) -> Tails:
    """Compute both tails of Beta(a, b) at a point: the regularised incomplete Beta function.

    The smaller tail has its full relative precision, some 1e-13; the other is its complement.
    """
    past = b * point.x - a * point.y  # how far beyond the mean, in units of evidence
    if min(a, b) > _SHARP:
        small, first = _quadrature, past <= 0.0
    else:
        small, first = _fraction, past <= 0.0
        if abs(past) < _HALF:  # near the mean: the end that is nearer than the fraction's turning point
            near, far = (b, point.y) if first else (a, point.x)
            first ^= far * (a + b + 2.0) < near + 1.0
    if first:
        below = min(1.0, max(0.0, small(a, b, point)))
        return Tails(below, 1.0 - below)
    above = min(1.0, max(0.0, small(b, a, mirrored(point))))
    return Tails(1.0 - above, above)


def _quadrature(a: float, b: float, point: Point) -> float:
    """Integrate the density of the log odds from a point below the mean outwards, until nothing is left."""
    n, x = a + b, point.x
    spread = n * x * point.y
    fall = max(0.0, a * point.y - b * x)
    reach = 1.4 * 90.0 / (math.hypot(fall, math.sqrt(90.0 * spread)) + fall)
    skew, bend = (1.0 - 2.0 * x) / 3.0, (1.0 - 6.0 * x * point.y) / 12.0

    def shape(s: float) -> float:
        if s < 1e-3:  # noqa: PLR2004 - here the series has more digits than the closed form
            return -s * (fall + 0.5 * spread * s * (1.0 - s * (skew - s * bend)))
        return -a * s - n * math.log1p(x * math.expm1(-s))

    total = math.fsum(weight * math.exp(shape(reach * node)) for node, weight in _nodes())
    return math.exp(log_density(a, b, point)) * reach * total


@functools.cache
def _nodes() -> tuple[tuple[float, float], ...]:
    """Gauss-Legendre nodes and weights on [0, 1], enough for a Gaussian cut off at 13 deviations."""
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(48)
    return tuple(zip((0.5 + 0.5 * nodes).tolist(), (0.5 * weights).tolist(), strict=True))


def _fraction(a: float, b: float, point: Point) -> float:
    """Evaluate the continued fraction for a point below the mean: `bfrac` of TOMS 708.

    It is the even part of DLMF 8.17.22, written with the distance to the mean, `a y - b x`, so
    that it keeps its digits where the plain form cancels (a large, x near 1).
    """
    x, whole, away = point.x, a + b, 1.0 + a * point.y - b * point.x
    above, below, numerator, denominator = 0.0, 1.0, 1.0, away * a / (a + 1.0)
    value = 1.0 / denominator
    for n in range(1, 10_000):
        s = a + 2 * n - 1.0
        weight = n * (b - n) * x
        alpha = (a + (n - 1)) / s * ((whole + (n - 1)) * x / s) * weight
        beta = n + weight / s + (a + n) / (s + 2.0) * (away + n * (1.0 + point.y))
        above, numerator = numerator, alpha * above + beta * numerator
        below, denominator = denominator, alpha * below + beta * denominator
        value, before = numerator / denominator, value
        if abs(value - before) <= 1e-15 * value:
            break
        above, below, numerator, denominator = above / denominator, below / denominator, value, 1.0
    return math.exp(log_density(a, b, point)) * value


def root(
    function: Callable[[float], tuple[float, float]], low: float, high: float, start: float | None = None
) -> float:
    """Find where a function that changes its sign between two ends is zero.

    Newton's steps, and a bisection wherever one would leave the bracket or stops shrinking it.

    Args:
        function: Gives value and derivative at a place; it rises from low to high.
        low: An end where it is at most 0.
        high: An end where it is at least 0.
        start: Where to begin, the middle unless given.

    Returns:
        The zero, to the last bits of its own size.
    """
    t = 0.5 * (low + high) if start is None or not low < start < high else start
    width = high - low
    for _ in range(200):
        height, slope = function(t)
        low, high = (t, high) if height < 0.0 else (low, t)
        step = -height / slope if slope > 0.0 and abs(height) < slope * width else math.inf
        following = t + step
        if not low < following < high or abs(step) > 0.5 * width:
            following = 0.5 * (low + high)
        width, t, before = abs(following - t), following, t
        if height == 0.0 or width <= 2e-16 * max(1.0, abs(t)):
            return before if height == 0.0 else t
    return t
