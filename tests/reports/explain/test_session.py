"""The sentences: each names the facts that decided."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import (
    exposed,
    graded,
    linked,
    log_of,
    mentioned,
    retracted,
    started,
    unlinked,
    withdrawn,
)
from tests.reports.explaining import explained, projected
from tests.reports.reasons import EXPOSURES, GRADE, GRADES, A
from tests.strategies import Wire

from rightful.errors import UsageError
from rightful.identity import event_id
from rightful.policies import policy_of
from rightful.projections.credit.settle import trace_settlement
from rightful.reports.explain import SessionExplained, explain_session
from rightful.reports.explain.bin_reasons import why
from rightful.reports.explain.case import case_of

SHARED: dict[str, Any] = {"by": "hook", "key": "one"}


def grade_of(session: str, *events: Wire, **policy: Any) -> tuple[str, str]:
    """The state and reason of the session's last grade."""
    row = [one for one in explained(log_of(*events), session, **policy).grades if one.session == session][-1]
    return row.state, row.reason


@pytest.mark.parametrize(
    ("session", "events", "state", "reason"), GRADES, ids=[f"{at}-{one[2]}" for at, one in enumerate(GRADES)]
)
def test_a_grade_says_what_became_of_it_and_why(session: str, events: list[Wire], state: str, reason: str) -> None:
    assert grade_of(session, *events) == (state, reason)


def test_an_id_in_conflict_names_its_rows_and_what_settles_it() -> None:
    events = [A, graded("t:a", 0.8, **SHARED), graded("t:a", 0.4, **SHARED)]
    state, reason = grade_of("t:a", *events)

    assert state == "conflicting"
    assert reason == (
        f"Its id is in conflict: the rows #2 (revision 1) and #3 (revision 2) of id {event_id('hook', 'one')} "
        "contradict each other. It pays no arm until an `event.withdrawn` leaves only one of them."
    )
    assert grade_of("t:a", *events, withdrawn("one", 2))[0] == "withdrawn"


def test_what_was_erased_is_said_to_be() -> None:
    log = log_of(A, GRADE)
    log.erase(2)
    found = explained(log, "t:a")
    assert [one.reason for one in found.grades] == ["Its content was erased, so its rubric and its reward are unknown."]

    log.erase(1)
    other = log_of(A, GRADE)
    other.erase(1)
    assert [one.reason for one in explained(other, "t:a").grades] == [
        "What its target was shown (exposure #1) was erased, so the arms to pay are unknown."
    ]
    assert [one.state for one in explained(other, "t:a").exposures] == ["erased"]


def test_a_rival_says_whether_an_id_or_a_seq_is_in_doubt() -> None:
    one = event_id("judge", "one")
    own = [A, graded("t:a", 0.8, key="one"), graded("t:a", 0.4, key="one")]
    other = [A, GRADE, graded("t:b", 0.1, key="one"), graded("t:a", 0.8, at=250, key="one")]

    assert states(*own)[0] == (
        "rival",
        (
            f"Its id is in conflict: the rows #2 (revision 1) and #3 (revision 2) of id {one} contradict each other. "
            "An `event.withdrawn` settles it."
        ),
    )
    assert states(*other)[0] == (
        "rival",
        (
            "The id of judge/overall seq 1 (#4), with the same `seq`, is in conflict: the rows #3 (revision 1) and "
            f"#4 (revision 2) of id {one} contradict each other."
        ),
    )


def test_rival_grader_is_named_with_its_grade_in_force() -> None:
    by_two = [graded("t:a", 0.6, by="two", seq=2), graded("t:a", 0.4, by="two")]
    by_three = [graded("t:a", 0.2, by="three"), retracted("t:a", 2, by="three")]

    assert states(A, graded("t:a", 0.8, by="one"), *by_two, *by_three)[0] == (
        "conflicting",
        (
            "two/overall seq 2 (#3) is from a grader of the same rank under this policy, so it is not known which of "
            "the two counts."
        ),
    )


