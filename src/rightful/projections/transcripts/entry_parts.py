"""Parts: what one fact, or one item of a history, says in a conversation, before it is joined to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rightful import content as contents
from rightful.errors import InvalidEventError
from rightful.log.refine import is_placeholder
from rightful.projections.transcripts.session_facts import Fact

FIELDS: dict[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "thought": ("content",),
    "usage": ("counts", "of", "cumulative"),
    "error": ("message",),
    "tool_call": ("call", "name", "arguments"),
    "tool_result": ("call", "output", "is_error"),
    "interaction_requested": ("interaction", "kind", "payload"),
    "interaction_answered": ("interaction", "kind", "payload"),
    "data": ("name", "data"),
    "turn_ended": ("stop_reason", "event_count", "dropped_count", "previous"),
    "history_appended": (),
    "history_compacted": ("covers", "mode", "items", "response_id"),
    "history_popped": ("items",),
    "history_cleared": (),
    "history_forked": ("of", "through"),
    "compaction_deferred": ("response_id", "reason"),
}
"""Which fields of a body a part of each kind says."""

_ANSWERS = ("_call_output", "_call_result", "tool_search_output")
_ARGUMENT_FIELDS = ("arguments", "input", "action", "actions", "operation", "queries", "code")
"""Where calls of the several kinds have what the tool was given."""
_OUTPUT_FIELDS = ("output", "results", "outputs", "result")
"""Where a hosted tool's call has what it answered."""


class Part:
    """One thing that one producer said once.

    Attributes:
        kind: The kind of its entry; `tool_result` for a result.
        fields: What it says, field by field; empty once it is erased.
        fact: The fact that says it.
        at: Its place in the conversation.
        ordinal: Which item of a history it is; None for a fact of its own.
        states: How many rows it has.
    """

    __slots__ = ("at", "fact", "fields", "kind", "ordinal", "states")

    def __init__(self, kind: str, fields: dict[str, Any], fact: Fact, ordinal: int | None = None) -> None:
        self.kind = kind
        self.fields = fields
        self.fact = fact
        self.at = 0
        self.ordinal = ordinal
        self.states = fact.states

    @property
    def turn(self) -> str | None:
        """The turn of its fact."""
        return self.fact.turn

    @property
    def is_placeholder(self) -> bool:
        """Whether it is a result that only stands in for a real one."""
        return is_placeholder(self.fields.get("output"), is_error=bool(self.fields.get("is_error")))


def parts_of(facts: Iterable[Fact]) -> list[Part]:
    """Return what facts say, in their order; a batch of a history's items is split into items."""
    found: list[Part] = []
    for fact in facts:
        if fact.kind == "history_appended" and fact.body is not None:
            found += [
                Part(kind, fields, fact, ordinal)
                for ordinal, item in enumerate(fact.body.items)
                for kind, fields in item_parts(item)
            ]
            found += _used(fact, of=fact.body.response_id)
        else:
            fields = {} if fact.body is None else {name: getattr(fact.body, name) for name in FIELDS[fact.kind]}
            found.append(Part(fact.kind, fields, fact))
            if fact.kind == "history_compacted" and fact.body is not None:
                found += _used(fact, of=fact.id)  # the response that it names may have been counted already
    for at, part in enumerate(found):
        part.at = at
    return found


def _used(fact: Fact, *, of: str | None) -> list[Part]:
    """Return the usage of a batch or a compaction, if it is recorded besides its items.

    The batches of one response, `of`, may each repeat its numbers.
    """
    counts, run = getattr(fact.body, "usage", None), getattr(fact.body, "run", None)
    return [Part("usage", {"counts": counts, "of": of, "cumulative": False, "run": run}, fact)] if counts else []


