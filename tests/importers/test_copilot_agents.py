"""Whose the records of subagents are, and what is taken out of a history."""

from __future__ import annotations

from typing import Any

import pytest
from tests.importers.copilot_lines import (
    SESSION,
    answer,
    asked,
    completed,
    eid,
    read,
    record,
    request,
    started,
    turn,
    turned,
    uid,
)
from tests.importers.reading_lines import data_of, id_of, notes, of, told

MESSAGE, COMPACTED, POPPED = "message.recorded", "history.compacted", "history.popped"


def spawned(name: str, call: str, agent: str | None = None, **data: Any) -> dict[str, Any]:
    return record("subagent.started", name, agent=agent, toolCallId=call, agentName="explore", **data)


def test_what_a_subagent_says_is_a_session_of_its_own() -> None:
    """Mixed with the main agent's they are no conversation (github/copilot-cli's issue 2543)."""
    rows = [
        turn("t1"),
        answer("a2", "I ask another.", request("task_1", "task")),
        spawned("g3", "task_1", "ag-1", model="gpt-5-mini"),
        turn("t4", agent="ag-1"),
        answer("a5", "Looking.", request("c", command="ls"), agent="ag-1"),
        answer("a6", "Meanwhile."),
        completed("x7", "c", "x", agent="ag-1"),
        turned("t8", agent="ag-1"),
        record("subagent.completed", "g9", agent="ag-1", toolCallId="task_1", durationMs=5),
        completed("x10", "task_1", "done"),
    ]

    events = read(*rows)

    child = f"{SESSION}/ag-1"
    assert told(events, MESSAGE, "session", "content") == [
        (SESSION, "I ask another."),
        (child, "Looking."),
        (SESSION, "Meanwhile."),
    ]
    assert told(events, "tool_result.snapshotted", "session", "call") == [(child, "c"), (SESSION, "task_1")]
    begun = told(events, "session.started", "session", "harness", "model", "extra")
    assert begun == [(child, "copilot", "gpt-5-mini", {"agentName": "explore", "toolCallId": "task_1"})]
    assert told(events, "session.ended", "session", "extra") == [(child, {"toolCallId": "task_1", "durationMs": 5})]
    links = told(events, "session.linked", "session", "other", "as", "evidence")
    assert links == [(SESSION, child, "subagent", "native-id")]


def test_an_older_file_names_a_subagent_by_the_call_that_started_it() -> None:
    rows = [spawned("g1", "task_1"), answer("a2", "Looking.", parentToolCallId="task_1")]

    events = read(*rows, record("subagent.failed", "g3", toolCallId="task_1", error="out of time"))

    child = f"{SESSION}/task_1"
    assert told(events, MESSAGE, "session") == [child]
    assert told(events, "error.recorded", "session", "message") == [(child, "out of time")]
    assert told(events, "session.ended", "session") == [child]


def test_both_names_of_a_subagent_are_one_session() -> None:
    rows = [
        spawned("g1", "task_1", "ag-1"),
        answer("a2", "x", parentToolCallId="task_1"),
        answer("a3", "y", agent="ag-1"),
    ]

    assert told(read(*rows), MESSAGE, "session") == [f"{SESSION}/ag-1"] * 2


def test_a_subagent_of_a_subagent_is_linked_to_that() -> None:
    rows = [spawned("g1", "t1", "ag-1"), answer("a2", "x", agent="ag-1"), spawned("g3", "t2", "ag-2", parentId="ag-1")]

    assert told(read(*rows), "session.linked", "session", "other") == [
        (SESSION, f"{SESSION}/ag-1"),
        (f"{SESSION}/ag-1", f"{SESSION}/ag-2"),
    ]


def test_a_parent_that_the_file_does_not_know_is_the_main_agent() -> None:
    assert told(read(spawned("g1", "t1", "ag-1", parentId="task-9")), "session.linked", "session") == [SESSION]


def compacted(name: str, **data: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"success": True, "summaryContent": "so far"}
    return record("session.compaction_complete", name, **(said | data))


BEGINS = record("session.compaction_start", "k5")


def test_a_compaction_covers_what_came_before_it_began() -> None:
    rows = [
        asked("u1", "a"),
        answer("a2", "A"),
        BEGINS,
        asked("u6", "b"),
        compacted("k7", trigger="threshold", messagesRemoved=2),
    ]

    events = read(*rows)

    last = id_of(of(events, MESSAGE)[1])
    assert told(events, COMPACTED, "covers", "items", "mode", "extra") == [
        (
            [{"first": None, "last": [last, 0]}],
            [{"role": "user", "content": "so far"}],
            "threshold",
            {"messagesRemoved": 2},
        )
    ]


def test_a_compaction_that_never_said_that_it_began_covers_all_before_it() -> None:
    events = read(asked("u1", "a"), compacted("k7"))

    assert told(events, COMPACTED, "covers") == [[{"first": None, "last": [eid("u1"), 0]}]]


def test_rewind_to_the_first_message_after_a_compaction_leaves_its_summary() -> None:
    """It ran while the session went on, so what came before that message was covered only later."""
    rewound = record("session.snapshot_rewind", "w8", upToEventId=uid("u6"), eventsRemoved=1)
    events = read(asked("u1", "a"), BEGINS, asked("u6", "b"), compacted("k7"), rewound, compacted("k9"))

    assert told(events, COMPACTED, "covers")[1] == [{"first": None, "last": [eid("k7"), 0]}]


