"""Estimators: the published numbers, and what must hold of any runs."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import errors
from rightful.reports import estimators
from rightful.reports.estimators import EligibleRun

DROPOUT = [
    EligibleRun(injected=True, p_inject=0.9, reward=0.8),
    EligibleRun(injected=True, p_inject=0.9, reward=0.6),
    EligibleRun(injected=True, p_inject=0.9, reward=1.0),
    EligibleRun(injected=False, p_inject=0.9, reward=0.5),
    EligibleRun(injected=True, p_inject=0.8, reward=0.4),
    EligibleRun(injected=False, p_inject=0.8, reward=0.3),
]
SIZES = [
    (0.3, 0.1, [1488, 785, 442, 283]),
    (0.3, 0.05, [5949, 3140, 1766, 1131]),
    (0.1, 0.05, [661, 349, 197, 126]),
]
MARGINS = [(20, 0.7521881623527471), (50, 0.43608246963690894), (100, 0.3035208990376253), (500, 0.14100780791997197)]
P_VALUES = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216]
Q_VALUES = [0.01, 0.04, 0.084, 0.084, 0.084, 0.1, 0.10571428571428572, 0.216, 0.216, 0.216]
CASES = Path(__file__).parents[3] / "shared" / "cases" / "posterior_cases.json"

UNIT = st.floats(0.0, 1.0)
INSIDE = st.floats(0.01, 0.99)
RUN = st.builds(EligibleRun, injected=st.booleans(), p_inject=INSIDE, reward=UNIT)
BOTH_SIDES = st.tuples(
    st.builds(EligibleRun, injected=st.just(value=True), p_inject=INSIDE, reward=UNIT),
    st.builds(EligibleRun, injected=st.just(value=False), p_inject=INSIDE, reward=UNIT),
    st.lists(RUN, max_size=20),
).map(lambda parts: [parts[0], parts[1], *parts[2]])
SHARES = st.lists(UNIT, max_size=20)


def test_the_wilson_interval_is_the_published_one() -> None:
    assert estimators.wilson(12, 40) == pytest.approx((0.18074845229746528, 0.45430018818144935), abs=1e-14)


@given(st.integers(1, 500), st.floats(0.5, 0.999), st.data())
def test_wilson_interval_ends_where_the_rate_would_be_rejected(n: int, mass: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    low, high = estimators.wilson(k, n, mass)
    z = NormalDist().inv_cdf(0.5 + mass / 2.0)

    assert 0.0 <= low <= k / n <= high <= 1.0
    for end in (low, high):
        assert (k / n - end) ** 2 == pytest.approx(z * z * end * (1.0 - end) / n, abs=1e-12)
    mirrored = estimators.wilson(n - k, n, mass)
    assert mirrored == pytest.approx((1.0 - high, 1.0 - low), abs=1e-12)


def test_no_trials_say_nothing_of_a_rate() -> None:
    assert estimators.wilson(0, 0) == (0.0, 1.0)
    assert estimators.wilson(0, 9)[0] == 0.0
    assert estimators.wilson(9, 9)[1] == 1.0


@pytest.mark.parametrize(("k", "n"), [(-1, 4), (5, 4)])
def test_counts_that_cannot_be_are_refused(k: int, n: int) -> None:
    with pytest.raises(errors.UsageError, match="successes <= trials"):
        estimators.wilson(k, n)


def test_unverifiable_grades_widen_a_rate_to_bounds() -> None:
    found = estimators.bounds_with_unverifiable(28, 12, 5)

    assert found == estimators.RateBounds(0.3, 12 / 45, 17 / 45)
    assert estimators.bounds_with_unverifiable(0, 0, 3) == estimators.RateBounds(None, 0.0, 1.0)
    assert estimators.bounds_with_unverifiable(0, 0, 0) == estimators.RateBounds(None, 0.0, 1.0)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_the_bounds_enclose_the_checked_rate(own: int, foreign: int, unverifiable: int) -> None:
    found = estimators.bounds_with_unverifiable(own, foreign, unverifiable)

    assert found.low <= found.high
    assert found.rate_checked is None or found.low - 1e-15 <= found.rate_checked <= found.high + 1e-15


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="expected counts"):
        estimators.bounds_with_unverifiable(1, -1, 0)


def test_the_small_dropout_log_gives_its_published_estimates() -> None:
    difference = estimators.difference_in_means(DROPOUT)
    plain, normalised = estimators.ips(DROPOUT), estimators.snips(DROPOUT)

    assert difference.difference == pytest.approx(0.3, abs=1e-15)
    assert difference.se == pytest.approx(0.16329931618554522, abs=1e-15)
    assert difference.df == pytest.approx(3.6923076923076925, abs=1e-13)
    assert (plain.injected, plain.withheld, plain.effect) == pytest.approx((19 / 36, 13 / 12, -5 / 9), abs=1e-15)
    assert plain.se is None
    assert (normalised.injected, normalised.withheld) == pytest.approx((38 / 55, 13 / 30), abs=1e-15)
    assert normalised.effect == pytest.approx(17 / 66, abs=1e-15)
    assert normalised.se == pytest.approx(0.13055668381463292, abs=1e-15)
    for found in (plain, normalised):
        assert (found.ess_injected, found.ess_withheld) == pytest.approx((3.989010989010989, 1.8), abs=1e-14)


@given(BOTH_SIDES, INSIDE)
def test_under_one_propensity_the_effect_is_the_difference_in_means(runs: list[EligibleRun], p: float) -> None:
    level = [EligibleRun(injected=run.injected, p_inject=p, reward=run.reward) for run in runs]

    assert estimators.snips(level).effect == pytest.approx(estimators.difference_in_means(level).difference, abs=1e-12)


@given(BOTH_SIDES)
def test_the_weighted_means_are_those_of_rational_arithmetic(runs: list[EligibleRun]) -> None:
    sides = []
    for side in (True, False):
        mine = [(run, Fraction(run.p_inject or 0.0)) for run in runs if run.injected is side]
        weights = [1 / p if side else 1 / (1 - p) for _, p in mine]
        sides.append((sum(w * Fraction(run.reward) for w, (run, _) in zip(weights, mine, strict=True)), sum(weights)))
    (won, injected), (lost, withheld) = sides

    assert estimators.ips(runs).effect == pytest.approx(float((won - lost) / len(runs)), abs=1e-9)
    assert estimators.snips(runs).effect == pytest.approx(float(won / injected - lost / withheld), abs=1e-12)


@given(BOTH_SIDES, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_changes_no_digit(runs: list[EligibleRun], rng: random.Random) -> None:
    shuffled = rng.sample(runs, len(runs))

    for estimate in (estimators.difference_in_means, estimators.ips, estimators.snips):
        assert estimate(shuffled) == estimate(runs)


@given(BOTH_SIDES)
def test_swapping_the_sides_turns_the_effect_round(runs: list[EligibleRun]) -> None:
    turned = [
        EligibleRun(injected=not run.injected, p_inject=1.0 - (run.p_inject or 0.0), reward=run.reward) for run in runs
    ]

    assert estimators.snips(turned).effect == pytest.approx(-estimators.snips(runs).effect, abs=1e-9)
    assert estimators.snips(turned).se == pytest.approx(estimators.snips(runs).se, abs=1e-9)


def test_the_estimate_finds_an_effect_that_was_put_in() -> None:
    """Injection is likelier where rewards are high anyway; only the weighted estimate sees the .1."""
    rng, runs = random.Random(11), []
    for _ in range(20_000):
        easy = rng.random() < 0.5
        p = 0.9 if easy else 0.3
        injected = rng.random() < p
        reward = (0.6 if easy else 0.2) + (0.1 if injected else 0.0) + rng.uniform(-0.1, 0.1)
        runs.append(EligibleRun(injected=injected, p_inject=p, reward=reward))

    found = estimators.snips(runs)

    assert found.se is not None
    assert abs(found.effect - 0.1) < 4 * found.se < 0.03
    assert estimators.difference_in_means(runs).difference > 0.25


def test_runs_that_chance_did_not_decide_are_left_out_and_counted() -> None:
    sure = [EligibleRun(injected=True, p_inject=p, reward=0.5) for p in (None, 0.0, 1.0)]

    assert estimators.with_overlap([*DROPOUT, *sure]) == (DROPOUT, 3)


@pytest.mark.parametrize("p", [None, 0.0, 1.0, 1.5, math.nan])
def test_a_run_without_chance_says_nothing_of_an_effect(p: float | None) -> None:
    runs = [*DROPOUT, EligibleRun(injected=True, p_inject=p, reward=0.5)]

    for estimate in (estimators.ips, estimators.snips):
        with pytest.raises(errors.UsageError, match="with_overlap"):
            estimate(runs)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_probability_that_is_none_is_refused_and_not_dropped(p: float) -> None:
    with pytest.raises(errors.UsageError, match=r"injection in \[0, 1\]"):
        estimators.with_overlap([EligibleRun(injected=True, p_inject=p, reward=0.5)])


def test_one_side_alone_cannot_be_compared() -> None:
    alone = [run for run in DROPOUT if run.injected]

    for estimate in (estimators.difference_in_means, estimators.ips, estimators.snips):
        with pytest.raises(errors.UsageError, match="4 injected and 0 withheld"):
            estimate(alone)


def test_a_single_run_has_a_difference_and_no_spread() -> None:
    found = estimators.difference_in_means([DROPOUT[0], DROPOUT[3], DROPOUT[5]])

    assert found == estimators.Difference(0.4, None, None)


def test_rewards_that_never_vary_have_no_degrees_of_freedom() -> None:
    runs = [EligibleRun(injected=side, p_inject=0.5, reward=0.25) for side in (True, True, False, False)]

    assert estimators.difference_in_means(runs) == estimators.Difference(0.0, 0.0, None)


@given(st.lists(st.just(0.0) | st.floats(1e-200, 1e300), min_size=1, max_size=20), st.floats(1e-3, 1e3))
def test_an_effective_sample_is_never_larger_than_the_sample(weights: list[float], scale: float) -> None:
    size = estimators.effective_sample_size(weights)

    assert 0.0 <= size <= len(weights) + 1e-9
    assert estimators.effective_sample_size([scale * w for w in weights]) == pytest.approx(size, rel=1e-6)


def test_equal_weights_count_one_each_and_none_count_nothing() -> None:
    assert estimators.effective_sample_size([0.3] * 7) == pytest.approx(7.0, abs=1e-12)
    assert estimators.effective_sample_size([5.0, 0.0, 0.0]) == 1.0
    assert estimators.effective_sample_size([0.0, 0.0]) == estimators.effective_sample_size([]) == 0.0
    with pytest.raises(errors.UsageError, match="weights"):
        estimators.effective_sample_size([1.0, -1.0])


def test_the_published_p_values_are_adjusted_as_published() -> None:
    found = estimators.benjamini_hochberg(P_VALUES)

    assert found == pytest.approx(Q_VALUES, abs=1e-15)
    assert [q <= 0.05 for q in found] == [True, True, *[False] * 8]


@given(SHARES, st.randoms(use_true_random=False))
def test_adjustment_keeps_the_order_of_tests_and_of_evidence(p_values: list[float], rng: random.Random) -> None:
    q_values = estimators.benjamini_hochberg(p_values)
    order = rng.sample(range(len(p_values)), len(p_values))

    assert estimators.benjamini_hochberg([p_values[i] for i in order]) == [q_values[i] for i in order]
    assert all(p <= q <= 1.0 for p, q in zip(p_values, q_values, strict=True))
    assert [q for _, q in sorted(zip(p_values, q_values, strict=True))] == sorted(q_values)


@given(SHARES, st.floats(0.001, 0.5))
def test_adjusted_values_reject_what_the_step_up_procedure_rejects(p_values: list[float], level: float) -> None:
    count = len(p_values)
    passing = [rank for rank, p in enumerate(sorted(p_values), start=1) if count / rank * p <= level]

    assert sum(q <= level for q in estimators.benjamini_hochberg(p_values)) == max(passing, default=0)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_what_is_no_p_value_is_refused(p: float) -> None:
    with pytest.raises(errors.UsageError, match="p-values"):
        estimators.benjamini_hochberg([0.5, p])


@pytest.mark.parametrize(("sd", "delta", "sizes"), SIZES)
def test_the_sample_sizes_are_the_published_ones(sd: float, delta: float, sizes: list[int]) -> None:
    assert [estimators.sample_size(sd, delta, epsilon) for epsilon in (0.05, 0.1, 0.2, 0.5)] == sizes
    assert estimators.sample_size(sd, -delta, 0.5) == sizes[-1]


def test_a_sample_of_the_size_asked_has_the_power_asked() -> None:
    """The standard error at that size is delta / (z_alpha + z_power), and one run fewer is not enough."""
    n, z = estimators.sample_size(0.3, 0.1, 0.2, alpha=0.01, power=0.9), NormalDist().inv_cdf

    def power(runs: int) -> float:
        return NormalDist().cdf(0.1 / (0.3 / math.sqrt(runs * 0.2 * 0.8)) - z(0.995))

    assert power(n - 1) < 0.9 <= power(n)


@pytest.mark.parametrize(("t", "margin"), MARGINS)
def test_the_margins_of_the_confidence_sequence_are_the_published_ones(t: int, margin: float) -> None:
    assert estimators.confidence_sequence_margin(1.0, t, 100) == pytest.approx(margin, abs=1e-14)
    assert estimators.confidence_sequence_margin(0.3, t, 100) == pytest.approx(0.3 * margin, abs=1e-14)


@given(st.integers(1, 10**6), st.floats(1.0, 1e6), st.floats(1e-4, 0.5))
def test_looking_at_every_run_costs_width(t: int, t_opt: float, alpha: float) -> None:
    fixed = NormalDist().inv_cdf(1.0 - alpha / 2.0) / math.sqrt(t)

    assert estimators.confidence_sequence_margin(1.0, t, t_opt, alpha) > fixed


@pytest.mark.parametrize(
    ("sd", "t", "t_opt", "alpha"), [(-1.0, 9, 9, 0.05), (1.0, 0, 9, 0.05), (1.0, 9, 0, 0.05), (1.0, 9, 9, 1.0)]
)
def test_a_margin_of_nothing_is_refused(sd: float, t: int, t_opt: float, alpha: float) -> None:
    with pytest.raises(errors.UsageError, match="expected"):
        estimators.confidence_sequence_margin(sd, t, t_opt, alpha)


@pytest.mark.parametrize(
    ("sd", "delta", "epsilon"), [(0.0, 0.1, 0.5), (0.3, 0.0, 0.5), (0.3, 0.1, 0.0), (0.3, 0.1, 1.0)]
)
def test_a_sample_size_for_nothing_is_refused(sd: float, delta: float, epsilon: float) -> None:
    with pytest.raises(errors.UsageError, match="expected"):
        estimators.sample_size(sd, delta, epsilon)


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not beside the project")
def test_the_shared_cases_are_the_ones_copied_here() -> None:
    cases = {case["name"]: case for case in json.loads(CASES.read_text("utf-8"))["estimator_cases"]}

    assert [EligibleRun(**row) for row in cases["dropout_small"]["rows"]] == DROPOUT
    assert cases["benjamini_hochberg"]["p"] == P_VALUES
    assert [(row["t"], row["margin"]) for row in cases["asymp_cs"]["rows"]] == MARGINS
    sizes = [row["sessions"] for row in cases["sample_size"]["rows"]]
    assert sizes == [size for _, _, row in SIZES for size in row]
