"""Units: the effective grade of a run, who may pay, and what is in conflict."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.projections.telling import (
    alphas,
    ask,
    bins,
    exposed,
    graded,
    linked,
    log_of,
    projected,
    retracted,
    withdrawn,
)  # fmt: skip

from rightful.policies import Policy, policy_of

SHOWN = exposed("t:a", "x")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_highest_seq_counts_whatever_order_the_grades_arrive_in(order: tuple[int, ...]) -> None:
    grades = [graded("t:a", 0.2, seq=1), graded("t:a", 0.9, seq=3), graded("t:a", 0.5, seq=2)]

    assert alphas(ask(SHOWN, *(grades[place] for place in order))) == {"x": 1.9}


def test_the_highest_seq_counts_whatever_the_clocks_say() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.9, seq=2, at=200), graded("t:a", 0.2, seq=1, at=999))) == {"x": 1.9}


def test_a_seq_counts_over_all_names_of_the_run() -> None:
    got = ask(SHOWN, linked("t:a", "u:n"), graded("t:a", 0.2, seq=1), graded("u:n", 0.9, seq=2))

    assert alphas(got) == {"x": 1.9}
    assert bins(got) == {"credited": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_retraction_with_the_highest_seq_takes_the_grade_back(order: tuple[int, ...]) -> None:
    events = [graded("t:a", 0.9, seq=1), retracted("t:a", 2)]
    got = ask(SHOWN, *(events[place] for place in order))

    assert bins(got) == {"retracted": 1}
    assert got.counters["pending_sessions"] == 1


def test_a_later_grade_reinstates() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.9), retracted("t:a", 2), graded("t:a", 0.4, seq=3))) == {"x": 1.4}


def test_two_contents_at_one_seq_are_a_conflict() -> None:
    assert bins(ask(SHOWN, graded("t:a", 0.9), graded("t:a", 0.4))) == {"conflicting": 1}


def test_a_grade_and_a_retraction_at_one_seq_are_a_conflict() -> None:
    assert bins(ask(SHOWN, graded("t:a", 0.9), retracted("t:a", 1))) == {"conflicting": 1}


def test_an_overruled_conflict_is_none() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.9), graded("t:a", 0.4), graded("t:a", 0.5, seq=2))) == {"x": 1.5}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_content_twice_at_one_seq_counts_at_its_latest_time(order: tuple[int, ...]) -> None:
    """The exposure at 100 came after the grade of 90 and before the same grade of 110."""
    events = [graded("t:a", 0.9, at=90), graded("t:a", 0.9, at=110)]

    assert bins(ask(SHOWN, *(events[place] for place in order))) == {"credited": 1}


@pytest.mark.parametrize("more", [{"per_arm": {"x": 0.1}}, {"outcome": "failed"}, {"exposure_session": "t:a"}])
def test_content_is_all_that_a_grade_says(more: dict[str, Any]) -> None:
    assert bins(ask(SHOWN, graded("t:a", 0.9), graded("t:a", 0.9, **more))) == {"conflicting": 1}


def test_the_seqs_of_two_graders_are_not_compared() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, seq=1, by="human"), graded("t:a", 0.2, seq=9, by="judge"))

    assert alphas(got) == {"x": 1.9}
    assert bins(got) == {"credited": 1}


@pytest.mark.parametrize(
    ("higher", "lower"), list(itertools.pairwise(["human", "credit", "session-records", "somebody"]))
)
def test_the_default_order_of_graders_is_the_designs(higher: str, lower: str) -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.2, by=lower), graded("t:a", 0.9, by=higher))) == {"x": 1.9}


def test_two_graders_at_one_rank_conflict() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, by="one"), graded("t:a", 0.9, by="two"))

    assert bins(got) == {"conflicting": 1}
    assert got.arms == {}


def test_two_graders_at_a_lower_rank_do_not_matter() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, by="human"), graded("t:a", 0.1, by="one"), graded("t:a", 0.2, by="two"))

    assert alphas(got) == {"x": 1.9}


def test_the_policys_list_says_who_pays() -> None:
    events = [SHOWN, graded("t:a", 0.9, by="human"), graded("t:a", 0.2, by="judge")]

    assert alphas(ask(*events, graders=["judge/*", "human/*"])) == {"x": 1.2}


def test_a_grader_that_no_pattern_matches_is_recorded_and_never_pays() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, rubric="tone"))

    assert (got.arms, bins(got)) == ({}, {})
    assert got.counters == {"pending_sessions": 1}


def test_a_rubric_is_overall_unless_given() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.9), graded("t:a", 0.1, rubric="tone"))) == {"x": 1.9}


def test_a_retracted_grader_leaves_the_next_one_to_pay() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, by="human"), retracted("t:a", 2, by="human"), graded("t:a", 0.2))

    assert alphas(got) == {"x": 1.2}


def test_grader_in_conflict_pays_nothing_and_has_no_substitute() -> None:
    got = ask(SHOWN, graded("t:a", 0.9, by="human"), graded("t:a", 0.8, by="human"), graded("t:a", 0.2))

    assert bins(got) == {"conflicting": 1}


def test_all_graders_retracted_is_retracted() -> None:
    got = ask(
        SHOWN, graded("t:a", 0.9), graded("t:a", 0.9, by="other"), retracted("t:a", 2), retracted("t:a", 2, by="other")
    )

    assert bins(got) == {"retracted": 1}


def test_unknown_is_no_grade() -> None:
    got = ask(SHOWN, graded("t:a", 0.9), graded("t:a", outcome="unknown", seq=2))

    assert alphas(got) == {"x": 1.9}


def test_a_reward_decides_over_the_word_beside_it() -> None:
    assert alphas(ask(SHOWN, graded("t:a", 0.9, outcome="unknown"))) == {"x": 1.9}
    assert alphas(ask(SHOWN, graded("t:a", 0.9, outcome="failed"))) == {"x": 1.9}


@pytest.mark.parametrize(
    ("word", "alpha"), [("productive", 2.0), ("noop", 1.0), ("failed", 1.0), ("violated_policy", 1.0)]
)
def test_the_default_policy_maps_the_known_words(word: str, alpha: float) -> None:
    assert alphas(ask(SHOWN, graded("t:a", outcome=word))) == {"x": alpha}


def test_an_unmapped_word_has_a_bin_of_its_own() -> None:
    got = ask(SHOWN, graded("t:a", outcome="splendid"))

    assert bins(got) == {"unmapped": 1}
    assert alphas(ask(SHOWN, graded("t:a", outcome="splendid"), outcomes={"splendid": 0.75})) == {"x": 1.75}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_grade_whose_id_is_in_conflict_pays_nothing_whichever_came_first(order: tuple[int, ...]) -> None:
    two = [graded("t:a", 0.9, key="g"), graded("t:a", 0.1, key="g")]

    assert bins(ask(SHOWN, *(two[place] for place in order))) == {"conflicting": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_id_in_conflict_with_another_type_pays_nothing_in_any_order(order: tuple[int, ...]) -> None:
    message = {**graded("t:a", key="g"), "type": "message.recorded", "role": "user"}
    del message["seq"]
    two = [graded("t:a", 0.9, key="g"), message]

    assert bins(ask(SHOWN, *(two[place] for place in order))) == {"conflicting": 1}


@pytest.mark.parametrize(("revision", "alpha"), [(1, 1.1), (2, 1.9)])
def test_withdrawing_a_revision_settles_the_conflict_for_the_other(revision: int, alpha: float) -> None:
    log = log_of(SHOWN, graded("t:a", 0.9, key="g"), graded("t:a", 0.1, key="g"), withdrawn("g", revision, "judge"))

    assert alphas(projected(log).posteriors(Policy())) == {"x": alpha}


def test_of_three_rows_two_must_be_withdrawn() -> None:
    log = log_of(SHOWN, *(graded("t:a", reward, key="g") for reward in (0.9, 0.1, 0.5)), withdrawn("g", 1, "judge"))
    asked = projected(log)

    assert bins(asked.posteriors(Policy())) == {"conflicting": 1}
    log.append([withdrawn("g", 3, "judge")])
    assert alphas(asked.posteriors(Policy())) == {"x": 1.1}


def test_withdrawing_what_is_in_no_conflict_changes_nothing() -> None:
    log = log_of(SHOWN, graded("t:a", 0.9, key="g"), withdrawn("g", 1, "judge"))

    assert alphas(projected(log).posteriors(Policy())) == {"x": 1.9}


def test_before_it_was_withdrawn_the_conflict_stood() -> None:
    log = log_of(SHOWN, graded("t:a", 0.9, key="g"), graded("t:a", 0.1, key="g"), withdrawn("g", 2, "judge"))
    asked = projected(log)

    assert [bins(asked.posteriors(Policy(), as_of=place)) for place in (2, 3, 4)] == [
        {"credited": 1}, {"conflicting": 1}, {"credited": 1},
    ]  # fmt: skip


def test_the_same_fact_under_another_turn_is_no_conflict() -> None:
    log = log_of(SHOWN, graded("t:a", 0.9, key="g", turn="1"), graded("t:a", 0.9, key="g", turn="2"))

    assert [line.row.outcome for line in log.lines] == ["appended", "appended", "reemitted"]
    assert alphas(projected(log).posteriors(policy_of({"revision": "additive"}))) == {"x": 1.9}


def test_additive_pays_every_grade_event_and_no_retraction() -> None:
    got = ask(SHOWN, graded("t:a", 0.2), graded("t:a", 0.9, seq=2), retracted("t:a", 3), revision="additive")

    assert (got.arms["x"].alpha, got.arms["x"].beta, got.arms["x"].n) == (2.1, 1.9, 2)
    assert bins(got) == {"credited": 2}


def test_additive_knows_no_ties_and_no_order_of_graders() -> None:
    got = ask(SHOWN, graded("t:a", 0.2), graded("t:a", 0.9), graded("t:a", 0.4, by="human"), revision="additive")

    assert (got.arms["x"].alpha, bins(got)) == (2.5, {"credited": 3})


def test_additive_pays_no_event_whose_id_is_in_conflict() -> None:
    two = [graded("t:a", 0.9, key="g"), graded("t:a", 0.1, key="g")]

    assert bins(ask(SHOWN, *two, graded("t:a", 0.5), revision="additive")) == {"conflicting": 2, "credited": 1}


def test_additive_leaves_out_graders_that_no_pattern_matches() -> None:
    got = ask(SHOWN, graded("t:a", 0.2), graded("t:a", 0.9, rubric="tone"), revision="additive")

    assert (alphas(got), bins(got)) == ({"x": 1.2}, {"credited": 1})


def test_an_erased_grade_counts_as_absent_under_a_bin_of_its_own() -> None:
    log = log_of(SHOWN, graded("t:a", 0.9))
    log.erase(2)

    got = projected(log).posteriors(Policy())

    assert (got.arms, bins(got), got.counters["pending_sessions"]) == ({}, {"erased": 1}, 1)


def test_an_erased_retraction_takes_nothing_back() -> None:
    log = log_of(SHOWN, graded("t:a", 0.9), retracted("t:a", 2))
    log.erase(3)

    assert alphas(projected(log).posteriors(Policy())) == {"x": 1.9}


def test_a_withdrawal_changes_nothing_before_the_conflict_that_it_settles() -> None:
    """At position 3 the grade is in no conflict yet, whatever the log says later."""
    log = log_of(SHOWN, graded("t:a", 0.9, key="g"), withdrawn("g", 1, "judge"), graded("t:a", 0.1, key="g"))
    asked = projected(log)

    assert alphas(asked.posteriors(Policy(), as_of=3)) == {"x": 1.9}
    assert alphas(asked.posteriors(Policy())) == {"x": 1.1}


STEPS = {"graders": ["judge/*", "*/overall"]}
FIVE = [
    linked("w:run", "t:n"),
    exposed("t:n", "L"),
    graded("w:run", 1.0, by="human"),
    graded("t:other", 0.2),
    graded("t:other", 0.3, rubric="style", exposure_session="t:n"),
]


@pytest.mark.sweep
@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_graders_are_ranked_in_the_run_that_they_speak_of(order: tuple[int, ...]) -> None:
    """judge/style of another session outranks the human: 60 of the 120 orders used to pay the human's 1.0."""
    got = ask(*(FIVE[place] for place in order), **STEPS)

    assert (got.arms["L"].alpha, got.arms["L"].beta) == (1.3, 1.7)
    assert bins(got) == {"credited": 1, "unmatched": 1}


