"""A transcript in the forms of the two readers of Agenta's session records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.log.facts import fact
from tests.transcripts.folding import folded, log_of, rows_of
from tests.transcripts.sequences import CASES, NAME, wires

from rightful.projections.transcripts import agenta_readers


def said(key: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return fact("message.recorded", key, role=role, content=content, **more)


def call(key: str = "c", **fields: Any) -> dict[str, Any]:
    return fact("tool_call.snapshotted", key, **({"call": "a", "name": "bash", "arguments": {"x": 1}} | fields))


def result(key: str = "r", **fields: Any) -> dict[str, Any]:
    return fact("tool_result.snapshotted", key, **({"call": "a", "output": "out"} | fields))


CALL = {"type": "tool_call", "toolCallId": "a", "toolName": "bash", "input": {"x": 1}}
RESULT = {"type": "tool_result", "toolCallId": "a", "toolName": "bash", "output": "out", "isError": False}


def both(*events: dict[str, Any]) -> tuple[Any, Any]:
    transcript = folded(events)
    return agenta_readers.runner(transcript), agenta_readers.api(transcript)


def test_what_the_agent_says_and_does_up_to_the_next_user_is_one_message() -> None:
    events = [said("1", "user", "go"), said("2", "assistant", "ok"), call(), result(), said("3", "user", "on")]
    text = {"type": "text", "text": "ok"}
    right = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [text, CALL, RESULT]},
        {"role": "user", "content": "on"},
    ]

    assert both(*events) == (right, right)


def test_only_the_runner_keeps_an_empty_message_of_a_user() -> None:
    ran, replayed = both(
        said("1", "user", ""), said("2", "assistant", "ok"), said("3", "user", ""), said("4", "assistant", "so")
    )

    assert ran == [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "so"},
    ]
    assert replayed == [
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "text", "text": "so"}]}
    ]


def test_only_the_runner_makes_one_string_of_a_turn_that_is_all_text() -> None:
    ran, replayed = both(said("1", "assistant", "a"), said("2", "assistant", "b"), said("3", "assistant", ""))

    assert ran == [{"role": "assistant", "content": "ab"}]
    assert replayed == [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_only_the_runner_tells_an_error() -> None:
    ran, replayed = both(call(), fact("error.recorded", "e", message="no"))

    assert ran == [{"role": "assistant", "content": [CALL, {"type": "text", "text": "[error: no]"}]}]
    assert replayed == [{"role": "assistant", "content": [CALL]}]


def test_runner_gets_the_text_of_a_result_and_the_api_its_data() -> None:
    ran, replayed = both(call(), result(extra={"data": {"n": 1}}))

    assert ran[0]["content"][1] == RESULT
    assert replayed[0]["content"][1] == RESULT | {"output": {"n": 1}}
    ran, replayed = both(call(), result(output=None, extra={"data": {"n": 1}}))
    assert ran == replayed
    assert ran[0]["content"][1] == RESULT | {"output": {"n": 1}}


def test_a_result_is_shown_behind_its_call_whenever_it_came() -> None:
    events = [call(turn="1"), said("1", "user", "on", turn="2"), result(turn="2")]

    assert both(*events)[0] == [{"role": "assistant", "content": [CALL, RESULT]}, {"role": "user", "content": "on"}]


def test_result_without_call_and_call_without_result_are_read() -> None:
    assert both(result(output=None, is_error=True))[0] == [
        {"role": "assistant", "content": [{"type": "tool_result", "toolCallId": "a", "isError": True}]}
    ]
    assert both(call(name=None, arguments=None))[1] == [
        {"role": "assistant", "content": [{"type": "tool_call", "toolCallId": "a"}]}
    ]


@pytest.mark.parametrize(
    "kind", ["thought.recorded", "history.cleared", "turn.ended", "interaction.answered", "usage.recorded"]
)
def test_what_is_no_part_of_the_conversation_is_not_shown(kind: str) -> None:
    more: dict[str, Any] = {
        "turn.ended": {"turn": "1"},
        "interaction.answered": {"interaction": "i"},
        "usage.recorded": {"counts": {}},
    }

    assert both(fact(kind, **more.get(kind, {})), said("1", "system", "rules")) == ([], [])


def test_what_came_late_is_not_shown() -> None:
    [late] = [case for case in CASES if case.number == "2.15"]
    transcript = folded(wires(late.records), NAME)

    assert agenta_readers.api(transcript) == [
        {
            "role": "assistant",
            "content": [{"type": "tool_call", "toolCallId": "a", "toolName": "bash", "input": {"command": "ls"}}],
        }
    ]


def test_a_late_result_is_not_shown_and_its_call_is() -> None:
    end = fact("turn.ended", "e", turn="1", index=1)
    events = [call(turn="1", index=0), end, result(turn="1", index=2)]

    assert both(*events)[0] == [{"role": "assistant", "content": [CALL]}]


def test_content_that_json_cannot_hold_is_escaped() -> None:
    assert both(said("1", "user", "\ud800"))[0] == [{"role": "user", "content": "\x1ad800"}]


def test_what_was_withdrawn_is_not_shown() -> None:
    one = said("1", "user", "go")
    id_ = rows_of(log_of([one]))[0].envelope.id

    assert both(one, fact("event.withdrawn", "w", id=id_, revision=1)) == ([], [])
