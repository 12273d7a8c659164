"""Convert the records of a Copilot CLI session into parts of events.

The records' fields are those of the session events of github/copilot-sdk
(nodejs/src/generated/session-events.ts). A part without a key is the only one of its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rightful.errors import InvalidEventError
from rightful.importers.copilot.copilot_agents import Agent
from rightful.importers.shared.foreign_fields import below, shaped
from rightful.importers.shared.record_parts import Part, arguments_of, extra, numbers, without, word
from rightful.importers.shared.streamed_texts import Streamed

_PLACE = ("interactionId", "turnId", "parentToolCallId")
_REQUESTED, _COMPLETED = ".requested", ".completed"


class Record(NamedTuple):
    """One record.

    Attributes:
        kind: Its type.
        id: Its id; if it has none, the digest of its content.
        data: Its content.
        agent: The id of its agent; empty for the main one.
    """

    kind: str
    id: str
    data: dict[str, Any]
    agent: str


class _UserMessage(msgspec.Struct):
    content: str
    source: str | None = None


class _ToolRequest(msgspec.Struct):
    toolCallId: str  # noqa: N815 - the tool's own name
    name: str
    arguments: Any = None


class _AssistantMessage(msgspec.Struct):
    content: str | None = None
    messageId: str | None = None  # noqa: N815 - the tool's own name
    toolRequests: list[_ToolRequest] | None = None  # noqa: N815 - as above
    reasoningText: str | None = None  # noqa: N815 - as above
    chunkIndex: int | None = None  # noqa: N815 - as above
    outputTokens: int | float | None = None  # noqa: N815 - as above
    apiCallId: str | None = None  # noqa: N815 - as above


class _Delta(msgspec.Struct):
    deltaContent: str  # noqa: N815 - the tool's own name
    messageId: str | None = None  # noqa: N815 - as above
    reasoningId: str | None = None  # noqa: N815 - as above


class _Reasoning(msgspec.Struct):
    content: str
    reasoningId: str | None = None  # noqa: N815 - the tool's own name


class _Start(msgspec.Struct):
    toolCallId: str  # noqa: N815 - the tool's own name
    toolName: str  # noqa: N815 - as above
    arguments: Any = None


class _Result(msgspec.Struct):
    content: Any = None


class _Complete(msgspec.Struct):
    toolCallId: str  # noqa: N815 - the tool's own name
    success: bool = True
    result: _Result | None = None
    error: dict[str, Any] | str | None = None


class _SystemMessage(msgspec.Struct):
    content: Any = None
    role: str = "system"


class _Message(msgspec.Struct):
    message: str | None = None


def parts_of(record: Record, agent: Agent) -> Iterator[Part]:
    """Yield the parts of a record; anything outside of the conversation is data.

    Raises:
        InvalidEventError: It is of a known type but not valid.
    """
    read = _READERS.get(record.kind)
    if read is not None:
        yield from read(record, agent)
    elif isinstance(asked := record.data.get("requestId"), str) and record.kind.endswith((_REQUESTED, _COMPLETED)):
        yield _interaction(record, word(asked))
    else:
        yield kept(record)


def kept(record: Record) -> Part:
    """Return a record that is not part of the conversation, as data."""
    return Part("data.recorded", (), {"name": record.kind, "data": record.data})


def shape_of(record: Record, kind: type[Any]) -> Any:  # noqa: ANN401 - the struct that was asked for
    """Return the content of a record as a struct.

    Raises:
        InvalidEventError: It does not have that shape; the place says where.
    """
    try:
        return shaped(record.data, kind)
    except InvalidEventError as error:
        raise below("$.data", error) from None


def _interaction(record: Record, asked: str) -> Part:
    is_answer = record.kind.endswith(_COMPLETED)
    kind = record.kind.removesuffix(_COMPLETED).removesuffix(_REQUESTED)
    fields = {"interaction": asked, "kind": word(kind), "payload": without(record.data, "requestId")}
    return Part("interaction.answered" if is_answer else "interaction.requested", (), fields)


def _user_message(record: Record, _: Agent) -> Iterator[Part]:
    read: _UserMessage = shape_of(record, _UserMessage)
    known = without(record.data, "content", *_PLACE)
    if not known.get("attachments"):
        known.pop("attachments", None)
    if known.get("transformedContent") == read.content:
        del known["transformedContent"]
    if read.source not in {None, "", "user"}:
        known["meta"] = True  # written by a command, a skill or a schedule, not by the user
    yield Part("message.recorded", (), {"role": "user", "content": read.content, **extra(known)}, asks=True)


def _assistant_message(record: Record, agent: Agent) -> Iterator[Part]:
    read: _AssistantMessage = shape_of(record, _AssistantMessage)
    if read.reasoningText:
        yield from _thought(agent, read.reasoningText, (record.id, "thought"))
    name = ("message", read.messageId or record.id, *(() if not read.chunkIndex else (read.chunkIndex,)))
    if agent.streamed is not None and agent.streamed.name == f"message:{read.messageId}":
        agent.streamed = None
    if read.content or not (read.toolRequests or read.reasoningText):
        told = ("content", "messageId", "toolRequests", "reasoningText", "chunkIndex", "outputTokens")
        known = without(record.data, *told, *_PLACE)
        yield Part("message.recorded", name, {"role": "assistant", "content": read.content, **extra(known)})
    for at, asked in enumerate(read.toolRequests or ()):
        arguments = arguments_of(asked.arguments)
        if agent.calls_anew(asked.toolCallId, arguments):
            more = without(record.data["toolRequests"][at], "toolCallId", "name", "arguments", "type")
            yield _call((record.id, "call", asked.toolCallId), asked.toolCallId, asked.name, arguments, more)
    if read.outputTokens is not None:
        fields = {"counts": {"outputTokens": read.outputTokens}}
        of = word(read.apiCallId or read.messageId, record.id)
        yield Part("usage.recorded", (record.id, "usage"), {**fields, "of": of})


def _call(key: tuple[str, ...], call: str, name: str, arguments: object, more: Mapping[str, Any]) -> Part:
    fields = {"call": call, "name": name, "arguments": arguments, "complete": True}
    return Part("tool_call.snapshotted", key, {**fields, **extra(more)})


def _thought(agent: Agent, text: str, key: tuple[str, ...]) -> Iterator[Part]:
    """Yield a thought that is new in this turn, under the id of its streamed pieces, if it has any."""
    streamed = agent.streamed
    if streamed is not None and streamed.name.startswith("thought:"):
        key, agent.streamed = ("thought", streamed.name.removeprefix("thought:")), None
    if agent.thinks(text):
        yield Part("thought.recorded", key, {"content": text})


def _reasoning(record: Record, agent: Agent) -> Iterator[Part]:
    read: _Reasoning = shape_of(record, _Reasoning)
    yield from _thought(agent, read.content, ("thought", read.reasoningId or record.id))


def _delta(record: Record, agent: Agent) -> Iterator[Part]:
    """Yield a state of a streamed text."""
    read: _Delta = shape_of(record, _Delta)
    is_message = record.kind == "assistant.message_delta"
    of = (read.messageId if is_message else read.reasoningId) or ""
    name = f"{'message' if is_message else 'thought'}:{of}"
    if agent.streamed is None or agent.streamed.name != name:
        agent.streamed = Streamed(name)
    if not agent.streamed.grow(read.deltaContent):
        return
    if is_message:
        yield Part("message.recorded", ("message", of), {"role": "assistant", "content": agent.streamed.text})
    else:
        yield Part("thought.recorded", ("thought", of), {"content": agent.streamed.text})


def _tool_start(record: Record, agent: Agent) -> Iterator[Part]:
    """Yield a call that no message requested, or not with these arguments."""
    read: _Start = shape_of(record, _Start)
    arguments = arguments_of(read.arguments)
    if agent.calls_anew(read.toolCallId, arguments):
        more = without(record.data, "toolCallId", "toolName", "arguments", *_PLACE)
        yield _call((), read.toolCallId, read.toolName, arguments, more)


def _tool_complete(record: Record, agent: Agent) -> Iterator[Part]:
    read: _Complete = shape_of(record, _Complete)
    agent.calls.pop(read.toolCallId, None)
    known = without(record.data, "toolCallId", "success", "result", *_PLACE)
    if not known.get("toolTelemetry"):
        known.pop("toolTelemetry", None)
    result = record.data.get("result") or {}
    known |= {name: one for name, one in without(result, "content").items() if one != result.get("content")}
    output = None if read.result is None else read.result.content
    if output is None and read.error is not None:
        output = read.error.get("message") if isinstance(read.error, dict) else read.error
    fields = {"call": read.toolCallId, "output": output, "complete": True, **extra(known)}
    yield Part("tool_result.snapshotted", (), fields | ({} if read.success else {"is_error": True}))


def _turn_start(record: Record, agent: Agent) -> Iterator[Part]:
    agent.begin(record.data, record.id)
    yield kept(record)


def _turn_end(record: Record, agent: Agent) -> Iterator[Part]:
    if (turn := agent.turn_of(record.data)) is None:
        yield kept(record)
    else:
        yield Part("turn.ended", (), {"turn": turn, **extra(without(record.data, *_PLACE))})
    agent.turn = None


def _usage(record: Record, _: Agent) -> Iterator[Part]:
    of = word(record.data.get("apiCallId"), record.id)
    counts = numbers(record.data)
    more = {name: one for name, one in without(record.data, "apiCallId", *_PLACE).items() if name not in counts}
    yield Part("usage.recorded", (), {"counts": counts, "of": of, **extra(more)})


def _shutdown(record: Record, _: Agent) -> Iterator[Part]:
    """Yield the end of a stretch of the session, and the usage of all models since its start or resume."""
    yield Part("session.ended", (record.id, "ended"), extra(without(record.data)))
    counts: dict[str, Any] = {}
    metrics = record.data.get("modelMetrics")
    for used in metrics.values() if isinstance(metrics, dict) else ():
        for name, count in numbers(used.get("usage") if isinstance(used, dict) else None).items():
            counts[name] = counts.get(name, 0) + count
    if counts:
        fields = {"counts": counts, "cumulative": True, "extra": {"stretch": record.id}}
        yield Part("usage.recorded", (record.id, "usage"), fields)


def _error(record: Record, _: Agent) -> Iterator[Part]:
    read: _Message = shape_of(record, _Message)
    yield Part("error.recorded", (), {"message": read.message, **extra(without(record.data, "message"))})


def _system(record: Record, _: Agent) -> Iterator[Part]:
    read: _SystemMessage = shape_of(record, _SystemMessage)
    known = without(record.data, "content", "role", *_PLACE)
    if record.kind == "system.notification":
        known["meta"] = True
    yield Part("message.recorded", (), {"role": word(read.role, "system"), "content": read.content, **extra(known)})


_READERS: dict[str, Callable[[Record, Agent], Iterator[Part]]] = {
    "user.message": _user_message,
    "assistant.message": _assistant_message,
    "assistant.message_delta": _delta,
    "assistant.reasoning": _reasoning,
    "assistant.reasoning_delta": _delta,
    "assistant.turn_start": _turn_start,
    "assistant.turn_end": _turn_end,
    "assistant.usage": _usage,
    "session.error": _error,
    "session.shutdown": _shutdown,
    "system.message": _system,
    "system.notification": _system,
    "tool.execution_complete": _tool_complete,
    "tool.execution_start": _tool_start,
    "tool.user_requested": _tool_start,
}
