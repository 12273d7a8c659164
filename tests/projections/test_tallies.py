"""Tallies: what a bandit file keeps of an arm beside its belief."""

from __future__ import annotations

from typing import Any

import pytest
from tests.projections.telling import exposed, graded, log_of, opened, projected, told
from tests.strategies import Wire

from rightful.policies import PRESETS, Policy, policy_of
from rightful.projections.arithmetic.sums import Key
from rightful.projections.arithmetic.tallies import Tally, tallies
from rightful.times import us_from

S = 1_000_000
GPTME = PRESETS["gptme"]


def counted(*events: Wire, policy: Policy = GPTME, through: int | None = None) -> dict[Key, Tally]:
    asked = projected(log_of(*events))
    facts = asked.catch_up()
    through = facts.watermark if through is None else through
    return tallies(facts, asked.settle(policy, through), policy, through)


def pruned(*arms: str, at: float = 250, contexts: tuple[dict[str, Any], ...] = ()) -> Wire:
    return told("bandit.pruned", "t:desk", at, {"arms": list(arms), "contexts": list(contexts)})


def test_a_reward_of_a_half_is_no_success() -> None:
    rewards = [0.5, 0.5000000000000001, 1.0, 0.0]
    events = [
        one
        for place, reward in enumerate(rewards)
        for one in (exposed(f"t:{place}", "x"), graded(f"t:{place}", reward, at=200 + place))
    ]

    assert counted(*events) == {("x", None): Tally(4, 2, 203 * S, 2)}
    assert counted(*events, through=4) == {("x", None): Tally(2, 1, 201 * S, 2)}


def test_arms_come_in_the_order_in_which_they_were_first_credited() -> None:
    events = [
        exposed("t:a", "z", "b", context=["code"]), exposed("t:b", "a", "z"),
        graded("t:b", 1.0, at=200), graded("t:a", 1.0, at=201),
    ]  # fmt: skip

    assert list(counted(*events)) == [("a", None), ("z", None), ("b", None), ("z", ("code",)), ("b", ("code",))]


def test_an_arm_that_was_pruned_is_counted_again_and_comes_last() -> None:
    events = [
        exposed("t:a", "x", "y"),
        graded("t:a", 1.0),
        pruned("x"),
        exposed("t:b", "x"),
        graded("t:b", 0.0, at=300),
    ]

    assert counted(*events) == {("y", None): Tally(1, 1, 200 * S, 2), ("x", None): Tally(1, 0, 300 * S, 5)}
    assert list(counted(*events)) == [("y", None), ("x", None)]
    assert counted(*events, policy=PRESETS["bound"])["x", None].n == 2  # which replays no prunes
    assert counted(*events[:3]) == {("y", None): Tally(1, 1, 200 * S, 2)}


HELD = {"alpha": 3.5, "beta": 2.25, "n": 7, "rewards": 4, "last_updated": "1970-01-01T00:01:30+00:00"}


def test_a_balance_is_counted_with_what_came_after_it() -> None:
    state = opened(arms={"y": HELD, "b": HELD | {"n": 2}}, contexts=[{"arm": "y", "context": ["code"], **HELD}])
    events = [exposed("t:a", "x", "y"), graded("t:a", 1.0), state]

    assert list(counted(*events).items()) == [
        (("b", None), Tally(2, 4, 90 * S, 0)),
        (("y", None), Tally(8, 5, 200 * S, 0)),
        (("x", None), Tally(1, 1, 200 * S, 2)),
        (("y", ("code",)), Tally(7, 4, 90 * S, 0)),
    ]
    assert ("y", None) not in counted(state, pruned("y"))


@pytest.mark.parametrize("text", ["2026-08-01T10:15:00", "yesterday", ""])
def test_a_time_that_cannot_be_compared_is_none(text: str) -> None:
    assert counted(opened(arms={"y": HELD | {"last_updated": text}}))["y", None].last_us is None


def test_an_alias_is_counted_under_its_arm() -> None:
    policy = policy_of({**GPTME.as_dict(), "arm_aliases": {"old": "x"}})
    events = [exposed("t:a", "old", "x"), graded("t:a", 1.0), opened(arms={"old": HELD})]

    assert counted(*events, policy=policy) == {("x", None): Tally(9, 6, 200 * S, 0)}


def test_latest_time_counts_in_any_order_and_the_last_call_for_an_updater() -> None:
    events = [exposed("t:a", "x"), graded("t:a", 1.0, at=300), exposed("t:b", "x"), graded("t:b", 1.0, at=200)]

    assert counted(*events, policy=PRESETS["bound"])["x", None].last_us == 300 * S
    assert counted(*events)["x", None].last_us == 200 * S
    assert us_from(HELD["last_updated"]) == 90 * S  # type: ignore[arg-type]


def test_arm_keeps_its_place_among_contexts_until_its_last_is_pruned() -> None:
    """An updater has one map of contexts an arm; the arm is older than what is left in it."""
    first = [exposed("t:a", "x", context=["a"]), graded("t:a", 1.0)]
    other = [exposed("t:b", "y", context=["a"]), graded("t:b", 1.0, at=201)]
    again = [exposed("t:c", "x", context=["b"]), graded("t:c", 1.0, at=202)]
    gone = pruned(contexts=({"arm": "x", "context": ["a"]},))
    contexts = [("x", ("b",)), ("y", ("a",))]

    assert [key for key in counted(*first, *other, *again, gone) if key[1]] == contexts
    assert [key for key in counted(*first, *other, gone, *again) if key[1]] == contexts[::-1]
