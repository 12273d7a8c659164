"""What Codex compacts and rolls back, as events over the items that it has told."""

from __future__ import annotations

import pytest
from tests.importers.codex_lines import LATER, TURN, V4, began, called, ended, event, item, line, meta, read, said
from tests.importers.reading_lines import data_of, id_of, notes, of, told

COMPACTED, POPPED = "history.compacted", "history.popped"
ITEMS = ("message.recorded", "thought.recorded", "tool_call.snapshotted", "tool_result.snapshotted")
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]}
TURNS = [
    [began(TURN), said("one", "user"), said("One."), ended(TURN)],
    [began(LATER), said("two", "user"), called("c", cmd="x"), said("Two."), ended(LATER)],
    [began(V4[0]), said("three", "user"), said("Three."), ended(V4[0])],
]
ROWS = [row for turn in TURNS for row in turn]


def compacted(**fields: object) -> dict[str, object]:
    return line("compacted", {"message": "so far", "window_number": 1} | fields)


def rolled_back(count: int) -> dict[str, object]:
    return event("thread_rolled_back", num_turns=count)


def test_compaction_covers_all_before_it_and_inserts_the_new_history() -> None:
    events = read(*ROWS, compacted(replacement_history=[USER]), event("context_compacted"), said("after"))

    last = next(one for one in of(events, *ITEMS) if one.get("content") == "Three.")
    assert told(events, COMPACTED, "covers", "items", "extra") == [
        ([{"first": None, "last": [id_of(last), 0]}], [USER], {"message": "so far", "window_number": 1})
    ]
    assert data_of(events, "context_compacted") == [{"type": "context_compacted"}]


def test_a_compaction_that_says_no_new_history_is_stood_for_by_its_summary() -> None:
    [event_] = of(read(*ROWS, compacted()), COMPACTED)

    assert event_["items"] == [{"type": "message", "role": "user", "content": "so far"}]


def test_a_compaction_of_nothing_covers_nothing() -> None:
    assert told(read(compacted(replacement_history=[])), COMPACTED, "covers", "items") == [([], [])]


def test_a_second_compaction_covers_the_items_of_the_first() -> None:
    events = read(*ROWS, compacted(replacement_history=[USER, USER]), compacted(replacement_history=[]))

    first, second = of(events, COMPACTED)
    assert second["covers"] == [{"first": None, "last": [id_of(first), 1]}]


def test_the_same_compaction_twice_is_two() -> None:
    assert len({id_of(one) for one in of(read(*ROWS, compacted(), compacted()), COMPACTED)}) == 2


@pytest.mark.parametrize(("count", "first"), [(1, "three"), (2, "two"), (3, "one")])
def test_a_rollback_takes_the_last_turns_that_a_person_began(count: int, first: str) -> None:
    events = read(*ROWS, rolled_back(count))

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    assert told(events, POPPED, "items") == [[{"first": ids[first], "last": ids["Three."]}]]
    assert notes(events) == []


def test_context_goes_with_its_prompt_and_that_before_the_first_stays() -> None:
    rules, place = said("rules", "developer"), said("<environment_context>", "user")
    rows = [rules, *TURNS[0], place, rules, *TURNS[1]]

    events = [read(*rows, rolled_back(count)) for count in (1, 2)]

    starts = [told(one, POPPED, "items")[0][0]["first"][0] for one in events]
    spoken = {id_of(one): one["content"] for one in of(events[0], "message.recorded")}
    assert [spoken[start] for start in starts] == ["<environment_context>", "one"]


def test_rollbacks_one_after_the_other_take_one_turn_each() -> None:
    events = read(*ROWS, rolled_back(1), rolled_back(1))

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    assert told(events, POPPED, "items") == [
        [{"first": ids["three"], "last": ids["Three."]}],
        [{"first": ids["two"], "last": ids["Two."]}],
    ]
    assert len({id_of(one) for one in of(events, POPPED)}) == 2


def test_what_is_compacted_after_a_rollback_is_what_was_left() -> None:
    events = read(*ROWS, rolled_back(1), compacted())

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    assert told(events, COMPACTED, "covers") == [[{"first": None, "last": ids["Two."]}]]


