"""Bounds of a newest-file audit, held against a brute force that tries every order of the writes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.projections.fake import FakeLog

from rightful.policies import policy_of
from rightful.projections.projected import Projected
from rightful.reports.audits.rule_audit import Audit, audit
from rightful.times import text_of

Wire = dict[str, Any]
_BASE_US = 1_785_600_000_000_000


def at_text(at_s: float) -> str:
    return text_of(_BASE_US + round(at_s * 1_000_000))


def shown(session: str, at: float, *arms: str, file: bool = False) -> Wire:
    event = {"type": "exposure.recorded", "producer": "hook", "key": f"{session} {at} {arms} {file}",
             "session": session, "at": at_text(at), "arms": [{"arm": arm} for arm in arms]}  # fmt: skip
    return event | {"at_basis": "file"} if file else event


def graded(session: str, at: float, *, file: bool = False) -> Wire:
    event = {"type": "grade.recorded", "producer": "judge", "key": f"{session} {at}", "session": session,
             "at": at_text(at), "reward": 0.5, "seq": 1}  # fmt: skip
    return event | {"at_basis": "file"} if file else event


def started(session: str, at: float) -> Wire:
    return {"type": "session.started", "producer": "records", "key": session, "session": session,
            "at": at_text(at)}  # fmt: skip


def audited(*events: Wire) -> Audit:
    log = FakeLog()
    assert set(log.append(events)) <= {"appended"}
    newest, bound = policy_of("historical-newest"), policy_of("bound")
    return audit(Projected(log), ("historical-newest", newest), ("bound", bound))  # type: ignore[arg-type]


def bounds(*events: Wire) -> tuple[tuple[int, int], tuple[int, int]]:
    found = audited(*events)
    return found.foreign_grades_bounds, found.policy_credited_grades_bounds


def test_own_times_order_everything() -> None:
    found = audited(shown("t:a", 1.5, "x"), shown("t:b", 2.5, "y"), graded("t:a", 3.5), graded("t:b", 4.5))

    assert (found.foreign_grades_bounds, found.policy_credited_grades_bounds) == ((1, 1), (2, 2))
    assert found.verdict().startswith("1 of 2 credited grades (50%) went to another session's lessons.")


def test_a_files_time_is_only_an_upper_bound() -> None:
    """B's file says 2.5, and can have been written before A's, which a copy made newer."""
    found = audited(shown("t:a", 1.5, "x"), shown("t:b", 2.5, "y", file=True), graded("t:a", 3.5), graded("t:b", 4.5))

    assert (found.foreign_grades, found.foreign_grades_bounds) == (1, (0, 2))
    assert found.foreign_credit_rate_bounds == (0.0, 1.0)
    assert found.verdict() == (
        "Between 0 and 2 of 2 credited grades (0% to 100%) went to another session's lessons; by the recorded "
        "times, 1. With these times, the best lessons stay x and y, which are equal."
    )


def test_sessions_whose_times_leave_the_order_open_are_named() -> None:
    """B has only its file. C has its file too, but it began after the last grade. D lists x in a log, z in a file."""
    found = audited(
        shown("t:a", 1.5, "x"), shown("t:b", 2.5, "y", file=True), graded("t:a", 3.5), graded("t:a", 4.5),
        started("t:c", 5.0), shown("t:c", 5.5, "y", file=True),
        shown("t:d", 1.25, "x"), shown("t:d", 9.5, "z", file=True),
    )  # fmt: skip

    assert (found.untimed_sessions, found.unlogged_sessions) == (("t:b", "t:d"), ("t:b",))
    assert found.undecided_sessions == ("t:a",)
    decided = audited(shown("t:a", 1.5, "x"), graded("t:a", 3.5))
    assert (decided.untimed_sessions, decided.undecided_sessions) == ((), ())


def test_sessions_added_later_leave_the_answer_as_of_their_position() -> None:
    """B is known from its file alone, which a credit recorded after A's grade at position 3."""
    past = [shown("t:c", 1.5, "y"), shown("t:a", 1.75, "x"), graded("t:a", 3.5)]

    found = audited(*past, shown("t:b", 9.5, "z", file=True), graded("t:b", 9.75))

    assert (found.untimed_sessions, found.foreign_grades_bounds, found.decided_until) == (("t:b",), (0, 2), 3)
    assert audited(*past).foreign_grades_bounds == (0, 0)


@pytest.mark.parametrize(
    "events",
    [
        [shown("t:a", 1.5, "x"), graded("t:a", 3.5), shown("t:b", 2.5, "z", file=True)],
        [shown("t:a", 1.5, "x"), graded("t:a", 3.5), graded("t:b", 4.5), shown("t:b", 9.5, "z", file=True)],
        [shown("t:a", 1.5, "x"), shown("t:b", 9.5, "z", file=True), graded("t:a", 3.5)],
    ],
    ids=["file before the grade", "session of an earlier grade", "no grade before the file"],
)
def test_no_position_is_offered_where_the_files_may_be_part_of_the_past(events: list[Wire]) -> None:
    found = audited(*events)

    assert found.untimed_sessions == ("t:b",)
    assert found.decided_until is None


