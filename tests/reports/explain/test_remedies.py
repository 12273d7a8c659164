"""What an explanation says would have to be recorded: recording it makes the grade count."""

from __future__ import annotations

from typing import Any

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, linked, log_of, mentioned, opened, retracted, started
from tests.reports.explaining import assert_can_be_recorded, explained, filled, projected
from tests.strategies import Wire

from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.policies import PRESETS, policy_of
from rightful.reports.explain import GradeRow, Remedy, SessionExplained, explain_session


def told(found: SessionExplained, state: str) -> GradeRow:
    [row] = [one for one in found.grades if one.state == state]
    return row


def credited(log: FakeLog, **policy: Any) -> int:
    return projected(log).posteriors(policy_of(policy)).counters.get("credited_grades", 0)


def recorded(log: FakeLog, remedy: Remedy) -> None:
    assert remedy.events
    assert "invalid" not in log.append([filled(event) for event in remedy.events])


LATE = [exposed("t:a", "x", at=300), graded("t:a", 0.8, at=200)]
ALIASES = [exposed("t:a/b", "x"), exposed("t:a.b", "y"), graded("t:a_b", 0.8)]
SHARED: dict[str, Any] = {"by": "hook", "key": "one"}

FORM = exposed("t:a/b", "x")
HOLDING = opened(through="1970-01-01T01:00:00Z", arms={"x": {"alpha": 2.0, "beta": 1.0, "n": 1}})
A, GRADE = exposed("t:a", "x"), graded("t:a", 0.8)
OF_A = graded("w:a", 0.4, exposure_session="t:a")
TWO_OWNERS = [A, GRADE, linked("t:a", "u:n"), linked("t:b", "u:n")]
TWO_NATIVES = [exposed("u:n", "x"), GRADE, linked("t:a", "u:n"), linked("t:a", "u:m")]
TWO_GRADERS = [A, graded("t:a", 0.8, by="one"), graded("t:a", 0.4, by="two")]
SAME_TEXT = [exposed("t:a-b", "x"), graded("t:a/b", 1.0, by="human"), graded("t:a/b", 0.5, alias=True)]
NEITHER = [mentioned("t:a.b"), mentioned("t:a-b"), graded("t:a_b", 0.8)]
LOOP = [*NEITHER, graded("t:a_b", 0.8, seq=2, exposure_session="t:a.b")]
ONE_ID = [A, graded("t:a", 0.8, **SHARED), graded("t:a", 0.4, **SHARED)]
SHOWN_TWICE = [exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e"), GRADE]

CASES: list[tuple[str, str, list[Wire], str, int]] = [
    ("unmatched", "t:a", [GRADE], "unmatched", 0),
    ("unmatched form", "t:a_b", [mentioned("t:a/b"), graded("t:a_b", 0.8, alias=True)], "unmatched", 0),
    ("unmatched by the session it names", "w:a", [OF_A], "unmatched", 0),
    ("empty", "t:a", [exposed("t:a", withheld=("x",)), GRADE], "empty", 0),
    ("two owners", "t:a", TWO_OWNERS, "ambiguous", 0),
    ("two native names", "t:a", TWO_NATIVES, "ambiguous", 0),
    ("two native names, the first not shown", "t:a", [mentioned("u:m"), *TWO_NATIVES], "ambiguous", 0),
    ("a circle", "t:a", [A, GRADE, linked("t:a", "t:b"), linked("t:b", "t:a")], "ambiguous", 0),
    ("two starts", "t:a", [started("t:a", "n1"), started("t:a", "n2"), A, GRADE], "ambiguous", 0),
    ("two forms", "t:a_b", ALIASES, "ambiguous", 0),
    ("two forms, the first not shown", "t:a_b", [mentioned("t:a:b"), *ALIASES[1:]], "ambiguous", 0),
    ("two forms, neither shown", "t:a_b", NEITHER, "ambiguous", 0),
    ("two forms, neither shown, one asked for", "t:a_b", LOOP, "ambiguous", 0),
    ("a form of its own", "t:a/b", SAME_TEXT, "ambiguous", 0),
    ("graded twice by one grader", "t:a", [A, GRADE, OF_A], "ambiguous", 0),
    ("contested", "t:a/b", [FORM, graded("t:a/b", 0.8), graded("t:a_b", 0.4)], "ambiguous", 0),
    (
        "contested and ranked first",
        "t:a/b",
        [FORM, graded("t:a/b", 0.8, by="human"), graded("t:a_b", 0.4)],
        "ambiguous",
        0,
    ),
    ("contested by a form", "t:a_b", [FORM, graded("t:a/b", 0.8), graded("t:a_b", 0.4, by="human")], "ambiguous", 0),
    ("conflicting id", "t:a", ONE_ID, "conflicting", 0),
    ("conflicting seq", "t:a", [A, GRADE, graded("t:a", 0.4)], "conflicting", 0),
    ("two graders", "t:a", TWO_GRADERS, "conflicting", 0),
    ("conflicting exposure", "t:a", SHOWN_TWICE, "conflicting", 0),
    ("retracted", "t:a", [A, GRADE, retracted("t:a", 2)], "retracted", 0),
    ("late-only", "t:a", LATE, "late-only", 0),
    ("late-only, graded again", "t:a", LATE, "late-only", 1),
    ("unmapped", "t:a", [A, graded("t:a", outcome="odd")], "unmapped", 0),
]


@pytest.mark.parametrize(
    ("session", "events", "state", "which"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_recording_what_is_said_to_be_missing_makes_the_grade_count(
    session: str, events: list[Wire], state: str, which: int
) -> None:
    log = log_of(*events)
    assert credited(log) == 0

    recorded(log, _remedies(explained(log, session), session, state)[which])

    assert credited(log) == 1


def _remedies(found: SessionExplained, session: str, state: str) -> list[Remedy]:
    rows = [one for one in found.grades if one.state == state and one.session == session]
    return rows[-1].remedies


def test_pending_run_shows_which_grade_would_end_it() -> None:
    log = log_of(exposed("u:n", "x"), linked("t:a", "u:n"))
    found = explained(log, "u:n")
    assert (found.pending, found.run) == (True, "t:a")

    recorded(log, found.remedies[-1])

    assert credited(log) == 1


def test_erased_content_counts_again_once_it_is_recorded_again() -> None:
    shown, given = log_of(exposed("t:a", "x"), graded("t:a", 0.8)), log_of(exposed("t:a", "x"), graded("t:a", 0.8))
    shown.erase(1)
    given.erase(2)

    for log in (shown, given):
        recorded(log, told(explained(log, "t:a"), "erased").remedies[0])

    assert (credited(shown), credited(given)) == (1, 1)


@pytest.mark.parametrize(
    ("events", "state", "which"),
    [
        (LATE, "late-only", 2),
        ([exposed("t:a", "x"), graded("t:a", 0.8, by="one"), graded("t:a", 0.4, by="two")], "conflicting", 1),
        ([exposed("t:a", "x"), graded("t:a", outcome="odd")], "unmapped", 1),
        ([exposed("t:a", "x"), graded("t:a", 0.8), HOLDING], "in-balance", 0),
        ([exposed("t:a", "x"), graded("t:a", 0.8, rubric="tone")], "recorded-only", 0),
    ],
    ids=["late-only", "conflicting", "unmapped", "in-balance", "recorded-only"],
)
def test_a_policy_that_is_said_to_make_a_grade_count_does(events: list[Wire], state: str, which: int) -> None:
    log = log_of(*events)
    assert credited(log) == 0

    policy = told(explained(log, "t:a"), state).remedies[which].policy
    assert policy is not None

    assert credited(log, **filled(policy)) == 1


@pytest.mark.parametrize(("session", "events", "state"), [case[1:4] for case in CASES], ids=[case[0] for case in CASES])
def test_a_placeholder_that_is_not_filled_in_is_refused_with_its_place(
    session: str, events: list[Wire], state: str
) -> None:
    found = explained(log_of(*events), session)

    assert_can_be_recorded([*found.remedies, *_remedies(found, session, state)])


def test_an_exposure_whose_arms_nobody_filled_in_is_invalid_and_says_where() -> None:
    log = log_of(GRADE)
    [event] = told(explained(log, "t:a"), "unmatched").remedies[0].events

    assert event["arms"] == "<the arms that were shown, an array of objects with `arm`>"
    with pytest.raises(InvalidEventError, match=r"Expected `array` or `object`, got `str` - at `\$.arms`"):
        wire.check(event)


def test_a_word_that_is_mapped_by_a_remedy_leaves_the_other_words_mapped() -> None:
    row = told(explained(log_of(A, graded("t:a", outcome="odd")), "t:a"), "unmapped")

    assert [one.what for one in row.remedies] == [
        "Grade again with a reward.",
        "Or map the word to a value in the policy, 0 to 1.",
    ]
    assert row.remedies[1].policy == {
        "outcomes": {"productive": 1.0, "noop": 0.0, "failed": 0.0, "violated_policy": 0.0, "odd": "<reward, 0 to 1>"}
    }


def test_a_policy_that_is_proposed_keeps_what_the_one_that_was_asked_says() -> None:
    asked: dict[str, Any] = {"skew_s": 5.0, "decay": {"mode": "session", "gamma": 0.5}}
    row = told(explained(log_of(*LATE), "t:a", **asked), "late-only")

    assert row.remedies[2].policy == {**asked, "skew_s": 100.0}


BY_A_PERSON = [A, graded("t:a", 0.8, rubric="tone"), graded("t:a", 0.1, by="human")]


def test_remedy_ranks_a_recorded_only_grader_first() -> None:
    log = log_of(*BY_A_PERSON)
    policy = told(explained(log, "t:a"), "recorded-only").remedies[0].policy
    assert policy == {"graders": ["judge/tone", *policy_of({}).graders]}

    assert projected(log).posteriors(policy_of(policy)).arms["x"].alpha == 1.8


def test_remedy_includes_only_the_excluded_grader() -> None:
    log = log_of(*BY_A_PERSON)
    asked = {"without_graders": ["judge/*", "human/*"]}
    row = next(one for one in explained(log, "t:a", **asked).grades if one.grader == "judge/tone")
    assert "it leaves that grader out (`without_graders`)" in row.reason
    policy = row.remedies[0].policy
    assert policy == {"graders": ["judge/tone", *policy_of({}).graders], "without_graders": ["human/*"]}

    assert projected(log).posteriors(policy_of(policy)).arms["x"].alpha == 1.8


def test_remedy_keeps_exclusions_of_other_graders() -> None:
    row = next(
        one
        for one in explained(log_of(*BY_A_PERSON), "t:a", without_graders=["human/*"]).grades
        if one.grader == "judge/tone"
    )

    assert "it names no such grader" in row.reason


def test_remedy_that_ranks_a_grader_first_keeps_the_others() -> None:
    log = log_of(
        A, graded("t:a", 0.25), graded("t:a", 1.0, by="human"), exposed("t:b", "x"), graded("t:b", 1.0, by="c")
    )
    [_, policy] = [one.policy for one in told(explained(log, "t:a"), "outranked").remedies]
    assert policy is not None

    found = projected(log).posteriors(policy_of(policy))

    assert (found.arms["x"].alpha, found.arms["x"].n) == (2.25, 2)


def test_a_rival_of_one_id_in_conflict_is_settled_by_a_withdrawal() -> None:
    log = log_of(*ONE_ID)
    [remedy] = told(explained(log, "t:a"), "rival").remedies
    assert [one["type"] for one in remedy.events] == ["event.withdrawn"]

    recorded(log, remedy)

    assert credited(log) == 1


def test_each_second_way_out_begins_with_or() -> None:
    for _, session, events, state, _ in CASES:
        first, *others = [one.what for one in _remedies(explained(log_of(*events), session), session, state)]
        assert not first.startswith("Or")
        assert all(one.startswith("Or") for one in others)


def test_a_link_is_offered_to_the_grader_that_would_pay_and_to_no_other() -> None:
    log = log_of(FORM, graded("t:a/b", 0.8), graded("t:a_b", 0.4, by="human"))

    def offers(state: str, session: str) -> list[str]:
        return [one.events[0]["type"] for one in _remedies(explained(log, session), session, state)]

    assert offers("ambiguous", "t:a_b") == ["session.linked", "grade.retracted"]
    assert offers("ambiguous", "t:a/b") == ["grade.retracted"]


CIRCLE = [
    linked("t:a", "u:n"),
    linked("t:a", "u:m"),
    A,
    graded("t:a", 0.8, by="hook", exposure_session="t:a"),
    graded("u:n", 0.4, by="human", exposure_session="t:a"),
]


def test_graders_that_name_one_session_of_a_doubtful_run_are_ranked() -> None:
    """A name is ranked as the run that it stands for, though its links disagree."""
    rows = explained(log_of(*CIRCLE), "u:n").grades

    assert [(row.session, row.state) for row in rows] == [("t:a", "outranked"), ("u:n", "credited")]


@pytest.mark.parametrize("preset", [{"revision": "additive"}, PRESETS["gptme"].as_dict()])
def test_remedy_excludes_the_other_run_if_no_retraction_helps(preset: Wire) -> None:
    log = log_of(A, GRADE, OF_A)

    [remedy] = next(row for row in explained(log, "t:a", **preset).grades if row.session == "t:a").remedies

    assert remedy == Remedy(
        "Under this policy no new event settles it; the policy can exclude the other run.",
        [],
        {"without_sessions": ["w:a"]},
    )
    assert credited(log, **preset, **(remedy.policy or {})) == 1


NEWEST = PRESETS["historical-newest"].as_dict()


def test_nearer_exposure_is_proposed_only_if_time_allows() -> None:
    def tied(at: float) -> FakeLog:
        return log_of(exposed("t:a", "x", at=at), exposed("t:b", "y", at=at), GRADE)

    log = tied(150)
    recorded(log, told(explained(log, "t:a", **NEWEST), "ambiguous").remedies[0])
    assert credited(log, **NEWEST) == 1

    log = tied(200)
    assert told(explained(log, "t:a", **NEWEST), "ambiguous").remedies == [
        Remedy(
            "Under this policy no new event settles it; the policy can restrict a grade to the exposures of its own "
            "session.",
            [],
            {"join": "bound"},
        )
    ]
    assert credited(log, **NEWEST | {"join": "bound"}) == 1
    foreign = log_of(exposed("t:c", "x", at=200), exposed("t:b", "y", at=200), GRADE)
    assert told(explained(foreign, "t:a", **NEWEST), "ambiguous").remedies == [
        Remedy("Under this policy no new event settles it, and no similar policy would.")
    ]


def test_a_wrong_link_that_comes_back_later_can_be_withdrawn_again() -> None:
    log = log_of(*TWO_OWNERS)
    recorded(log, _remedies(explained(log, "t:a"), "t:a", "ambiguous")[0])
    log.append([linked("t:b", "u:n") | {"key": "again", "at": "1970-01-01T01:00:00Z"}])
    assert credited(log) == 0

    recorded(log, _remedies(explained(log, "t:a"), "t:a", "ambiguous")[0])

    assert credited(log) == 1


def test_trying_a_remedy_leaves_the_facts_as_they_are() -> None:
    projection = projected(log_of(A, GRADE, OF_A, exposed("t:b", withheld=("y",)), graded("t:b", 0.5)))
    projection.prefix(None)
    before = projection.facts.arms.values[:], len(projection.facts.names), len(projection.facts.grades)

    for session in ("t:a", "t:b"):
        assert explain_session(projection, policy_of({}), session).grades[0].remedies

    assert (projection.facts.arms.values, len(projection.facts.names), len(projection.facts.grades)) == before


def test_a_run_that_no_grade_can_pay_is_not_told_to_wait_for_one() -> None:
    found = explained(log_of(A), "t:a", graders=[])

    assert found.pending
    assert found.remedies == [Remedy("Under this policy no new grade would pay for its exposures.")]


def test_what_a_run_waits_for_comes_after_what_a_balance_holds() -> None:
    log = log_of(A, HOLDING)

    recorded(log, explained(log, "t:a").remedies[-1])

    assert credited(log) == 1


def test_superseded_grade_names_its_successor_and_the_remedy() -> None:
    log = log_of(exposed("t:a", "x"), graded("t:a", 0.25, by="judge"), graded("t:a", 1.0, by="human"))
    row = told(explained(log, "t:a"), "outranked")
    assert row.reason == (
        "human/overall seq 1 (#3) grades the same run, and the policy ranks that grader before judge/overall, "
        "so it pays alone."
    )

    recorded(log, row.remedies[0])

    assert projected(log).posteriors(policy_of({})).arms["x"].alpha == 1.25
