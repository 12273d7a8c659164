"""Runs: which names the links join, and when they make a run ambiguous."""

from __future__ import annotations

import itertools

import pytest
from tests.projections.telling import (
    alphas,
    ask,
    bins,
    exposed,
    graded,
    linked,
    log_of,
    mentioned,
    projected,
    started,
    told,
    unlinked,
    withdrawn,
)  # fmt: skip

from rightful.policies import Policy

TWO = [exposed("t:run", "x"), exposed("u:native", "y"), linked("t:run", "u:native")]


def test_a_grade_pays_the_exposures_of_all_names_of_its_run() -> None:
    assert alphas(ask(*TWO, graded("t:run", 0.8))) == {"x": 1.8, "y": 1.8}


def test_a_grade_under_the_tools_name_is_a_grade_of_the_run() -> None:
    assert alphas(ask(*TWO, graded("u:native", 0.8))) == {"x": 1.8, "y": 1.8}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_link_may_come_before_or_after_what_it_joins(order: tuple[int, ...]) -> None:
    events = [*TWO, graded("t:run", 0.8)]

    assert alphas(ask(*(events[place] for place in order))) == {"x": 1.8, "y": 1.8}


def test_names_that_nothing_links_are_runs_of_their_own() -> None:
    got = ask(*TWO[:2], graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8}
    assert got.counters["pending_sessions"] == 1


@pytest.mark.parametrize("relation", ["resume", "retry", "subagent"])
def test_a_second_name_that_is_marked_belongs_to_the_run(relation: str) -> None:
    got = ask(*TWO, exposed("u:again", "z"), linked("t:run", "u:again", relation), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8, "z": 1.8}


def test_a_second_native_name_that_is_not_marked_makes_the_run_ambiguous() -> None:
    got = ask(*TWO, linked("t:run", "u:second"), graded("t:run", 0.8), graded("u:native", 0.3), graded("u:second", 1.0))

    assert bins(got) == {"ambiguous": 3}


def test_a_mark_in_any_link_of_the_pair_is_a_mark() -> None:
    got = ask(*TWO, linked("t:run", "u:again"), linked("t:run", "u:again", "resume"), graded("t:run", 0.8))

    assert bins(got) == {"credited": 1}


def test_a_run_that_two_names_claim_is_ambiguous() -> None:
    assert bins(ask(*TWO, linked("t:rival", "u:native"), graded("u:native", 0.8))) == {"ambiguous": 1}


def test_links_in_a_circle_have_no_owner() -> None:
    assert bins(ask(*TWO, linked("u:native", "t:run", "resume"), graded("t:run", 0.8))) == {"ambiguous": 1}