def test_grade_that_names_session_without_exposures_outranks_nothing() -> None:
    """It competes nowhere, though its own run and the run of the name have other graders."""
    grades = [graded("t:a", 0.8), graded("t:a", 0.2, by="human", exposure_session="t:missing")]

    got = ask(SHOWN, *grades)

    assert (alphas(got), bins(got)) == ({"x": 1.8}, {"credited": 1, "unmatched": 1})


def test_grade_that_names_ambiguous_session_outranks_nothing() -> None:
    two = [exposed("t:b/c", "y"), exposed("t:b.c", "z")]
    grades = [graded("t:a", 0.8), graded("t:a", 0.2, by="human", exposure_session="t:b_c")]

    got = ask(SHOWN, *two, *grades)

    assert (alphas(got), bins(got)) == ({"x": 1.8}, {"credited": 1, "ambiguous": 1})


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_grader_that_grades_run_from_two_runs_is_ambiguous_for_both(order: tuple[int, ...]) -> None:
    """It blocks the graders behind it: which of its two verdicts counts is unknown."""
    grades = [
        graded("t:a", 0.8, by="human"),
        graded("t:c", 0.3, by="human", exposure_session="t:a"),
        graded("t:a", 0.5),
    ]

    got = ask(SHOWN, *(grades[place] for place in order))

    assert (got.arms, bins(got)) == ({}, {"ambiguous": 2})


