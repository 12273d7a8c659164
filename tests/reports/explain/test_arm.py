from __future__ import annotations

import pytest
from tests.projections.telling import decayed, exposed, graded, linked, log_of, opened, published, told
from tests.reports.explaining import armed, assert_arms_add_up, projected

from rightful.errors import UsageError
from rightful.policies import policy_of
from rightful.reports.explain import explain_arm


def test_each_credit_has_its_grade_exposure_and_belief() -> None:
    log = log_of(
        exposed("u:n", "x", "y", context=["code"]),
        linked("w:a", "u:n"),
        graded("w:a", 0.8, per_arm={"x": 0.25}),
        exposed("t:b", "x"),
        exposed("t:b", "x", at=120),
        graded("t:b", 0.5, seq=4),
    )

    first, second = armed(log, "x").steps

    assert (first.kind, first.position, first.session, first.grader, first.seq) == (
        "credit",
        3,
        "w:a",
        "judge/overall",
        1,
    )
    assert (first.reward, first.grade_reward, first.weight, first.context) == (0.25, 0.8, 1.0, ["code"])
    assert (first.exposures, first.alpha, first.beta, first.n, first.mass) == ([1], 1.25, 1.75, 1, 1.0)
    assert (second.exposures, second.alpha, second.beta, second.n, second.grade_reward) == ([4, 5], 1.75, 2.25, 2, None)
    assert second.id == log.stored[5].envelope.id


def test_running_sums_are_rounded_once_each() -> None:
    events = []
    for at in range(10):
        events += [exposed(f"t:{at}", "x"), graded(f"t:{at}", 0.1)]

    found = armed(log_of(*events), "x")

    assert [step.alpha for step in found.steps][:3] == [1.1, 1.2, 1.3]
    assert found.alpha == 2.0
    assert (found.prior, found.n) == ((1.0, 1.0), 10)


def test_an_opening_balance_is_the_first_row() -> None:
    balance = opened(arms={"x": {"alpha": 3.0, "beta": 1.5, "n": 4}}, through="1970-01-01T00:00:10Z")
    log = log_of(exposed("t:a", "x"), graded("t:a", 0.5), balance)

    first, second = armed(log, "x").steps

    assert (first.kind, first.position, first.grader) == ("opening", 3, "bandit.json")
    assert (first.alpha, first.beta, first.n, first.mass) == (3.0, 1.5, 4, 2.5)
    assert (second.kind, second.alpha, second.beta, second.n) == ("credit", 3.5, 2.0, 5)
    assert [step.kind for step in armed(log, "x", balances=[]).steps] == ["credit"]


def test_a_stateful_updater_opens_with_the_balance_too() -> None:
    balance = opened(arms={"x": {"alpha": 3.0, "beta": 1.5, "n": 4}})
    log = log_of(exposed("t:a", "x"), graded("t:a", 0.5), balance)

    steps = armed(log, "x", arithmetic="sequential").steps

    assert [(step.kind, step.alpha, step.beta, step.n, step.mass) for step in steps] == [
        ("opening", 3.0, 1.5, 4, 2.5),
        ("credit", 3.5, 2.0, 5, 3.5),
    ]
    assert_arms_add_up(projected(log), policy_of({"arithmetic": "sequential"}))


def test_bytes_that_we_published_open_no_balance() -> None:
    balance = opened(arms={"x": {"alpha": 3.0, "beta": 1.5, "n": 4}}, sha256="c" * 64)

    with pytest.raises(UsageError, match="no exposure and no balance up to position 2 names the arm 'x'"):
        armed(log_of(published("c" * 64), balance), "x")