IN_SHORT: list[tuple[str, list[Wire], str]] = [
    ("t:a", [A, GRADE, started("t:a", "n1"), started("t:a", "n2")], "it is not known which run its session belongs to"),
    (
        "t:a_b",
        [exposed("t:a/b", "x"), exposed("t:a.b", "y"), graded("t:a_b", 1.0)],
        "more than one session fits its name",
    ),
    (
        "t:a",
        [A, GRADE, graded("w:a", 0.4, exposure_session="t:a")],
        "its grader also graded the same run under another name",
    ),
    (
        "t:a/b",
        [exposed("t:a/b", "x"), graded("t:a/b", 0.8), graded("t:a_b", 0.4)],
        "the grade of another session reaches the same exposure",
    ),
    (
        "t:a",
        [exposed("t:a", "x", **SHARED), exposed("t:a", "y", **SHARED), GRADE],
        "every exposure of its target has an id in conflict; `event.withdrawn` settles it",
    ),
    ("t:a", [GRADE], "no exposure of that session is recorded"),
]


@pytest.mark.parametrize(("session", "events", "said"), IN_SHORT, ids=[one[2][:20] for one in IN_SHORT])
def test_why_a_grade_pays_nothing_is_said_in_short_too(session: str, events: list[Wire], said: str) -> None:
    facts = projected(log_of(*events)).catch_up()
    number = facts.names.texts.find(session)
    assert number is not None
    case = case_of(facts, policy_of({}), facts.watermark, [number])
    row = int(facts.grades_of.rows([number])[0])
    unit = case.unit_of[row]

    assert why(case, unit, int(case.settlement.unit_bin[unit])) == said


def test_in_short_too_two_sessions_of_one_time_share_the_newest_exposure() -> None:
    facts = projected(log_of(A, exposed("t:b", "y"), GRADE)).catch_up()
    case = case_of(facts, policy_of({"join": "newest"}), facts.watermark, [])

    assert why(case, 0, int(case.settlement.unit_bin[0])) == "two sessions share the newest exposure time"


def states(*events: Wire) -> list[tuple[str, str]]:
    return [(one.state, one.reason) for one in explained(log_of(*events), "t:a").grades]


def test_under_the_newest_file_rule_a_grade_says_whose_exposure_it_paid() -> None:
    events = [A, exposed("t:b", "y", at=150), exposed("t:c", "z", at=150), GRADE, graded("t:a", 0.8, at=50, seq=2)]
    newest = {"join": "newest", "revision": "additive"}

    log = log_of(*events)
    rows = explained(log, "t:a", **newest).grades

    assert [(one.state, one.reason) for one in rows] == [
        (
            "ambiguous",
            (
                "Two sessions share the newest exposure time at or before 1970-01-01T00:03:20Z, "
                "so it is not known which the updater read."
            ),
        ),
        ("unmatched", "No session had been shown an arm by 1970-01-01T00:00:50Z, so there is no newest one to pay."),
    ]
    foreign = explained(log_of(A, exposed("t:b", "y", at=150), GRADE), "t:a", **newest)
    assert foreign.grades[0].reason == (
        "It paid 1 arm of exposure #2, shown to t:b of another run: the newest session at the time of the grade."
    )
    assert [one.state for one in foreign.exposures] == ["not-newest"]


def fates(session: str, *events: Wire, **policy: Any) -> list[tuple[str, str]]:
    return [(one.state, one.reason) for one in explained(log_of(*events), session, **policy).exposures]


@pytest.mark.parametrize(
    ("session", "events", "state", "reason"), EXPOSURES, ids=[f"{at}-{one[2]}" for at, one in enumerate(EXPOSURES)]
)
def test_an_exposure_says_what_became_of_it_and_why(session: str, events: list[Wire], state: str, reason: str) -> None:
    assert fates(session, *events)[0] == (state, reason)


def test_repeated_arm_and_weightless_arm_are_distinguished() -> None:
    again = [exposed("t:a", "x", "y"), exposed("t:a", "x", at=150), exposed("t:a", "x", "z", at=160), GRADE]

    assert [state for state, _ in fates("t:a", *again)] == ["paid", "repeated", "paid"]
    assert fates("t:a", *again)[1][1] == (
        "Every arm here had been shown to the same run before (first in #1); an arm is credited once per run, "
        "by judge/overall seq 1 (#4)."
    )
    weighed = [exposed("t:a", "x"), exposed("t:a", "y"), graded("t:a", 0.8, salience={"x": 1.0})]
    assert [state for state, _ in fates("t:a", *weighed, credit="salience_weight")] == ["paid", "unweighted"]


