"""The quick and the full run, for every room."""

from __future__ import annotations

import os

import pytest
from tests import amounts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run tests marked `slow`, with all examples of properties")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[amounts.VARIABLE] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out of a quick run, unless they are asked for by their file or id."""
    if amounts.all_tests() or config.getoption("-m"):
        return
    named = [argument.partition("::")[0] for argument in config.args if ".py" in argument]
    left_out = [
        item for item in items if item.get_closest_marker("slow") and not any(str(item.path).endswith(n) for n in named)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
