"""Joins: which exposures a grade reaches, under the bound rule and under the newest-file rule."""

from __future__ import annotations

import pytest
from tests.projections.telling import alphas, ask, bins, exposed, graded, linked, mentioned

NEWEST = {"join": "newest"}
TWO = [exposed("t:a", "x", at=100), exposed("t:b", "y", at=110)]


def test_a_grade_for_an_older_session_never_pays_a_newer_one() -> None:
    """The two-file case: B's exposure is newer, A is graded, A's lesson earns it."""
    assert alphas(ask(*TWO, graded("t:a", 0.8))) == {"x": 1.8}


def test_a_grade_without_exposures_is_unmatched_and_never_falls_back() -> None:
    got = ask(*TWO, graded("t:c", 0.8))

    assert (got.arms, bins(got)) == ({}, {"unmatched": 1})


def test_a_grade_that_names_a_session_pays_that_name_alone() -> None:
    got = ask(*TWO, linked("t:b", "u:n"), exposed("u:n", "z"), graded("t:a", 0.8, exposure_session="t:b"))

    assert alphas(got) == {"y": 1.8}


def test_a_grade_that_names_a_session_without_exposures_pays_nothing() -> None:
    assert bins(ask(*TWO, graded("t:a", 0.8, exposure_session="t:c"))) == {"unmatched": 1}


def test_a_session_that_a_grade_names_is_reached_by_its_unique_alias() -> None:
    assert alphas(ask(exposed("t:a/b", "x"), graded("t:c", 0.8, exposure_session="t:a_b"))) == {"x": 1.8}


def test_two_runs_that_reach_one_exposure_are_both_ambiguous() -> None:
    got = ask(*TWO, graded("t:a", 0.8), graded("t:c", 0.3, exposure_session="t:a"))

    assert (got.arms, bins(got)) == ({}, {"ambiguous": 2})


def test_an_exposure_that_two_runs_reach_spoils_the_others_they_reach() -> None:
    got = ask(*TWO, linked("t:a", "t:b", "resume"), graded("t:a", 0.8), graded("t:c", 0.3, exposure_session="t:b"))

    assert bins(got) == {"ambiguous": 2}


def test_a_late_exposure_is_reached_by_no_grade() -> None:
    """Only the second grade comes after the exposure, so it alone reaches it: `t:a_b` is placed in a run of its own."""
    got = ask(exposed("t:a/b", "x", at=100), graded("t:a/b", 0.8, at=99), graded("t:a_b", 0.3))

    assert (alphas(got), bins(got)) == ({"x": 1.3}, {"credited": 1, "late_only": 1})


def test_a_grade_that_is_not_effective_reaches_nothing() -> None:
    torn = [graded("t:c", reward, exposure_session="t:a") for reward in (0.3, 0.4)]

    assert bins(ask(*TWO, graded("t:a", 0.8), *torn)) == {"credited": 1, "conflicting": 1}


def test_many_grades_of_one_run_may_reach_one_exposure() -> None:
    assert bins(ask(*TWO, graded("t:a", 0.8), graded("t:a", 0.3, seq=2), revision="additive")) == {"credited": 2}


def test_newest_pays_the_session_that_was_written_last_before_the_grade() -> None:
    got = ask(*TWO, exposed("t:c", "z", at=300), graded("t:a", 0.8, at=200), **NEWEST)

    assert (alphas(got), dict(got.counters)["foreign_grades"]) == ({"y": 1.8}, 1)


def test_newest_takes_an_exposure_at_the_very_time_of_the_grade() -> None:
    assert alphas(ask(*TWO, graded("t:a", 0.8, at=110), **NEWEST)) == {"y": 1.8}


def test_newest_pays_what_the_session_had_shown_by_then() -> None:
    got = ask(*TWO, exposed("t:b", "z", at=120), exposed("t:b", "w", at=300), graded("t:b", 0.8, at=200), **NEWEST)

    assert alphas(got) == {"y": 1.8, "z": 1.8}
    assert "foreign_grades" not in got.counters


def test_newest_skips_a_session_that_listed_nothing() -> None:
    assert alphas(ask(*TWO, exposed("t:c", at=120), graded("t:c", 0.8), **NEWEST)) == {"y": 1.8}


