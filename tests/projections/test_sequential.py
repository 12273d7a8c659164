"""Sequential arithmetic: bit for bit what a stateful updater computes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.projections.telling import alphas, ask, decayed, exposed, graded, log_of, opened, projected, told, withdrawn
from tests.strategies import Wire

from rightful.policies import PRESETS, policy_of
from rightful.projections.credit.inputs import pays_producer

GPTME = PRESETS["gptme"]
SEQUENTIAL = {"arithmetic": "sequential", "revision": "additive"}


class Bandit:
    """gptme's update rule: decay all arms first, on every call, then each arm in the order of the list."""

    def __init__(self) -> None:
        self.arms: dict[Any, list[float]] = {}

    def decay(self, gamma: float) -> None:
        for state in self.arms.values():
            state[0] = 1.0 + gamma * (state[0] - 1.0)
            state[1] = 1.0 + gamma * (state[1] - 1.0)

    def update(self, arms: list[Any], reward: float, gamma: float | None) -> None:
        if gamma is not None:
            self.decay(gamma)
        for arm in arms:
            state = self.arms.setdefault(arm, [1.0, 1.0])
            state[0] += reward
            state[1] += 1.0 - reward


gammas = st.sampled_from([None, None, 0.99, 0.9, 0.3])
calls = st.tuples(st.lists(st.sampled_from("xyz"), max_size=4), st.floats(0.0, 1.0), gammas, gammas)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(calls, max_size=12), st.booleans())
def test_the_preset_gptme_is_gptmes_own_arithmetic(made: list[Any], in_context: bool) -> None:
    """Empty calls decay too; an arm listed twice updates twice; not one bit differs."""
    bandit, events = Bandit(), []
    for place, (arms, reward, gamma, between) in enumerate(made):
        context: dict[str, Any] = {"context": ["code", "opus"]} if in_context else {}
        bandit.update([key for arm in arms for key in ((arm, None), (arm, "ctx"))[: 1 + in_context]], reward, gamma)
        events.append(exposed(f"t:{place}", *arms, at=500, **context))
        events.append(graded(f"t:{place}", reward, at=place, **({} if gamma is None else {"decay_rate": gamma})))
        if between is not None:
            bandit.decay(between)
            events.append(decayed(between, at=place, key=f"decay {place}"))

    got = projected(log_of(*events)).posteriors(GPTME)

    kept: dict[Any, list[float]] = {(arm, None): [one.alpha, one.beta] for arm, one in got.arms.items()}
    kept |= {(one.arm, "ctx"): [one.alpha, one.beta] for one in got.contexts}
    assert kept == bandit.arms


def test_an_arm_listed_twice_updates_twice() -> None:
    got = projected(log_of(exposed("t:a", "x", "x"), graded("t:a", 0.75))).posteriors(GPTME)

    assert (got.arms["x"].alpha, got.arms["x"].n) == (2.5, 2)


def test_float_operations_in_log_order_keep_their_rounding() -> None:
    events = [one for number in range(10) for one in (exposed(f"t:{number}", "x"), graded(f"t:{number}", 0.1))]

    assert alphas(ask(*events, **SEQUENTIAL)) == {"x": 2.000000000000001}
    assert alphas(ask(*events)) == {"x": 2.0}


@pytest.mark.parametrize("call", [graded("t:nobody", 0.5, decay_rate=0.5), graded("t:b", 0.5, decay_rate=0.5)])
def test_a_call_that_credits_nothing_decays(call: dict[str, Any]) -> None:
    got = projected(log_of(exposed("t:a", "x"), graded("t:a", 1.0), exposed("t:b"), call)).posteriors(GPTME)

    assert alphas(got) == {"x": 1.5}


def test_a_call_decays_before_it_adds() -> None:
    events = [exposed("t:a", "x"), graded("t:a", 1.0), exposed("t:b", "x"), graded("t:b", 1.0, decay_rate=0.5)]

    assert alphas(projected(log_of(*events)).posteriors(GPTME)) == {"x": 2.5}


def test_without_a_decay_in_the_policy_nothing_decays_or_is_dropped() -> None:
    call = graded("t:b", 1.0, decay_rate=0.5)
    events = [exposed("t:a", "x"), graded("t:a", 1.0), exposed("t:b", "x"), call, decayed(0.5), pruned("x")]

    assert alphas(ask(*events, **SEQUENTIAL)) == {"x": 3.0}


def pruned(*arms: str, contexts: tuple[dict[str, Any], ...] = (), at: float = 250) -> dict[str, Any]:
    return told("bandit.pruned", "t:desk", at, {"arms": list(arms), "contexts": list(contexts)})


def test_what_was_dropped_starts_again_at_the_prior() -> None:
    events = [exposed("t:a", "x", "y"), graded("t:a", 1.0), pruned("x"), exposed("t:b", "x"), graded("t:b", 0.5)]

    assert alphas(projected(log_of(*events)).posteriors(GPTME)) == {"x": 1.5, "y": 2.0}


def test_a_dropped_context_leaves_the_arm() -> None:
    shown = exposed("t:a", "x", context=["code"])
    gone = pruned(contexts=({"arm": "x", "context": ["code"]},))
    got = projected(log_of(shown, graded("t:a", 1.0), gone)).posteriors(GPTME)

    assert (alphas(got), got.contexts) == ({"x": 2.0}, [])


def test_an_arm_dropped_under_another_name_is_dropped() -> None:
    events = [exposed("t:a", "x"), graded("t:a", 1.0), pruned("old")]
    policy = {**GPTME.as_dict(), "arm_aliases": {"old": "x"}}

    assert projected(log_of(*events)).posteriors(policy_of(policy)).arms == {}


