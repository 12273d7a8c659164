"""Which entries a compaction covers and an undo took back, in the order of the view that the model had."""

from __future__ import annotations

from typing import Any

from tests.log.facts import fact
from tests.transcripts.folding import folded

from rightful.identity import event_id

Wire = dict[str, Any]


def item(key: str, place: int = 0, producer: str = "hook") -> list[Any]:
    return [event_id(producer, key), place]


def span(first: str | None, last: str | None) -> Wire:
    return {"first": first and item(first), "last": last and item(last)}


def said(key: str, **more: Any) -> Wire:
    return fact("message.recorded", key, role="user", content=key, **more)


def popped(key: str, *items: Any) -> Wire:
    return fact("history.popped", key, items=list(items))


def compacted(key: str, *covers: Any, items: Any = (), **more: Any) -> Wire:
    return fact("history.compacted", key, covers=list(covers), items=list(items), **more)


def entries(*events: Wire) -> list[Wire]:
    found: list[Wire] = folded(events).as_dict()["entries"]
    return found


def taken_back(found: list[Wire]) -> list[str]:
    return [one["text"] for one in found if one.get("taken_back")]


def test_an_entry_has_the_id_by_which_others_name_it() -> None:
    call = fact("tool_call.snapshotted", "c", call="x", name="n")
    found = entries(said("a"), call, fact("tool_result.snapshotted", "r", call="x", output="y"), popped("p", item("a")))

    assert [one["id"] for one in found] == [event_id("hook", key) for key in ("a", "c", "p")]
    assert found[1]["result_id"] == event_id("hook", "r")
    assert found[2]["covers"] == [[found[0]["id"], 0]]


def test_an_undo_says_which_entries_it_took_back_and_they_say_so() -> None:
    usage = fact("usage.recorded", "u", counts={"n": 1})
    found = entries(
        said("a"), said("b"), usage, said("c"), popped("p", span("b", None)), said("d"), popped("q", item("d"))
    )

    assert taken_back(found) == ["b", "c", "d"]
    assert [one["covered"] for one in found if one["kind"] == "history_popped"] == [[[2, 4]], [[6, 6]]]


def test_a_call_is_removed_with_its_result() -> None:
    call = fact("tool_call.snapshotted", "c", call="x", name="n")
    found = entries(call, fact("tool_result.snapshotted", "r", call="x", output="y"), popped("p", span("c", "r")))

    assert found[0]["taken_back"] is True
    assert found[1]["covered"] == [[1, 1]]


def test_a_range_means_what_stood_between_its_ends_then() -> None:
    found = entries(
        said("a"),
        said("b"),
        popped("p", item("b")),
        said("c"),
        compacted("k", span(None, "c"), items=[{"role": "user", "content": "sum"}]),
        said("d"),
        compacted("l", span(None, "d")),
    )

    assert [one["covered"] for one in found if one["kind"] == "history_compacted"] == [[[1, 1], [4, 4]], [[5, 6]]]
    assert taken_back(found) == ["b"]  # what was compacted was not taken back


def test_what_stands_for_others_stands_in_their_place() -> None:
    """The range from the summary's item on holds what was kept behind it."""
    found = entries(
        said("a"),
        said("b"),
        said("c"),
        compacted("k", item("a"), item("b"), items=["sum"]),
        popped("p", {"first": item("k"), "last": item("c")}),
    )

    assert found[-1]["covered"] == [[3, 4]]
    assert taken_back(found) == ["c"]


def test_what_cannot_be_resolved_is_counted() -> None:
    found = entries(said("a"), popped("p", item("a")), popped("q", item("a"), item("never"), span("b", "a")), said("b"))

    assert "unresolved" not in found[1]
    assert (found[2]["covered"], found[2]["unresolved"]) == ([], 3)
    assert taken_back(found) == ["a"]


def test_an_undo_that_was_withdrawn_took_nothing_back() -> None:
    undo = event_id("hook", "p")
    found = entries(said("a"), popped("p", item("a")), fact("event.withdrawn", "w", id=undo, revision=1))

    assert taken_back(found) == []
    assert "covered" not in found[1]


def test_message_repeated_by_its_producer_is_not_removed() -> None:
    again = {"turn": "1", "index": 0}
    call = {"call": "x", "name": "n", "arguments": {"a": 1}}
    found = entries(
        fact("tool_call.snapshotted", "c", producer="q", **call),
        fact("tool_call.snapshotted", "c", **call),
        fact("tool_call.snapshotted", "d", **call),
        popped("p", item("c")),
        said("a", **again),
        said("b"),
    )
    assert found[0].get("taken_back") is None

    found = entries(
        fact("tool_call.snapshotted", "c", producer="q", **call),
        fact("tool_call.snapshotted", "c", **call),
        popped("p", item("c")),
    )
    assert found[0]["taken_back"] is True  # a hook tells the call too, and knows of no undo


def test_items_of_an_appended_history_are_named_by_their_place() -> None:
    items = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    found = entries(
        fact("history.appended", "h", items=items),
        popped("p", {"first": item("h", 1), "last": None}),
        fact("history.cleared", "x"),
        popped("q", item("h", 0)),
    )

    assert taken_back(found) == ["b", "c"]
    assert [one["item"] for one in found if one["kind"] == "message"] == [item("h", n) for n in range(3)]
    assert found[3]["covered"] == [[1, 1]]
    assert found[5]["unresolved"] == 1


def test_messages_are_in_the_history_again_after_the_append_is_withdrawn() -> None:
    withdrawn = fact("event.withdrawn", "w", id=event_id("hook", "h"), revision=1)
    found = entries(said("a"), fact("history.appended", "h", items=["x"]), withdrawn, popped("p", item("a")))

    assert taken_back(found) == ["a"]


def test_a_compaction_that_two_files_tell_of_covers_what_either_says() -> None:
    at = {"extra": {"boundary": "b"}}
    found = entries(said("a"), compacted("k", item("a"), **at), said("b"), compacted("l", item("b"), **at))

    [one] = [one for one in found if one["kind"] == "history_compacted"]
    assert one["covered"] == [[1, 3]]


def test_a_compaction_has_the_words_of_its_tool() -> None:
    [one] = entries(compacted("k", items=[{"role": "user", "content": "hi"}], extra={"message": "In short: hi."}))

    assert (one["text"], one["items"]) == ("In short: hi.", [{"role": "user", "content": "hi"}])