def test_what_the_policy_leaves_out_is_said_to_be() -> None:
    found = explained(log_of(A, GRADE), "t:a", without_sessions=["t:a"])

    assert [one.state for one in found.grades] == ["left-out"]
    assert [one.state for one in found.exposures] == ["left-out"]
    assert grade_of("t:a", A, GRADE, without_graders=["judge/*"])[1].startswith(
        "judge/overall is recorded and never pays under this policy: it leaves that grader out (`without_graders`)"
    )
    assert grade_of("t:a", A, GRADE, retracted("t:a", 2), revision="additive")[0] == "ignored"


def test_each_link_says_what_it_came_to() -> None:
    log = log_of(
        linked("w:a", "u:n"),
        linked("w:b", "u:n", evidence="cwd-window"),
        linked("w:a", "u:m", evidence="cwd-window"),
        linked("w:a", "u:s", relation="subagent"),
        unlinked("w:a", "u:s"),
    )

    found = explained(log, "w:a")

    assert [(one.position, one.state, one.reason) for one in found.links] == [
        (1, "in force", "It joins u:n to w:a."),
        (2, "weaker", "A `cwd-window` claim is a guess; the better evidence at #1 is used instead."),
        (3, "weaker", "A `cwd-window` claim is a guess; the better evidence at #1 is used instead."),
        (4, "unlinked", "It was withdrawn by the `session.unlinked` at #5."),
        (5, "unlinks", "It withdraws the links from w:a to u:s before it."),
    ]
    assert (found.run, found.run_reason) == ("w:a", "Links join w:a and u:n into one run; w:a is its own name.")
    assert [one.producer for one in found.links] == ["hook"] * 5


def test_a_guess_names_the_evidence_that_it_lost_to_and_no_other_link() -> None:
    log = log_of(
        linked("w:a", "u:s", relation="subagent"),
        linked("w:a", "u:n"),
        linked("w:a", "u:m", evidence="cwd-window"),
        linked("w:b", "u:s", relation="subagent", evidence="cwd-window"),
    )

    reasons = [one.reason for one in explained(log, "w:a").links if one.state == "weaker"]

    assert [reason.partition("evidence at ")[2] for reason in reasons] == [
        "#2 is used instead.",
        "#1 is used instead.",
    ]


def test_a_link_in_conflict_and_one_withdrawn_join_nothing() -> None:
    twice = [linked("w:a", "u:n", key="l"), linked("w:a", "u:m", key="l")]

    assert [one.state for one in explained(log_of(*twice), "w:a").links] == ["conflicting", "conflicting"]
    settled = explained(log_of(*twice, withdrawn("l", 2)), "w:a")
    assert [(one.state, one.other) for one in settled.links] == [("in force", "u:n"), ("withdrawn", "u:m")]


def test_what_changes_nothing_is_listed_with_the_reason() -> None:
    log = FakeLog()
    said = [GRADE | {"turn": "1"}, GRADE | {"turn": "2"}]
    unknown = graded("t:a", outcome="unknown", seq=2)
    assert log.append([A, *said, unknown, linked("t:a", "u:n", alias=True)])[2] == "reemitted"

    assert [(one.position, one.reason) for one in explained(log, "t:a").asides] == [
        (3, "It repeats #2 (reemitted), so the two rows count once."),
        (4, "The outcome `unknown` is not a grade: the run still waits for one."),
        (5, "Its session was read from a sanitised form, and links do not apply to such a name."),
    ]


def verdict(session: str, *events: Wire) -> str:
    return explained(log_of(*events), session).verdict


def test_the_verdict_is_the_whole_in_a_sentence() -> None:
    assert verdict("t:a", A, GRADE) == (
        "t:a was shown 1 arm in 1 exposure. 1 grade of it is credited: judge/overall seq 1 (#2) paid 1 arm."
    )
    assert verdict("t:a", A) == "t:a was shown 1 arm in 1 exposure. It waits for a grade."
    assert verdict("t:a", mentioned("t:a")) == "No exposure of t:a is recorded. No grade of it is recorded either."
    assert verdict("t:a", A, graded("t:a", 0.8, rubric="tone")) == (
        "t:a was shown 1 arm in 1 exposure. None of its grades pays under this policy (1 recorded-only)."
    )
    assert "Its grade judge/overall seq 1 (#2) credits no arm (ambiguous)" in verdict(
        "t:a", A, GRADE, graded("w:a", 0.4, exposure_session="t:a")
    )
    assert verdict("t:a", A, graded("t:a", outcome="odd")).startswith(
        "t:a was shown 1 arm in 1 exposure. Its grade judge/overall seq 1 (#2) credits no arm (unmapped): It has"
    )


