"""How many cases the tests run: a quick share by default, all of them with `--all`.

`tests/conftest.py` sets the variable before any test module is imported, and the workers of pytest-xdist inherit it.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "RIGHTFUL_ALL_TESTS"
QUICK_SHARE: Final = 5
"""A quick run has one of so many cases of a sweep."""
_FEWEST: Final = 10


def all_tests() -> bool:
    """Return whether this run was started with `--all`."""
    return os.environ.get(VARIABLE) == "1"


def either(full: int, quick: int) -> int:
    """Return the first number with `--all`, else the second."""
    return full if all_tests() else quick


def examples(full: int) -> int:
    """Return how many random examples a property runs: `full` with `--all`, else about a fifth."""
    return full if all_tests() else min(full, max(full // QUICK_SHARE, _FEWEST))


def cases(variable: str, full: int) -> int:
    """Return the number of cases that an environment variable asks for; without it, see `examples`."""
    return int(os.environ.get(variable) or examples(full))
