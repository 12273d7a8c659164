"""The six lines of the table, each with its neighbours; through the log, as a producer meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.log.facts import call, exposure, fact, grade, message, result
from tests.log.memory import MemoryRecorder

from rightful.log.classify import NEW, Candidate, classify
from rightful.log.log import Log
from rightful.log.rows import Receipt

Send = Callable[..., list[str]]


def one(log: Log, event: dict[str, Any]) -> Receipt:
    [receipt] = log.append([event])
    return receipt


# -- lines 1 and 2 -----------------------------------------------------------------------------


def test_a_new_id_is_appended_without_a_look_at_anything() -> None:
    assert classify(Candidate("id", "grade.recorded", "t:a", None, None, b"{}"), []) is NEW


def test_what_stands_there_already_is_a_duplicate_at_its_own_position(log: Log) -> None:
    one(log, exposure("other"))
    first = one(log, exposure())

    again = one(log, exposure())

    assert (first.outcome, first.position, first.first) == ("appended", 2, 2)
    assert again == Receipt(first.id, "duplicate", 2, 2)
    assert log.head() == 2


@pytest.mark.parametrize("other", [{"at": "2030-01-01T00:00:00Z"}, {"index": 7}, {"at_basis": "file"}])
def test_another_time_or_index_is_the_same_content(send: Send, other: dict[str, Any]) -> None:
    assert send(exposure(), exposure(**other)) == ["appended", "duplicate"]


def test_a_lower_index_is_no_new_content(send: Send) -> None:
    assert send(call({}, index=3), call({}, index=1)) == ["appended", "duplicate"]


def test_content_equal_to_any_earlier_revision_is_a_duplicate_of_it(log: Log) -> None:
    receipts = [one(log, call(text)) for text in ("a", "ab", "abc", "ab", "a")]

    assert [(got.outcome, got.position) for got in receipts] == [
        ("appended", 1),
        ("refined", 2),
        ("refined", 3),
        ("duplicate", 2),
        ("duplicate", 1),
    ]


def test_a_repeated_conflict_is_a_conflict_again_and_is_stored_once(log: Log) -> None:
    receipts = [one(log, grade(reward=reward)) for reward in (0.8, 0.9, 0.9)]

    assert [(got.outcome, got.position, got.first) for got in receipts] == [
        ("appended", 1, 1),
        ("conflict", 2, 1),
        ("conflict", 2, 1),
    ]
    assert receipts[2].reason == "it stands at position 2 as conflict"
    assert log.head() == 2


def test_a_repeated_stale_snapshot_is_stale_again_and_is_stored_once(log: Log) -> None:
    receipts = [one(log, call(text)) for text in ("abc", "ab", "ab")]

    assert [(got.outcome, got.position) for got in receipts] == [("appended", 1), ("stale", 2), ("stale", 2)]


def test_once_the_payload_is_erased_the_id_alone_decides(log: Log, recorder: MemoryRecorder) -> None:
    one(log, grade(reward=0.8))
    recorder.erase(1)

    assert one(log, grade(reward=0.1)) == Receipt(one(log, grade()).id, "duplicate", 1, 1)
    assert log.head() == 1


def test_erased_conflict_leaves_equal_content_a_duplicate(log: Log, recorder: MemoryRecorder) -> None:
    one(log, grade(reward=0.8))
    one(log, grade(reward=0.9))
    recorder.erase(2)

    assert one(log, grade(reward=0.8)).outcome == "duplicate"
    assert one(log, grade(reward=0.9)).outcome == "conflict"
    assert log.head() == 2


# -- line 3 ------------------------------------------------------------------------------------


def test_an_earlier_snapshot_that_comes_late_is_stored_and_stale(log: Log) -> None:
    one(log, call({"command": "find ."}))

    late = one(log, call({}))

    assert (late.outcome, late.position, late.first) == ("stale", 2, 1)
    assert late.reason == "revision 1 at position 1 says all of it and more"


def test_an_earlier_snapshot_of_another_turn_is_stale_too(send: Send) -> None:
    assert send(call({"command": "ls"}), call({}, turn="2")) == ["appended", "stale"]


def test_a_lower_index_in_the_same_turn_is_stale_whatever_it_says(log: Log) -> None:
    one(log, call("ls", index=2))

    late = one(log, call("pwd", index=1))

    assert late.outcome == "stale"
    assert late.reason == "Expected index 2 or higher, that of revision 1 at position 1"


@pytest.mark.parametrize("index", [2, 3, None])
def test_an_index_that_is_not_lower_does_not_make_stale(send: Send, index: int | None) -> None:
    assert send(call("ls", index=2), call("pwd", index=index)) == ["appended", "conflict"]


def test_a_lower_index_in_another_turn_does_not_make_stale(send: Send) -> None:
    """A resume counts from 0 again."""
    assert send(call("ls", index=2), call("ls -a", index=0, turn="2")) == ["appended", "reemitted"]


def test_a_lower_index_makes_no_grade_stale(send: Send) -> None:
    assert send(grade(reward=0.8, index=2), grade(reward=0.9, index=1)) == ["appended", "conflict"]


# -- line 4 ------------------------------------------------------------------------------------


def test_a_refinement_is_a_revision_of_its_id(log: Log) -> None:
    for arguments in ({}, {"command": "fi"}, {"command": "find ."}):
        one(log, call(arguments))

    assert [(row.outcome, row.revision, row.first) for row in log.read()] == [
        ("appended", 1, 1),
        ("refined", 2, 1),
        ("refined", 3, 1),
    ]


def test_refinement_is_compared_with_the_newest_accepted_not_a_stale_one(send: Send) -> None:
    assert send(call("ab"), call("a"), call("ac")) == ["appended", "stale", "conflict"]


def test_refinement_is_compared_with_the_newest_not_a_quarantined_revision(send: Send) -> None:
    assert send(call("ab"), call("xy"), call("xyz"), call("abc")) == ["appended", "conflict", "conflict", "refined"]


# -- line 5 ------------------------------------------------------------------------------------


def test_resume_that_resends_is_reemitted_and_keeps_the_first_position(log: Log) -> None:
    one(log, call("ls"))

    again = one(log, call("ls", turn="2"))

    assert (again.outcome, again.position, again.first) == ("reemitted", 2, 1)


@pytest.mark.parametrize("event", [exposure, grade])
def test_facts_that_do_not_grow_can_be_reemitted_too(send: Send, event: Callable[..., dict[str, Any]]) -> None:
    assert send(event(turn="1"), event(turn="2"), event(turn="2")) == ["appended", "reemitted", "duplicate"]


def test_refinement_in_another_turn_is_reemitted_and_becomes_the_newest(send: Send) -> None:
    assert send(call("l"), call("ls", turn="2"), call("ls -a", turn="2")) == ["appended", "reemitted", "refined"]


# -- line 6 ------------------------------------------------------------------------------------


def test_two_contents_under_one_id_are_a_conflict_and_both_are_kept(log: Log) -> None:
    one(log, grade(reward=0.8))

    other = one(log, grade(reward=0.9))

    assert other.outcome == "conflict"
    assert other.reason == "Expected the content of revision 1 at position 1, or more of it"
    assert [row.event.reward for row in log.read()] == [0.8, 0.9]  # type: ignore[union-attr]


def test_a_longer_list_of_arms_refines_nothing(send: Send) -> None:
    assert send(exposure(arms=[]), exposure()) == ["appended", "conflict"]


def test_another_session_under_one_id_is_a_conflict_however_alike(log: Log) -> None:
    one(log, call("ls"))

    assert one(log, call("ls", session="t:b")).reason == "Expected session 't:a', that of revision 1 at position 1"
    assert one(log, call("ls -a", session="t:b")).outcome == "conflict"


def test_another_type_under_one_id_is_a_conflict(log: Log) -> None:
    one(log, message("x"))

    got = one(log, fact("thought.recorded", content="x", turn="1"))

    assert (got.outcome, got.reason) == (
        "conflict",
        "Expected type 'message.recorded', that of revision 1 at position 1",
    )


def test_another_content_in_another_turn_is_a_conflict(send: Send) -> None:
    assert send(result("a"), result("b", turn="2")) == ["appended", "conflict"]


# -- the sequences that were seen --------------------------------------------------------------


def test_interleaved_calls_reopen_a_flushed_id(log: Log) -> None:
    first = one(log, call({}, key="a", index=0))
    one(log, call({"path": "/y"}, key="b", call="c2", name="read", index=1))

    again = one(log, call({"command": "ls -la"}, key="a", index=2))

    assert (again.outcome, again.first) == ("refined", first.position)


def test_a_result_comes_twice_in_a_turn(send: Send) -> None:
    assert send(result("", index=1), result("exit 0\n42 files", index=2)) == ["appended", "refined"]


def test_a_placeholder_gives_way_to_the_real_result_and_never_comes_back(send: Send) -> None:
    deferred = result("DEFERRED_NOT_EXECUTED: waits for approval", is_error=True)

    assert send(deferred, result("Y", turn="2"), deferred | {"turn": "2"}, deferred) == [
        "appended",
        "reemitted",
        "stale",
        "duplicate",
    ]


def test_a_call_id_that_is_reused_for_another_call_is_a_conflict(send: Send) -> None:
    assert send(call({"command": "ls"}, complete=True), call({"path": "/y"}, name="read")) == ["appended", "conflict"]