def test_grader_is_ambiguous_though_its_grades_name_two_names_of_the_run() -> None:
    linked_names = [exposed("t:a", "x"), exposed("u:n", "y"), linked("t:a", "u:n")]
    grades = [graded("t:c", 0.8, exposure_session="t:a"), graded("t:d", 0.3, exposure_session="u:n")]

    assert bins(ask(*linked_names, *grades)) == {"ambiguous": 2}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_graders_of_one_rank_conflict_though_they_grade_under_two_runs(order: tuple[int, ...]) -> None:
    grades = [graded("t:a", 0.8, by="one"), graded("t:c", 0.3, by="two", exposure_session="t:a")]

    assert bins(ask(SHOWN, *(grades[place] for place in order))) == {"conflicting": 1}


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_conflict_stays_in_its_own_run_whatever_session_it_names(order: tuple[int, ...]) -> None:
    """One `seq` says two things of two runs: no grade of it is in force, so it is placed in neither."""
    other = exposed("t:b", "y")
    grades = [
        graded("t:w", 0.8, by="human", exposure_session="t:a"),
        graded("t:w", 0.8, by="human", exposure_session="t:b"),
        graded("t:w", 0.5),
    ]

    got = ask(SHOWN, other, graded("t:b", 0.5), *(grades[place] for place in order))

    assert (alphas(got), bins(got)) == ({"y": 1.5}, {"credited": 1, "conflicting": 1})


def test_retracted_grade_of_another_run_leaves_the_named_run_to_others() -> None:
    grades = [graded("t:w", 0.8, by="human", exposure_session="t:a"), retracted("t:w", 2, by="human")]

    got = ask(SHOWN, graded("t:a", 0.5), *grades)

    assert (alphas(got), bins(got)) == ({"x": 1.5}, {"credited": 1, "retracted": 1})
