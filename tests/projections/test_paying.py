"""Paying: which bin a grade ends in, what comes too late, what each arm gets."""

from __future__ import annotations

import pytest
from tests.projections.telling import (
    alphas,
    ask,
    bins,
    exposed,
    graded,
    linked,
    log_of,
    opened,
    projected,
    retracted,
    withdrawn,
)  # fmt: skip

from rightful.policies import Policy, policy_of

SHOWN = exposed("t:a", "x")


def test_an_arm_is_credited_once_per_run() -> None:
    got = ask(SHOWN, exposed("t:a", "x", "x", at=110), linked("t:a", "u:n"), exposed("u:n", "x"), graded("t:a", 0.8))

    assert (got.arms["x"].n, got.arms["x"].mass) == (1, 1.0)


def test_a_graded_run_that_was_shown_nothing_is_empty() -> None:
    got = ask(exposed("t:a"), graded("t:a", 0.8))

    assert (got.arms, dict(got.counters)) == ({}, {"empty_grades": 1})


def test_exposed_runs_without_grade_are_pending_and_get_no_default_reward() -> None:
    got = ask(SHOWN, exposed("t:b"), exposed("t:c", "y"), graded("t:c", 0.5))

    assert (alphas(got), dict(got.counters)) == ({"y": 1.5}, {"credited_grades": 1, "pending_sessions": 1})


def test_a_linked_run_is_pending_once() -> None:
    assert dict(ask(SHOWN, linked("t:a", "u:n"), exposed("u:n", "y")).counters) == {"pending_sessions": 1}


def test_an_exposure_at_the_time_of_the_grade_counts() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.8, at=100))) == {"x": 1.8}


def test_an_exposure_a_microsecond_after_the_grade_does_not_count() -> None:
    got = ask(SHOWN, graded("t:a", 0.8, at=99.999999))

    assert (bins(got), got.counters["late_exposures"]) == ({"late_only": 1}, 1)
    assert "pending_sessions" not in got.counters


def test_only_the_late_arms_are_dropped() -> None:
    got = ask(SHOWN, exposed("t:a", "y", "z", at=300), exposed("t:a", "x", at=300), graded("t:a", 0.8))

    assert (alphas(got), got.counters["late_exposures"]) == ({"x": 1.8}, 2)


def test_nothing_is_late_under_lenient_order() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.8, at=1), causal_order="lenient")) == {"x": 1.8}


@pytest.mark.parametrize(("at", "bin_"), [(97.5, "credited"), (97.499999, "late_only")])
def test_the_skew_is_how_much_later_an_exposure_may_be_stamped(at: float, bin_: str) -> None:
    assert bins(ask(SHOWN, graded("t:a", 0.8, at=at), skew_s=2.5)) == {bin_: 1}


def test_a_files_time_is_an_upper_bound_and_never_late() -> None:
    assert alphas(ask(exposed("t:a", "x", at=500, at_basis="file"), graded("t:a", 0.8))) == {"x": 1.8}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_exposure_with_an_id_in_conflict_is_unusable_in_any_order(order: tuple[int, ...]) -> None:
    two = [exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e")]
    got = ask(*(two[place] for place in order), graded("t:a", 0.8))

    assert (got.arms, dict(got.counters)) == ({}, {"conflicting_grades": 1})


def test_an_exposure_in_conflict_leaves_the_runs_others() -> None:
    two = [exposed("t:a", "y", key="e"), exposed("t:a", "z", key="e")]

    assert alphas(ask(SHOWN, *two, graded("t:a", 0.8))) == {"x": 1.8}


def test_settling_a_conflict_leaves_the_row_that_was_not_withdrawn() -> None:
    two = [exposed("t:a", "y", key="e"), exposed("t:a", "z", key="e")]

    assert alphas(ask(*two, withdrawn("e", 2), graded("t:a", 0.8))) == {"y": 1.8}
    assert alphas(ask(*two, withdrawn("e", 1), graded("t:a", 0.8))) == {"z": 1.8}


def test_withdrawing_every_row_leaves_nothing_that_could_match() -> None:
    two = [exposed("t:a", "y", key="e"), exposed("t:a", "z", key="e")]

    assert bins(ask(*two, withdrawn("e", 1), withdrawn("e", 2), graded("t:a", 0.8))) == {"unmatched": 1}


def test_an_erased_exposure_counts_as_absent_under_a_bin_of_its_own() -> None:
    log = log_of(SHOWN, graded("t:a", 0.8))
    log.erase(1)

    got = projected(log).posteriors(Policy())

    assert (got.arms, dict(got.counters)) == ({}, {"erased_grades": 1})


def test_withheld_arms_are_never_credited() -> None:
    got = ask(exposed("t:a", "x", withheld=("y",)), graded("t:a", 0.8))

    assert (alphas(got), dict(got.counters)) == ({"x": 1.8}, {"credited_grades": 1})


@pytest.mark.parametrize(("one", "other"), [("t:a", "u:n"), ("u:n", "t:a")])
def test_an_arm_both_withheld_and_shown_in_one_run_is_a_crossover(one: str, other: str) -> None:
    got = ask(exposed(one, "x", withheld=("y",)), linked("t:a", "u:n"), exposed(other, "y"), graded("t:a", 0.8))

    assert (alphas(got), got.counters["crossover_arms"]) == ({"x": 1.8, "y": 1.8}, 1)


def test_an_arm_withheld_in_another_run_is_no_crossover() -> None:
    assert "crossover_arms" not in ask(exposed("t:a", "x", withheld=("y",)), exposed("t:b", "y")).counters


def test_what_an_unusable_exposure_withheld_is_no_crossover() -> None:
    two = [exposed("t:a", withheld=("x",), key="e"), exposed("t:a", "z", key="e")]

    assert "crossover_arms" not in ask(SHOWN, *two).counters


def test_rewards_of_single_arms_go_before_the_grades() -> None:
    got = ask(exposed("t:a", "x", "y"), graded("t:a", 0.8, per_arm={"x": 0.25, "z": 0.5}))

    assert (alphas(got), got.counters["per_arm_unexposed"]) == ({"x": 1.25, "y": 1.8}, 1)


def test_an_arms_other_names_are_the_arm() -> None:
    events = [exposed("t:a", "old"), exposed("t:b", "x"), graded("t:a", 0.5), graded("t:b", 0.25)]
    got = ask(*events, arm_aliases={"old": "x"})

    assert (alphas(got), got.arms["x"].n) == ({"x": 1.75}, 2)


def test_an_arm_under_two_names_is_credited_once_per_run() -> None:
    assert ask(exposed("t:a", "x", "old"), graded("t:a", 0.5), arm_aliases={"old": "x"}).arms["x"].n == 1


def test_an_alias_may_name_an_arm_that_was_never_shown() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.5), arm_aliases={"x": "new"})) == {"new": 1.5}


