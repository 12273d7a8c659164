"""How far two Beta posteriors lie apart: total variation, Wasserstein, Hellinger, Kullback-Leibler.

None of it samples or integrates on a grid. The densities of two Betas are equal at one reward or
two; between those every distance is a difference of distribution functions. What is left of the
formulas is freed of its large terms, so that it also holds between Beta(1e6, 1e6) and its neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rightful.reports.beta_math.special import (
    Point,
    at_logit,
    centre,
    checked,
    log_density,
    log_ratio,
    mean,
    root,
    saddle,
    stirling,
    stirling_bend,
    stirling_slope,
    tails,
)

Beta = tuple[float, float]
"""A posterior: alpha and beta, each above 0, prior included."""

Curve = Callable[[float], tuple[float, float]]
"""Value and slope of something at given log odds."""

_FAR = 2.0**60
_CLOSE = 1e-4
"""Parameters nearer than this, relative to their size: their difference is left to a derivative."""
_TWO = 2


def crossings(a: Beta, b: Beta) -> tuple[float, ...]:
    """Return the rewards where two posterior densities are equal, ascending.

    `ln(f_a / f_b)` is `da ln x + db ln(1 - x) + c`: as a function of the log odds it bends one way
    only, so it has one zero where `da` and `db` differ in sign and two where they agree.

    Args:
        a: One posterior, `(alpha, beta)`.
        b: The other.

    Returns:
        None (equal posteriors), one or two rewards; 0.0 or 1.0 if a reward is too near that end for a float.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    return tuple(at_logit(t).x for t in _crossing_logits(checked(*a), checked(*b)))


def _crossing_logits(a: Beta, b: Beta) -> list[float]:
    up, down = a[0] - b[0], a[1] - b[1]
    if up == down == 0.0:
        return []
    left = -math.copysign(1.0, up) if up else math.copysign(1.0, down)
    right = -math.copysign(1.0, down) if down else -left

    home = centre(*max(a, b, key=sum))  # the sharper one, where the logarithms do not cancel
    there = log_density(*a, home) - log_density(*b, home)

    def ratio(t: float) -> tuple[float, float]:
        point = at_logit(t)
        height = there + up * (point.log_x - home.log_x) + down * (point.log_y - home.log_y)
        return height, up * point.y - down * point.x

    if left != right:
        ends = _outermost(ratio, 0.0, left, -1.0), _outermost(ratio, 0.0, right, 1.0)
        return [_zero(ratio, ends[0], ends[1], right)]
    turn = math.log(abs(up)) - math.log(abs(down))
    if ratio(turn)[0] * left >= 0.0:  # equal to the last bit
        return []
    ends = _outermost(ratio, turn, left, -1.0), _outermost(ratio, turn, right, 1.0)
    return [_zero(ratio, ends[0], turn, -left), _zero(ratio, turn, ends[1], right)]


def _outermost(ratio: Curve, start: float, sign: float, direction: float) -> float:
    """Walk outwards, twice as far each time, until the ratio of the densities has the sign it ends with."""
    reach = 1.0
    while ratio(start + direction * reach)[0] * sign <= 0.0 and reach < _FAR:
        reach *= 2.0
    return start + direction * reach


def _zero(curve: Curve, low: float, high: float, sign: float) -> float:
    """Find the zero of a curve that has this sign at its high end."""

    def rising(t: float) -> tuple[float, float]:
        height, slope = curve(t)
        return sign * height, sign * slope

    return root(rising, low, high)


def _gap(a: Beta, b: Beta, t: float) -> float:
    """Difference of the two distribution functions at log odds t."""
    first, other = tails(*a, at_logit(t)), tails(*b, at_logit(t))
    return first.below - other.below if first.below + other.below < 1.0 else other.above - first.above


