"""Balances: what a bandit file held when the ledger began."""

from __future__ import annotations

import pytest
from tests.projections.telling import (
    alphas,
    ask,
    bins,
    exposed,
    graded,
    log_of,
    opened,
    projected,
    published,
    withdrawn,
)

from rightful.policies import Policy

HELD = {"x": {"alpha": 3.5, "beta": 2.25, "n": 7}}


def test_a_balance_is_added_to_the_prior() -> None:
    got = ask(opened(arms=HELD), prior=[2.0, 5.0])

    assert (got.arms["x"].alpha, got.arms["x"].beta, got.arms["x"].n) == (4.5, 6.25, 7)
    assert got.arms["x"].mass == 3.75


def test_credits_are_added_to_a_balance() -> None:
    got = ask(opened(arms=HELD), exposed("t:a", "x"), graded("t:a", 0.5))

    assert (got.arms["x"].alpha, got.arms["x"].beta, got.arms["x"].n) == (4.0, 2.75, 8)


@pytest.mark.parametrize("decay", [{"mode": "time", "half_life": 1.0}, {"mode": "session", "gamma": 0.5}])
def test_a_balance_is_not_decayed(decay: dict[str, object]) -> None:
    events = [opened(arms=HELD), exposed("t:a", "y"), graded("t:a", 0.5), exposed("t:b", "y"), graded("t:b", 0.5)]

    assert ask(*events, decay=decay).arms["x"].alpha == 3.5


def test_balances_of_two_sources_add_up() -> None:
    assert alphas(ask(opened(arms=HELD), opened(arms=HELD, source="other.json"))) == {"x": 6.0}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_one_source_the_newest_counts_whatever_order_they_arrive_in(order: tuple[int, ...]) -> None:
    two = [opened(at=90, arms=HELD), opened(at=91, arms={"y": HELD["x"]})]

    assert alphas(ask(*(two[place] for place in order))) == {"y": 3.5}


def test_a_balance_holds_contexts_too() -> None:
    got = ask(opened(contexts=[{"arm": "x", "context": ["code", None], **HELD["x"]}]))

    assert [(one.arm, one.context, one.alpha, one.n) for one in got.contexts] == [("x", ("code", None), 3.5, 7)]
    assert got.arms == {}


def test_a_balance_of_an_arms_other_name_is_the_arms() -> None:
    assert alphas(ask(opened(arms=HELD), arm_aliases={"x": "y"})) == {"y": 3.5}


@pytest.mark.parametrize(("at", "bin_"), [(20, "in_balance"), (20.000001, "credited")])
def test_grades_at_or_before_through_are_in_the_balance(at: float, bin_: str) -> None:
    events = [exposed("t:a", "x", at=1), graded("t:a", 0.5, at=at)]

    assert bins(ask(opened(through="1970-01-01T00:00:20Z", arms=HELD), *events)) == {bin_: 1}


CODE = {"code": {"alpha": 9.0, "beta": 4.0, "n": 11}}


def test_balance_of_other_arms_contains_no_grade() -> None:
    """Row A3: a bandit of work categories beside lesson grades made every one of them in-balance."""
    events = [exposed("t:a", "x", at=1), graded("t:a", 0.5, at=20)]
    categories = opened(through="1970-01-01T00:00:20Z", source="categories.json", arms=CODE)

    got = ask(categories, *events)

    assert (alphas(got), bins(got)) == ({"code": 9.0, "x": 1.5}, {"credited": 1})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_balance_that_holds_one_arm_contains_the_whole_grade(order: tuple[int, ...]) -> None:
    """Of two balances the one that holds an arm decides, up to its own time."""
    lessons = opened(at=91, through="1970-01-01T00:00:20Z", source="lessons.json", arms=HELD)
    categories = opened(through="1970-01-01T00:00:30Z", source="categories.json", arms=CODE)
    both = [lessons, categories]
    grades = [exposed("t:a", "x", "y", at=1), graded("t:a", 0.5, at=20), exposed("t:b", "x"), graded("t:b", 0.5, at=25)]

    got = ask(*(both[place] for place in order), *grades, causal_order="lenient")

    assert bins(got) == {"in_balance": 1, "credited": 1}
    assert "y" not in got.arms


def test_balance_holds_an_arm_under_its_other_name_and_in_a_context() -> None:
    events = [exposed("t:a", "x", at=1), graded("t:a", 0.5, at=20)]
    in_context = [{"arm": "x-old", "context": ["code", None], **HELD["x"]}]
    balance = opened(through="1970-01-01T00:00:20Z", contexts=in_context)

    assert bins(ask(balance, *events)) == {"credited": 1}
    assert bins(ask(balance, *events, arm_aliases={"x-old": "x"})) == {"in_balance": 1}


def test_grade_that_pays_no_arm_is_in_no_balance() -> None:
    events = [graded("t:a", 0.5, at=20), exposed("t:b", at=1), graded("t:b", 0.5, at=20)]

    assert bins(ask(opened(through="1970-01-01T00:00:20Z", arms=HELD), *events)) == {"unmatched": 1, "empty": 1}


def test_a_balance_without_through_holds_no_grade() -> None:
    assert bins(ask(exposed("t:a", "x", at=1), graded("t:a", 0.5, at=2), opened(arms=HELD))) == {"credited": 1}


def test_a_balance_that_was_replaced_holds_no_grade() -> None:
    events = [opened(at=90, through="1970-01-01T00:00:20Z", arms=HELD), opened(at=91, sha256="b" * 64, arms=HELD)]

    assert bins(ask(*events, exposed("t:a", "x", at=1), graded("t:a", 0.5, at=2))) == {"credited": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bytes_that_we_published_are_no_balance(order: tuple[int, ...]) -> None:
    two = [opened(arms=HELD), published("a" * 64)]

    assert ask(*(two[place] for place in order)).arms == {}


@pytest.mark.parametrize("said", ["rollback", "opened"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bytes_that_a_tool_wrote_are_a_balance_though_they_were_published(order: tuple[int, ...], said: str) -> None:
    """A rollback puts them back, or a posterior comes out as what stood there."""
    two = [opened(arms=HELD), published("a" * 64) | {"extra": {said: True}}]

    assert alphas(ask(*(two[place] for place in order))) == {"x": 3.5}
    assert ask(published("a" * 64), *(two[place] for place in order)).arms == {}


def test_other_bytes_of_the_same_file_are_a_balance() -> None:
    assert alphas(ask(opened(arms=HELD), published("b" * 64))) == {"x": 3.5}


def test_a_balance_in_conflict_counts_when_it_is_settled() -> None:
    two = [opened(arms=HELD, key="b"), opened(arms={"y": HELD["x"]}, key="b")]
    log = log_of(*two)
    asked = projected(log)

    assert asked.posteriors(Policy()).arms == {}
    log.append([withdrawn("b", 1)])
    assert alphas(asked.posteriors(Policy())) == {"y": 3.5}