def test_a_session_shows_the_exposures_of_the_session_that_its_grade_names() -> None:
    log = log_of(exposed("u:n", "x"), graded("w:a", 0.8, exposure_session="u:n"))

    assert [one.session for one in explained(log, "w:a").exposures] == ["u:n"]
    assert [one.session for one in explained(log, "u:n").grades] == ["w:a"]


BUG, BUG_FORM = "t:2026-08-01-fix bug", "t:2026-08-01-fix-bug"

OTHERS: list[tuple[str, list[Wire], str, bool, list[int]]] = [
    (
        BUG,
        [exposed(BUG, "x"), exposed(BUG_FORM, "y"), graded(BUG_FORM, 0.8)],
        f"{BUG} was shown 1 arm in 1 exposure. It waits for a grade.",
        True,
        [2, 3],
    ),
    (
        "t:a-b",
        [mentioned("t:a-b"), exposed("t:a/b", "x"), exposed("t:a:b", "y")],
        "No exposure of t:a-b is recorded. No grade of it is recorded either.",
        False,
        [2, 3],
    ),
    (
        "u:x",
        [linked("u:x", "t:a_b"), exposed("t:a/b", "x")],
        "No exposure of u:x is recorded. No grade of it is recorded either.",
        False,
        [2],
    ),
    (
        "t:a/b",
        [exposed("t:a/b", "x"), exposed("t:a_b", "y", alias=True)],
        "t:a/b was shown 2 arms in 2 exposures. It waits for a grade.",
        True,
        [],
    ),
    (
        "t:a/b",
        [exposed("t:a/b", "x"), exposed("t:a_b", "y", alias=True), mentioned("t:a:b")],
        "t:a/b was shown 1 arm in 1 exposure. It waits for a grade.",
        True,
        [2],
    ),
    (
        "t:a/b",
        [exposed("t:a/b", "x"), graded("t:a_b", 0.8)],
        "t:a/b was shown 1 arm in 1 exposure. judge/overall seq 1 (#2) of t:a_b pays 1 arm of it.",
        False,
        [2],
    ),
]


@pytest.mark.parametrize(("session", "events", "said", "pending", "elsewhere"), OTHERS)
def test_verdict_counts_no_rows_of_a_name_that_only_fits(
    session: str, events: list[Wire], said: str, pending: bool, elsewhere: list[int]
) -> None:
    found = explained(log_of(*events), session)

    assert (found.verdict, found.pending, found.elsewhere) == (said, pending, elsewhere)
    assert bool(found.remedies) == pending


def test_two_names_of_one_text_are_distinguished() -> None:
    twins = [exposed("t:a-b", "x"), exposed("t:a-b", "y", alias=True), graded("t:a/b", 0.8)]
    assert grade_of("t:a/b", *twins)[1] == (
        "No exposure fits t:a/b exactly, and more than one name fits as a sanitised form: "
        "t:a-b and t:a-b (from a file name)."
    )

    shared = [exposed("t:a-b", "x"), graded("t:a/b", 1.0, by="human"), graded("t:a/b", 0.5, alias=True)]
    reasons = [row.reason for row in explained(log_of(*shared), "t:a/b").grades]

    assert [reason.partition("exposure #1: ")[2].partition(". ")[0] for reason in reasons] == [
        "judge/overall seq 1 (#3) of t:a/b (from a file name)",
        "human/overall seq 1 (#2) of t:a/b (exact name)",
    ]


def test_what_came_after_the_position_is_not_told() -> None:
    projection = projected(log_of(A, GRADE, exposed("t:later", "x")))

    def at(position: int, session: str = "t:a") -> SessionExplained:
        return explain_session(projection, policy_of({}), session, as_of=position)

    assert [one.state for one in at(1).exposures] == ["pending"]
    assert at(1).grades == []
    with pytest.raises(UsageError, match="no row up to position 2 names the session 't:later'"):
        at(2, "t:later")


def test_one_session_is_explained_without_settling_the_others() -> None:
    log = log_of(A, GRADE, exposed("u:far", "y", at=90), graded("u:far", 0.5))
    with mock.patch("rightful.reports.explain.case.trace_settlement", wraps=trace_settlement) as asked:
        explained(log, "t:a")
        explained(log, "t:a", join="newest")

    assert [call.args[3] for call in asked.call_args_list] == [[0], None]
