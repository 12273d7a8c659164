"""Decay: the closed forms, against the step-by-step updater and the published examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import errors
from rightful.projections.arithmetic import decay, exact

GAMMA = st.floats(0.0, 1.0)
REWARDS = st.lists(st.floats(0.0, 1.0), max_size=12)
SECOND = 1_000_000


def test_a_half_life_later_a_credit_weighs_one_half() -> None:
    """Ages 200, 100 and 0 seconds at a half-life of 100; what lies ahead is not weighed up."""
    first = np.array([0, 100, 200, 250]) * SECOND

    weights = decay.time_weights(first, 200 * SECOND, 100.0)

    assert weights.tolist() == [0.25, 0.5, 1.0, 1.0]


def test_the_age_is_taken_in_microseconds() -> None:
    (weight,) = decay.time_weights(np.array([1_790_000_000_000_000]), 1_790_000_000_000_001, 1e-6)

    assert weight == 0.5


def test_session_decay_forgets_a_step_per_later_session() -> None:
    """Three sessions at gamma .9: arm a earned 1 in the first and .5 in the third, so 1 + .81 + .5."""
    weights = decay.session_weights(np.array([0, 1, 2]), 3, 0.9)

    assert weights == pytest.approx([0.81, 0.9, 1.0], abs=1e-15)
    assert 1.0 + weights[0] * 1.0 + weights[2] * 0.5 == pytest.approx(2.31, abs=1e-12)


def test_arm_decay_counts_only_the_arms_own_credits() -> None:
    """Arm a has two credits and arm b one, whatever came between them."""
    weights = decay.arm_weights(np.array([0, 0, 1]), np.array([2, 1, 2]), 0.9)

    assert weights == pytest.approx([0.9, 1.0, 1.0], abs=1e-15)
    assert 1.0 + weights[0] * 1.0 + weights[2] * 0.5 == pytest.approx(2.4, abs=1e-12)


@given(REWARDS, GAMMA)
def test_session_weights_are_what_decaying_before_each_reward_leaves(rewards: list[float], gamma: float) -> None:
    alpha = 1.0
    for reward in rewards:
        alpha = 1.0 + gamma * (alpha - 1.0) + reward  # `Bandit.decay`, then the update
    weights = decay.session_weights(np.arange(len(rewards)), len(rewards), gamma)

    assert 1.0 + float(weights @ np.array(rewards)) == pytest.approx(alpha, abs=1e-12)


def test_undecayed_parts_merge_by_adding() -> None:
    """Arm a earned 1 in one part, .5 in the other; arm b lost once in the second."""
    ones = exact.group_sums(np.array([0]), np.array([1.0]), 2)
    others = exact.group_sums(np.array([0, 1]), np.array([0.5, 0.0]), 2)

    assert [exact.value(a + b) for a, b in zip(ones, others, strict=True)] == [1.5, 0.0]


@given(GAMMA, st.integers(0, 2_000))
def test_weights_never_leave_the_unit_interval(gamma: float, count: int) -> None:
    weights = decay.session_weights(np.arange(count), count, gamma)

    assert ((weights >= 0.0) & (weights <= 1.0)).all()
    assert (np.diff(weights) >= 0.0).all()


@pytest.mark.parametrize("gamma", [-0.1, 1.0000001, math.nan])
def test_a_gamma_outside_the_unit_interval_is_refused(gamma: float) -> None:
    with pytest.raises(errors.UsageError, match="gamma"):
        decay.session_weights(np.array([0]), 1, gamma)


@pytest.mark.parametrize("half_life", [0.0, -1.0, math.inf, math.nan])
def test_a_half_life_that_is_no_duration_is_refused(half_life: float) -> None:
    with pytest.raises(errors.UsageError, match="half-life"):
        decay.time_weights(np.array([0]), 1, half_life)


@pytest.mark.parametrize("place", [-1, 2])
def test_a_place_outside_the_count_is_refused(place: int) -> None:
    with pytest.raises(errors.UsageError, match="place"):
        decay.arm_weights(np.array([place]), 2, 0.9)