def tv(a: Beta, b: Beta) -> float:
    """Compute the total variation distance, `sup |P_a(A) - P_b(A)|` = `1/2 integral |f_a - f_b|`.

    Exact: the densities are equal at the `crossings` alone, so it is `|F_a - F_b|` at the one, or
    the change of `F_a - F_b` between the two.

    Args:
        a: One posterior, `(alpha, beta)`.
        b: The other.

    Returns:
        The distance, 0 (equal) to 1; symmetric.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    a, b = checked(*a), checked(*b)
    gaps = [_gap(a, b, t) for t in _crossing_logits(a, b)]
    return min(1.0, abs(gaps[-1] - (gaps[0] if len(gaps) > 1 else 0.0))) if gaps else 0.0


def w1(a: Beta, b: Beta) -> float:
    """Compute the Wasserstein-1 distance, `integral |F_a(x) - F_b(x)| dx`.

    If the densities cross once, one posterior lies above the other everywhere and the distance is
    the difference of the means. If they cross twice, `F_a - F_b` has one zero between; the two parts
    come from `integral_0^x F = (x - mean) F(x) + x**alpha y**beta / ((alpha + beta) B(alpha, beta))`.

    Args:
        a: One posterior, `(alpha, beta)`.
        b: The other.

    Returns:
        The distance, 0 to 1; reward units, symmetric.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    a, b = checked(*a), checked(*b)
    whole = mean(*b) - mean(*a)
    logits = _crossing_logits(a, b)
    if len(logits) < _TWO:
        return abs(whole)

    def gap(t: float) -> tuple[float, float]:
        point = at_logit(t)
        return _gap(a, b, t), math.exp(log_density(*a, point)) - math.exp(log_density(*b, point))

    zero = at_logit(_zero(gap, logits[0], logits[1], math.copysign(1.0, _gap(a, b, logits[1]))))
    part = _area(a, zero) - _area(b, zero)
    return max(abs(whole), abs(part) + abs(whole - part))


def _area(a: Beta, point: Point) -> float:
    """Integral of the distribution function from 0 to a point."""
    return (point.x - mean(*a)) * tails(*a, point).below + math.exp(log_density(*a, point)) / (a[0] + a[1])


def kl(a: Beta, b: Beta) -> float:
    """Compute the Kullback-Leibler divergence KL(a || b) = `integral f_a ln(f_a / f_b)`.

    `ln B(b) - ln B(a) + (alpha_a - alpha_b) psi(alpha_a) + (beta_a - beta_b) psi(beta_a)
    + (n_b - n_a) psi(n_a)`, n the sum of the two, with Stirling's leading terms taken out: they make
    n_b times the divergence of two coins, and nothing is left that cancels.

    Args:
        a: The posterior whose draws are asked about, `(alpha, beta)`.
        b: The one they are judged by.

    Returns:
        The divergence, 0 or more, without upper bound; nats. Not symmetric.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    a, b = checked(*a), checked(*b)
    if a == b:
        return 0.0
    pairs = [(a[0], b[0], 1.0), (a[1], b[1], 1.0), (sum(a), sum(b), -1.0)]
    rest = math.fsum(sign * _bregman(p, q) for p, q, sign in pairs)
    return max(0.0, _coins(b, a) + rest)


def _bregman(p: float, q: float) -> float:
    """`ln Gamma(q) - ln Gamma(p) - (q - p) psi(p)` less its leading part `q ln(q / p) - (q - p)`."""
    step = q - p
    if abs(step) < _CLOSE * p:
        return -0.5 * log_ratio(q, p) + 0.5 * step**2 * stirling_bend(p + step / 3.0)
    return -0.5 * log_ratio(q, p) + stirling(q) - stirling(p) - step * stirling_slope(p)


def _coins(a: Beta, b: Beta) -> float:
    """n_a times the divergence of a coin with the mean of a from one with the mean of b; nats."""
    return -saddle(*a, centre(*b))


def hellinger_squared(a: Beta, b: Beta) -> float:
    """Compute the squared Hellinger distance, `1 - integral sqrt(f_a f_b)`.

    `1 - B(m) / sqrt(B(a) B(b))` with m the midpoint of the parameters, again without Stirling's
    leading terms. It bounds the total variation: `H**2 <= TV <= H sqrt(2 - H**2)`.

    Args:
        a: One posterior, `(alpha, beta)`.
        b: The other.

    Returns:
        The square, 0 (equal) to 1; symmetric.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    a, b = checked(*a), checked(*b)
    if a == b:
        return 0.0
    middle = (0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1]))
    rest = math.fsum([_concave(a[0], b[0]), _concave(a[1], b[1]), -_concave(sum(a), sum(b))])
    exponent = rest - 0.5 * (_coins(a, middle) + _coins(b, middle))
    return -math.expm1(min(0.0, exponent))


def _concave(p: float, q: float) -> float:
    """`ln Gamma` of the mean less the mean of `ln Gamma`, without its leading part."""
    middle, half = 0.5 * (p + q), 0.5 * (p - q)
    if abs(half) < _CLOSE * middle:
        return 0.25 * math.log1p(-((half / middle) ** 2)) - 0.5 * half**2 * stirling_bend(middle)
    spread = math.log(p / middle) + math.log(q / middle)
    return 0.25 * spread + stirling(middle) - 0.5 * (stirling(p) + stirling(q))


def hellinger(a: Beta, b: Beta) -> float:
    """Compute the Hellinger distance, the root of `hellinger_squared`; 0 to 1, symmetric.

    Args:
        a: One posterior, `(alpha, beta)`.
        b: The other.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    return math.sqrt(hellinger_squared(a, b))
