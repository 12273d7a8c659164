"""The functions beneath: each against 60-digit arithmetic, at the places where a plain formula fails."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import errors
from rightful.reports.beta_math import special

DIGAMMA = [
    (0.001, -1000.5755719318103),
    (0.5, -1.9635100260214235),
    (1.0, -0.5772156649015329),
    (9.999, 2.2516474172057355),
    (10.0, 2.251752589066721),
    (1e6, 13.815510057964191),
]
TAILS = [
    (1e-3, 1e-3, 0.3, 0.49957696213967645),
    (1e-3, 1e6, 1e-7, 0.9981780093319272),
    (8.011107912162311, 727298.2740929603, 1.2915962416528253e-05, 0.7188654386528399),
    (1e6, 1e6, 0.4999, 0.388648717862322),
    (0.5, 1e6, 1e-6, 0.8427008448381964),
    (300.5, 1e6, 3.1e-4, 0.7145999741977931),
    (12.4, 7.6, 0.62, 0.4851939437013796),
    (299.0, 299.0, 0.52, 0.8359984929268885),
    (301.0, 301.0, 0.52, 0.8368054040111305),
]
PARAMETER = st.floats(-3.0, 6.0).map(lambda exponent: 10.0**exponent)
LOGIT = st.floats(-800.0, 800.0)


@pytest.mark.parametrize(("z", "psi"), DIGAMMA)
def test_digamma_has_all_its_digits(z: float, psi: float) -> None:
    assert special.digamma(z) == pytest.approx(psi, rel=1e-14, abs=0.0)


@given(st.floats(1e-3, 1e6))
def test_digamma_obeys_its_recurrence_across_the_joint(z: float) -> None:
    assert special.digamma(z + 1.0) - special.digamma(z) == pytest.approx(1.0 / z, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("z", [0.0, -1.0, math.nan, math.inf])
def test_digamma_of_what_is_no_parameter_is_refused(z: float) -> None:
    with pytest.raises(errors.UsageError, match="above 0 for digamma"):
        special.digamma(z)


@pytest.mark.parametrize("z", [1e-3, 0.7, 9.5, 10.5, 300.0])
def test_the_slopes_of_the_stirling_remainder_are_its_derivatives(z: float) -> None:
    step = 1e-4 * z
    slope = (special.stirling(z + step) - special.stirling(z - step)) / (2.0 * step)
    bend = (special.stirling_slope(z + step) - special.stirling_slope(z - step)) / (2.0 * step)

    assert special.stirling_slope(z) == pytest.approx(slope, rel=1e-6, abs=1e-11)
    assert special.stirling_bend(z) == pytest.approx(bend, rel=1e-6, abs=1e-11)


@pytest.mark.parametrize("z", [1e-3, 0.5, 3.0, 9.99, 10.0, 42.0])
def test_stirling_with_its_remainder_is_the_gamma_function(z: float) -> None:
    whole = (z - 0.5) * math.log(z) - z + 0.5 * math.log(math.tau) + special.stirling(z)

    assert whole == pytest.approx(math.lgamma(z), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize(
    ("u", "expected"), [(1e-8, -4.9999999666666667e-17), (0.4, -0.06352776337878708), (-0.9, -1.402585092994046)]
)
def test_the_logarithm_less_its_argument_keeps_its_digits(u: float, expected: float) -> None:
    assert special.log1pmx(u) == pytest.approx(expected, rel=1e-14, abs=0.0)
    assert special.log_ratio(2.0 * (1.0 + u), 2.0) == pytest.approx(expected, rel=1e-7, abs=0.0)


@pytest.mark.parametrize(("a", "b", "x", "below"), TAILS)
def test_both_tails_are_right_where_the_methods_meet_and_at_the_ends(
    a: float, b: float, x: float, below: float
) -> None:
    point = special.at(x)
    lower, upper = special.tails(a, b, point), special.tails(b, a, special.mirrored(point))

    assert lower.below == pytest.approx(below, abs=2e-12)
    assert upper.above == pytest.approx(below, abs=2e-12)
    assert lower.below + lower.above == pytest.approx(1.0, abs=1e-15)


def test_a_far_tail_keeps_its_relative_precision() -> None:
    """Powers of the reward, and a binomial tail of 1e-180 in rational numbers: each method far from the mean."""
    x = Fraction(0.1)
    binomial = sum(math.comb(801, k) * x**k * (1 - x) ** (801 - k) for k in range(401, 802))

    assert special.tails(20.0, 1.0, special.at(1e-9)).below == pytest.approx(1e-180, rel=1e-11, abs=0.0)
    lopsided = special.tails(0.0021932280292968043, 880789.0294207551, special.at(3.38175750639211e-09))
    assert lopsided.above == pytest.approx(0.011435083405173208, rel=1e-11, abs=0.0)
    assert special.tails(1.0, 20.0, special.at(0.5)).above == pytest.approx(2.0**-20, rel=1e-13, abs=0.0)
    assert special.tails(401.0, 401.0, special.at(0.1)).below == pytest.approx(float(binomial), rel=1e-11, abs=0.0)


@given(PARAMETER, PARAMETER, LOGIT, LOGIT)
def test_tails_are_monotone_and_sum_to_one(a: float, b: float, t: float, u: float) -> None:
    low, high = (special.tails(a, b, special.at_logit(place)) for place in sorted((t, u)))

    assert 0.0 <= low.below <= high.below + 1e-11 <= 1.0 + 1e-11
    assert low.below + low.above == pytest.approx(1.0, abs=1e-12)


@given(st.floats(1e-6, 1.0 - 1e-6))
def test_a_point_is_the_same_by_reward_and_by_log_odds(x: float) -> None:
    assert special.at_logit(math.log(x) - math.log1p(-x)) == pytest.approx(special.at(x), rel=1e-9)


def test_a_point_beyond_every_float_still_has_its_logarithm() -> None:
    point = special.at_logit(-2_000.0)

    assert point == (0.0, 1.0, -2_000.0, 0.0)
    assert special.tails(1e-3, 1.0, point).below == pytest.approx(math.exp(-2.0), rel=1e-12, abs=0.0)


def test_more_evidence_than_can_be_distinguished_keeps_its_mean() -> None:
    assert special.checked(3e20, 1e20) == pytest.approx((1e15, 1e15 / 3.0))
    assert special.checked(1e-300, 1.0) == (1e-12, 1.0)
    assert special.checked(1e15, 2.0) == (1e15, 2.0)


def test_a_root_is_found_where_newton_alone_would_leave() -> None:
    """From the flat end of an arc tangent Newton's first step flies off."""
    found = special.root(lambda t: (math.atan(t - 3.0), 1.0 / (1.0 + (t - 3.0) ** 2)), -1e6, 1e6)

    assert found == pytest.approx(3.0, abs=1e-12)
