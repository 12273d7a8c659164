"""What becomes of each type of Agenta's records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.importers.agenta_records import Taker, body, only

from rightful.ledger import Ledger

FORMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("message", {"text": "hi"}, {"type": "message.recorded", "role": "assistant", "content": "hi"}),
    (
        "message",
        {"text": "see", "attachments": [{"attachmentId": "a1"}]},
        {
            "type": "message.recorded", "role": "assistant", "content": "see",
            "extra": {"attachments": [{"attachmentId": "a1"}]},
        },
    ),
    ("message", {}, {"type": "message.recorded", "role": "assistant"}),
    ("thought", {"text": "hm"}, {"type": "thought.recorded", "content": "hm"}),
    (
        "tool_call",
        {"id": "c", "name": "bash", "input": {"command": "ls"}, "render": {"kind": "x"}},
        {
            "type": "tool_call.snapshotted", "call": "c", "name": "bash", "arguments": {"command": "ls"},
            "extra": {"render": {"kind": "x"}},
        },
    ),
    (
        "tool_call",
        {"id": "c", "input": '{"command": "l'},
        {"type": "tool_call.snapshotted", "call": "c", "arguments": '{"command": "l'},
    ),
    (
        "tool_result",
        {"id": "c", "output": "done", "isError": True},
        {"type": "tool_result.snapshotted", "call": "c", "output": "done", "is_error": True},
    ),
    (
        "tool_result",
        {"id": "c", "data": {"n": 1}},
        {"type": "tool_result.snapshotted", "call": "c", "output": {"n": 1}},
    ),
    (
        "tool_result",
        {"id": "c", "output": "", "data": {"n": 1}, "denied": True},
        {
            "type": "tool_result.snapshotted", "call": "c", "output": "",
            "extra": {"data": {"n": 1}, "denied": True},
        },
    ),
    (
        "interaction_request",
        {"id": "g", "kind": "user_approval", "payload": {"toolCallId": "c"}},
        {
            "type": "interaction.requested", "interaction": "g", "kind": "user_approval",
            "payload": {"toolCallId": "c"},
        },
    ),
    (
        "interaction_response",
        {"id": "g", "kind": "user_approval", "payload": {"approved": True}},
        {"type": "interaction.answered", "interaction": "g", "kind": "user_approval", "payload": {"approved": True}},
    ),
    ("usage", {"input": 10, "cost": 0.25}, {"type": "usage.recorded", "counts": {"input": 10, "cost": 0.25}}),
    ("error", {"message": "no"}, {"type": "error.recorded", "message": "no"}),
    (
        "done",
        {"stopReason": "paused", "traceId": "t"},
        {"type": "turn.ended", "stop_reason": "paused", "extra": {"traceId": "t"}},
    ),
    ("done", {}, {"type": "turn.ended"}),
    ("data", {"name": "plan", "data": [1]}, {"type": "data.recorded", "name": "plan", "data": [1]}),
    ("data", {"data": [1]}, {"type": "data.recorded", "name": "data", "data": {"data": [1]}}),
    (
        "file",
        {"url": "https://x/y", "mediaType": "image/png"},
        {"type": "data.recorded", "name": "file", "data": {"url": "https://x/y", "mediaType": "image/png"}},
    ),
    (
        "attachment_delivery",
        {"attachmentId": "a", "outcome": "failed"},
        {
            "type": "data.recorded", "name": "attachment_delivery",
            "data": {"attachmentId": "a", "outcome": "failed"},
        },
    ),
    (
        "message_delta",
        {"id": "m", "delta": "he"},
        {"type": "data.recorded", "name": "message_delta", "data": {"id": "m", "delta": "he"}},
    ),
    ("of_next_year", {"x": 1}, {"type": "data.recorded", "name": "of_next_year", "data": {"x": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "attributes", "fields"), FORMS, ids=[f"{at} {one[0]}" for at, one in enumerate(FORMS)]
)
def test_each_type_becomes_its_event(
    take: Taker, ledger: Ledger, kind: str, attributes: dict[str, Any], fields: dict[str, Any]
) -> None:
    take(body(kind, attributes))

    event = only(ledger)
    head = {"producer", "session", "at", "id", "turn", "index", "key", "at_basis", "alias"}
    told = {name: getattr(event, name) for name in event.__struct_fields__ if name not in head}
    assert event.__struct_config__.tag == fields["type"]
    assert {name: value for name, value in told.items() if value not in (None, False)} == {
        name: value for name, value in fields.items() if name != "type"
    }
    assert (event.session, event.turn, event.index, event.producer) == ("agenta:sess-1", "turn-1", 0, "agenta")
