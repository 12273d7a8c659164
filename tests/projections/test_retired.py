"""Balances that a rebuild retired: their numbers are in the file no more, unless it was taken back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.projections.telling import alphas, ask, bins, exposed, graded, log_of, projected, told
from tests.strategies import Wire

from rightful.identity import event_id
from rightful.policies import Policy

GRADED = [exposed("t:a", "x", at=100), graded("t:a", 1.0, at=200)]


def opened(key: str = "b", source: str = "/b.json", alpha: float = 5.0) -> Wire:
    arms = {"x": {"alpha": alpha, "beta": 1.0, "n": 1}}
    said = {"arms": arms, "source": source, "sha256": (key * 64)[:64], "through": "1970-01-01T01:00:00Z"}
    return told("balance.opened", None, 1, {"key": key, "by": "bandit-state", **said})


def published(key: str, **extra: Any) -> Wire:
    said = {"policy": "0" * 64, "through": 1, "digest": "0" * 64, "target": "/b.json", "new_sha256": "f" * 64}
    return told("posterior.published", None, 9, {"key": key, "by": "backfill", "extra": extra, **said})


BALANCE, REBUILD = event_id("bandit-state", "b"), event_id("backfill", "p")
RETIRES = published("p", retires=[BALANCE])
BACK = published("r", rollback=True, rolled_back=REBUILD)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_rebuild_retires_the_balance_that_it_names_anywhere(late: int) -> None:
    rows = [opened(), *GRADED]
    rows.insert(late, RETIRES)
    got = ask(*rows)

    assert (alphas(got), bins(got)) == ({"x": 2.0}, {"credited": 1})


def test_a_balance_that_is_not_named_stays() -> None:
    assert alphas(ask(opened(), opened("c", "/c.json", 3.0), *GRADED, RETIRES)) == {"x": 3.0}
    assert alphas(ask(opened(), published("p", retires=["nobody", 7, None]), *GRADED)) == {"x": 5.0}
    assert alphas(ask(opened(), published("p", retires="b"), *GRADED)) == {"x": 5.0}


def test_taking_the_rebuild_back_brings_the_balance_back() -> None:
    got = ask(opened(), *GRADED, RETIRES, BACK)

    assert (alphas(got), bins(got)) == ({"x": 5.0}, {"in_balance": 1})
    assert alphas(projected(log_of(opened(), *GRADED, RETIRES, BACK)).posteriors(Policy(), as_of=4)) == {"x": 2.0}


def test_the_next_state_of_a_rebuilt_file_counts() -> None:
    later = opened("d", alpha=7.0)

    assert alphas(ask(opened(), *GRADED, RETIRES, later)) == {"x": 7.0}