def test_what_a_grade_says_of_an_arm_under_another_name_is_said_of_the_arm() -> None:
    got = ask(SHOWN, graded("t:a", 0.5, per_arm={"old": 0.25}), arm_aliases={"old": "x"})

    assert (alphas(got), "per_arm_unexposed" in got.counters) == ({"x": 1.25}, False)


def weights(got: object, *arms: str) -> list[float]:
    return [got.arms[arm].mass for arm in arms]  # type: ignore[attr-defined]


def test_full_credit_gives_each_arm_the_whole_observation() -> None:
    assert weights(ask(exposed("t:a", "x", "y"), graded("t:a", 0.5, salience={"x": 0.5})), "x", "y") == [1.0, 1.0]


def test_split_gives_each_arm_its_share() -> None:
    assert weights(ask(exposed("t:a", "x", "y", "x"), graded("t:a", 0.5), credit="split"), "x", "y") == [0.5, 0.5]


def test_salience_weighs_the_evidence_and_not_the_reward() -> None:
    got = ask(exposed("t:a", "x", "y"), graded("t:a", 1.0, salience={"x": 0.75, "y": 0.25}), credit="salience_weight")

    assert [(got.arms[arm].alpha, got.arms[arm].beta) for arm in "xy"] == [(1.75, 1.0), (1.25, 1.0)]


def test_salience_can_be_split() -> None:
    events = [exposed("t:a", "x", "y"), graded("t:a", 1.0, salience={"x": 0.75, "y": 0.25, "z": 1.0})]

    assert weights(ask(*events, credit="salience_split"), "x", "y") == [0.75, 0.25]


@pytest.mark.parametrize("credit", ["salience_weight", "salience_split"])
def test_an_arm_that_the_salience_leaves_out_gets_no_credit(credit: str) -> None:
    got = ask(exposed("t:a", "x", "y", "z"), graded("t:a", 1.0, salience={"x": 0.5, "y": 0.0}), credit=credit)

    assert got.arms.keys() == {"x"}


def test_without_salience_all_arms_weigh_alike() -> None:
    events = [exposed("t:a", "x", "y"), graded("t:a", 1.0)]

    assert weights(ask(*events, credit="salience_weight"), "x", "y") == [1.0, 1.0]
    assert weights(ask(*events, credit="salience_split"), "x", "y") == [0.5, 0.5]


HELD = {"x": {"alpha": 2.0, "beta": 1.0, "n": 1}}

EVERY_BIN = [
    exposed("t:credited", "x"), graded("t:credited", 0.5),
    graded("t:unmatched", 0.5),
    exposed("t:empty"), graded("t:empty", 0.5),
    exposed("t:a/b", "x"), exposed("t:a:b", "x"), graded("t:a_b", 0.5),
    graded("t:conflicting", 0.5), graded("t:conflicting", 0.25),
    retracted("t:retracted", 2),
    exposed("t:late", "x", at=999), graded("t:late", 0.5),
    exposed("t:unmapped", "x"), graded("t:unmapped", outcome="odd"),
    exposed("t:old", "x", at=1), graded("t:old", 0.5, at=20), opened(through="1970-01-01T00:00:20Z", arms=HELD),
    graded("t:erased", 0.5),
]  # fmt: skip