def item_parts(item: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - a provider's item
    """Yield what one item of a history says: OpenAI's Responses and chat shapes; anything else is `data`.

    `id` in what is yielded is the item's own.
    """
    if not isinstance(item, Mapping):
        yield "data", {"name": "item", "data": item}
        return
    kind = item.get("type")
    if (kind is None or kind == "message") and isinstance(item.get("role"), str):
        yield from _spoken(item)
    elif kind == "reasoning":
        sealed = {"sealed": item["encrypted_content"]} if item.get("encrypted_content") is not None else {}
        yield "thought", _identified(item) | {"content": item.get("content") or item.get("summary")} | sealed
    elif isinstance(kind, str) and kind.endswith(_ANSWERS) and _is_id(item.get("call_id") or item.get("id")):
        yield "tool_result", _answered(item)
    elif isinstance(kind, str) and kind.endswith("_call") and _is_id(item.get("call_id") or item.get("id")):
        yield from _called(item, kind)
    elif kind == "mcp_approval_request" and _is_id(item.get("id")):
        yield "interaction_requested", {"interaction": item["id"], "kind": kind, "payload": dict(item)}
    elif kind == "mcp_approval_response" and _is_id(item.get("approval_request_id")):
        yield "interaction_answered", {"interaction": item["approval_request_id"], "kind": kind, "payload": dict(item)}
    else:
        yield "data", _identified(item) | {"name": kind if isinstance(kind, str) and kind else "item", "data": item}


def _spoken(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a message of either shape; the chat shape holds calls in it, and results under a role of their own."""
    role, content = item["role"], item.get("content")
    if role == "tool" and _is_id(item.get("tool_call_id")):
        yield "tool_result", {"call": item["tool_call_id"], "output": content, "is_error": False}
        return
    calls = item.get("tool_calls")
    if content is not None or not calls:
        yield "message", _identified(item) | {"role": role, "content": content}
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and _is_id(call.get("id")):
            given = {"name": _name(function.get("name")), "arguments": _parsed(function.get("arguments"))}
            yield "tool_call", {"call": call["id"]} | given
        else:
            yield "data", {"name": "tool_call", "data": call}


def _called(item: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    call = item.get("call_id") or item.get("id")
    given = next((item[name] for name in _ARGUMENT_FIELDS if item.get(name) is not None), None)
    name = _name(item.get("name")) or kind.removesuffix("_call")
    yield "tool_call", _identified(item) | {"call": call, "name": name, "arguments": _parsed(given)}
    answer = next((item[name] for name in _OUTPUT_FIELDS if item.get(name) is not None), None)
    if answer is not None or item.get("error") is not None:  # a hosted tool answers in its own item
        yield "tool_result", _result(item, call, answer)


def _answered(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result says. One without the id of its call has that id as its own: that of a local shell."""
    output = item.get("output") if item.get("type") != "tool_search_output" else item.get("tools")
    if not _is_id(item.get("call_id")):
        return _result(item, item["id"], output)
    return _identified(item) | _result(item, item["call_id"], output)


def _result(item: Mapping[str, Any], call: Any, output: Any) -> dict[str, Any]:  # noqa: ANN401 - content
    failed = item.get("error") is not None or item.get("status") == "failed"
    return {"call": call, "output": output if item.get("error") is None else item["error"], "is_error": failed}


def _identified(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": item["id"]} if _is_id(item.get("id")) else {}


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _parsed(given: Any) -> Any:  # noqa: ANN401 - arguments are any JSON value
    """Return arguments that are the JSON text of an object as that object."""
    if not isinstance(given, str) or not given.lstrip().startswith("{"):
        return given
    try:
        found = contents.parse_json(given)
        contents.escape(found)  # deeper than content may be, it stays the text that it is
    except InvalidEventError:
        return given
    return found if isinstance(found, dict) else given


def text_of(content: Any) -> str | None:  # noqa: ANN401 - content is any JSON value
    """Return what a person reads of content: a text, or the text parts of a list; None where there is none."""
    match content:
        case str():
            return content
        case {"text": str() as text}:
            return text
        case list():
            texts = [text_of(part) for part in content]
            found = [text for text in texts if text is not None]
            return "\n".join(found) if found else None
        case _:
            return None
