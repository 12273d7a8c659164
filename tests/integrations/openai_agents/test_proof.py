"""What an input proves of a history: an ordered matching, whole groups, and no more."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from agents import RunContextWrapper
from agents.items import ModelResponse
from agents.testing import assistant_message, function_call
from agents.usage import Usage
from hypothesis import given
from hypothesis import strategies as st

from rightful.field_types import ItemRange
from rightful.integrations.openai_agents import session_runs as runs_
from rightful.integrations.openai_agents.compaction import model_input
from rightful.integrations.openai_agents.compaction.model_input import (
    Exchange,
    Mark,
    mark,
    matched,
    prove,
    ranges,
    whole,
)
from rightful.integrations.openai_agents.session_runs import Marks, Runs
from rightful.projections.histories.history_items import item_of
from rightful.projections.histories.item_groups import split_pairs


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(of: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": of, "name": "f", "arguments": "{}"}


def output(of: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": of, "output": "1"}


def thought(of: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": of, "summary": []}


def said(text: str, of: str = "m") -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": of, "content": [{"type": "output_text", "text": text}]}


def seen(*items: Any) -> Exchange:
    return Exchange(tuple(mark(item) for item in items))


def covered(items: list[Any], *real: Any, known: set[int] | None = None) -> tuple[int, ...]:
    return prove(items, set(range(len(items))) if known is None else known, seen(*real)).covered


letters = st.lists(st.sampled_from("abc"), max_size=9)
histories = st.lists(
    st.sampled_from([user("a"), user("b"), said("a"), call("1"), output("1"), call("2"), output("2"), thought("r")]),
    max_size=10,
)


def longest(one: list[str], other: list[str]) -> int:
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for at, a in enumerate(one):
        for place, b in enumerate(other):
            rows[at + 1][place + 1] = rows[at][place] + 1 if a == b else max(rows[at][place + 1], rows[at + 1][place])
    return rows[-1][-1]


def marks(texts: list[str]) -> list[Mark | None]:
    return [Mark(text, text) for text in texts]


@given(letters, letters)
def test_as_many_items_as_possible_are_matched_once_and_in_order(one: list[str], other: list[str]) -> None:
    found = sorted(matched(marks(one), marks(other)).items())

    assert all(one[at] == other[place] for at, place in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))
    assert len(found) == longest(one, other)


@given(letters, letters)
def test_where_an_exact_matching_is_too_much_the_nearest_is_as_well_proven(one: list[str], other: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_input, "_CANDIDATE_PAIRS", 0)
        found = sorted(matched(marks(one), marks(other)).items())

    assert all(one[at] == other[place] for at, place in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))
    assert bool(found) == bool(set(one) & set(other))


def test_ten_thousand_equal_items_are_matched_in_linear_time() -> None:
    same = marks(["x"] * 10_000)

    found = matched([*marks(["a"]), *same, *marks(["b"])], [*marks(["c"]), *same, *marks(["d"])])

    assert len(found) == 10_000


@given(histories, st.data())
def test_filtered_input_covers_only_the_items_in_it(items: list[Any], data: st.DataObject) -> None:
    """Shortened, reordered, doubled, rewritten: any list of the same and other items can be what the model got."""
    real = data.draw(st.lists(st.sampled_from([*items, user("new"), said("else")]), max_size=12))
    known = data.draw(st.sets(st.sampled_from(range(len(items)))) if items else st.just(set()))

    found = prove(items, known, seen(*real))

    left = iter(real)
    assert all(items[at] in left for at in found.covered)  # consumes: in order, each its own occurrence
    assert whole(items, set(found.covered)) == set(found.covered)
    assert found.entire == (len(found.covered) == len(real))


@given(histories, st.data())
def test_no_group_is_cut_and_what_is_whole_stays_chosen(items: list[Any], data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(range(len(items)))) if items else st.just(set()))

    left = whole(items, chosen)

    assert left <= chosen
    for of in "12":
        calls = {at for at, item in enumerate(items) if item == call(of)}
        outputs = {at for at, item in enumerate(items) if item == output(of)}
        assert not left & (calls | outputs) or (calls and outputs and calls | outputs <= left)
    for at, (one, after) in enumerate(pairwise(items)):
        if one == thought("r") and after in (said("a"), call("1"), call("2"), thought("r")):
            assert (at in left) == (at + 1 in left)


def test_the_same_words_said_twice_are_two_items() -> None:
    items = [user("again"), said("ok"), user("again")]

    assert covered(items, *items) == (0, 1, 2)
    assert covered(items, user("again")) == (2,)
    assert covered(items, said("ok"), user("again")) == (1, 2)
    assert covered([user("again")], user("again"), user("again")) == (0,)


def test_a_reordered_input_proves_no_more_than_stands_in_order() -> None:
    items = [user("a"), user("b"), user("c")]

    assert covered(items, user("c"), user("a"), user("b")) == (0, 1)
    assert covered(items, user("c"), user("b"), user("a")) in {(0,), (1,), (2,)}
    assert covered(items, user("A"), user("B")) == ()


def test_limited_read_covers_its_window_and_the_runs_own_appends() -> None:
    items = [user("x"), said("y"), user("x"), said("y"), user("z")]

    assert covered(items, user("x"), said("y"), user("z"), known={2, 3, 4}) == (2, 3, 4)


def test_item_not_read_by_the_run_counts_only_if_it_is_unique() -> None:
    """A run that goes on elsewhere: `x` was sent once and stands twice, so one of them is another run's."""
    items = [user("first"), user("x"), user("x"), said("hers"), output("1"), said("mine")]
    items.insert(1, call("1"))
    real = [user("first"), call("1"), user("x"), output("1"), said("mine")]

    assert covered(items, *real, known={5, 6}) == (0, 1, 5, 6)