def test_decays_and_losses_of_another_updater_are_rows_of_their_own() -> None:
    pruned = told("bandit.pruned", "t:desk", 160, {"arms": ["x"]})
    log = log_of(
        decayed(0.5, key="before"),
        exposed("t:a", "x"),
        graded("t:a", 1.0),
        decayed(0.5, key="after"),
        graded("t:a", 0.0, seq=2, decay_rate=0.5),
        pruned,
        exposed("t:b", "x"),
        graded("t:b", 1.0),
    )
    gptme = {"revision": "additive", "causal_order": "lenient", "arithmetic": "sequential", "decay": {"mode": "events"}}

    steps = armed(log, "x", **gptme).steps

    assert [(step.kind, step.position, step.alpha, step.beta, step.n, step.mass) for step in steps] == [
        ("credit", 3, 2.0, 1.0, 1, 1.0),
        ("decay", 4, 1.5, 1.0, 1, 0.5),
        ("decay", 5, 1.25, 1.0, 1, 0.25),
        ("credit", 5, 1.25, 2.0, 2, 1.25),
        ("prune", 6, 1.0, 1.0, 0, 0.0),
        ("credit", 8, 2.0, 1.0, 1, 1.0),
    ]
    assert_arms_add_up(projected(log), policy_of(gptme))


def test_what_decay_leaves_of_each_credit_is_shown_as_of_the_time_asked() -> None:
    log = log_of(exposed("t:a", "x", at=100), graded("t:a", 1.0), exposed("t:b", "x", at=160), graded("t:b", 1.0))
    policy = policy_of({"decay": {"mode": "time", "half_life": 60.0}})

    found = explain_arm(projected(log), policy, "x", decay_at=160)

    assert [(step.weight, step.decayed, step.alpha) for step in found.steps] == [(1.0, 0.5, 1.5), (1.0, 1.0, 2.5)]
    assert found.decay_at == "1970-01-01T00:02:40Z"
    assert armed(log, "x").decay_at is None


@pytest.mark.parametrize("mode", ["session", "arm"])
def test_decay_by_session_and_by_arm_is_the_one_of_the_posterior(mode: str) -> None:
    log = log_of(
        exposed("t:a", "x"),
        graded("t:a", 1.0),
        exposed("t:b", "y"),
        graded("t:b", 1.0),
        exposed("t:c", "x"),
        graded("t:c", 0.3),
    )

    assert_arms_add_up(projected(log), policy_of({"decay": {"mode": mode, "gamma": 0.5}}))
    decays = [step.decayed for step in armed(log, "x", decay={"mode": mode, "gamma": 0.5}).steps]
    assert decays == ([0.25, 1.0] if mode == "session" else [0.5, 1.0])


def test_exposures_without_credit_are_counted_by_reason() -> None:
    log = log_of(
        exposed("t:a", "x"), graded("t:a", 1.0),
        exposed("t:b", "x"), exposed("t:c", "x"),
        exposed("t:d", "x", at=300), graded("t:d", 1.0),
        exposed("t:e", "x"), graded("t:e", outcome="odd"),
        exposed("t:f", "y", withheld=("x",)),
        exposed("t:a", "x", at=400),
    )  # fmt: skip

    found = armed(log, "x")

    assert found.unpaid_states == {"late": 2, "pending": 2, "unmapped": 1}
    assert [(row.position, row.state) for row in found.unpaid] == [
        (3, "pending"),
        (4, "pending"),
        (5, "late"),
        (7, "unpaid"),
        (10, "late"),
    ]
    assert found.withheld == [9]


def test_an_alias_of_the_policy_counts_as_its_arm() -> None:
    log = log_of(exposed("t:a", "old"), graded("t:a", 1.0), exposed("t:b", "new"), graded("t:b", 0.0))

    found = armed(log, "old", arm_aliases={"old": "new"})

    assert (found.arm, found.aliases, found.n) == ("new", ["old"], 2)
    assert armed(log, "old").n == 1


def test_an_empty_exposure_before_an_arm_does_not_hide_whose_it_is() -> None:
    log = log_of(exposed("t:empty"), exposed("t:a", "x"), exposed("t:empty2"), exposed("t:b", "y", "x"))

    assert [row.position for row in armed(log, "x").unpaid] == [2, 4]
    assert [row.position for row in armed(log, "y").unpaid] == [4]


def test_what_came_after_the_position_moved_nothing() -> None:
    projection = projected(log_of(exposed("t:a", "x"), graded("t:a", 1.0), exposed("t:b", "x"), graded("t:b", 1.0)))

    assert explain_arm(projection, policy_of({}), "x", as_of=2).n == 1
    assert explain_arm(projection, policy_of({}), "x", as_of=3).unpaid_states == {"pending": 1}
