"""Names and aliases: when a name that is only a sanitised form of one finds its exposures."""

from __future__ import annotations

import pytest
from tests.projections.telling import alphas, ask, bins, exposed, graded, linked, mentioned, started


def test_a_sanitised_name_finds_the_one_name_it_was_made_of() -> None:
    assert alphas(ask(exposed("t:a/b", "x"), graded("t:a_b", 0.8))) == {"x": 1.8}


def test_a_name_finds_the_one_sanitised_form_of_it() -> None:
    assert alphas(ask(exposed("t:a_b", "x", alias=True), graded("t:a/b", 0.8))) == {"x": 1.8}


@pytest.mark.parametrize("form", ["a_b.c", "a_b_c", "a-b-c"])
def test_each_sanitiser_of_the_closed_list_makes_aliases(form: str) -> None:
    """aw-watcher's cursor keeps the dot, the hook's state file does not, Claude Code's slug writes hyphens."""
    assert alphas(ask(exposed("t:a/b.c", "x"), graded(f"t:{form}", 0.8))) == {"x": 1.8}


@pytest.mark.parametrize("form", ["A_B", "ab", "a%2Fb", "a__b", "a_b_"])
def test_no_other_likeness_makes_an_alias(form: str) -> None:
    assert bins(ask(exposed("t:a/b", "x"), graded(f"t:{form}", 0.8))) == {"unmatched": 1}


def test_two_names_with_one_sanitised_form_are_no_alias_of_each_other() -> None:
    """Neither `a/b` nor `a:b` is a sanitised form itself."""
    assert bins(ask(exposed("t:a/b", "x"), graded("t:a:b", 0.8))) == {"unmatched": 1}


def test_an_exact_name_is_taken_before_any_alias() -> None:
    assert alphas(ask(exposed("t:a/b", "x"), exposed("t:a_b", "y"), graded("t:a_b", 0.8))) == {"y": 1.8}


def test_an_alias_that_fits_two_names_pays_neither() -> None:
    got = ask(exposed("t:a/b", "x"), exposed("t:a:b", "y"), graded("t:a_b", 0.8))

    assert bins(got) == {"ambiguous": 1}
    assert got.arms == {}


def test_alias_of_two_names_pays_neither_even_if_one_was_shown_nothing() -> None:
    assert bins(ask(exposed("t:a/b", "x"), mentioned("t:a:b"), graded("t:a_b", 0.8))) == {"ambiguous": 1}


def test_a_grade_of_unknown_shows_that_its_session_exists() -> None:
    got = ask(exposed("t:a/b", "x"), graded("t:a:b", outcome="unknown"), graded("t:a_b", 0.8))

    assert bins(got) == {"ambiguous": 1}


def test_a_link_shows_that_both_its_names_exist() -> None:
    assert bins(ask(exposed("t:a/b", "x"), linked("u:run", "t:a:b"), graded("t:a_b", 0.8))) == {"ambiguous": 1}


def test_a_name_that_only_a_grade_points_at_is_not_in_the_ledger() -> None:
    got = ask(exposed("t:a/b", "x"), graded("t:a_b", 0.8), graded("t:c", 0.1, exposure_session="t:a:b"))

    assert alphas(got) == {"x": 1.8}
    assert bins(got) == {"credited": 1, "unmatched": 1}


@pytest.mark.parametrize(("shown", "asked"), [("t:a/b", "u:a_b"), ("t.x:a/b", "t-x:a_b")])
def test_no_alias_crosses_a_namespace(shown: str, asked: str) -> None:
    assert bins(ask(exposed(shown, "x"), graded(asked, 0.8))) == {"unmatched": 1}


def test_a_name_marked_as_alias_never_matches_exactly() -> None:
    """What `t:a_b` was read from may be another run than the one that is really called so."""
    got = ask(exposed("t:a_b", "x", alias=True), graded("t:a_b", 0.8, alias=True))

    assert bins(got) == {"unmatched": 1}


def test_name_marked_as_alias_differs_from_the_same_text_unmarked() -> None:
    got = ask(exposed("t:a_b", "x", alias=True), exposed("t:a_b", "y"), graded("t:a_b", 0.8))

    assert alphas(got) == {"y": 1.8}


def test_the_same_text_as_written_is_what_an_alias_can_stand_for() -> None:
    assert alphas(ask(exposed("t:a_b", "x", alias=True), graded("t:a_b", 0.8))) == {"x": 1.8}


def test_no_alias_goes_through_a_link() -> None:
    """The run is linked to `t:a/b`; exposures known only as `t:a_b` are not its."""
    got = ask(exposed("t:a_b", "x", alias=True), linked("u:run", "t:a/b"), graded("u:run", 0.8))

    assert bins(got) == {"unmatched": 1}


def test_an_alias_takes_the_exposures_of_the_one_name_and_not_of_its_run() -> None:
    got = ask(exposed("t:a/b", "x"), exposed("u:run", "y"), linked("u:run", "t:a/b"), graded("t:a_b", 0.8))

    assert alphas(got) == {"x": 1.8}


def test_an_alias_and_the_name_itself_cannot_both_pay_for_one_exposure() -> None:
    got = ask(exposed("t:a/b", "x"), graded("t:a/b", 0.8), graded("t:a_b", 0.2))

    assert bins(got) == {"ambiguous": 2}


def test_a_name_that_exists_without_exposures_still_finds_them_by_alias() -> None:
    assert alphas(ask(mentioned("t:a_b"), exposed("t:a/b", "x"), graded("t:a_b", 0.8))) == {"x": 1.8}


def test_the_names_of_many_runs_are_distinguished() -> None:
    """Past 256 unmatched grades the candidates are found by an index."""
    others = [graded(f"t:lost{number}", 0.5) for number in range(300)]

    got = ask(exposed("t:a/b", "x"), graded("t:a_b", 0.8), *others)

    assert alphas(got) == {"x": 1.8}
    assert bins(got) == {"credited": 1, "unmatched": 300}


def test_a_name_in_another_script_finds_its_sanitised_form() -> None:
    assert alphas(ask(exposed("t:é/日", "x"), graded("t:___", 0.8))) == {"x": 1.8}


def test_a_link_under_a_sanitised_form_joins_nothing() -> None:
    """It may be another session's name, and no alias goes through a link."""
    link = linked("t:a_b", "t:n", alias=True)

    assert alphas(ask(exposed("t:n", "x"), link, graded("t:a_b", 0.8))) == {}


def test_two_names_that_both_started_are_two_sessions_and_no_aliases() -> None:
    """`t:run_1` looks like the sanitised form of `t:run.1`, but each is known to be a run of its own."""
    both = [started("t:run_1", "one"), started("t:run.1", "two")]
    shown, grade = exposed("t:run.1", "x"), graded("t:run_1", 0.8)

    assert alphas(ask(shown, grade)) == {"x": 1.8}
    assert alphas(ask(both[0], shown, grade)) == {"x": 1.8}
    assert bins(ask(*both, shown, grade)) == {"unmatched": 1}