@pytest.mark.parametrize("revision", ["last_wins", "additive"])
def test_every_grade_ends_in_exactly_one_bin(revision: str) -> None:
    log = log_of(*EVERY_BIN)
    log.erase(log.head())

    got = bins(projected(log).posteriors(policy_of({"revision": revision})))

    if revision == "last_wins":
        assert got == dict.fromkeys(got, 1)
        assert len(got) == 10
    else:
        assert sum(got.values()) == sum(line.row.type == "grade.recorded" for line in log.lines)


FIRST_REASONS = [
    pytest.param([retracted("t:a", 2, at=20)], "retracted", id="retracted before in-balance"),
    pytest.param([graded("t:a", outcome="odd", at=20), exposed("t:a", "x", at=1)], "unmapped",
                 id="unmapped before in-balance"),
    pytest.param([graded("t:a", outcome="odd", at=90)], "unmapped", id="unmapped before unmatched"),
    pytest.param([graded("t:a", 0.5, at=90), exposed("t:a", at=50), exposed("t:a", "x", at=95)], "empty",
                 id="empty before late-only"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "bin_"), FIRST_REASONS)
def test_the_first_reason_that_fits_is_the_bin(events: list[dict[str, object]], bin_: str) -> None:
    assert bins(ask(opened(through="1970-01-01T00:00:20Z", arms=HELD), *events)) == {bin_: 1}


FILE_AT_150 = exposed("t:a", "x", at=150, at_basis="file")


def test_an_exact_time_after_the_grade_decides_over_a_files_upper_bound() -> None:
    """The file's time can be a `last_pretool` that a later prompt left as it was."""
    log = [FILE_AT_150, exposed("t:a", "x", at=300)]

    assert bins(ask(*log, graded("t:a", 0.8))) == {"late_only": 1}
    assert bins(ask(*reversed(log), graded("t:a", 0.8))) == {"late_only": 1}
    assert alphas(ask(*log, graded("t:a", 0.8), causal_order="lenient")) == {"x": 1.8}
    assert alphas(ask(*log, graded("t:a", 0.8), skew_s=100.0)) == {"x": 1.8}


def test_the_earliest_exact_time_of_an_arm_decides() -> None:
    assert alphas(ask(exposed("t:a", "x", at=150), exposed("t:a", "x", at=300), graded("t:a", 0.8))) == {"x": 1.8}
    file = exposed("t:a", "x", at=900, at_basis="file")
    assert alphas(ask(file, exposed("t:a", "x", at=150), graded("t:a", 0.8))) == {"x": 1.8}


def test_an_exact_time_of_another_arm_or_session_leaves_a_file_unchanged() -> None:
    """A resumed session is shown its arms again, so its time is not that of the first exposure."""
    other_arm = exposed("t:a", "y", at=300)
    resumed = [linked("t:a", "u:n", relation="resume"), exposed("u:n", "x", at=300)]

    assert alphas(ask(FILE_AT_150, other_arm, graded("t:a", 0.8))) == {"x": 1.8}
    assert alphas(ask(FILE_AT_150, *resumed, graded("t:a", 0.8))) == {"x": 1.8}


def test_a_withdrawn_exact_time_decides_nothing() -> None:
    late = exposed("t:a", "x", at=300, key="late")

    assert alphas(ask(FILE_AT_150, late, withdrawn("late", 1), graded("t:a", 0.8))) == {"x": 1.8}


def test_a_file_of_several_arms_is_late_only_if_all_are() -> None:
    file = exposed("t:a", "x", "y", at=150, at_basis="file")
    late = exposed("t:a", "x", at=300)

    assert alphas(ask(file, late, exposed("t:a", "y", at=120), graded("t:a", 0.8))) == {"x": 1.8, "y": 1.8}
    assert bins(ask(file, late, exposed("t:a", "y", at=310), graded("t:a", 0.8))) == {"late_only": 1}


def test_an_exact_time_under_an_alias_of_the_arm_decides_too() -> None:
    got = ask(FILE_AT_150, exposed("t:a", "x-old", at=300), graded("t:a", 0.8), arm_aliases={"x-old": "x"})

    assert bins(got) == {"late_only": 1}


def test_newest_file_does_not_count_a_files_mention_of_an_aliased_arm() -> None:
    """The log has the time of the arm under its old name, so the file's own time says nothing of it."""
    file = exposed("t:a", "x", at=180, at_basis="file")
    log = [exposed("t:a", "x-old", at=100), file, exposed("t:b", "y", at=150), graded("t:b", 0.8)]

    assert alphas(ask(*log, join="newest", arm_aliases={"x-old": "x"})) == {"y": 1.8}
    assert alphas(ask(*log, join="newest")) == {"x": 1.8, "x-old": 1.8}
