"""Posteriors: distribution, quantiles and the one call that compares two of them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rightful import errors
from rightful.reports.beta_math import best_arm, beta, distances, special

# 60-digit arithmetic, at both ends of what a posterior can be.
QUANTILES = [
    (1e6, 1e6, 0.025, 0.49930704833394945),
    (2.0, 5.0, 0.5, 0.26444998329566005),
    (0.5, 0.5, 0.9, 0.9755282581475768),
    (1e6, 0.5, 0.025, 0.9999974880594333),
    (1e-3, 1e-3, 0.51, 0.9999999983197947),
    (1e-3, 2.0, 0.975, 3.7199132663090495e-12),
    (400.0, 1000.0, 1e-9, 0.21725447828585942),
]
# The posteriors of the published cases, with their 95% intervals.
INTERVALS = [
    ((1.8, 1.2), (0.11231291292966648, 0.9732260068150657)),
    ((5.0, 3.0), (0.2904208637373427, 0.9010117215574921)),
    ((12.4, 7.6), (0.4036559356704796, 0.8136193954254208)),
    ((30.0, 10.0), (0.6067384593215324, 0.8696232007644127)),
    ((2.9, 2.1), (0.1784885512826621, 0.9226484918540288)),
    ((1.0, 1.0), (0.025, 0.975)),
    ((250.25, 80.75), (0.7084275041299701, 0.8007268575917237)),
]
PARAMETER = st.floats(-3.0, 6.0).map(lambda exponent: 10.0**exponent)
ANY = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
PROBABILITY = st.floats(1e-9, 1.0 - 1e-9)
CASES = Path(__file__).parents[3] / "shared" / "cases" / "posterior_cases.json"


@pytest.mark.parametrize(("posterior", "expected"), INTERVALS)
def test_the_interval_of_a_published_posterior_is_met(posterior: distances.Beta, expected: tuple[float, float]) -> None:
    assert beta.interval(*posterior) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("a", "b", "p", "expected"), QUANTILES)
def test_a_quantile_is_right_to_the_last_digits(a: float, b: float, p: float, expected: float) -> None:
    assert beta.quantile(a, b, p) == pytest.approx(expected, abs=1e-12)


@given(PARAMETER, PARAMETER, PROBABILITY)
@example(1e-3, 1e6, 0.975)
@example(1e6, 1e6, 0.5)
def test_a_quantile_is_where_the_distribution_reaches_its_probability(a: float, b: float, p: float) -> None:
    """Where one float more or less of the reward moves the probability further, the floats beside it enclose it."""
    x = beta.quantile(a, b, p)
    slack = 1e-13 + 8 * math.ulp(x)

    assert beta.cdf(a, b, x - slack) - 1e-9 <= p <= beta.cdf(a, b, x + slack) + 1e-9


@given(PARAMETER, PARAMETER, PROBABILITY, PROBABILITY)
def test_quantiles_rise_with_their_probability(a: float, b: float, p: float, q: float) -> None:
    low, high = sorted((p, q))

    assert beta.quantile(a, b, low) <= beta.quantile(a, b, high) + 1e-12


@given(PARAMETER, PARAMETER, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_distribution_rises_from_zero_to_one(a: float, b: float, x: float, y: float) -> None:
    low, high = sorted((x, y))

    assert 0.0 <= beta.cdf(a, b, low) <= beta.cdf(a, b, high) + 1e-11 <= 1.0 + 1e-11
    assert beta.cdf(a, b, -1.0) == beta.cdf(a, b, 0.0) == 0.0
    assert beta.cdf(a, b, 1.0) == beta.cdf(a, b, 2.0) == 1.0


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.0, 1.0))
def test_whole_parameters_give_the_binomial_tail(a: int, b: int, x: float) -> None:
    """I_x(a, b) is the chance of at least a successes in a + b - 1 throws."""
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1.0 - x) ** (n - k) for k in range(a, n + 1))

    assert beta.cdf(a, b, x) == pytest.approx(tail, abs=1e-12)


@given(PARAMETER, PARAMETER, st.floats(0.01, 0.99))
def test_an_interval_is_the_mirror_of_that_of_the_complement(a: float, b: float, mass: float) -> None:
    low, high = beta.interval(a, b, mass)

    assert 0.0 <= low <= high <= 1.0
    assert beta.interval(b, a, mass) == pytest.approx((1.0 - high, 1.0 - low), abs=1e-12)


def test_a_quantile_too_small_for_a_float_is_zero() -> None:
    """Half of Beta(1e-3, 1) lies below 2**-1000, a hundredth below 1e-2000."""
    assert beta.quantile(1e-3, 1.0, 0.5) == pytest.approx(2.0**-1000, rel=1e-9, abs=0.0)
    assert beta.quantile(1e-3, 1.0, 0.01) == 0.0
    assert beta.quantile(1.0, 1e-3, 0.99) == 1.0


def test_a_quantile_close_to_certainty_keeps_the_little_that_is_left() -> None:
    """Above x lies (1 - x)**20 of Beta(1, 20), here 2**-50."""
    assert beta.quantile(1.0, 20.0, 1.0 - 2.0**-50) == pytest.approx(1.0 - 2.0**-2.5, abs=1e-12)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_the_outermost_quantiles_are_the_ends(p: float) -> None:
    assert beta.quantile(2.0, 3.0, p) == p


@given(ANY, ANY, ANY, ANY, st.floats(0.0, 1.0))
@example(1e-300, 1e300, 1e300, 1e-300, 0.5)
@example(5e-324, 5e-324, 1.7e308, 1.7e308, 0.25)
def test_no_posterior_whatever_gives_a_nan(a: float, b: float, c: float, d: float, x: float) -> None:
    found = beta.compare((a, b), (c, d))
    numbers = [found.tv, found.hellinger, found.w1, found.p_greater, *found.crossings]

    assert all(0.0 <= number <= 1.0 for number in [*numbers, beta.cdf(a, b, x), beta.quantile(a, b, x)])
    assert found.kl >= 0.0
    assert -1.0 <= found.delta_mean <= 1.0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_posterior_is_refused_by_a_sentence(bad: float) -> None:
    for call in (
        lambda: beta.cdf(bad, 1.0, 0.5),
        lambda: beta.quantile(1.0, bad, 0.5),
        lambda: beta.interval(bad, bad),
        lambda: special.mean(1.0, bad),
        lambda: beta.compare((1.0, 1.0), (bad, 1.0)),
        lambda: best_arm.p_best({"a": (1.0, bad)}),
    ):
        with pytest.raises(errors.UsageError, match="finite alpha and beta above 0"):
            call()


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_probability_outside_the_unit_interval_is_refused(p: float) -> None:
    with pytest.raises(errors.UsageError, match=r"probability in \[0, 1\]"):
        beta.quantile(2.0, 2.0, p)


@pytest.mark.parametrize("mass", [0.0, 1.0, math.nan])
def test_an_interval_of_all_or_nothing_is_refused(mass: float) -> None:
    with pytest.raises(errors.UsageError, match="mass between 0 and 1"):
        beta.interval(2.0, 2.0, mass)


def test_a_reward_that_is_no_number_has_no_probability() -> None:
    with pytest.raises(errors.UsageError, match="nan"):
        beta.cdf(2.0, 2.0, math.nan)


def test_comparing_gathers_every_measure_in_the_order_asked() -> None:
    a, b = (12.4, 7.6), (9.1, 10.9)

    found = beta.compare(a, b)

    assert found == beta.Comparison(
        tv=distances.tv(a, b),
        kl=distances.kl(a, b),
        hellinger=distances.hellinger(a, b),
        w1=distances.w1(a, b),
        delta_mean=special.mean(*a) - special.mean(*b),
        p_greater=best_arm.p_greater(a, b),
        crossings=distances.crossings(a, b),
    )
    assert found.delta_mean == pytest.approx(0.165, abs=1e-15)
    assert beta.compare(b, a).kl != found.kl


def test_a_table_of_intervals_needs_no_numpy_unless_posteriors_are_sharp() -> None:
    lines = ["import sys", "from rightful.reports.beta_math import beta", "beta.interval(12.4, 7.6)"]
    code = "\n".join([*lines, "sys.exit('numpy' in sys.modules)"])

    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode
        == 0
    )


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not beside the project")
def test_the_shared_cases_are_the_ones_copied_here() -> None:
    cases = json.loads(CASES.read_text("utf-8"))["metric_cases"]

    assert [(tuple(map(float, case["p"])), tuple(case["p_ci95"])) for case in cases] == INTERVALS