def test_a_call_without_an_output_and_what_was_thought_before_it_stay() -> None:
    items = [user("a"), thought("r"), call("1"), call("2"), output("2")]

    assert whole(items, {0, 1, 2, 3, 4}) == {0, 3, 4}
    assert whole([*items, output("1")], {0, 1, 2, 3, 4}) == {0, 3, 4}
    assert whole([*items, output("1")], {0, 1, 2, 3, 4, 5}) == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"type": "computer_call", "call_id": "c"}, {"type": "computer_call_output", "call_id": "c"}),
        ({"type": "local_shell_call", "call_id": "c"}, {"type": "local_shell_call_output", "call_id": "c"}),
        ({"type": "local_shell_call", "call_id": "c"}, {"type": "local_shell_call_output", "id": "c"}),
        ({"type": "shell_call", "call_id": "c"}, {"type": "shell_call_output", "call_id": "c"}),
        ({"type": "apply_patch_call", "call_id": "c"}, {"type": "apply_patch_call_output", "call_id": "c"}),
        ({"type": "custom_tool_call", "call_id": "c"}, {"type": "custom_tool_call_output", "call_id": "c"}),
        ({"type": "tool_search_call", "call_id": "c"}, {"type": "tool_search_output", "call_id": "c"}),
        ({"type": "program", "call_id": "c"}, {"type": "program_output", "call_id": "c"}),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, {"role": "tool", "tool_call_id": "c"}),
        ({"type": "mcp_approval_request", "id": "q"}, {"type": "mcp_approval_response", "approval_request_id": "q"}),
        (
            {"type": "hosted_tool_call", "provider_data": {"type": "mcp_approval_request", "id": "q"}},
            {"type": "mcp_approval_response", "approval_request_id": "q"},
        ),
    ],
)
def test_what_was_asked_for_goes_with_what_was_given_or_not_at_all(asked: Any, given: Any) -> None:
    assert whole([asked, user("a"), given], {0, 1, 2}) == {0, 1, 2}
    assert whole([asked, user("a"), given], {0, 1}) == {1}
    assert whole([asked, user("a"), given], {1, 2}) == {1}
    assert whole([asked, user("a")], {0, 1}) == {1}
    assert whole([user("a"), given], {0, 1}) == {0}
    assert not _cut([asked, user("a"), given], {0, 1, 2}), "what is whole here is whole for the ledger"
    assert not _cut([asked, user("a"), given], {1})


