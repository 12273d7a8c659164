"""What a transcript tells as items of a history, for sessions in which nobody appended any."""

from __future__ import annotations

from typing import Any

import msgspec

from rightful import content
from rightful.envelope import body_of
from rightful.ledger.recorded import Stored
from rightful.projections.histories.items import Item, item_of

TOLD = frozenset({"message.recorded", "thought.recorded", "tool_call.snapshotted", "tool_result.snapshotted"})
"""The event types of a transcript that are items of its history."""

_NOT_SHOWN = ("ui_only", "hide")
"""What a tool says of messages that the model does not see."""


def item_told(row: Stored) -> Item | None:
    """Return what a row tells as an item, in the form of the Responses API; None where the model does not see it.

    Raises:
        UpgradeError: It is of a newer version.
    """
    envelope = row.envelope
    said = body_of(envelope, row.body or b"", row.position)
    if any((said.extra or {}).get(name) is True for name in _NOT_SHOWN):
        return None
    match envelope.type:
        case "message.recorded":
            item: dict[str, Any] = {"role": said.role, "content": said.content}
        case "thought.recorded":
            item = {"type": "reasoning", "summary": [], "content": said.content}
        case "tool_call.snapshotted":
            item = {
                "type": "function_call",
                "call_id": said.call,
                "name": said.name,
                "arguments": _text(said.arguments),
            }
        case _:
            item = {"type": "function_call_output", "call_id": said.call, "output": said.output}
    raw = msgspec.json.encode(item, order="deterministic")
    return item_of((envelope.id, 0), row.position, raw, escaped=envelope.escaped)


def _text(arguments: Any) -> str:  # noqa: ANN401 - content
    """Return a call's arguments as the text that the API has for them."""
    if isinstance(arguments, str):
        return arguments
    text: str = content.escape(content.to_json(content.restore(arguments)).decode("utf-8", "surrogateescape"))[0]
    return text
