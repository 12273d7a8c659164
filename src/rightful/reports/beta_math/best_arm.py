"""Which arm is best: P(best) by one exact quadrature over the log odds of the reward.

The log odds of a Beta have a smooth, log-concave density without end points, however sharp or
loose the posterior. So the axis is cut into panels as fine as the sharpest posterior that still
has weight there, each with 16 Gauss-Legendre nodes; distribution functions are integrated from
panel to panel. The error is some 1e-12 where a grid of 4,097 midpoints gives 1e-5, and sees
nothing of Beta(5e5, 5e5).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rightful.reports.beta_math.special import at_logit, centre, checked, log_density, peak, tails

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DROP = 32.0
"""Where a density is e**-32 of its peak nothing is left to integrate; nats."""

_NODES = 16
_PACE = 3.0
"""Width of a panel in units of the length on which the density changes e-fold."""


def p_best(arms: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return the probability that each arm is the best: that its draw exceeds those of all others.

    `integral f_i(x) product_{j != i} F_j(x) dx`: the share of Thompson sampling's picks (Thompson 1933).

    Args:
        arms: The posterior `(alpha, beta)` of every arm that could be picked, those at the prior too.

    Returns:
        The probabilities by arm, in the given order; they sum to 1 within 1e-9.

    Raises:
        UsageError: A parameter is not a finite number above 0.
    """
    shapes = [_shape(*checked(*posterior)) for posterior in arms.values()]
    return dict(zip(arms, _shares(shapes), strict=True)) if shapes else {}


def p_greater(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the probability that a draw of one posterior exceeds an independent draw of another.

    Args:
        a: The posterior asked about, `(alpha, beta)`.
        b: The other.

    Returns:
        `integral f_a F_b`, 0 to 1; `p_greater(b, a)` is its complement.

    Raises:
        UsageError: One of the four numbers is not a finite number above 0.
    """
    return _shares([_shape(*checked(*a)), _shape(*checked(*b))])[0]


def selection_shift(policy: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """Return the least share of Thompson sampling's picks that differ between two policies.

    `1/2 sum |P_policy(arm best) - P_reference(arm best)|`, the total variation of the two choices;
    0 only if both pick alike.

    Args:
        policy: `p_best` of the arms under one policy.
        reference: `p_best` of the same arms under the other; an arm missing on one side counts as
            never picked there, so give arms without credit their prior before asking for `p_best`.

    Returns:
        The share, 0 to 1; symmetric.
    """
    arms = policy.keys() | reference.keys()
    return min(1.0, 0.5 * math.fsum(abs(policy.get(arm, 0.0) - reference.get(arm, 0.0)) for arm in arms))


class _Shape(NamedTuple):
    """A posterior on the axis of log odds, and the window outside of which it has no weight."""

    a: float
    b: float
    centre: float
    low: float
    high: float


@functools.lru_cache(maxsize=4096)
def _shape(a: float, b: float) -> _Shape:
    return _Shape(a, b, math.log(a) - math.log(b), _edge(a, b), -_edge(b, a))


def _edge(a: float, b: float) -> float:
    """Find the log odds, on the low side, where the density has dropped; at or just outside of it.

    Newton's method from the straight line that the logarithm of the density, which is concave,
    approaches from below: it starts outside and never comes too far in.
    """
    top, (_, _, log_low, log_high) = peak(a, b), centre(a, b)
    t = log_low + (b * log_high - _DROP) / a
    for _ in range(60):
        point = at_logit(t)
        move = (top - _DROP - log_density(a, b, point)) / (a * point.y - b * point.x)
        if not move > 1e-3 * abs(t - log_low + log_high):
            break
        t += move
    return t


def _reach(shape: _Shape, t: float) -> float:
    """Say how far a panel from t may extend for one posterior."""
    t = max(t, shape.low)
    point = at_logit(t)
    slope = abs(shape.b * point.x - shape.a * point.y)
    log_bend = math.log(shape.a + shape.b) + point.log_x + point.log_y
    width = _PACE / (slope + math.exp(0.5 * log_bend))
    return max(t + min(width, 1.5 + max(0.0, -log_bend) / 3.0), math.nextafter(t, math.inf))


def _panels(shapes: list[_Shape]) -> list[float]:
    """Cut the axis where the best of these draws can lie; ascending edges."""
    start, end = max(shape.low for shape in shapes), max(shape.high for shape in shapes)
    edges = [start]
    while edges[-1] < end:
        shapes = [shape for shape in shapes if shape.high > edges[-1]]
        edges.append(min(end, *(_reach(shape, edges[-1]) for shape in shapes)))
    return edges


def _shares(shapes: list[_Shape]) -> list[float]:
    import numpy as np

    edges = np.array(_panels(shapes))
    nodes, weights, inner = _rule()
    half = 0.5 * np.diff(edges)[:, None]
    places = edges[:-1, None] + half * (1.0 + nodes)
    start = at_logit(float(edges[0]))
    log_product = np.zeros_like(places)
    ratios = []
    for shape in shapes:
        density = _density(shape, places - shape.centre) * half
        ends = np.cumsum(density @ weights)
        before = tails(shape.a, shape.b, start).below + np.concatenate([[0.0], ends[:-1]])
        below = np.clip(before[:, None] + density @ inner, 1e-290, 1.0)
        log_product += np.log(below)
        ratios.append(density / below)
    product = np.exp(log_product) * weights
    return [min(1.0, float((ratio * product).sum())) for ratio in ratios]


def _density(shape: _Shape, offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate the density of the log odds at offsets from its peak.

    With s the offset, p the mean and n = a + b, its logarithm falls by `n ln(1 + p (e**s - 1)) - a s`,
    written from the side on which p is at most 1/2.
    """
    import numpy as np

    a, b, s = (shape.a, shape.b, offset) if shape.a <= shape.b else (shape.b, shape.a, -offset)
    n, p = a + b, a / (a + b)
    near = np.log1p(p * np.expm1(np.minimum(s, 1.0)))
    far = np.logaddexp(math.log1p(-p), math.log(a) - math.log(n) + s)
    fall = n * np.where(s < 1.0, near, far) - a * s
    return np.exp(peak(shape.a, shape.b) - np.maximum(fall, 0.0))


@functools.cache
def _rule() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights on [-1, 1], and the matrix that integrates from -1 to each node.

    The integral of the Legendre polynomial P_k is `(P_{k+1} - P_{k-1}) / (2 k + 1)` (DLMF 18.17.2).
    """
    import numpy as np
    from numpy.polynomial import legendre

    nodes, weights = legendre.leggauss(_NODES)
    values = legendre.legvander(nodes, _NODES)
    previous = np.concatenate([-np.ones((_NODES, 1)), values[:, : _NODES - 1]], axis=1)
    integrals = 0.5 * (values[:, 1:] - previous)
    return nodes, weights, (weights[:, None] * values[:, :_NODES]) @ integrals.T
