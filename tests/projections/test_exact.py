"""Exact sums: judged against rationals, which do not round."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightful import errors
from rightful.projections.arithmetic import exact

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TERMS = st.lists(st.tuples(st.integers(0, 4), FINITE), max_size=40)
SMALLEST = 5e-324
LARGEST = 1.7976931348623157e308


def sums_of(terms: list[tuple[int, float]], n_keys: int = 5) -> list[int]:
    keys = np.array([key for key, _ in terms], dtype=np.int64)
    return exact.group_sums(keys, np.array([x for _, x in terms], dtype=np.float64), n_keys)


def as_fraction(total: int) -> Fraction:
    return Fraction(total, 1 << exact.SCALE_BITS)


@given(FINITE)
def test_a_total_is_the_float_itself(x: float) -> None:
    assert as_fraction(exact.scaled(x)) == Fraction(x)
    assert exact.value(exact.scaled(x)) == x


@pytest.mark.parametrize("x", [SMALLEST, -SMALLEST, 2.2250738585072014e-308, LARGEST, 0.0, -0.0, 0.1])
def test_the_ends_of_float64_are_held_exactly(x: float) -> None:
    total = exact.scaled(x)

    assert as_fraction(total) == Fraction(x)
    assert exact.group_sums(np.array([0]), np.array([x]), 1) == [total]


@given(TERMS)
def test_grouped_sums_are_the_rational_sums(terms: list[tuple[int, float]]) -> None:
    oracle = [sum((Fraction(x) for key, x in terms if key == wanted), Fraction()) for wanted in range(5)]

    assert [as_fraction(total) for total in sums_of(terms)] == oracle


@given(TERMS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_no_order_and_no_split_changes_a_total(terms: list[tuple[int, float]], rng: random.Random, at: int) -> None:
    shuffled = rng.sample(terms, len(terms))
    merged = [a + b for a, b in zip(sums_of(shuffled[:at]), sums_of(shuffled[at:]), strict=True)]

    assert sums_of(terms) == sums_of(shuffled) == merged


@given(st.lists(FINITE, max_size=20), FINITE)
def test_what_is_subtracted_was_never_there(kept: list[float], retracted: float) -> None:
    total = sum(map(exact.scaled, [*kept, retracted]))

    assert total - exact.scaled(retracted) == sum(map(exact.scaled, kept))
    assert sums_of([(0, x) for x in [*kept, retracted, -retracted]])[0] == sum(map(exact.scaled, kept))


@given(st.lists(st.floats(-1e300, 1e300), max_size=30), st.floats(-1e300, 1e300))
def test_a_total_is_rounded_once_as_fsum_rounds(values: list[float], prior: float) -> None:
    assert exact.value(sum(map(exact.scaled, values)), prior) == math.fsum([*values, prior])


def test_ten_rewards_of_a_tenth_make_one() -> None:
    rewards = np.full(10, 0.1)

    (total,) = exact.group_sums(np.zeros(10, dtype=np.int64), rewards, 1)

    assert exact.value(total) == 1.0
    assert exact.value(total, 1.0) == 2.0


def test_a_prior_is_added_before_the_rounding_and_not_after() -> None:
    """Half a bit of 1.0 and a little more: rounded first, it would be lost with the tie."""
    total = exact.scaled(2.0**-53) + exact.scaled(2.0**-110)

    assert 1.0 + exact.value(total) == 1.0
    assert exact.value(total, 1.0) == 1.0 + 2.0**-52


@settings(max_examples=20)
@given(st.integers(1, 9), TERMS)
def test_chunks_change_nothing(chunk: int, terms: list[tuple[int, float]]) -> None:
    whole = sums_of(terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_CHUNK_VALUES", chunk)
        assert sums_of(terms) == whole


def test_a_chunk_of_the_largest_halves_still_counts_exactly() -> None:
    """The bound behind the chunk: its longest sum of high halves, and of low ones, stays below 2**53."""
    high, low = 2**27, 2**26 - 1

    assert high * exact._CHUNK_VALUES <= 2**53
    assert low * exact._CHUNK_VALUES <= 2**53


def test_many_full_mantissas_of_one_key_lose_no_bit() -> None:
    x, n = 0.1, 300_000

    (total,) = exact.group_sums(np.zeros(n, dtype=np.int64), np.full(n, x), 1)

    assert total == n * exact.scaled(x)
    assert exact.value(total) != float(np.bincount(np.zeros(n, dtype=np.int64), weights=np.full(n, x))[0])


def test_a_key_without_values_sums_to_nothing() -> None:
    none = np.array([], dtype=np.int64)

    assert exact.group_sums(none, none.astype(np.float64), 3) == [0, 0, 0]
    assert exact.group_sums(none, none.astype(np.float64), 0) == []
    assert exact.group_sums(np.array([2]), np.array([0.5]), 4) == [0, 0, exact.scaled(0.5), 0]


def test_few_values_of_very_many_keys_need_no_table_of_all_of_them() -> None:
    """1,000 keys by 2,000 exponents would be two million bins for two values."""
    sums = exact.group_sums(np.array([999, 7]), np.array([SMALLEST, LARGEST]), 1_000)

    assert {key: total for key, total in enumerate(sums) if total} == {
        7: exact.scaled(LARGEST),
        999: exact.scaled(SMALLEST),
    }


def test_what_high_halves_cancel_is_left_in_the_low_ones() -> None:
    """1 and five last bits, less 1: the high halves sum to zero and the answer is in the low ones."""
    five_bits = 5 * 2.0**-52

    (total,) = exact.group_sums(np.array([0, 0]), np.array([1.0 + five_bits, -1.0]), 1)

    assert exact.value(total) == five_bits


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_and_not_summed(bad: float) -> None:
    with pytest.raises(errors.UsageError, match="cannot be summed"):
        exact.scaled(bad)
    with pytest.raises(errors.UsageError, match="cannot be summed"):
        exact.value(0, bad)
    with pytest.raises(errors.UsageError, match="cannot be summed"):
        exact.group_sums(np.array([0, 0]), np.array([1.0, bad]), 1)


@pytest.mark.parametrize("keys", [[-1, 0], [0, 2]])
def test_a_key_out_of_range_is_refused(keys: list[int]) -> None:
    with pytest.raises(errors.UsageError, match=r"outside 0 \.\. 1"):
        exact.group_sums(np.array(keys), np.array([1.0, 1.0]), 2)


def test_keys_and_values_of_two_lengths_are_refused() -> None:
    with pytest.raises(errors.UsageError, match="one length"):
        exact.group_sums(np.array([0, 0, 0]), np.array([1.0, 1.0]), 1)


def test_a_sum_beyond_float64_is_an_error_and_not_infinity() -> None:
    with pytest.raises(errors.UsageError, match="larger than any float64"):
        exact.value(2 * exact.scaled(LARGEST))