def _cut(items: list[Any], covered: set[int]) -> list[Any]:
    view = [item_of(("e", at), 1, json.dumps(item).encode(), escaped=False) for at, item in enumerate(items)]
    return split_pairs({("e", at) for at in covered}, view)


def test_what_a_program_called_goes_with_the_program() -> None:
    program, ended = {"type": "program", "call_id": "p"}, {"type": "program_output", "call_id": "p"}
    inner = {**call("1"), "caller": {"type": "program", "caller_id": "p"}}
    items = [program, inner, output("1"), ended]

    assert whole(items, {0, 1, 2, 3}) == {0, 1, 2, 3}
    assert whole(items, {0, 1, 2}) == set()


def test_reasoning_without_id_matches_and_two_ids_are_two_thoughts() -> None:
    bare = {"type": "reasoning", "summary": []}

    assert prove([thought("r1"), said("a")], {0, 1}, seen(bare, said("a"))).bare == {0}
    assert prove([bare, said("a")], {0, 1}, seen(thought("r1"), said("a"))).covered == (0, 1)
    assert covered([thought("r1"), said("a")], thought("r2"), said("a")) == ()


def test_an_item_is_the_same_as_the_sdk_keeps_it_and_as_it_sends_it() -> None:
    answer = ModelResponse(
        [assistant_message("hi", item_id="m"), function_call("f", {}, call_id="1")], Usage(), "r"
    ).to_input_items()
    kept: list[Any] = [{**answer[0], "created_by": "x"}, {**answer[1], "_agents_tool_title": "F"}]

    assert covered(kept, *answer) == (0,)  # the call has no output
    assert [mark(one) for one in kept] == [mark(one) for one in answer]
    plain = {"role": "assistant", "content": "hi"}
    assert mark(plain) == mark(
        {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}], "status": None}
    )
    assert mark(plain) != mark({**plain, "status": "incomplete"})
    assert mark("no item") is None
    assert mark({"role": "user", "content": object()}) is None


def test_covers_are_ranges_of_what_stands_one_after_the_other() -> None:
    ids = [("e", 0), ("e", 1), ("f", 0), ("g", 0), ("g", 1)]

    assert ranges(ids, (0, 1, 2, 4)) == (ItemRange(("e", 0), ("f", 0)), ("g", 1))
    assert ranges(ids, ()) == ()


def test_marks_are_made_once_a_session_and_again_for_another_kind_of_them() -> None:
    runs, made = Runs(None), []

    def other(item: Any) -> Mark:
        made.append(item)
        return Mark("x", "x")

    ids, items = [("e", 0), ("e", 1)], [user("a"), user("b")]
    first, second = (runs.of(RunContextWrapper(None)).marks for _ in range(2))
    assert first.of(ids, items, mark) == [mark(item) for item in items]
    assert first.of(ids, items, other) == [Mark("x", "x")] * 2
    assert second.of(ids, items, other) == [Mark("x", "x")] * 2
    assert second.of(ids, items, mark) == [mark(item) for item in items]
    assert made == items


def test_no_more_marks_are_kept_than_a_view_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_, "_MARKS", 2)
    marks, made = Marks(), []

    def other(item: Any) -> Mark:
        made.append(item)
        return Mark("x", "x")

    for at in (0, 1, 1, 2, 2, 0):
        assert marks.of([("e", at)], [at], other) == [Mark("x", "x")]
    assert made == [0, 1, 2, 0]


def test_answer_about_to_be_appended_does_not_match_an_equal_one() -> None:
    ok = {"role": "assistant", "content": "ok"}
    items, coming = [user("a"), ok], [mark(ok)]
    exchange = Exchange((mark(user("a")), mark(ok)))

    assert prove(items, {0}, exchange).covered == (0, 1)
    assert prove(items, {0}, exchange, new=coming).covered == (0,)
    assert prove(items, {0}, exchange, new=coming).explained
    assert not prove(items, {0}, exchange, new=[mark(user("c"))]).explained
    assert prove(items, {0, 1}, exchange, new=coming).covered == (0, 1)