def test_rollback_counts_no_message_of_a_replacement_as_a_turn() -> None:
    """It counts turns that a person began, and undoes the compaction that was done behind the first of them."""
    kept = [USER, {"type": "compaction", "encrypted_content": "x"}, USER]
    events = read(*TURNS[0], compacted(replacement_history=kept), *TURNS[1], rolled_back(2))

    [place] = of(events, COMPACTED)
    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    assert told(events, POPPED, "items") == [[{"first": ids["one"], "last": ids["Two."]}]]
    assert told(events, "event.withdrawn", "id", "revision") == [(id_of(place), 1)]


def test_rollback_of_what_came_after_a_compaction_leaves_the_compaction() -> None:
    events = read(*TURNS[0], compacted(replacement_history=[USER]), *TURNS[1], rolled_back(1), compacted())

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    first, second = of(events, COMPACTED)
    assert told(events, POPPED, "items") == [[{"first": ids["two"], "last": ids["Two."]}]]
    assert second["covers"] == [{"first": None, "last": [id_of(first), 0]}]
    assert of(events, "event.withdrawn") == []


@pytest.mark.parametrize("items", [[], [USER]])
def test_compaction_before_its_turn_asked_is_undone_with_the_turn(items: list[object]) -> None:
    """Codex compacts a full context at the beginning of a turn, before it writes the prompt."""
    third = [began(V4[0]), compacted(replacement_history=items), said("three", "user"), said("Three.")]
    events = read(*TURNS[0], *TURNS[1], *third, rolled_back(1), compacted())

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    undone, last = of(events, COMPACTED)
    assert told(events, "event.withdrawn", "id") == [id_of(undone)]
    assert told(events, POPPED, "items") == [[{"first": ids["three"], "last": ids["Three."]}]]
    assert last["covers"] == [{"first": None, "last": ids["Two."]}]


def test_compaction_in_its_own_turn_is_undone_with_the_turn_before_it() -> None:
    own = [began(V4[0]), compacted(replacement_history=[USER]), ended(V4[0])]
    third = [began(V4[1]), said("three", "user")]

    kept = read(*TURNS[0], *TURNS[1], *own, *third, rolled_back(1))
    undone = read(*TURNS[0], *TURNS[1], *own, *third, rolled_back(2))

    assert of(kept, "event.withdrawn") == []
    ids = {one["content"]: [id_of(one), 0] for one in of(undone, "message.recorded")}
    assert told(undone, "event.withdrawn", "id") == [id_of(of(undone, COMPACTED)[0])]
    assert told(undone, POPPED, "items") == [[{"first": ids["two"], "last": ids["three"]}]]


def test_a_rollback_beyond_the_session_takes_what_there_is_and_says_so() -> None:
    """What a fork inherited is no part of its own history."""
    events = read(*TURNS[0], rolled_back(3))

    ids = [[id_of(one), 0] for one in of(events, "message.recorded")]
    assert told(events, POPPED, "items") == [[{"first": ids[0], "last": ids[1]}]]
    assert notes(events) == ["3 turns were rolled back, but this session has only 1 of its own; others are unchanged"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_rollback_of_nothing_takes_nothing(count: int) -> None:
    events = read(meta(), began(), rolled_back(count), whole=True)

    assert of(events, POPPED) == []
    assert data_of(events, "thread_rolled_back") == [{"type": "thread_rolled_back", "num_turns": count}]


def test_a_rollback_of_no_turns_takes_none() -> None:
    assert of(read(*ROWS, rolled_back(0)), POPPED) == []


def test_a_prompt_that_is_recorded_in_both_forms_begins_one_turn() -> None:
    both = [item("message", role="user", content="two"), event("user_message", message="two")]
    events = read(*TURNS[0], began(LATER), *both, rolled_back(1))

    ids = {one["content"]: [id_of(one), 0] for one in of(events, "message.recorded")}
    assert told(events, POPPED, "items") == [[{"first": ids["two"], "last": ids["two"]}]]