def test_newest_counts_an_empty_exposure_of_a_session_with_earlier_ones() -> None:
    """Rewriting the file makes it the newest again."""
    assert alphas(ask(*TWO, exposed("t:a", at=120), graded("t:b", 0.8), **NEWEST)) == {"x": 1.8}


def test_newest_does_not_count_an_empty_exposure_before_the_first_arm() -> None:
    got = ask(
        exposed("t:a", at=150), exposed("t:a", "x", at=300), exposed("t:b", "y", at=140), graded("t:a", 0.8), **NEWEST
    )

    assert alphas(got) == {"y": 1.8}


def test_newest_passes_over_a_draw_that_shows_nothing() -> None:
    """A dropout log has a line for each draw, also where nothing was withheld; the state file was not rewritten."""
    for draw in ({"withheld": [{"arm": "w"}]}, {"extra": {"epsilon": 0.3, "withheld": []}}):
        assert alphas(ask(*TWO, exposed("t:a", at=120) | draw, graded("t:b", 0.8), **NEWEST)) == {"y": 1.8}


@pytest.mark.parametrize("at", [90, 120], ids=["last_pretool", "copied"])
def test_a_files_time_yields_to_the_times_of_the_same_session(at: int) -> None:
    """A state file lists all arms at one time; logs of the session say when each was shown."""
    file = exposed("t:a", "x", "z", at=at) | {"at_basis": "file"}
    later = exposed("t:a", "z", at=300)

    assert alphas(ask(*TWO, file, later, graded("t:b", 0.8, at=200), **NEWEST)) == {"y": 1.8}
    assert alphas(ask(TWO[0], file, later, graded("t:b", 0.8, at=200), **NEWEST)) == {"x": 1.8}


def test_a_files_time_counts_for_an_arm_without_another_time() -> None:
    file = exposed("t:a", "x", "z", at=120) | {"at_basis": "file"}

    assert alphas(ask(*TWO, file, graded("t:b", 0.8, at=200), **NEWEST)) == {"x": 1.8, "z": 1.8}


def test_newest_marks_equal_times_ambiguous() -> None:
    got = ask(exposed("t:a", "x", at=100), exposed("t:b", "y", at=100), graded("t:a", 0.8), **NEWEST)

    assert (got.arms, bins(got)) == ({}, {"ambiguous": 1})


def test_newest_without_any_exposure_is_unmatched() -> None:
    assert bins(ask(graded("t:a", 0.8), **NEWEST)) == {"unmatched": 1}


def test_newest_lets_one_exposure_be_paid_by_two_runs() -> None:
    assert bins(ask(*TWO, graded("t:a", 0.8), graded("t:b", 0.3), **NEWEST)) == {"credited": 2}


@pytest.mark.parametrize("graded_name", ["t:a", "u:n"])
def test_a_linked_name_is_the_graded_runs_own(graded_name: str) -> None:
    got = ask(exposed("u:n", "x"), linked("t:a", "u:n"), graded(graded_name, 0.8), **NEWEST)

    assert (alphas(got), got.counters.get("foreign_grades")) == ({"x": 1.8}, None)


def test_another_namespace_without_a_link_is_not_called_foreign() -> None:
    """`u:n` may be the same run under another name."""
    got = ask(exposed("u:n", "x"), mentioned("t:a"), graded("t:a", 0.8), **NEWEST)

    assert (bins(got), got.counters.get("foreign_grades")) == ({"credited": 1}, None)


def test_another_namespace_with_a_link_to_another_name_is_foreign() -> None:
    got = ask(exposed("u:n", "x"), linked("t:a", "u:own"), graded("t:a", 0.8), **NEWEST)

    assert got.counters["foreign_grades"] == 1


def test_a_grade_that_cannot_tell_its_own_run_calls_no_grade_foreign() -> None:
    got = ask(*TWO, linked("t:a", "u:n"), linked("t:c", "u:n"), graded("t:a", 0.8), **NEWEST)

    assert (bins(got), got.counters.get("foreign_grades")) == ({"credited": 1}, None)
