"""Which result answers which call, and which calls are one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.log.facts import fact
from tests.transcripts.folding import folded

Told = tuple[Any, ...]

LS, CAT = {"command": "ls"}, {"command": "cat x"}
WAITS = "INTERRUPTED_BY_USER: nothing ran"


def call(
    key: str, given: Any = None, turn: str | None = "1", id_: str = "c", name: str | None = "bash"
) -> dict[str, Any]:
    fields = {"call": id_, "name": name, "arguments": given}
    return fact("tool_call.snapshotted", f"c{key}", **fields, **({"turn": turn} if turn else {}))


def result(key: str, output: Any, turn: str | None = "1", id_: str = "c", **more: Any) -> dict[str, Any]:
    fields = {"call": id_, "output": output, **more}
    return fact("tool_result.snapshotted", f"r{key}", **fields, **({"turn": turn} if turn else {}))


def told(*events: dict[str, Any]) -> list[Told]:
    entries = folded(events).as_dict()["entries"]
    assert {one["kind"] for one in entries} == {"tool_call"}
    return [(one.get("arguments"), one.get("output"), one.get("unpaired", False)) for one in entries]


def test_result_answers_the_call_of_its_turn_before_an_older_open_one() -> None:
    events = [call("1", LS), call("2", CAT, "2"), result("2", "x", "2")]

    assert told(*events) == [(LS, None, False), (CAT, "x", False)]


def test_a_result_of_a_later_turn_answers_a_call_that_waits() -> None:
    assert told(call("1", LS), result("1", "x", "2")) == [(LS, "x", False)]


def test_different_result_of_another_turn_leaves_an_answered_call_alone() -> None:
    assert told(call("1", LS), result("1", "x"), result("2", "other", "2")) == [(LS, "x", False), (None, "other", True)]


def test_the_same_result_told_in_another_turn_is_shown_once() -> None:
    assert told(call("1", LS), result("1", "x"), result("2", "x", "2")) == [(LS, "x", False)]


def test_repeated_result_of_its_turns_call_answers_no_other_turn() -> None:
    events = [call("1", LS), call("2", CAT, "2"), result("1", "x", "2"), result("2", "x", "2")]

    assert told(*events) == [(LS, None, False), (CAT, "x", False)]


def test_result_of_a_turn_without_the_call_answers_the_open_call() -> None:
    events = [call("1", LS), call("2", CAT, "2"), result("1", "x", "2"), result("2", "y", "3")]

    assert told(*events) == [(LS, "y", False), (CAT, "x", False)]


def test_the_same_id_with_another_name_is_another_call() -> None:
    events = [call("1", LS), result("1", "x"), call("2", LS, name="read"), result("2", "y")]

    assert told(*events) == [(LS, "x", False), (LS, "y", False)]


def test_one_id_with_unrelated_arguments_is_another_call() -> None:
    assert told(call("1", LS), call("2", CAT), result("2", "y")) == [(LS, None, False), (CAT, "y", False)]


def test_same_call_with_a_different_real_result_is_another_call() -> None:
    events = [call("1", LS), result("1", "x"), call("2", LS), result("2", "y")]

    assert told(*events) == [(LS, "x", False), (LS, "y", False)]


def test_the_same_call_repeated_behind_its_answer_is_one_call() -> None:
    events = [call("1", LS), result("1", "x"), call("2", LS, "2"), call("3", LS, "3"), result("3", "x", "3")]

    assert told(*events) == [(LS, "x", False)]


def test_repeated_call_with_only_a_placeholder_keeps_its_real_answer() -> None:
    events = [call("1", LS), result("1", "x"), call("2", LS, "2"), result("2", WAITS, "2", is_error=True)]

    assert told(*events) == [(LS, "x", False)]


@pytest.mark.parametrize("turn", ["1", "2"])
def test_a_placeholder_never_covers_a_real_result(turn: str) -> None:
    events = [call("1", LS), result("1", "x"), result("2", WAITS, turn, is_error=True)]

    assert told(*events) == [(LS, "x", False)]


def test_a_placeholder_is_shown_where_nothing_else_came_and_says_so() -> None:
    [entry] = folded([call("1", LS), result("1", WAITS, is_error=True)]).entries

    assert (entry.output, entry.is_error, entry.placeholder) == (WAITS, True, True)


def test_call_that_grows_under_its_own_ids_is_one_call_with_all_arguments() -> None:
    """One store of records kept 430 rows of 18 calls, each state under an id of its own."""
    events = [call("1", {}, name=None), call("2", {"command": "l"}), call("3", LS), call("4", {"command": "l"})]

    [entry] = folded(events).entries
    assert (entry.name, entry.arguments, entry.revisions) == ("bash", LS, 4)


def test_a_result_that_grows_is_shown_whole() -> None:
    assert told(call("1", LS), result("1", ""), result("2", "a"), result("3", "a\nb"), result("4", "a")) == [
        (LS, "a\nb", False)
    ]


def test_a_failure_does_not_become_a_success_by_growing() -> None:
    [entry, other] = folded([call("1", LS), result("1", "x", is_error=True), result("2", "xy")]).entries

    assert (entry.output, entry.is_error) == ("x", True)
    assert (other.output, other.is_error, other.unpaired) == ("xy", False, True)


def test_a_failure_without_a_word_does_not_hide_what_came_later() -> None:
    assert told(call("1", LS), result("1", "", is_error=True), result("2", "x")) == [(LS, "", False), (None, "x", True)]


def test_a_result_whose_call_comes_behind_it_in_its_turn_is_paired() -> None:
    assert told(result("1", "x"), call("1", LS)) == [(LS, "x", False)]


def test_a_result_whose_call_comes_in_a_later_turn_stands_alone() -> None:
    assert told(result("1", "x"), call("1", LS, "2")) == [(None, "x", True), (LS, None, False)]


def test_a_result_before_a_call_that_has_its_own_answer_stands_alone() -> None:
    assert told(result("1", "x"), call("1", LS), result("2", "y")) == [(None, "x", True), (LS, "y", False)]


def test_a_second_real_result_that_contradicts_the_first_is_not_lost() -> None:
    events = [call("1", LS), result("1", "x"), result("2", "y"), result("3", "z")]

    assert told(*events) == [(LS, "x", False), (None, "y", True), (None, "z", True)]


def test_repeated_call_waits_for_its_real_result_after_a_placeholder() -> None:
    again = [call("2", LS, "2"), result("2", WAITS, "2", is_error=True), result("3", "y", "2")]

    assert told(call("1", LS), result("1", "x"), *again) == [(LS, "x", False), (LS, "y", False)]


def test_calls_without_turns_pair_in_the_order_in_which_they_stand() -> None:
    events = [call("1", LS, None), result("1", "x", None), call("2", LS, None), result("2", "y", None)]

    assert told(*events) == [(LS, "x", False), (LS, "y", False)]


def gate(key: str, word: str, interaction: str, named: str, turn: str) -> dict[str, Any]:
    payload = {"toolCall": {"id": named}, "approved": True}
    return fact(f"interaction.{word}", f"i{key}", interaction=interaction, payload=payload, turn=turn)


def raised(*events: dict[str, Any]) -> list[Told]:
    entries = folded(events).as_dict()["entries"]
    found = [one for one in entries if one["kind"] == "tool_call"]
    return [(one["call"], one.get("calls"), one.get("output")) for one in found]


def test_resumed_call_is_one_if_its_interaction_names_both_ids() -> None:
    asked = [call("1", LS, id_="a"), gate("1", "requested", "g", "a", "1")]
    again = [call("2", LS, "2", id_="b"), gate("2", "answered", "g", "b", "2"), result("2", "x", "2", id_="b")]

    assert raised(*asked, *again) == [("a", ["a", "b"], "x")]


def test_a_call_that_is_raised_anew_twice_is_one_by_whichever_interactions() -> None:
    first = [call("1", LS, id_="a"), gate("1", "requested", "g", "a", "1")]
    second = [call("2", LS, "2", id_="b"), gate("2", "requested", "g", "b", "2"), gate("3", "requested", "h", "b", "2")]
    third = [call("3", LS, "3", id_="d"), gate("4", "answered", "h", "d", "3"), result("3", "x", "3", id_="d")]

    assert raised(*first, *second, *third) == [("a", ["a", "b", "d"], "x")]
    assert raised(*third[:2], *second, *first) == [("d", ["d", "b", "a"], None)]


def test_a_call_raised_again_is_another_where_no_interaction_names_both() -> None:
    asked = [call("1", LS, id_="a"), gate("1", "requested", "g", "a", "1")]
    again = [call("2", LS, "2", id_="b"), gate("2", "answered", "h", "b", "2"), result("2", "x", "2", id_="b")]

    assert raised(*asked, *again) == [("a", None, None), ("b", None, "x")]


def test_reused_interaction_id_does_not_join_an_answered_call() -> None:
    asked = [call("1", LS, id_="a"), gate("1", "requested", "g", "a", "1"), result("1", "x", id_="a")]
    again = [call("2", LS, "2", id_="b"), gate("2", "requested", "g", "b", "2"), result("2", "x", "2", id_="b")]

    assert raised(*asked, *again) == [("a", None, "x"), ("b", None, "x")]
    kinds = [one.kind for one in folded([*asked, *again]).entries]
    assert kinds.count("interaction_requested") == 2


def test_a_request_about_another_call_of_the_same_id_is_another_request() -> None:
    first = [call("1", LS), gate("1", "requested", "g", "c", "1"), result("1", "x")]
    second = [call("2", CAT, "2"), gate("2", "requested", "g", "c", "2"), gate("3", "requested", "g", "c", "2")]

    kinds = [one.kind for one in folded([*first, *second]).entries]
    assert kinds == ["tool_call", "interaction_requested"] * 2


def test_an_interaction_id_does_not_join_calls_of_different_arguments() -> None:
    asked = [call("1", LS, id_="a"), gate("1", "requested", "g", "a", "1")]
    again = [call("2", CAT, "2", id_="b"), gate("2", "answered", "g", "b", "2"), result("2", "x", "2", id_="b")]

    assert raised(*asked, *again) == [("a", None, None), ("b", None, "x")]


def test_an_answer_that_contradicts_an_earlier_one_is_shown_beside_it() -> None:
    no = fact("interaction.answered", "i2", interaction="g", payload={"approved": False}, turn="2")
    yes = fact("interaction.answered", "i1", interaction="g", payload={"approved": True}, turn="1")

    assert [one.payload["approved"] for one in folded([yes, no, yes | {"key": "i3", "turn": "3"}]).entries] == [
        True,
        False,
    ]
