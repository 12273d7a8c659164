"""How old evidence loses weight: the closed forms of the three decay modes.

A weight multiplies both parts of a credit, `reward` and `1 - reward`; the prior is never
decayed. All weights lie in [0, 1] and an underflow to 0 is meant. `time` is the mode that a
late grade cannot upset and that two parts of a log can be merged under; `session` and `arm`
exist to replay what other updaters did (gptme). Formulas: section 2.3 of the posterior
reference; gptme's `Bandit.decay` is `1 + gamma * (alpha - 1)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful import errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_US_PER_S = 1_000_000


def time_weights(first_at_us: NDArray[np.int64], decay_at_us: int, half_life_s: float) -> NDArray[np.float64]:
    """Weigh credits by age: `2 ** -(max(0, decay_at - first_at) / half_life)`.

    Args:
        first_at_us: When the run of each credit first saw an arm; microseconds since 1970, shape (n,).
        decay_at_us: The instant the weights are for; microseconds since 1970. What is later weighs 1.
        half_life_s: Age at which a credit weighs one half; seconds, above 0.

    Returns:
        The weights, shape (n,).

    Raises:
        UsageError: The half-life is not a finite number above 0.
    """
    import numpy as np

    _check_half_life(half_life_s)
    age_us = np.maximum(decay_at_us - np.asarray(first_at_us, dtype=np.int64), 0)
    return np.exp2(-(age_us / _US_PER_S) / half_life_s)


def session_weights(rank: NDArray[np.int64], count: int, gamma: float) -> NDArray[np.float64]:
    """Weigh credits by how many credited sessions came after: `gamma ** (count - 1 - rank)`.

    Args:
        rank: Place of each credit's session among the credited ones, by the position of its first
            grade; 0 is the oldest, shape (n,).
        count: How many sessions are credited.
        gamma: What one later session leaves of the evidence; 0 to 1.

    Returns:
        The weights, shape (n,).

    Raises:
        UsageError: `gamma` lies outside [0, 1], or a rank outside 0 .. count - 1.
    """
    return _geometric(rank, count, gamma)


def arm_weights(index: NDArray[np.int64], count: NDArray[np.int64] | int, gamma: float) -> NDArray[np.float64]:
    """Weigh credits by how many later credits *the same arm* got: `gamma ** (count - 1 - index)`.

    Args:
        index: Place of each credit among those of its arm; 0 is the oldest, shape (n,).
        count: How many credits that arm has: one number, or one a credit of shape (n,).
        gamma: What one later credit leaves of the evidence; 0 to 1.

    Returns:
        The weights, shape (n,).

    Raises:
        UsageError: `gamma` lies outside [0, 1], or an index outside 0 .. count - 1.
    """
    return _geometric(index, count, gamma)


def _geometric(place: NDArray[np.int64], count: NDArray[np.int64] | int, gamma: float) -> NDArray[np.float64]:
    import numpy as np

    _check_gamma(gamma)
    later = np.asarray(count, dtype=np.int64) - 1 - np.asarray(place, dtype=np.int64)
    if later.size and (later.min() < 0 or np.min(place) < 0):
        raise errors.UsageError("a place lies outside 0 .. count - 1, so its age is not known; nothing was weighed")
    return np.power(float(gamma), later.astype(np.float64))


def _check_gamma(gamma: float) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise errors.UsageError(f"expected a gamma in [0, 1], got {gamma!r}; evidence neither grows nor turns its sign")


def _check_half_life(half_life_s: float) -> None:
    if not 0.0 < half_life_s < float("inf"):
        raise errors.UsageError(f"expected a half-life in seconds above 0, got {half_life_s!r}")
