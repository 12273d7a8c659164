"""The quick and the full run, for every room."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from tests import amounts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run tests marked `slow`, with all examples of properties")


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("RIGHTFUL_LEDGER", None)  # README has users export it
    if config.getoption("--all"):
        os.environ[amounts.VARIABLE] = "1"
    settings.register_profile(  # no time limit for an example, since machines can be loaded
        "rightful",
        deadline=None,
        max_examples=amounts.examples(100),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("rightful")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit slow tests and most cases of sweeps from a quick run, unless their file is named."""
    if amounts.all_tests() or config.getoption("-m"):
        return
    named = [argument.partition("::")[0] for argument in config.args if ".py" in argument]
    cases = Counter[str]()
    omitted = set()
    for item in items:
        if any(str(item.path).endswith(name) for name in named):
            continue
        if item.get_closest_marker("sweep"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % amounts.QUICK_SHARE:
                omitted.add(item)
            cases[test] += 1
        elif item.get_closest_marker("slow"):
            omitted.add(item)
    if omitted:
        config.hook.pytest_deselected(items=list(omitted))
        items[:] = [item for item in items if item not in omitted]
