"""What the methods of a ledger for histories promise to who calls them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.histories.actors import S, call, histories, output, texts, thought, user, wire

from rightful import limits
from rightful.errors import InvalidEventError, StaleTokenError, UsageError, VoidTokenError
from rightful.events.base import Event
from rightful.tokens import Token, Wrote


def test_what_others_append_while_a_summary_is_made_stays_behind_it() -> None:
    kept = histories()
    kept.extend(S, [user("a"), user("b")])
    token = kept.history(S).token
    kept.extend(S, [user("c")])

    receipt = kept.compact(token, [user("sum")])

    assert texts(kept) == ["sum", "c"]
    assert (receipt.outcome, receipt.position) == ("appended", 3)


def test_token_owner_covers_its_own_appends_and_not_those_between() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    token = kept.history(S).token
    kept.extend(S, [user("other")])
    token = kept.extend(token, [user("mine")])

    kept.compact(token, [user("sum")])

    assert texts(kept) == ["sum", "other"]


@pytest.mark.parametrize("change", ["pop", "clear", "compact"])
def test_a_token_is_stale_after_a_change_and_the_error_says_where_it_is(change: str) -> None:
    kept = histories()
    kept.extend(S, [user("a"), user("b")])
    token = kept.history(S).token
    kept.extend(S, [user("c")])
    if change == "compact":
        kept.compact(token, [user("first")])
    else:
        getattr(kept, change)(S)
    kept.extend(S, [user("d")])

    with pytest.raises(StaleTokenError) as caught:
        kept.compact(token, [user("second")])

    assert (caught.value.token_position, caught.value.changed_at) == (1, 3)
    assert kept.log.head() == 4


def test_nothing_of_a_limited_read_but_its_window_gives_way() -> None:
    kept = histories()
    kept.extend(S, [user("a"), user("b"), user("c")])

    kept.compact(kept.history(S, 2).token, [user("sum")])

    assert texts(kept) == ["a", "sum"]


def test_window_stays_as_it_was_read_despite_later_calls() -> None:
    kept = histories()
    kept.extend(S, [call("gone")])
    kept.clear(S)
    kept.extend(S, [user("a"), output("gone"), output("new")])
    before, last = kept.history(S, 2).token, kept.history(S, 1).token
    kept.extend(S, [call("gone"), call("new")])

    kept.compact(last, [user("sum")])
    assert texts(kept) == ["a", "out gone", "out new", "sum", "call gone", "call new"]

    again = histories()
    again.log.append([row.event for row in kept.log.read(until=4) if isinstance(row.event, Event)])
    again.compact(before, [user("sum")])
    assert texts(again) == ["sum", "out gone", "out new", "call gone", "call new"]


def test_a_compaction_that_covers_nothing_stands_behind_what_was_read() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    token = kept.history(S, 0).token
    kept.extend(S, [user("b")])

    kept.compact(token, [user("sum")])

    assert texts(kept) == ["a", "sum", "b"]


def test_asked_for_no_items_it_shows_none_and_a_negative_number_is_refused() -> None:
    kept = histories()
    kept.extend(S, [user("a")])

    assert texts(kept, limit=0) == []
    assert texts(kept, limit=5) == ["a"]
    with pytest.raises(UsageError, match="Invalid limit -1"):
        kept.history(S, -1)
    with pytest.raises(UsageError, match="Invalid limit -1"):
        kept.ready(S, -1)
    with pytest.raises(UsageError, match="Invalid position -1"):
        kept.full(S, at=-1)


@pytest.mark.parametrize("one", ["text", b"bytes", {"role": "user"}])
def test_one_item_outside_a_list_is_refused(one: Any) -> None:
    kept = histories()
    token = kept.history(S).token

    for use in (kept.extend, kept.compact):
        with pytest.raises(UsageError, match="Expected a list of items, got one item"):
            use(token, one)
    assert kept.log.head() == 0


def test_each_call_returns_objects_of_its_own() -> None:
    kept = histories()
    kept.extend(S, [user("a")])

    kept.history(S).items[0]["content"] = "changed"

    assert texts(kept) == ["a"]


def test_call_without_output_stays_with_its_reasoning_by_default() -> None:
    kept = histories()
    kept.extend(S, [user("a"), thought("t1"), call("1"), output("1"), thought("t2"), thought("t3"), call("2")])

    kept.compact(kept.history(S).token, [user("sum")])

    assert texts(kept) == ["sum", "t2", "t3", "call 2"]


def test_by_default_an_output_whose_call_is_outside_the_window_stays() -> None:
    kept = histories()
    kept.extend(S, [call("1"), output("1"), user("a")])

    kept.compact(kept.history(S, 2).token, [user("sum")])

    assert texts(kept) == ["call 1", "out 1", "sum"]


def test_approval_request_and_response_are_covered_together_or_not_at_all() -> None:
    kept = histories()
    request = {"type": "mcp_approval_request", "id": "r", "content": "request"}
    response = {"type": "mcp_approval_response", "approval_request_id": "r", "content": "response"}
    kept.extend(S, [user("a"), request])

    kept.compact(kept.history(S).token, [user("sum")])
    assert texts(kept) == ["sum", "request"]

    kept.extend(S, [response])
    kept.compact(kept.history(S).token, [user("sum 2")])
    assert texts(kept) == ["sum 2"]


@pytest.mark.parametrize(
    ("asks", "answers"),
    [
        ({"type": "tool_search_call", "call_id": "1"}, {"type": "tool_search_output", "call_id": "1"}),
        ({"type": "program", "call_id": "1"}, {"type": "program_output", "call_id": "1"}),
        ({"type": "local_shell_call", "call_id": "1", "id": "x"}, {"type": "local_shell_call_output", "id": "1"}),
        ({"type": "computer_call", "call_id": "1"}, {"type": "computer_call_output", "call_id": "1"}),
    ],
)
def test_whatever_a_call_is_it_is_covered_with_its_output_or_not(asks: dict[str, Any], answers: dict[str, Any]) -> None:
    kept = histories()
    kept.extend(S, [user("a"), asks])
    kept.compact(kept.history(S).token, [user("sum")])
    assert kept.history(S).items == [user("sum"), asks]

    kept.extend(S, [answers])
    kept.compact(kept.history(S).token, [user("sum 2")])
    assert texts(kept) == ["sum 2"]


def test_calls_of_the_chat_shape_are_covered_with_all_their_outputs_or_not() -> None:
    """Some programs keep the messages of the chat API; one of them may hold several calls."""
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}, {"id": 3}, None]}
    first, second = ({"role": "tool", "tool_call_id": name, "content": f"out {name}"} for name in "12")
    kept = histories()
    kept.extend(S, [user("a"), calls, first])
    kept.compact(kept.history(S).token, [user("sum")])
    assert kept.history(S).items == [user("sum"), calls, first]
    kept.extend(S, [second, user("b")])
    kept.compact(kept.history(S, 3).token, [user("sum b")])
    assert kept.history(S).items == [user("sum"), calls, first, second, user("sum b")]

    found = kept.history(S)
    with pytest.raises(UsageError, match="Call '2' would be separated from its output"):
        kept.compact(found.token, [user("x")], found.ids[1:3])
    kept.compact(found.token, [user("all")])
    assert texts(kept) == ["all"]

    kept.extend(S, [calls, first, second])
    kept.log.append([wire("history.popped", "p", items=[kept.history(S).ids[1]])])
    assert texts(kept) == ["all"]
    assert len(kept.history(S).left_out) == 2


def test_unanswered_call_stays_although_its_id_was_answered_before() -> None:
    kept = histories()
    kept.extend(S, [user("a"), call("1"), output("1"), call("1")])
    kept.compact(kept.history(S).token, [user("sum")])
    kept.extend(S, [output("1")])

    assert texts(kept) == ["sum", "call 1", "out 1", "call 1", "out 1"]
    kept.compact(kept.history(S).token, [user("sum 2")])
    assert texts(kept) == ["sum 2"]


@pytest.mark.parametrize("over", [0, 1])
def test_more_than_one_compaction_can_name_is_refused_with_what_to_do(
    over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COVERS_COUNT", 3)
    kept = histories()
    for name in "abcd"[: 3 + over]:
        kept.extend(S, [user(name)])

    if over:
        with pytest.raises(UsageError, match="compaction would cover 4 batches of items; the limit is 3"):
            kept.compact(kept.history(S).token, [user("sum")])
    kept.compact(kept.history(S, 3).token, [user("sum")])
    assert texts(kept) == ["a", "sum"][1 - over :]


def test_name_that_is_not_text_is_refused_with_its_place_once() -> None:
    kept = histories()
    for use in (
        kept.clear,
        lambda name: kept.pop(name, key="k"),
        lambda name: kept.extend(name, ["a"]),
        lambda name: kept.fork(S, name),
    ):
        for name in ("t:\ud800", "no-namespace"):
            with pytest.raises(InvalidEventError, match=r"^[^`]*(`namespace:value`|surrogate)") as caught:
                use(name)
            assert str(caught.value).count(" - at `") == 1


def test_items_are_named_by_id_or_range_and_only_those_give_way() -> None:
    kept = histories()
    kept.extend(S, [user(name) for name in "abcde"])
    found = kept.history(S)

    kept.compact(found.token, [user("sum")], [found.ids[0], {"first": found.ids[2], "last": found.ids[3]}])

    assert texts(kept) == ["sum", "b", "e"]


def test_an_item_that_the_holder_has_not_seen_is_refused_by_its_name() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    token = kept.history(S).token
    other = kept.extend(S, [user("b")]).wrote[0].id

    with pytest.raises(UsageError, match=f"Item 0 of event {other} was not read with this token"):
        kept.compact(token, [user("sum")], [(other, 0)])
    for name in ("x", object(), (other,), {"first": "x"}):
        with pytest.raises(UsageError, match="Invalid item names"):
            kept.compact(token, [user("sum")], [name])

    assert kept.log.head() == 2


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_group_that_would_be_cut_is_refused_by_the_name_of_its_call(place: int) -> None:
    kept = histories()
    kept.extend(S, [call("one"), output("one"), call("two")])
    found = kept.history(S)

    with pytest.raises(UsageError, match=f"Call '{'two' if place == 2 else 'one'}' would be separated from its output"):
        kept.compact(found.token, [user("sum")], [found.ids[place]])

    kept.compact(found.token, [user("sum")], found.ids[:2])
    assert texts(kept) == ["sum", "call two"]


def test_a_void_token_cannot_compact_whatever_was_appended_with_it() -> None:
    kept = histories()
    token = kept.extend(S, [user("a")])

    with pytest.raises(VoidTokenError, match="nothing was read"):
        kept.compact(token, [user("sum")])
    assert kept.log.head() == 1


def test_a_token_of_another_ledger_or_of_what_is_not_there_yet_is_refused() -> None:
    kept = histories()
    kept.extend(S, [user("a")])

    for use in (kept.compact, kept.extend):
        with pytest.raises(UsageError, match="This token belongs to ledger there, not to ledger here"):
            use(Token(S, 1, "there"), [user("x")])
    with pytest.raises(UsageError, match="The token was read at position 9, but the ledger ends at 1"):
        kept.compact(Token(S, 9, "here"), [user("x")])


def test_a_token_that_names_what_stands_in_another_session_is_refused() -> None:
    kept = histories()
    other = kept.extend("t:b", [user("b")]).wrote[0]
    token = kept.history(S).token

    for wrote, whose in ((other, "t:b"), (Wrote("0" * 8 + "-0000-0000-0000-" + "0" * 12, 1), "no session here")):
        with pytest.raises(UsageError, match=f"which belongs to {whose}"):
            kept.compact(Token(S, token.position, "here", wrote=(wrote,)), [user("x")])


def test_fork_shows_the_items_of_its_start_and_shares_nothing_later() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    assert texts(kept, "t:b") == []
    token = kept.fork(S, "t:b")
    kept.extend(S, [user("later")])
    kept.extend(token, [user("b")])

    assert (texts(kept), texts(kept, "t:b")) == (["a", "later"], ["a", "b"])
    assert kept.history(S).ids[0] == kept.history("t:b").ids[0]
    kept.compact(kept.history("t:b").token, [user("sum")])
    kept.fork("t:b", "t:c")
    assert (texts(kept), texts(kept, "t:c")) == (["a", "later"], ["sum"])


def test_a_fork_into_what_is_there_or_of_what_is_not_is_refused() -> None:
    kept = histories()
    kept.extend("t:b", [user("b")])
    kept.log.append([wire("message.recorded", "m", "t:c", role="user", content="said")])

    for into, at, what in (("t:b", None, "not empty"), ("t:c", None, "not empty"), ("t:d", 9, "Position 9 is not"),
                           ("t:d", -1, "Position -1"), (S, None, "forked into itself")):  # fmt: skip
        with pytest.raises(UsageError, match=what):
            kept.fork(S, into, at=at)
    assert kept.log.head() == 2


def test_a_token_that_was_read_before_a_fork_is_stale() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    token = kept.history("t:b").token
    kept.fork(S, "t:b")

    with pytest.raises(StaleTokenError):
        kept.compact(token, [user("sum")])


def test_many_threads_append_and_read_and_nothing_is_missing() -> None:
    kept = histories()
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        barrier.wait()
        for n in range(25):
            kept.extend(S, [f"{name}{n}"])
            found = kept.history(S).items
            assert [item for item in found if item[0] == name] == [f"{name}{m}" for m in range(n + 1)]

    failed: list[BaseException] = []

    def guarded(name: str) -> None:
        try:
            work(name)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert len(kept.history(S).items) == 100