def test_a_compaction_covers_nothing_that_was_removed_while_it_ran() -> None:
    rewound = record("session.snapshot_rewind", "w8", upToEventId=uid("u4"), eventsRemoved=1)
    events = read(asked("u1", "a"), asked("u4", "b"), BEGINS, rewound, compacted("k9"))

    assert told(events, COMPACTED, "covers") == [[{"first": None, "last": [eid("u1"), 0]}]]


def test_a_second_compaction_covers_what_stands_for_the_first() -> None:
    events = read(asked("u1", "a"), BEGINS, compacted("k6"), compacted("k7"))

    assert told(events, COMPACTED, "covers")[1] == [{"first": None, "last": [eid("k6"), 0]}]


def test_a_compaction_that_failed_compacts_nothing() -> None:
    events = read(
        asked("u1", "a"), BEGINS, compacted("k7", success=False, error="no answer"), asked("u8", "b"), compacted("k9")
    )

    assert told(events, COMPACTED, "covers") == [[{"first": None, "last": [eid("u8"), 0]}]]
    assert told(events, "error.recorded", "message") == ["no answer"]
    assert len(data_of(events, "session.compaction_complete")) == 1


def test_a_compaction_of_a_subagent_covers_its_own_history() -> None:
    rows = [asked("u1", "a"), answer("a2", "x", agent="ag-1"), compacted("k3") | {"agentId": "ag-1"}]

    events = read(*rows)

    last = id_of(of(events, MESSAGE)[1])
    assert told(events, COMPACTED, "session", "covers") == [(f"{SESSION}/ag-1", [{"first": None, "last": [last, 0]}])]


def rewind(name: str, to: str) -> dict[str, Any]:
    return record("session.snapshot_rewind", name, upToEventId=uid(to), eventsRemoved=3)


@pytest.mark.parametrize("to", ["u1", "u3"])
def test_a_rewind_takes_a_message_of_the_user_and_all_behind_it(to: str) -> None:
    events = read(asked("u1", "a"), answer("a2", "A"), asked("u3", "b"), answer("a4", "B"), rewind("w5", to))

    last = id_of(of(events, MESSAGE)[-1])
    assert told(events, POPPED, "items") == [[{"first": [eid(to), 0], "last": [last, 0]}]]
    assert notes(events) == []


def test_what_is_compacted_after_a_rewind_is_what_was_left() -> None:
    events = read(asked("u1", "a"), asked("u3", "b"), rewind("w5", "u3"), compacted("k6"))

    assert told(events, COMPACTED, "covers") == [[{"first": None, "last": [eid("u1"), 0]}]]


@pytest.mark.parametrize("to", ["a2", "u3", "nobody"])
def test_a_rewind_to_what_is_no_message_in_the_history_is_data(to: str) -> None:
    rows = [asked("u1", "a"), answer("a2", "A"), asked("u3", "b"), rewind("w4", "u3")]

    events = read(*rows, rewind("w5", to))

    assert len(of(events, POPPED)) == 1
    assert len(data_of(events, "session.snapshot_rewind")) == 1
    assert notes(events) == [
        "the target of a rewind is not a user message in this history; the rewind was stored as data"
    ]


def test_rewind_before_a_compaction_undoes_it_and_one_after_it_does_not() -> None:
    rows = [asked("u1", "a"), BEGINS, asked("u6", "b"), compacted("k7")]

    behind, later = read(*rows, rewind("w8", "u1")), read(*rows, rewind("w8", "u6"))

    assert told(behind, "event.withdrawn", "id", "revision") == [(eid("k7"), 1)]
    assert told(behind, POPPED, "items") == [[{"first": [eid("u1"), 0], "last": [eid("u6"), 0]}]]
    assert of(later, "event.withdrawn") == []
    assert told(later, POPPED, "items") == [[{"first": [eid("u6"), 0], "last": [eid("u6"), 0]}]]


def test_rewind_over_two_compactions_undoes_both() -> None:
    rows = [asked("u1", "a"), asked("u2", "b"), compacted("k3"), asked("u4", "c"), compacted("k5")]

    events = read(*rows, rewind("w6", "u2"), compacted("k7"))

    assert told(events, "event.withdrawn", "id") == [eid("k3"), eid("k5")]
    assert told(events, POPPED, "items") == [[{"first": [eid("u2"), 0], "last": [eid("u4"), 0]}]]
    assert told(events, COMPACTED, "covers")[-1] == [{"first": None, "last": [eid("u1"), 0]}]


def test_a_history_that_is_cleared_is_empty() -> None:
    rows = [asked("u1", "a"), record("session.context_cleared", "c2", messagesCleared=1), compacted("k3")]

    events = read(*rows)

    assert told(events, "history.cleared", "extra") == [{"messagesCleared": 1}]
    assert told(events, COMPACTED, "covers") == [[]]


def test_a_subagent_starts_its_turns_apart_from_the_main_agents() -> None:
    rows = [turn("t1"), turn("t2", "0", None, agent="ag-1"), started("x3", "c", agent="ag-1"), started("x4", "d")]

    turns = told(read(*rows), "tool_call.snapshotted", "turn")

    assert turns[0] == f"{uid('t2')}/0"
    assert turns[1].endswith("/0")
    assert turns[0] != turns[1]
