from __future__ import annotations

import json
from typing import Any

import pytest
from tests.importers import reading_lines
from tests.importers.copilot_lines import (
    ASKED,
    ASKED_AGAIN,
    PATH,
    SESSION,
    SID,
    answer,
    asked,
    completed,
    eid,
    read,
    record,
    request,
    start,
    started,
    turn,
    turned,
    uid,
)
from tests.importers.reading_lines import data_of, id_of, of, told

from rightful.errors import InvalidEventError
from rightful.importers.copilot.copilot_session import Copilot
from rightful.importers.engine.formats import Origin

MESSAGE, THOUGHT, CALL, RESULT, USAGE = (
    "message.recorded",
    "thought.recorded",
    "tool_call.snapshotted",
    "tool_result.snapshotted",
    "usage.recorded",
)


def test_a_session_begins_with_what_its_first_record_says() -> None:
    [begun] = of(read(start(copilotVersion="1.0.9"), whole=True))

    assert (begun["session"], id_of(begun), begun["harness"], begun["model"]) == (
        SESSION,
        eid("s0"),
        "copilot",
        "gpt-5",
    )
    assert (begun["cwd"], begun["at"]) == ("/w", "2026-08-01T10:15:00Z")
    assert begun["extra"] == {"branch": "main", "copilotVersion": "1.0.9", "producer": "copilot-agent", "version": 1}


def test_what_was_said_stands_in_content() -> None:
    """A reader of gptme-contrib looks into `text`, and finds nothing."""
    events = read(asked("u1", "Fix it"), answer("a2", "Fixed."))

    assert told(events, MESSAGE, "role", "content") == [("user", "Fix it"), ("assistant", "Fixed.")]
    assert id_of(of(events, MESSAGE)[0]) == eid("u1")


def test_what_the_model_saw_in_place_of_a_message_is_kept_beside_it() -> None:
    rows = [asked("u1", "hi", transformedContent="<now>x</now> hi"), asked("u2", "ho", transformedContent="ho")]

    assert told(read(*rows), MESSAGE, "extra") == [{"transformedContent": "<now>x</now> hi"}, None]


def test_attachments_are_kept_where_there_are_some() -> None:
    row = asked("u1", "see") | {"data": {"content": "see", "attachments": [{"type": "file", "path": "/w/x"}]}}

    assert told(read(row), MESSAGE, "extra") == [{"attachments": [{"type": "file", "path": "/w/x"}]}]


def test_what_no_person_said_as_the_user_is_marked() -> None:
    rows = [asked("u1", "a", source="skill-x"), asked("u2", "b", source="user"), asked("u3", "c")]

    assert [bool((extra or {}).get("meta")) for extra in told(read(*rows), MESSAGE, "extra")] == [True, False, False]


def test_turn_ids_that_begin_again_with_each_question_are_distinguished() -> None:
    first = [
        asked("u1", "a"),
        turn("t2"),
        answer("a3", "A"),
        turned("t4"),
        turn("t5", "1"),
        answer("a6", "B"),
        turned("t7", "1"),
    ]
    again = [asked("u8", "b", ASKED_AGAIN), turn("t9", "0", ASKED_AGAIN), answer("a10", "C"), turned("t11")]

    events = read(*first, *again)

    turns = [f"{ASKED}/0", f"{ASKED}/1", f"{ASKED_AGAIN}/0"]
    assert told(events, MESSAGE, "content", "turn") == [
        ("a", None),
        ("A", turns[0]),
        ("B", turns[1]),
        ("b", None),
        ("C", turns[2]),
    ]
    assert told(events, "turn.ended", "turn") == turns


def test_a_turn_without_an_interaction_is_recognised_by_its_first_record() -> None:
    events = read(turn("t1", "0", None), answer("a2", "A"), turned("t3"), turn("t4", "0", None), answer("a5", "B"))

    assert told(events, MESSAGE, "turn") == [f"{uid('t1')}/0", f"{uid('t4')}/0"]


def test_an_end_of_a_turn_that_never_began_is_data() -> None:
    events = read(turned("t1"))

    assert (of(events, "turn.ended"), len(data_of(events, "assistant.turn_end"))) == ([], 1)


def test_a_call_that_is_asked_for_and_started_is_one() -> None:
    rows = [turn("t1"), answer("a2", "Running.", request("c", command="ls")), started("x3", "c", command="ls")]

    events = read(*rows, completed("x4", "c", "fine"))

    assert told(events, CALL, "call", "name", "arguments", "complete") == [("c", "bash", {"command": "ls"}, True)]
    assert told(events, RESULT, "call", "output", "complete", "is_error") == [("c", "fine", True, None)]
    assert [id_of(one) for one in of(events, RESULT)] == [eid("x4")]


@pytest.mark.parametrize("kind", ["tool.execution_start", "tool.user_requested"])
def test_a_call_that_was_not_requested_is_kept(kind: str) -> None:
    row = started("x1", "c", command="ls") | {"type": kind}

    assert told(read(row), CALL, "call", "name", "arguments", "complete") == [("c", "bash", {"command": "ls"}, True)]


