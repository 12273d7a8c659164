"""Items of a history become messages, calls and results, from one producer at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.log.facts import fact
from tests.transcripts.folding import folded

DEEP: Any = "x"
for _ in range(70):
    DEEP = {"a": DEEP}


def batch(key: str, *items: Any, producer: str = "agents", **more: Any) -> dict[str, Any]:
    return fact("history.appended", key, items=list(items), producer=producer, **more)


def told(*events: dict[str, Any]) -> list[Any]:
    entries = folded(events).as_dict()["entries"]
    return [_told(one) for one in entries]


def _told(one: dict[str, Any]) -> Any:
    match one["kind"]:
        case "message":
            return one["role"], one["text"]
        case "tool_call":
            return one["call"], one.get("name"), one.get("arguments"), one.get("output")
        case "data":
            return "data", one["name"]
        case kind:
            return kind, one.get("text", one.get("interaction"))


@pytest.mark.parametrize(
    ("items", "right"),
    [
        ([{"role": "user", "content": "hi"}], [("user", "hi")]),
        (
            [{"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "yes"}]}],
            [("assistant", "yes")],
        ),
        (
            [
                {"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"a": 1}', "id": "fc"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ],
            [("c", "ls", {"a": 1}, "x")],
        ),
        (
            [
                {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
            ],
            [("c", "patch", "*** Begin", "ok")],
        ),
        (
            [
                {"type": "local_shell_call", "call_id": "c", "id": "l", "action": {"command": ["ls"]}},
                {"type": "local_shell_call_output", "call_id": "c", "id": "o", "output": "x"},
            ],
            [("c", "local_shell", {"command": ["ls"]}, "x")],
        ),
        (
            [{"type": "web_search_call", "id": "ws", "action": {"query": "q"}}],
            [("ws", "web_search", {"query": "q"}, None)],
        ),
        (
            [{"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "output": "x"}],
            [("m", "get", {}, "x")],
        ),
        ([{"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]}], [("thought", "hm")]),
        (
            [
                {"type": "mcp_approval_request", "id": "a", "name": "get"},
                {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
            ],
            [("interaction_requested", "a"), ("interaction_answered", "a")],
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ],
            [("c", "ls", {"a": 1}, "x")],
        ),
        (
            [{"role": "assistant", "content": "so", "tool_calls": [{"id": "c", "function": {"name": "ls"}}]}],
            [("assistant", "so"), ("c", "ls", None, None)],
        ),
        (
            [{"type": "compaction", "encrypted_content": "…"}, {"a": 1}, "bare"],
            [("data", "compaction"), ("data", "item"), ("data", "item")],
        ),
        ([{"type": "function_call", "name": "ls"}], [("data", "function_call")]),
        ([{"role": "assistant", "content": "", "tool_calls": "odd"}], [("assistant", "")]),
        ([{"role": "assistant", "content": None, "tool_calls": ["odd"]}], [("data", "tool_call")]),
        (
            [{"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"a": '}],
            [("c", "ls", '{"a": ', None)],
        ),
        (
            [{"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"a":' * 70 + "1" + "}" * 70}],
            [("c", "ls", '{"a":' * 70 + "1" + "}" * 70, None)],
        ),
    ],
)
def test_an_item_becomes_what_it_says(items: list[Any], right: list[Any]) -> None:
    assert told(batch("1", *items)) == right


def test_an_entry_of_an_item_has_the_items_id() -> None:
    transcript = folded([batch("1", {"role": "user", "content": "a"}, {"role": "user", "content": "b"})])

    assert [one.item[1] for one in transcript.entries if isinstance(one.item, list)] == [0, 1]
    assert [one.position for one in transcript.entries] == [1, 1]


def test_item_with_an_id_is_shown_once_and_without_one_each_time() -> None:
    known = {"type": "message", "role": "assistant", "id": "m", "content": "a"}
    bare = {"role": "user", "content": "b"}

    assert told(batch("1", known, bare), batch("2", known, bare)) == [("assistant", "a"), ("user", "b"), ("user", "b")]
    assert told(batch("1", known), batch("2", known | {"content": "c"})) == [("assistant", "a"), ("assistant", "c")]


def test_another_producers_history_is_left_out_and_counted() -> None:
    events = [
        batch("1", {"role": "user", "content": "a"}),
        batch("2", {"role": "user", "content": "a"}, "x", producer="other"),
    ]

    assert told(*events) == [("user", "a")]
    assert folded(events).as_dict()["left_out"] == {"other": 2}


def test_history_is_omitted_if_another_producer_records_the_messages() -> None:
    message = fact("message.recorded", "1", role="user", content="a", producer="tool")
    events = [batch("1", {"role": "user", "content": "a"}), message]

    assert told(*events) == [("user", "a")]
    assert folded(events).left_out == {"agents": 1}


def test_a_producers_own_history_is_shown_beside_its_events() -> None:
    message = fact("message.recorded", "1", role="user", content="a", producer="agents")

    assert told(message, batch("2", {"role": "assistant", "content": "b"})) == [("user", "a"), ("assistant", "b")]


def test_histories_of_two_producers_that_also_record_messages_are_shown() -> None:
    messages = [
        fact("message.recorded", producer, role="user", content=producer, producer=producer) for producer in ("p", "q")
    ]
    batches = [
        batch(f"{producer}2", {"role": "user", "content": f"{producer} too"}, producer=producer)
        for producer in ("p", "q")
    ]

    assert [one[1] for one in told(*messages, *batches)] == ["p", "q", "p too", "q too"]


def test_a_history_whose_ids_are_its_own_is_left_out() -> None:
    known = {"type": "message", "role": "assistant", "id": "m", "content": "a"}
    events = [batch("1", known), batch("2", known | {"id": "n"}, producer="other")]

    assert told(*events) == [("assistant", "a")]
    assert folded(events).left_out == {"other": 1}


def test_of_a_history_that_shares_ids_what_has_an_id_is_shown_once() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    more = {"type": "message", "role": "assistant", "id": "m2", "content": "more"}
    events = [
        batch("1", {"role": "user", "content": "a"}, call),
        batch("2", {"role": "user", "content": "a"}, call, output, more, producer="other"),
    ]

    assert told(*events) == [("user", "a"), ("c", "ls", {}, "x"), ("assistant", "more")]
    assert folded(events).left_out == {"other": 1}


def test_a_history_that_was_erased_is_marked() -> None:
    from tests.transcripts.folding import SESSION, log_of, rows_of

    from rightful.projections.transcripts import fold

    log = log_of([batch("1", "a", "b")])
    log.recorder.erase(1)  # type: ignore[attr-defined]

    assert [(one.kind, one.erased) for one in fold(SESSION, rows_of(log)).entries] == [("history_appended", True)]


def test_a_contradiction_of_a_batch_is_marked_on_its_first_item() -> None:
    entries = folded([batch("1", "a", "b"), batch("1", "c")]).as_dict()["entries"]

    assert [len(one.get("conflicts", [])) for one in entries] == [1, 0]
