"""Sums of floats that are exact, and therefore the same in any order and any split.

Every finite float64 is a whole multiple of 2**-1074, so a sum of them is a whole number of
`2**-SCALE_BITS`, and a Python int holds it without rounding. Such a *total* is the state a
projection keeps: totals add, subtract (a retraction) and merge (another part of the log) as
integers do, and are rounded only once, when someone asks for the number.

`math.fsum` rounds the same way but cannot be continued or merged; left-to-right addition and
`numpy.bincount` with weights depend on the order: of 2,000 arms only 884 kept their last bit
after a permutation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightful import errors

SCALE_BITS = 1126
"""A total is a number of 2**-1126: the last bit of the smallest float64, 2**-1074, and 52 bits
below it, so that a 53-bit mantissa is never shifted to the right."""

_MANTISSA_BITS = 53
_LOW_BITS = 26
_CHUNK_VALUES = 1 << 25
"""Values added in one go. A high half has 27 bits and a low half 26, and 27 + 25 <= 53: no
float sum of so many halves leaves the integers that float64 counts exactly."""

UNIT = 1 << SCALE_BITS
"""1 as a total."""


def scaled(x: float) -> int:
    """Return a float as an exact total.

    Args:
        x: Any finite float64, negative and subnormal ones too; in the unit of the sum.

    Returns:
        `x * 2**SCALE_BITS`, a whole number.

    Raises:
        UsageError: `x` is NaN or infinite, which no sum recovers from. Refuse it where it came in.
    """
    try:
        numerator, denominator = x.as_integer_ratio()
    except (OverflowError, ValueError):
        raise _not_finite(x) from None
    return numerator << (SCALE_BITS + 1 - denominator.bit_length())


def value(total: int, plus: float = 0.0) -> float:
    """Round a total to the nearest float64, once.

    Args:
        total: A number of `2**-SCALE_BITS`, as `scaled` and `group_sums` give them.
        plus: A float that is added before the rounding, such as a prior; in the unit of the sum.

    Returns:
        The float64 nearest to `total / 2**SCALE_BITS + plus`, ties to even: CPython divides
        integers with one correct rounding.

    Raises:
        UsageError: The sum is larger than any float64, or `plus` is not finite.
    """
    try:
        return (total + scaled(plus) if plus else total) / UNIT
    except OverflowError:
        raise errors.UsageError("the sum is larger than any float64 can say; it was not rounded to infinity") from None


def group_sums(keys: NDArray[np.int64], values: NDArray[np.float64], n_keys: int) -> list[int]:
    """Sum the values of each key, exactly.

    The mantissas are split in halves of 27 and 26 bits and counted per (key, exponent) by
    `numpy.bincount`, whose float sums then stay whole numbers below 2**53; the few sums that
    remain are put together as Python integers. Neither order nor chunks can change a total.

    Args:
        keys: Which sum each value belongs to; shape (n,), each in 0 .. n_keys - 1.
        values: What to add; shape (n,), finite, of either sign.
        n_keys: How many sums there are; a count.

    Returns:
        `n_keys` totals, numbers of `2**-SCALE_BITS`; add two such lists element by element to
        merge two parts of a log.

    Raises:
        UsageError: The shapes differ, a key is out of range or a value is not finite. Nothing is summed.
    """
    keys, values = np.asarray(keys, dtype=np.int64), np.asarray(values, dtype=np.float64)
    _check(keys, values, n_keys)
    totals = [0] * n_keys
    for start in range(0, len(values), _CHUNK_VALUES):
        part = slice(start, start + _CHUNK_VALUES)
        _add_chunk(totals, keys[part], values[part])
    return totals


def _check(keys: NDArray[np.int64], values: NDArray[np.float64], n_keys: int) -> None:
    if keys.ndim != 1 or keys.shape != values.shape:
        raise errors.UsageError(f"keys {keys.shape} and values {values.shape} must be flat and of one length")
    if len(keys) and not 0 <= keys.min() <= keys.max() < n_keys:
        raise errors.UsageError(f"a key lies outside 0 .. {n_keys - 1}; nothing was summed")
    finite = np.isfinite(values)
    if not finite.all():
        raise _not_finite(float(values[~finite][0]))


def _add_chunk(totals: list[int], keys: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Add the values to `totals` in place; there are at most `_CHUNK_VALUES` of them."""
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
    lowest, highest = int(exponent.min()), int(exponent.max())
    span = highest - lowest + 1
    slot = keys * span + (exponent - lowest)
    size = len(totals) * span
    if size <= max(4 * len(slot), 1 << 16):
        bins = np.arange(size)
    else:
        bins, slot = np.unique(slot, return_inverse=True)
    high = np.bincount(slot, weights=mantissa >> _LOW_BITS, minlength=len(bins))
    low = np.bincount(slot, weights=mantissa & ((1 << _LOW_BITS) - 1), minlength=len(bins))
    used = np.flatnonzero((high != 0) | (low != 0))
    shift = lowest - _MANTISSA_BITS + SCALE_BITS
    for place, top, bottom in zip(bins[used].tolist(), high[used].tolist(), low[used].tolist(), strict=True):
        key, above = divmod(place, span)
        totals[key] += ((int(top) << _LOW_BITS) + int(bottom)) << (shift + above)


def _not_finite(x: float) -> errors.UsageError:
    return errors.UsageError(f"{x!r} cannot be summed; nothing was. Rewards and weights are finite numbers")