def test_a_call_that_a_hook_changed_is_recorded_as_it_ran() -> None:
    events = read(answer("a1", "", request("c", command="rm x")), started("x2", "c", command="rm -i x"))

    assert told(events, CALL, "arguments") == [{"command": "rm x"}, {"command": "rm -i x"}]
    assert len({id_of(one) for one in of(events, CALL)}) == 2


def test_a_call_id_that_comes_again_after_its_result_is_another_call() -> None:
    rows = [
        answer("a1", "", request("c", command="ls")),
        completed("x2", "c"),
        answer("a3", "", request("c", command="ls")),
    ]

    assert len({id_of(one) for one in of(read(*rows), CALL)}) == 2


def test_arguments_that_are_the_text_of_an_object_are_the_object() -> None:
    row = answer("a1", "", {"toolCallId": "c", "name": "x", "arguments": '{"a":1}'})

    assert told(read(row), CALL, "arguments") == [{"a": 1}]


def test_what_a_request_says_beside_its_arguments_is_kept() -> None:
    row = answer("a1", "", request("c") | {"mcpServerName": "git", "intentionSummary": None})

    assert told(read(row), CALL, "extra") == [{"mcpServerName": "git"}]


def test_an_answer_without_words_is_its_calls_alone() -> None:
    assert of(read(answer("a1", "", request("c"))), MESSAGE) == []
    assert told(read(answer("a1", "")), MESSAGE, "content") == [""]


def test_a_result_keeps_what_people_saw_where_that_differs() -> None:
    rows = [
        completed("x1", "c", "1 passed", result={"content": "1 passed", "detailedContent": "1 passed\n<exit 0>"}),
        completed("x2", "d", "same", result={"content": "same", "detailedContent": "same"}, toolTelemetry={}),
    ]

    assert told(read(*rows), RESULT, "output", "extra") == [
        ("1 passed", {"detailedContent": "1 passed\n<exit 0>"}),
        ("same", None),
    ]


@pytest.mark.parametrize(
    ("error", "output"), [({"message": "denied", "code": "x"}, "denied"), ("denied", "denied"), (None, None)]
)
def test_a_call_that_failed_is_an_error(error: object, output: str | None) -> None:
    row = record("tool.execution_complete", "x1", toolCallId="c", success=False, error=error)

    assert told(read(row), RESULT, "output", "is_error") == [(output, True)]


def test_the_usage_of_an_answer_is_of_its_request_or_of_itself() -> None:
    rows = [
        answer("a1", "x", outputTokens=20),
        answer("a2", "y", outputTokens=5, apiCallId="api"),
        record("assistant.usage", "g3", apiCallId="api", inputTokens=90, outputTokens=5, model="gpt-5"),
    ]

    assert told(read(*rows), USAGE, "counts", "of", "extra") == [
        ({"outputTokens": 20}, uid("m-a1"), None),
        ({"outputTokens": 5}, "api", None),
        ({"inputTokens": 90, "outputTokens": 5}, "api", {"model": "gpt-5"}),
    ]


def test_the_end_of_a_session_says_what_all_its_models_used() -> None:
    used = {"inputTokens": 900, "outputTokens": 50}
    metrics = {"a": {"requests": {}, "usage": used}, "b": {"usage": {"outputTokens": 1}}, "c": None}

    events = read(record("session.shutdown", "z9", shutdownType="routine", modelMetrics=metrics))

    assert told(events, "session.ended", "extra") == [{"shutdownType": "routine", "modelMetrics": metrics}]
    assert told(events, USAGE, "counts", "cumulative") == [({"inputTokens": 900, "outputTokens": 51}, True)]


def test_a_thought_that_stands_in_two_records_of_a_turn_is_recorded_once() -> None:
    own = record("assistant.reasoning", "r3", reasoningId="r", content="hm")

    orders = [
        [turn("t1"), own, answer("a4", "x", reasoningText="hm")],
        [turn("t1"), answer("a4", "x", reasoningText="hm"), own],
    ]

    assert [told(read(*rows), THOUGHT, "content") for rows in orders] == [["hm"], ["hm"]]
    assert told(read(*orders[0], turn("t5", "1"), own), THOUGHT, "content") == ["hm", "hm"]


def pieces(kind: str, of_: str, *texts: str) -> list[dict[str, Any]]:
    name = "messageId" if "message" in kind else "reasoningId"
    return [record(kind, f"{of_}-{at}", deltaContent=text, **{name: of_}) for at, text in enumerate(texts)]


def test_a_message_that_streams_is_recorded_in_growing_states_of_one_event() -> None:
    rows = [
        *pieces("assistant.message_delta", "m", "Hel", "lo", ", w", "orld"),
        answer("a9", "Hello, world!", messageId="m"),
    ]

    events = read(*rows)

    assert told(events, MESSAGE, "content") == ["Hel", "Hello", "Hello, w", "Hello, world", "Hello, world!"]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 1