def test_range_in_words_counts_apart_what_no_link_decides() -> None:
    """A's grade is not later than 3.5. It paid U:X, which may be the same run, or it was too early to pay any."""
    found = audited(shown("u:x", 2.5, "x"), graded("t:a", 3.5, file=True))

    assert found.verdict().startswith(
        "Between 0 and 1 of 0 to 1 credited grades (0% to 100%) went to another session's lessons; by the recorded "
        "times, 0; of 1 more it is not known, because no link joins the two sessions."
    )


def test_a_session_writes_no_file_before_its_start() -> None:
    late = [started("t:b", 1.75), shown("t:b", 2.5, "y", file=True)]

    assert bounds(shown("t:a", 1.5, "x"), *late, graded("t:a", 3.5), graded("t:b", 4.5)) == ((1, 1), (2, 2))


def test_a_prompt_may_rewrite_a_file_whose_own_time_is_older() -> None:
    """The time of A's file is its `last_pretool`; a prompt can have shown more before A was graded at 9.5.

    Without a grade of A, nothing says when A ended.
    """
    file = [started("t:a", 1.0), shown("t:a", 1.5, "x", file=True), graded("t:a", 9.5)]

    assert bounds(*file, started("t:b", 2.0), shown("t:b", 2.5, "y"), graded("t:b", 3.5)) == ((0, 2), (2, 2))
    assert bounds(*file[:2], started("t:b", 2.0), shown("t:b", 2.5, "y"), graded("t:b", 3.5)) == ((0, 1), (1, 1))


def test_a_copy_of_the_files_leaves_the_order_open() -> None:
    """Both files have the time of the copy, after the grades: each can have been there, or not."""
    found = audited(
        started("t:a", 1.0), started("t:b", 2.0), shown("t:a", 9.5, "x", file=True), shown("t:b", 9.5, "y", file=True),
        graded("t:a", 3.5), graded("t:b", 4.5),
    )  # fmt: skip

    assert (found.policy_credited_grades, found.foreign_grades_bounds) == (0, (0, 2))
    assert found.policy_credited_grades_bounds == (0, 2)
    assert found.verdict() == (
        "Between 0 and 2 of 0 to 2 credited grades (0% to 100%) went to another session's lessons; by the recorded "
        "times, 0. With these times, historical-newest credits none."
    )


def test_a_copied_file_adds_nothing_to_a_log_of_the_same_arms() -> None:
    copies = [shown("t:a", 9.5, "x", file=True), shown("t:b", 9.5, "y", file=True)]
    log = [shown("t:a", 1.5, "x"), shown("t:b", 2.5, "y"), graded("t:a", 3.5), graded("t:b", 4.5), graded("t:a", 9.9)]

    assert bounds(*log, *copies) == bounds(*log) == ((2, 2), (3, 3))


def test_equal_times_order_nothing() -> None:
    tied = [shown("t:a", 1.5, "x"), shown("t:b", 1.5, "y")]

    assert bounds(*tied, graded("t:a", 3.5)) == ((0, 1), (1, 1))
    assert bounds(shown("t:b", 1.5, "y"), graded("t:b", 1.5)) == ((0, 0), (0, 1))


def test_a_tie_of_two_foreign_files_is_foreign_either_way() -> None:
    found = audited(shown("t:a", 1.5, "x"), shown("t:b", 1.5, "y"), shown("t:c", 1.25, "z"), graded("t:c", 3.5))

    assert (found.foreign_grades, found.foreign_grades_bounds) == (0, (1, 1))
    assert found.verdict().startswith("1 of 1 credited grades (100%) went to another session's lessons.")
    assert [(one.session, one.paid_session, one.arms, one.certain) for one in found.foreign] == [
        ("t:c", None, (), True)
    ]


@pytest.mark.parametrize("b_at", [2.25, 2.75])
def test_a_whole_second_orders_nothing_within_it(b_at: float) -> None:
    """Lesson events are stamped to the second."""
    assert bounds(shown("t:a", 2.0, "x"), shown("t:b", b_at, "y"), graded("t:a", 3.5)) == ((0, 1), (1, 1))


def test_a_whole_second_yields_to_a_finer_time_of_the_same_arm() -> None:
    precise = [shown("t:a", 2.25, "x"), shown("t:b", 2.75, "y")]

    assert bounds(shown("t:a", 2.0, "x"), *precise, graded("t:a", 3.5)) == ((1, 1), (1, 1))
    assert bounds(shown("t:a", 2.0, "z"), *precise, graded("t:a", 3.5)) == ((0, 1), (1, 1))


def test_a_grade_with_a_files_time_may_be_any_time_before() -> None:
    assert bounds(shown("t:a", 1.5, "x"), shown("t:b", 2.5, "y"), graded("t:a", 3.5, file=True)) == ((0, 1), (0, 1))