def test_a_chain_of_links_is_one_run() -> None:
    got = ask(*TWO, linked("u:native", "v:deep", "subagent"), exposed("v:deep", "z"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8, "z": 1.8}


def test_the_same_link_recorded_twice_is_one_link() -> None:
    got = ask(*TWO, linked("t:run", "u:native", evidence="manual"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8}


def test_two_starts_of_one_name_with_other_nonces_make_its_run_ambiguous() -> None:
    got = ask(*TWO, started("u:native", "n1"), started("u:native", "n2"), graded("t:run", 0.8))

    assert bins(got) == {"ambiguous": 1}


def test_the_same_nonce_recorded_twice_is_one_start() -> None:
    again = {**started("t:run", "n1"), "key": "again"}

    assert bins(ask(*TWO, started("t:run", "n1"), again, graded("t:run", 0.8))) == {"credited": 1}


def test_nonces_of_two_names_of_one_run_are_two_names_starts() -> None:
    got = ask(*TWO, started("t:run", "n1"), started("u:native", "n2"), graded("t:run", 0.8))

    assert bins(got) == {"credited": 1}


MINE, OTHER = "5d1c0a52-3b1e-4c1f-9a44-0b6f3a9c7e11", "9b7e2f40-1111-4d2e-8f00-2c2c2c2c2c2c"
NATIVE = f"claude-code:{MINE}"


def claiming(session: str, path: str) -> dict[str, object]:
    return {**mentioned(session, extra={"transcript_path": path}), "key": "stray"}


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("graded_name", ["t:run", NATIVE])
def test_a_session_with_the_transcript_of_another_pays_nothing(place: int, graded_name: str) -> None:
    events = [exposed(NATIVE, "x"), linked("t:run", NATIVE), graded(graded_name, 0.8)]
    events.insert(place, claiming(NATIVE, f"/home/dev/.claude/projects/p/{OTHER}.jsonl"))

    got = ask(*events)

    assert (bins(got), alphas(got)) == ({"ambiguous": 1}, {})


def test_exposure_with_another_sessions_transcript_pays_no_other_name() -> None:
    stray = exposed(NATIVE, "x", extra={"transcript_path": f"/p/{OTHER}.jsonl"})

    assert bins(ask(stray, graded("t:run", 0.8, exposure_session=NATIVE))) == {"ambiguous": 1}
    assert alphas(ask(stray, exposed(f"claude-code:{OTHER}", "y"), graded(f"claude-code:{OTHER}", 0.8))) == {"y": 1.8}


@pytest.mark.parametrize(
    ("session", "path"),
    [
        (NATIVE, f"/p/{MINE}.jsonl"),
        (f"{NATIVE}/a1b2", f"/p/{MINE}.jsonl"),
        (NATIVE, f"/p/{MINE}/subagents/agent-a1b2.jsonl"),
        ("t:run", f"/p/{OTHER}.jsonl"),
    ],
)
def test_a_transcript_of_its_own_or_of_no_session_is_no_contradiction(session: str, path: str) -> None:
    assert alphas(ask(exposed(session, "x"), claiming(session, path), graded(session, 0.8))) == {"x": 1.8}


def test_a_withdrawn_contradiction_is_settled() -> None:
    stray = claiming(NATIVE, f"/p/{OTHER}.jsonl")
    events = [exposed(NATIVE, "x"), stray, graded(NATIVE, 0.8), withdrawn("stray", 1)]

    assert alphas(ask(*events)) == {"x": 1.8}
    assert bins(ask(*events, {**withdrawn(repr_key(events[-1]), 1)})) == {"ambiguous": 1}


def repr_key(event: dict[str, object]) -> str:
    return str(event["key"])


@pytest.mark.parametrize("evidence", ["native-id", "sentinel", "pointer", "directory", "manual"])
def test_a_window_of_time_loses_to_better_evidence_for_the_same_name(evidence: str) -> None:
    weak = linked("t:rival", "u:native", evidence="cwd-window")
    got = ask(*TWO[:2], linked("t:run", "u:native", evidence=evidence), weak, graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8}


def test_a_window_of_time_loses_to_better_evidence_of_the_runs_own_name() -> None:
    got = ask(*TWO, linked("t:run", "u:guess", evidence="cwd-window"), exposed("u:guess", "z"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8}


def test_a_window_of_time_alone_joins() -> None:
    got = ask(*TWO[:2], linked("t:run", "u:native", evidence="cwd-window"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8}


def test_two_windows_of_time_for_one_name_make_it_ambiguous() -> None:
    weak = [linked(run, "u:native", evidence="cwd-window") for run in ("t:run", "t:rival")]

    assert bins(ask(*TWO[:2], *weak, graded("u:native", 0.8))) == {"ambiguous": 1}


def test_unlinking_withdraws_the_pairs_earlier_links() -> None:
    got = ask(*TWO, linked("t:run", "u:native", evidence="manual"), unlinked("t:run", "u:native"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8}


def test_unlinking_leaves_other_pairs() -> None:
    events = [linked("t:run", "u:wrong"), unlinked("t:run", "u:wrong"), graded("t:run", 0.8)]

    assert alphas(ask(*TWO, *events)) == {"x": 1.8, "y": 1.8}


def test_unlinking_leaves_later_links() -> None:
    again = linked("t:run", "u:native", evidence="manual")

    assert alphas(ask(*TWO, unlinked("t:run", "u:native"), again, graded("t:run", 0.8))) == {"x": 1.8, "y": 1.8}


def test_unlinking_repairs_an_ambiguous_run() -> None:
    got = ask(*TWO, linked("t:rival", "u:native"), unlinked("t:rival", "u:native"), graded("t:run", 0.8))

    assert alphas(got) == {"x": 1.8, "y": 1.8}


def test_grade_that_names_its_exposures_pays_them_in_an_ambiguous_run() -> None:
    got = ask(*TWO, linked("t:rival", "u:native"), graded("t:run", 0.8, exposure_session="u:native"))

    assert alphas(got) == {"y": 1.8}


def test_a_link_in_conflict_joins_nothing_until_it_is_settled() -> None:
    one = linked("t:run", "u:native", key="link")
    two = linked("t:run", "u:other", key="link")
    log = log_of(*TWO[:2], one, two, graded("t:run", 0.8))

    assert alphas(projected(log).posteriors(Policy())) == {"x": 1.8}
    log.append([withdrawn("link", 2)])
    assert alphas(projected(log).posteriors(Policy())) == {"x": 1.8, "y": 1.8}


def test_what_only_mentions_a_session_joins_nothing() -> None:
    assert alphas(ask(*TWO[:2], mentioned("t:run"), mentioned("u:native"), graded("t:run", 0.8))) == {"x": 1.8}


def test_an_erased_link_joins_nothing_and_its_session_still_exists() -> None:
    log = log_of(exposed("t:a/b", "x"), linked("t:a:b", "u:native"), graded("t:a_b", 0.8))
    log.erase(2)

    assert bins(projected(log).posteriors(Policy())) == {"ambiguous": 1}


def test_name_of_two_started_runs_pays_nothing() -> None:
    started = [told("session.started", "t:n", 10, {"run_nonce": nonce, "key": nonce}) for nonce in ("one", "two")]

    got = ask(*started, exposed("t:n", "x"), graded("t:a", 0.8, exposure_session="t:n"))

    assert (alphas(got), bins(got)) == ({}, {"ambiguous": 1})