def test_a_thought_that_streams_is_recorded_in_growing_states_of_one_event() -> None:
    rows = [*pieces("assistant.reasoning_delta", "r", "I s", "ee"), answer("a9", "x", reasoningText="I see.")]

    events = read(turn("t1"), *rows, record("assistant.reasoning", "r9", reasoningId="r", content="I see."))

    assert told(events, THOUGHT, "content") == ["I s", "I see", "I see."]
    assert len({id_of(one) for one in of(events, THOUGHT)}) == 1


def test_an_answer_in_chunks_is_a_message_a_chunk() -> None:
    rows = [answer(f"a{at}", text, messageId="m", chunkIndex=at) for at, text in enumerate(("one", "two"))]

    events = read(*rows)

    assert told(events, MESSAGE, "content") == ["one", "two"]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 2


def test_permissions_and_questions_are_interactions() -> None:
    rows = [
        record("permission.requested", "p1", requestId="q", kind="shell"),
        record("permission.completed", "p2", requestId="q", result="approved"),
        record("user_input.requested", "p3", question="?"),
    ]

    events = read(*rows)

    asked_ = told(events, "interaction.requested", "interaction", "kind", "payload")
    assert asked_ == [("q", "permission", {"kind": "shell"})]
    answered = told(events, "interaction.answered", "interaction", "kind", "payload")
    assert answered == [("q", "permission", {"result": "approved"})]
    assert data_of(events, "user_input.requested") == [{"question": "?"}]


def test_what_the_system_says_is_a_message_and_an_error_an_error() -> None:
    rows = [
        record("system.message", "y1", role="developer", content="rules"),
        record("system.notification", "y2", content="a task is done"),
        record("session.error", "y3", errorType="rate_limit", message="slow down"),
    ]

    events = read(*rows)

    assert told(events, MESSAGE, "role", "content", "extra") == [
        ("developer", "rules", None),
        ("system", "a task is done", {"meta": True}),
    ]
    assert told(events, "error.recorded", "message", "extra") == [("slow down", {"errorType": "rate_limit"})]


@pytest.mark.parametrize(
    "kind",
    [
        "session.resume",
        "session.truncation",
        "hook.start",
        "skill.invoked",
        "session.title_changed",
        "abort",
        "not.yet",
    ],
)
def test_what_is_no_part_of_the_conversation_is_data(kind: str) -> None:
    events = read(record(kind, "d1", x=1) | {"ephemeral": True})

    assert of(events) == [
        {
            "type": "data.recorded",
            "producer": "copilot",
            "session": SESSION,
            "key": json.dumps([SID, uid("d1"), "record"], separators=(",", ":")),
            "name": kind,
            "data": {"x": 1},
            "at": "2026-08-01T10:15:01Z",
        }
    ]


@pytest.mark.parametrize("name", ["not-a-uuid", None, 7, ""])
def test_a_record_without_a_uuid_is_recognised_by_what_it_has(name: object) -> None:
    rows = [record("x.y", "d1", x=at) | {"id": name} for at in (1, 1, 2)]

    ids = [id_of(one) for one in of(read(*rows))]

    assert ids[0] == ids[1]
    assert (ids[0] == ids[2]) is (name == "not-a-uuid")


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"type": 7, "data": {}, "id": "x"}, "$.type"),
        ({"type": "user.message", "data": "x", "id": "x"}, "$.data"),
        (record("user.message", "u1"), "$.data"),
        (record("user.message", "u1", content=3), "$.data.content"),
        (answer("a1", "x", {"toolCallId": 3, "name": "y"}), "$.data.toolRequests[0].toolCallId"),
        (record("tool.execution_complete", "x1"), "$.data"),
        (record("session.snapshot_rewind", "w1"), "$.data"),
        (record("session.compaction_complete", "w1", summaryContent=3), "$.data.summaryContent"),
        (start(sessionId="unknown"), "$.data.sessionId"),
    ],
)
def test_a_record_of_the_wrong_shape_says_where(row: Any, place: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        read(row)

    assert caught.value.place == place


def test_the_reader_goes_on_where_it_stopped_behind_any_record() -> None:
    rows = [start(), asked("u1", "a"), turn("t2"), *pieces("assistant.message_delta", "m", "He", "llo"), turned("t5")]
    rows += [
        asked("u6", "b"),
        turn("t7", "1"),
        answer("a8", "", request("c", command="x")),
        started("x9", "c", command="x"),
    ]
    rows += [record("session.compaction_start", "k10"), asked("u11", "c"), completed("x12", "c")]
    rows += [record("session.compaction_complete", "k13", success=True, summaryContent="s")]
    rows += [record("session.snapshot_rewind", "w14", upToEventId=uid("u11"), eventsRemoved=2)]
    whole = read(*rows, whole=True)

    for cut in range(1, len(rows)):
        first, second = (Copilot().reader(Origin(PATH, reading_lines.MTIME_US)) for _ in "12")
        begun = reading_lines.read_by(first, rows[:cut])
        second.restore(json.loads(json.dumps(first.state())))
        assert begun + reading_lines.read_by(second, rows[cut:], cut + 1) == whole