HELD = {"x": {"alpha": 3.5, "beta": 2.25, "n": 7}}


def test_balances_of_two_sources_add_up_to_a_state_with_their_mass() -> None:
    got = ask(opened(arms=HELD), opened(arms=HELD, source="other.json"), **SEQUENTIAL)

    assert (got.arms["x"].alpha, got.arms["x"].n, got.arms["x"].mass) == (6.0, 14, 7.5)
    assert got.arms == ask(opened(arms=HELD), opened(arms=HELD, source="other.json")).arms


def test_a_balance_decays_with_the_calls_after_it() -> None:
    got = projected(log_of(opened(arms=HELD), decayed(0.5))).posteriors(GPTME)

    assert alphas(got) == {"x": 2.25}


THROUGH = "1970-01-01T00:03:20Z"


@pytest.mark.parametrize(
    "event",
    [decayed(0.5, at=200), graded("t:a", 0.5, at=200, decay_rate=0.5), pruned("x", at=200)],
    ids=["decay", "call", "prune"],
)
def test_what_happened_at_or_before_through_is_in_the_balance(event: dict[str, Any]) -> None:
    got = projected(log_of(exposed("t:a", "x"), event, opened(arms=HELD, through=THROUGH))).posteriors(GPTME)

    assert alphas(got) == {"x": 3.5}


def test_a_decay_in_conflict_decays_nothing() -> None:
    two = [decayed(0.5, key="d"), decayed(0.25, key="d")]
    log = log_of(exposed("t:a", "x"), graded("t:a", 1.0), *two)

    assert alphas(projected(log).posteriors(GPTME)) == {"x": 2.0}
    log.append([withdrawn("d", 2)])
    assert alphas(projected(log).posteriors(GPTME)) == {"x": 1.5}


def test_a_call_in_conflict_decays_nothing() -> None:
    two = [graded("t:b", 0.5, key="g", decay_rate=0.5), graded("t:b", 0.25, key="g", decay_rate=0.5)]
    log = log_of(exposed("t:a", "x"), graded("t:a", 1.0), *two)

    assert alphas(projected(log).posteriors(GPTME)) == {"x": 2.0}


def test_a_balance_below_the_prior_comes_out_bit_for_bit() -> None:
    """An alpha of 0.1 is not `1 + (0.1 - 1)`."""
    held = {"x": {"alpha": 0.1, "beta": 1e-17, "n": 1}}
    got = projected(log_of(opened(arms=held))).posteriors(GPTME)

    assert (got.arms["x"].alpha, got.arms["x"].beta) == (0.1, 1e-17)


def test_what_was_decayed_before_a_file_was_read_is_in_its_balance() -> None:
    """A decay does not move the file's `last_updated`, so it may be later than `through`."""
    before = [decayed(0.5, at=250), pruned("x", at=260)]
    state = opened(at=270, arms=HELD, through=THROUGH)

    assert alphas(projected(log_of(*before, state)).posteriors(GPTME)) == {"x": 3.5}
    assert alphas(projected(log_of(*before, state, decayed(0.5, at=280))).posteriors(GPTME)) == {"x": 2.25}


LESSONS_ONLY = {**GPTME.as_dict(), "graders": ["lesson-bandit/overall"]}
OTHERS = [
    pytest.param(decayed(0.5, by="harness-bandit"), id="decay"),
    pytest.param(told("bandit.pruned", "t:desk", 300, {"arms": ["x"], "by": "harness-bandit"}), id="prune"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_decay_and_prune_belong_to_their_producer(other: Wire) -> None:
    """Row A1: alpha was 1.5, as if the harness's bandit had decayed the lessons of another one."""
    events = [exposed("t:a", "x", by="lesson-bandit"), graded("t:a", 1.0, at=120, by="lesson-bandit"), other]
    own = {**other, "producer": "lesson-bandit"}

    assert alphas(ask(*events, **LESSONS_ONLY)) == {"x": 2.0}
    assert alphas(ask(*events[:2], own, **LESSONS_ONLY)) != {"x": 2.0}
    assert alphas(ask(*events, **GPTME.as_dict())) == alphas(ask(*events[:2], own, **GPTME.as_dict()))


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ({}, True),
        ({"graders": ["human/overall", "lesson-*/tone"]}, True),
        ({"graders": ["*/*"]}, True),
        ({"graders": ["human/*"]}, False),
        ({"graders": []}, False),
        ({"without_graders": ["lesson-bandit/*"]}, False),
        ({"without_graders": ["*/tone"]}, True),
    ],
)
def test_decay_counts_where_the_policy_pays_from_its_producer(policy: Wire, counts: bool) -> None:
    assert pays_producer(policy_of(policy), "lesson-bandit") is counts


def test_balance_of_other_arms_takes_no_decay_and_no_prune() -> None:
    """A file of work categories that is opened today does not contain what the lessons' updater did before."""
    categories = opened(at=900, through="1970-01-01T00:15:00Z", arms={"code": {"alpha": 3.0, "beta": 1.0, "n": 2}})
    pruned = told("bandit.pruned", "t:desk", 160, {"arms": ["y", "code"], "by": "judge"})
    events = [exposed("t:a", "x", "y"), graded("t:a", 1.0, at=120), decayed(0.5, by="judge"), pruned]
    empty = [exposed("t:b"), graded("t:b", 1.0, at=170, decay_rate=0.5)]

    assert alphas(ask(categories, *events, *empty, **GPTME.as_dict())) == {"code": 3.0, "x": 1.25}
