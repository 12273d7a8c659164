"""P(best): the worked audit, closed forms, and arms of every sharpness at once."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful.reports.beta_math import best_arm, distances, special

PARAMETER = st.floats(-3.0, 6.0).map(lambda exponent: 10.0**exponent)
POSTERIOR = st.tuples(PARAMETER, PARAMETER)
BOUND = {"a": (2.9, 1.1), "b": (2.1, 1.9), "c": (1.6, 3.4)}
NEWEST = {"a": (2.2, 1.8), "b": (1.9, 1.1), "c": (3.4, 3.6)}


def log_b(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def test_the_worked_audit_shifts_the_best_arm_as_published() -> None:
    bound, newest = best_arm.p_best(BOUND), best_arm.p_best(NEWEST)

    assert bound == pytest.approx(
        {"a": 0.7184238393264397, "b": 0.23465052433830114, "c": 0.046925636335259174}, abs=1e-12
    )
    assert newest == pytest.approx(
        {"a": 0.3114820446350385, "b": 0.5185888173452152, "c": 0.16992913801974632}, abs=1e-12
    )
    assert best_arm.selection_shift(newest, bound) == pytest.approx(0.4069417946914012, abs=1e-12)


@given(st.integers(1, 40), st.floats(0.1, 200.0), st.floats(0.1, 200.0), st.floats(0.1, 200.0))
def test_one_arm_beats_another_by_the_closed_form(a: int, b: float, c: float, d: float) -> None:
    """For a whole first parameter: Miller, "Formulas for Bayesian A/B testing" (2015)."""
    exact = math.fsum(
        math.exp(log_b(c + i, b + d) - math.log(b + i) - log_b(1.0 + i, b) - log_b(c, d)) for i in range(a)
    )

    assert best_arm.p_greater((a, b), (c, d)) == pytest.approx(exact, abs=1e-10)


@given(POSTERIOR, POSTERIOR)
def test_either_one_arm_is_better_or_the_other(p: distances.Beta, q: distances.Beta) -> None:
    assert best_arm.p_greater(p, q) + best_arm.p_greater(q, p) == pytest.approx(1.0, abs=1e-10)


@given(POSTERIOR)
def test_equal_arms_are_even(p: distances.Beta) -> None:
    assert best_arm.p_greater(p, p) == pytest.approx(0.5, abs=1e-10)


@given(POSTERIOR)
def test_an_arm_beats_the_uniform_prior_by_its_mean(p: distances.Beta) -> None:
    """A uniform draw lies below x with probability x."""
    assert best_arm.p_greater(p, (1.0, 1.0)) == pytest.approx(special.mean(*p), abs=1e-10)


@given(st.lists(POSTERIOR, min_size=1, max_size=8))
def test_some_arm_is_the_best(posteriors: list[distances.Beta]) -> None:
    shares = best_arm.p_best({str(i): posterior for i, posterior in enumerate(posteriors)})

    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert all(0.0 <= share <= 1.0 for share in shares.values())


@given(st.lists(POSTERIOR, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter(posteriors: list[distances.Beta], rng: random.Random) -> None:
    arms = {str(i): posterior for i, posterior in enumerate(posteriors)}
    shuffled = dict(rng.sample(sorted(arms.items()), len(arms)))

    assert best_arm.p_best(shuffled) == pytest.approx(best_arm.p_best(arms), abs=1e-12)
    assert list(best_arm.p_best(shuffled)) == list(shuffled)


@given(st.lists(st.tuples(st.integers(1, 6), st.just(1)), min_size=2, max_size=6))
def test_arms_that_never_failed_win_by_their_evidence(arms: list[tuple[int, int]]) -> None:
    """The best of draws from Beta(a_i, 1) is arm i with probability a_i / sum a."""
    total = sum(a for a, _ in arms)

    shares = best_arm.p_best({str(i): (float(a), 1.0) for i, (a, _) in enumerate(arms)})

    assert list(shares.values()) == pytest.approx([a / total for a, _ in arms], abs=1e-12)


def test_very_sharp_posteriors_are_distinguished() -> None:
    """A grid of 4,097 rewards has three points under Beta(5e5, 5e5); a deviation apart it is .76, by the Gaussian."""
    sharp, higher = (5e5, 5e5), (5e5 + 500.0, 5e5 - 500.0)
    gaussian = 0.5 * math.erfc(-1.0 / 2.0)

    assert best_arm.p_best({"low": sharp, "high": higher})["high"] == pytest.approx(gaussian, abs=1e-6)
    assert best_arm.p_best({"sharp": sharp, "prior": (1.0, 1.0)}) == pytest.approx(
        {"sharp": 0.5, "prior": 0.5}, abs=1e-10
    )


def test_evidence_beyond_any_ledger_is_still_compared() -> None:
    """One deviation of the difference apart after 2e14 grades, by the Gaussian; and two that hug an end."""
    above, below = (1e14 + 5e6, 1e14 - 5e6), (1e14 - 5e6, 1e14 + 5e6)

    assert best_arm.p_greater(above, below) == pytest.approx(0.5 * math.erfc(-1.0 / math.sqrt(2.0)), abs=1e-7)
    p, q = (859314263285.0, 2.64), (949312111821.0, 2.64)
    assert best_arm.p_greater(p, q) + best_arm.p_greater(q, p) == pytest.approx(1.0, abs=1e-10)


def test_hundreds_of_arms_alike_share_evenly() -> None:
    shares = best_arm.p_best({str(i): (5e5, 5e5) for i in range(300)})

    assert list(shares.values()) == pytest.approx([1 / 300] * 300, abs=1e-9)


def test_arms_of_every_sharpness_agree_with_draws() -> None:
    arms = {"loose": (0.05, 0.05), "prior": (1.0, 1.0), "some": (30.0, 12.0), "sharp": (7e4, 3e4)}
    rng, wins = random.Random(7), dict.fromkeys(arms, 0)
    for _ in range(40_000):
        draws = {arm: rng.betavariate(*posterior) for arm, posterior in arms.items()}
        wins[max(draws, key=draws.__getitem__)] += 1

    assert best_arm.p_best(arms) == pytest.approx({arm: won / 40_000 for arm, won in wins.items()}, abs=0.01)


def test_one_arm_is_the_best_and_none_is_nobody() -> None:
    assert best_arm.p_best({"only": (2.0, 3.0)}) == pytest.approx({"only": 1.0}, abs=1e-12)
    assert best_arm.p_best({}) == {}


def test_an_arm_that_cannot_win_is_given_nothing() -> None:
    shares = best_arm.p_best({"bad": (1.0, 1e6), "good": (1e6, 1.0)})

    assert shares["bad"] == 0.0
    assert shares["good"] == pytest.approx(1.0, abs=1e-12)


def test_picks_shift_by_half_the_sum_of_the_changes() -> None:
    assert best_arm.selection_shift({"a": 1.0}, {"a": 1.0}) == 0.0
    assert best_arm.selection_shift({"a": 1.0}, {"b": 1.0}) == 1.0
    assert best_arm.selection_shift({"a": 0.7, "b": 0.3}, {"a": 0.4, "b": 0.5, "c": 0.1}) == pytest.approx(
        0.3, abs=1e-15
    )
    assert best_arm.selection_shift({"a": 0.4, "b": 0.6}, {"a": 0.7, "b": 0.3}) == pytest.approx(0.3, abs=1e-15)
