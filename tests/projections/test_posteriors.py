"""Posteriors: decay, contexts, marginals and what a selector looks up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.projections.telling import alphas, ask, exposed, graded, log_of, opened, projected, retracted
from tests.strategies import Wire

from rightful import limits
from rightful.policies import Policy, policy_of

GAMMA = {"gamma": 0.5}


def run(session: str, arm: str, reward: float, at: float, context: list[str | None] | None = None) -> list[Wire]:
    more: dict[str, Any] = {} if context is None else {"context": context}
    return [exposed(session, arm, at=at, **more), graded(session, reward, at=at + 1)]


THREE = [*run("t:a", "x", 1.0, 0), *run("t:b", "y", 0.0, 100), *run("t:c", "x", 0.5, 200)]


def test_session_decay_forgets_a_step_for_every_later_credited_run() -> None:
    assert alphas(ask(*THREE, decay={"mode": "session", **GAMMA})) == {"x": 1.0 + 0.25 + 0.5, "y": 1.0}


def test_a_regrade_keeps_the_runs_place() -> None:
    again = graded("t:a", 0.5, seq=2, at=500)

    assert alphas(ask(*THREE, again, decay={"mode": "session", **GAMMA}))["x"] == 1.0 + 0.125 + 0.5


def test_a_retraction_removes_the_runs_step() -> None:
    taken_back = retracted("t:b", 2)

    assert alphas(ask(*THREE, taken_back, decay={"mode": "session", **GAMMA})) == {"x": 1.0 + 0.5 + 0.5}


def test_a_run_that_credits_nothing_is_no_step() -> None:
    nobody = [exposed("t:d"), graded("t:d", 1.0)]

    assert alphas(ask(*THREE, *nobody, decay={"mode": "session", **GAMMA}))["x"] == 1.75


def test_arm_decay_counts_the_arms_own_credits() -> None:
    assert alphas(ask(*THREE, decay={"mode": "arm", **GAMMA})) == {"x": 1.0 + 0.5 + 0.5, "y": 1.0}


def test_time_decay_counts_from_the_first_exposure_to_the_largest_time() -> None:
    """The largest time is 201; a half-life of 100.5 makes the first run two half-lives old."""
    got = ask(*THREE, decay={"mode": "time", "half_life": 100.5})

    assert got.arms["y"].mass == pytest.approx(2.0 ** -(101 / 100.5), abs=1e-15)
    assert got.arms["x"].mass == pytest.approx(0.25 + 2.0 ** -(1 / 100.5), abs=1e-15)
    assert got.decay_at_us == 201_000_000


def test_the_time_of_a_decay_is_an_argument() -> None:
    policy = policy_of({"decay": {"mode": "time", "half_life": 100.0}})
    asked = projected(log_of(*THREE))

    for decay_at in (300, "1970-01-01T00:05:00Z"):
        got = asked.posteriors(policy, decay_at=decay_at)
        assert (got.arms["x"].mass, got.arms["y"].mass) == (0.125 + 0.5, 0.25)


def test_the_prior_is_never_decayed() -> None:
    got = ask(*THREE, prior=[3.0, 4.0], decay={"mode": "time", "half_life": 1e-6})

    assert (got.arms["y"].alpha, got.arms["y"].beta, got.arms["y"].n) == (3.0, 4.0, 1)


def test_the_exact_arithmetic_rounds_once() -> None:
    """Ten rewards of 0.1 added one after the other give 0.9999999999999999."""
    events = [one for number in range(10) for one in run(f"t:{number}", "x", 0.1, number)]

    assert alphas(ask(*events)) == {"x": 2.0}


def test_the_prior_is_added_before_the_rounding() -> None:
    """0.1 + 0.6 rounded, and 0.1 more, is 0.7999999999999999."""
    events = [*run("t:a", "x", 0.1, 0), *run("t:b", "x", 0.6, 0)]

    assert alphas(ask(*events, prior=[0.1, 1.0])) == {"x": 0.8}


def test_an_arm_is_credited_in_the_context_of_its_first_exposure() -> None:
    events = [exposed("t:a", "x", at=20, context=["late"]), exposed("t:a", "x", "y", at=10, context=["early"])]
    got = ask(*events, graded("t:a", 0.5))

    assert [(one.arm, one.context) for one in got.contexts] == [("x", ("early",)), ("y", ("early",))]


def test_an_exposure_without_a_context_credits_the_arm_alone() -> None:
    assert ask(*run("t:a", "x", 0.5, 0)).contexts == []


def test_marginals_are_the_single_known_dimensions() -> None:
    events = [*run("t:a", "x", 1.0, 0, ["code", "opus"]), *run("t:b", "x", 0.0, 0, ["code", None])]
    got = ask(*events, marginals=True)

    assert [(one.context, one.n) for one in got.contexts] == [
        (("code",), 2), (("code", None), 1), (("code", "opus"), 1), (("opus",), 1),
    ]  # fmt: skip


def test_a_context_of_one_dimension_is_its_own_marginal_once() -> None:
    events = [*run("t:a", "x", 1.0, 0, ["code"]), *run("t:b", "x", 1.0, 0, ["code", "code"])]

    assert [(one.context, one.n) for one in ask(*events, marginals=True).contexts] == [
        (("code",), 2), (("code", "code"), 1),
    ]  # fmt: skip


def looked_up(times: int, context: list[str | None], asked: list[str | None], **policy: object) -> object:
    events = [one for number in range(times) for one in run(f"t:{number}", "x", 1.0, number, context)]
    return ask(*events, **policy).lookup("x", asked).resolved


def test_a_context_is_looked_up_from_its_third_credit_on() -> None:
    assert looked_up(2, ["code", "opus"], ["code", "opus"]) == ()
    assert looked_up(3, ["code", "opus"], ["code", "opus"]) == ("code", "opus")


def test_a_lookup_falls_back_on_single_dimensions_in_order() -> None:
    assert looked_up(3, ["code", "opus"], ["code", "haiku"], marginals=True) == ("code",)
    assert looked_up(3, ["code", "opus"], ["triage", "opus"], marginals=True) == ("opus",)
    assert looked_up(3, ["code", "opus"], ["code", "opus", "night"], marginals=True) == ("code",)
    assert looked_up(3, ["code", "opus"], ["triage", "opus"]) == ()


def test_a_dimension_that_is_not_known_is_nothing_to_fall_back_on() -> None:
    assert looked_up(3, [None], [None, "opus"]) == ()
    assert looked_up(3, [None], [None]) == (None,)


def test_an_arm_that_was_never_credited_has_its_prior() -> None:
    found = ask(*THREE, prior=[2.0, 5.0]).lookup("new", ["code"])

    assert (found.alpha, found.beta, found.n, found.resolved) == (2.0, 5.0, 0, None)


def test_an_empty_ledger_has_no_beliefs_and_no_counters() -> None:
    assert ask().as_dict() | {"policy": None} == {
        "policy": None, "through": 0, "arms": {}, "contexts": [], "counters": {},
    }  # fmt: skip


def test_arms_and_contexts_are_listed_in_order() -> None:
    contexts: list[list[str | None]] = [["b"], ["a", "z"], [None], ["a"], []]
    events = [one for place, context in enumerate(contexts) for one in run(f"t:{place}", "x", 1.0, 0, context)]
    got = ask(*events, *run("t:z", "a", 1.0, 0), opened(arms={"m": {"alpha": 1.0, "beta": 1.0, "n": 0}}))

    assert list(got.arms) == ["a", "m", "x"]
    assert [one.context for one in got.contexts] == [(), (None,), ("a",), ("a", "z"), ("b",)]


def test_the_answer_says_policy_hash_and_position() -> None:
    said = ask(*THREE).as_dict()

    assert (said["policy"]["hash"], said["through"]) == (Policy().hash, 6)
    assert said["arms"]["y"] == {"alpha": 1.0, "beta": 2.0, "n": 1, "mass": 1.0, "mean": 1.0 / 3.0}


@pytest.mark.parametrize(
    ("credited", "resolved"),
    [(limits.LOOKUP_EVIDENCE - 1, ()), (limits.LOOKUP_EVIDENCE, ("code",)), (limits.LOOKUP_EVIDENCE + 1, ("code",))],
)
def test_a_context_needs_its_evidence_before_it_is_used(credited: int, resolved: tuple[str, ...]) -> None:
    events = [event for number in range(credited) for event in run(f"t:{number}", "x", 1.0, 10 * number, ["code"])]

    assert ask(*events).lookup("x", ["code"]).resolved == resolved