def test_graded_session_without_a_file_may_have_lost_it() -> None:
    file = shown("t:a", 1.5, "x", file=True)

    assert bounds(file, graded("t:b", 3.5)) == ((0, 1), (1, 1))
    assert bounds(file, shown("t:a", 1.25, "x"), graded("t:b", 3.5)) == ((1, 1), (1, 1))
    assert bounds(graded("t:a", 3.5), graded("t:b", 4.5)) == ((0, 2), (0, 2))


def test_a_rule_that_joins_by_identity_has_no_bounds_to_give() -> None:
    log = FakeLog()
    log.append([shown("t:a", 1.5, "x", file=True), graded("t:a", 3.5)])
    found = audit(Projected(log), ("gptme", policy_of("gptme")), ("bound", policy_of("bound")))  # type: ignore[arg-type]

    assert (found.foreign_grades_bounds, found.policy_credited_grades_bounds) == ((0, 0), (1, 1))
    assert (found.foreign, found.foreign_credit_rate_bounds) == ((), (0.0, 0.0))


# -- a brute force over every order

_SESSIONS = ("t:a", "t:b", "t:c")
_moments = st.integers(1, 4).map(lambda number: number + 0.5)


@st.composite
def evidence(draw: st.DrawFn) -> tuple[list[tuple[str, float, bool]], dict[str, float], list[tuple[str, float]]]:
    """Exposures (session, time, whether it is a file's), starts, and grades. Every arm is its exposure's own."""
    exposures = draw(st.lists(st.tuples(st.sampled_from(_SESSIONS), _moments, st.booleans()), max_size=2, unique=True))
    grades = draw(st.lists(st.tuples(st.sampled_from(_SESSIONS), _moments), min_size=1, max_size=2, unique=True))
    first = {
        name: min([at for who, at, _ in exposures if who == name] + [at for who, at in grades if who == name])
        for name in _SESSIONS
        if any(who == name for who, *_ in [*exposures, *grades])
    }
    starts = {name: at - draw(st.sampled_from([0.25, 1.25, 9.0])) for name, at in first.items() if draw(st.booleans())}
    return exposures, starts, grades


def counts_by_brute_force(
    exposures: list[tuple[str, float, bool]], starts: dict[str, float], grades: list[tuple[str, float]]
) -> set[tuple[int, int]]:
    """Every (foreign, credited) that some order gives: each write at each time that it can have."""
    found: set[tuple[int, int]] = set()
    marks = sorted({at for _, at, _ in exposures} | {at for _, at in grades} | set(starts.values()))
    fine = sorted({at + step for at in marks for step in (0.0, 0.125)} | {-9.0})
    ends = {who: max(at for graded_session, at in grades if graded_session == who) for who, _ in grades}
    choices = [
        [
            (at, *again)
            for at in fine
            if starts.get(who, -9.0) <= at <= most
            for again in [(), *((later,) for later in fine if most <= later <= ends.get(who, fine[-1]))]
        ]
        if by_file
        else [(most,)]
        for who, most, by_file in exposures
    ]
    for chosen in product(*choices):
        outcomes: list[set[tuple[int, int]]] = []
        for graded_session, at in grades:
            for counts_equal in (True, False):  # equal times order nothing
                by = [
                    (when, who)
                    for (who, *_), whens in zip(exposures, chosen, strict=True)
                    for when in whens
                    if when < at or (counts_equal and when == at)
                ]
                newest = {who for when, who in by if when == max(by)[0]}
                mine = {(int(who != graded_session), 1) for who in newest} or {(0, 0)}
                if counts_equal:
                    outcomes.append(mine)
                else:
                    outcomes[-1] |= mine
        for picked in product(*outcomes):
            found.add((sum(one for one, _ in picked), sum(paid for _, paid in picked)))
    return found


@settings(max_examples=examples(80), deadline=None)
@given(evidence())
def test_every_order_lies_within_the_bounds(
    case: tuple[list[tuple[str, float, bool]], dict[str, float], list[tuple[str, float]]],
) -> None:
    exposures, starts, grades = case
    exposed = {who for who, *_ in exposures}
    grades = [grade for grade in grades if grade[0] in exposed] or grades[:1]
    events = [started(name, at) for name, at in starts.items()]
    events += [shown(who, at, f"{who} {at} {file}", file=file) for who, at, file in exposures]
    events += [graded(who, at) for who, at in grades]

    found = audited(*events)

    possible = counts_by_brute_force(exposures, starts, grades)
    (low, high), (least, most) = found.foreign_grades_bounds, found.policy_credited_grades_bounds
    assert all(low <= foreign <= high and least <= paid <= most for foreign, paid in possible)
    assert low <= found.foreign_grades + found.bins_policy.get("ambiguous", 0)
    assert found.foreign_grades <= high
    if len(grades) == 1 and grades[0][0] in exposed:
        assert {foreign for foreign, _ in possible} == set(range(low, high + 1))
        assert {paid for _, paid in possible} == set(range(least, most + 1))
    if found.foreign_credit_rate_bounds is not None:
        lowest, highest = found.foreign_credit_rate_bounds
        assert all(lowest <= foreign / paid <= highest for foreign, paid in possible if paid)
