"""A withdrawn row does not make a name known: the alias rule answers as if it had never been written."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, linked, log_of, mentioned, told, withdrawn
from tests.strategies import Wire

import rightful
from rightful.identity import event_id
from rightful.policies import policy_of
from rightful.projections.projected import Projected
from rightful.reports.session_coverage import days_of, ground_of
from rightful.reports.session_list import sessions

FIRST = exposed("t:a/b", "x")
GRADE = graded("t:a_b", 1.0, alias=True)
SECOND = exposed("t:a b", "y", key="second")  # it fits the same form, so that the grade is ambiguous
AGAIN = exposed("t:a b", "z", key="again", at=110)
UNDONE = withdrawn("second", 1)
MESSAGE = mentioned("t:a b", key="message")
UNSAID = told("event.withdrawn", "t:a b", 10, {"key": "unsaid", "id": event_id("hook", "message"), "revision": 1})
"""What an importer writes: a withdrawal has the session of the message that it withdraws."""
STARTS = [told("session.started", name, 10, {"key": f"start {name}"}) for name in ("t:a/b", "t:a_b")]


def beliefs(projected: Projected, as_of: int) -> tuple[dict[str, float], dict[str, int]]:
    found = projected.posteriors(policy_of({}), as_of=as_of)
    counters = {name: count for name, count in found.counters.items() if name != "pending_sessions"}
    return {arm: belief.alpha for arm, belief in found.arms.items()}, counters


def same(events: list[Wire], never: list[Wire], through: int) -> None:
    """Compare a log up to a position with one in which the withdrawn row never was, read at once and row by row."""
    expected = Projected(log_of(*never))  # type: ignore[arg-type]
    whole = Projected(log_of(*events))  # type: ignore[arg-type]
    log = FakeLog()
    stepwise = Projected(log)  # type: ignore[arg-type]
    for event in events:
        log.append([event])
        beliefs(stepwise, log.head())
    want = beliefs(expected, len(never))
    assert beliefs(whole, through) == want
    assert beliefs(stepwise, through) == want


@pytest.mark.sweep
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_name_whose_only_row_was_withdrawn_is_not_known(order: tuple[int, ...]) -> None:
    """For every prefix: before both rows are there, in between, and after."""
    events = [[FIRST, GRADE, SECOND, UNDONE][place] for place in order]
    for through in range(len(events) + 1):
        read = events[:through]
        never = [event for event in read if not (UNDONE in read and event is SECOND)]
        same(events, never, through)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_name_whose_only_message_was_withdrawn_is_not_known(order: tuple[int, ...]) -> None:
    """For every prefix. The withdrawal has the name too, and does not make it known."""
    events = [[FIRST, GRADE, MESSAGE, UNSAID][place] for place in order]
    for through in range(len(events) + 1):
        read = events[:through]
        never = [event for event in read if event is not UNSAID and not (UNSAID in read and event is MESSAGE)]
        same(events, never, through)


def test_link_of_a_sanitised_name_makes_its_other_session_known() -> None:
    """Also if a revision of it is withdrawn that was never written: that withdraws nothing."""
    link = linked("t:a_b", "t:a-b", alias=True, key="alias link")
    events = [FIRST, GRADE, link]
    nothing = {"key": "nothing", "id": event_id("hook", "alias link"), "revision": 2}

    same([*events, told("event.withdrawn", "t:a/b", 10, nothing)], events, 4)
    assert beliefs(Projected(log_of(*events)), 3)[1] == {"ambiguous_grades": 1}  # type: ignore[arg-type]


def test_another_message_of_the_name_counts_from_its_own_position() -> None:
    events = [FIRST, GRADE, MESSAGE, UNSAID, mentioned("t:a b", key="again")]

    same(events, [FIRST, GRADE], 4)
    same(events, [FIRST, GRADE, MESSAGE], 5)


def test_a_message_that_another_producer_withdrew_keeps_its_name_known() -> None:
    same([FIRST, GRADE, MESSAGE, {**UNSAID, "producer": "other"}], [FIRST, GRADE, MESSAGE], 4)


def test_an_excluded_name_that_was_withdrawn_means_its_sanitised_form() -> None:
    """Without the withdrawn exposure the text is known only as a sanitised form, so that is what is excluded."""
    policy = policy_of({"without_sessions": ["t:a_b"]})
    alias = exposed("t:a_b", "x", alias=True)
    events = [alias, GRADE, exposed("t:a_b", "y", key="second"), UNDONE]

    counters = [
        Projected(log_of(*rows)).posteriors(policy).counters  # type: ignore[arg-type]
        for rows in (events, [alias, GRADE])
    ]

    assert counters == [{}, {}]


def test_a_session_of_withdrawn_messages_is_not_listed(tmp_path: Path) -> None:
    events: list[Any] = [mentioned("t:other"), mentioned("t:a b/sub", key="below"), MESSAGE, UNSAID]
    with rightful.open(tmp_path / "l", create=True) as ledger:
        ledger.append(events[:3])
        listed = [sessions(ledger.projected(), "", 0)]
        ledger.append(events[3:])
        listed.append(sessions(ledger.projected(), "", 0))
        days = days_of(ground_of(ledger.projected(), policy_of({})))
        assert ledger.projected().save()
    with rightful.open(tmp_path / "l") as ledger:
        listed.append(sessions(ledger.projected(), "", 0))

    names = [sorted(session.session for session in page.shown) for page in listed]
    assert names == [["t:a b", "t:other"], ["t:a b/sub", "t:other"], ["t:a b/sub", "t:other"]]
    assert sum(day.sessions for day in days) == 2


def test_the_alias_is_paid_again_once_the_other_name_was_withdrawn() -> None:
    projected = Projected(log_of(FIRST, GRADE, SECOND, UNDONE))  # type: ignore[arg-type]

    assert beliefs(projected, 3) == ({}, {"ambiguous_grades": 1})
    assert beliefs(projected, 4) == ({"x": 2.0}, {"credited_grades": 1})


def test_another_row_of_the_name_counts_from_its_own_position() -> None:
    events = [FIRST, GRADE, SECOND, UNDONE, AGAIN]

    same(events, [FIRST, GRADE], 4)
    same(events, [FIRST, GRADE, AGAIN], 5)


def test_a_withdrawal_of_the_withdrawal_makes_the_name_known_again() -> None:
    back = withdrawn(UNDONE["key"], 1)
    events = [FIRST, GRADE, SECOND, UNDONE, back]

    same(events, [FIRST, GRADE], 4)
    same(events, [FIRST, GRADE, SECOND], 5)


def test_a_withdrawn_link_does_not_make_the_other_name_known() -> None:
    link = linked("u:z", "t:a b", key="link")

    same([FIRST, GRADE, link, withdrawn("link", 1)], [FIRST, GRADE], 4)


def test_a_withdrawn_start_does_not_keep_two_names_apart() -> None:
    grade = graded("t:a_b", 1.0)
    events: list[Wire] = [FIRST, grade, *STARTS]

    assert beliefs(Projected(log_of(*events)), 4) == ({}, {"unmatched_grades": 1})  # type: ignore[arg-type]
    assert beliefs(Projected(log_of(*events[:3])), 3) == ({"x": 2.0}, {"credited_grades": 1})  # type: ignore[arg-type]
    same([*events, withdrawn("start t:a_b", 1)], events[:3], 5)


def test_a_stored_projection_keeps_what_was_withdrawn(tmp_path: Path) -> None:
    events: list[Any] = [FIRST, GRADE, SECOND, UNDONE, mentioned("t:other")]
    with rightful.open(tmp_path / "l", create=True) as ledger:
        ledger.append(events)
        assert ledger.posteriors().arms["x"].alpha == 2.0
        assert ledger.projected().save()
    with rightful.open(tmp_path / "l") as ledger:
        assert ledger.posteriors(as_of=3).counters.get("ambiguous_grades") == 1
        assert ledger.posteriors(as_of=4).arms["x"].alpha == 2.0
