"""Items of a history made from a transcript, for sessions without appended items."""

from __future__ import annotations

import html
from typing import Any

import msgspec

from rightful import content
from rightful.encoding.envelope import body_of
from rightful.log.rows import Stored
from rightful.projections.histories.history_items import Item, item_of

ITEM_TYPES = frozenset({"message.recorded", "thought.recorded", "tool_call.snapshotted", "tool_result.snapshotted"})
"""The event types of a transcript that are items of its history."""

_NOT_SHOWN = "ui_only"
"""What gptme says of messages that the model is not sent; those that are only hidden from a terminal it is."""

_SUMMARY = "summary"
"""The mark of an importer on a message that replaces what the tool compacted."""

_CALLS, _RESULTS = "tool_call.snapshotted", "tool_result.snapshotted"


class TranscriptItems:
    """Makes items of what a transcript tells, row by row.

    Some tools have no calls of their own: a call stands in what the assistant says, and its result is the next
    message. What such a call says is shown once, in the text, and its result as the message that it was.

    Attributes:
        told_ids: The ids of the events that became items.
        is_summary: Whether the last of them sums up what the tool compacted right before, as Claude Code tells it.
    """

    def __init__(self) -> None:
        self.event_ids: set[str] = set()
        self.is_summary = False
        self._spoken = ""
        self._in_text: set[str] = set()

    def item(self, row: Stored) -> Item | None:
        """Return what a row tells, in the form of the Responses API; None for what the model does not see by itself.

        Raises:
            UpgradeError: It is of a newer version.
        """
        envelope = row.envelope
        self.event_ids.add(envelope.id)
        self.is_summary = False
        if row.body is None:
            return None
        body = body_of(envelope, row.body, row.position)
        if envelope.type == "message.recorded":
            self._spoken = body.content if body.role == "assistant" and isinstance(body.content, str) else ""
        if (body.extra or {}).get(_NOT_SHOWN) is True:
            return None
        self.is_summary = (body.extra or {}).get(_SUMMARY) is True
        if envelope.type == _CALLS and _is_in(self._spoken, body):
            self._in_text.add(body.call)
            return None
        if envelope.type == _RESULTS and body.call in self._in_text:
            item: dict[str, Any] = {"role": "system", "content": body.output}
        else:
            item = _item_of(envelope.type, body)
        raw = msgspec.json.encode(item, order="deterministic")
        return item_of((envelope.id, 0), row.position, raw, escaped=envelope.escaped)


def _item_of(kind: str, body: Any) -> dict[str, Any]:  # noqa: ANN401 - one struct a type
    match kind:
        case "message.recorded":
            return {"role": body.role, "content": body.content}
        case "thought.recorded":
            if isinstance(body.content, str):
                return {"type": "reasoning", "summary": [{"type": "summary_text", "text": body.content}]}
            return {"type": "reasoning", "summary": [], "content": body.content}
        case "tool_call.snapshotted":
            arguments = _text(body.arguments)
            return {"type": "function_call", "call_id": body.call, "name": body.name, "arguments": arguments}
        case _:
            output = "" if body.output is None else body.output
            return {"type": "function_call_output", "call_id": body.call, "output": output}


def _is_in(text: str, body: Any) -> bool:  # noqa: ANN401 - a call's body
    """Whether a call stands in what was said right before it: with its id, as a code block, or as a tag."""
    if not text:
        return False
    if f"@{body.name}({body.call})" in text:
        return True
    code = body.arguments.get("content") if isinstance(body.arguments, dict) else None
    if not isinstance(code, str) or not code.strip():
        return False
    return f"\n{code.strip()}\n```" in text or f"{code.strip()}</" in html.unescape(text)


def _text(arguments: Any) -> str:  # noqa: ANN401 - content
    """Return a call's arguments as the text that the API has for them; an empty one where nothing is known of them."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    text: str = content.escape(content.to_json(content.restore(arguments)).decode("utf-8", "surrogateescape"))[0]
    return text
