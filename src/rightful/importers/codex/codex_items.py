"""The response items of Codex: the input of the model, its messages and its actions.

The forms are those of `ResponseItem` in openai/codex (codex-rs/protocol/src/models.rs and the
schema of its app server): `message`, `agent_message`, `reasoning`, calls of functions, custom
tools, the local shell, tool search, web search and image generation, and outputs. Others
(`compaction`, `context_compaction`, future types) are stored as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from rightful import content
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import digest, shaped
from rightful.importers.shared.record_parts import Part, arguments_of, data, exit_code_of, extra, without, word

_TEXTS = (
    "input_text",
    "output_text",
    "text",
    "summary_text",
    "reasoning_text",
)  # a tuple: a value from a file may not be hashable
_CONTEXT = (  # prefixes of messages that Codex writes in the user's name (codex-rs/core/src/contextual_user_message.rs)
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "<user_shell_command>",
)
_UNFINISHED = ("in_progress", "incomplete")


class _Message(msgspec.Struct):
    role: str
    content: str | list[Any]
    phase: str | None = None


class _AgentMessage(msgspec.Struct):
    author: str
    recipient: str
    content: str | list[Any]


class _Reasoning(msgspec.Struct):
    summary: list[Any] = []
    content: list[Any] | None = None
    encrypted_content: str | None = None


class _Call(msgspec.Struct):
    name: str
    call_id: str
    arguments: Any = None
    input: Any = None
    namespace: str | None = None
    status: str | None = None


class _Output(msgspec.Struct):
    call_id: str
    output: Any = None


def parts_of_item(payload: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of one response item.

    Raises:
        InvalidEventError: It is of a known type but not valid.
    """
    kind = payload.get("type")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        yield data(word(kind, "response_item"), dict(payload), digest(payload))
    else:
        yield from read(payload)


def text_of(value: str | list[Any]) -> str | None:
    """Return a message's content as one text; None if it has anything but text."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    for part in value:
        if not isinstance(part, Mapping) or part.get("type") not in _TEXTS or not isinstance(part.get("text"), str):
            return None
        texts.append(part["text"])
    return "".join(texts)


def message(role: str, said: str | list[Any], *, is_context: bool = False, **more: object) -> Part:
    """Return a message, identified by the text that both of its forms have.

    Args:
        role: The role of its author.
        said: Its content: a text, or parts.
        is_context: Whether the tool wrote it in the user's name.
        more: Its other fields.
    """
    text = text_of(said)
    whole = said if isinstance(said, str) or text is None or len(said) > 1 else text
    is_context = is_context or (role == "user" and text is not None and text.lstrip().startswith(_CONTEXT))
    known = without(more) | ({"meta": True} if is_context else {})
    return Part(
        "message.recorded",
        ("message",),
        {"role": role, "content": whole, **extra(known)},
        twin=digest([role, _spoken(said)]),
        asks=role == "user" and not is_context,
        leads=is_context or role in {"developer", "system"},
    )


def again(part: Part) -> Part:
    """Return a part that an event message already gave: its text under the same id, with other content as data."""
    content = part.fields.get("content")
    if part.fields.get("role") != "assistant" or not isinstance(content, list):
        return part
    more = part.fields.get("extra", {}) | {"parts": content}
    return part._replace(fields=part.fields | {"content": _spoken(content), **extra(more)})


def thought(text: str | None, **more: object) -> Part:
    """Return a thought, identified by its text, or by its other fields if it has none."""
    return Part(
        "thought.recorded",
        ("thought",),
        {"content": text, **extra(without(more))},
        twin=digest(["thought", text if text is not None else more]),
    )


def between_agents(value: Mapping[str, Any]) -> Part:
    """Return a message from one agent to another, in either of its two forms.

    Raises:
        InvalidEventError: It does not have that form.
    """
    read: _AgentMessage = shaped(value, _AgentMessage)
    said = {"author": read.author, "recipient": read.recipient}
    encrypted = without({"encrypted_content": value.get("encrypted_content")})
    return Part(
        "message.recorded",
        ("message",),
        {"role": "agent", "content": _plain(read.content), **extra(said | encrypted)},
        twin=digest(["agent", read.author, read.recipient, _spoken(read.content)]),
    )


def _spoken(said: str | list[Any]) -> object:
    """Return the joined texts of a message; images differ between its two forms."""
    if isinstance(said, str):
        return said
    texts = [part["text"] for part in said if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    return "".join(texts) if texts else said


def _plain(said: str | list[Any]) -> object:
    text = text_of(said)
    return said if text is None or (isinstance(said, list) and len(said) > 1) else text


def _message(payload: Mapping[str, Any]) -> Iterator[Part]:
    read: _Message = shaped(payload, _Message)
    yield message(read.role, read.content, phase=read.phase)


def _agent_message(payload: Mapping[str, Any]) -> Iterator[Part]:
    yield between_agents(payload)


def _reasoning(payload: Mapping[str, Any]) -> Iterator[Part]:
    """Yield a thought for each text, as in the event messages; the first one has the encrypted content."""
    read: _Reasoning = shaped(payload, _Reasoning)
    texts = [part.get("text") for part in (*read.summary, *(read.content or ())) if isinstance(part, Mapping)]
    said: list[str | None] = [text for text in texts if isinstance(text, str)]
    if said or read.encrypted_content is not None:
        yield thought(said[0] if said else None, encrypted_content=read.encrypted_content)
    yield from map(thought, said[1:])


def _call(payload: Mapping[str, Any]) -> Iterator[Part]:
    read: _Call = shaped(payload, _Call)
    given = read.input if payload["type"] == "custom_tool_call" else arguments_of(read.arguments)
    yield _called(payload, read.call_id, read.name, given, namespace=read.namespace)


def _output(payload: Mapping[str, Any]) -> Iterator[Part]:
    read: _Output = shaped(payload, _Output)
    yield _answered(payload, read.call_id, read.output)


def _shell(payload: Mapping[str, Any]) -> Iterator[Part]:
    yield _called(payload, _call_id(payload), "local_shell", payload.get("action"))


def _web_search(payload: Mapping[str, Any]) -> Iterator[Part]:
    yield _called(payload, _call_id(payload), "web_search", payload.get("action"))


def _tool_search(payload: Mapping[str, Any]) -> Iterator[Part]:
    yield _called(payload, _call_id(payload), "tool_search", arguments_of(payload.get("arguments")))


def _tool_search_output(payload: Mapping[str, Any]) -> Iterator[Part]:
    yield _answered(payload, _call_id(payload), payload.get("tools"))


def _image(payload: Mapping[str, Any]) -> Iterator[Part]:
    call = _call_id(payload)
    yield _called(payload, call, "image_generation", without({"revised_prompt": payload.get("revised_prompt")}))
    if payload.get("result"):
        yield _answered(payload, call, payload["result"])


def _call_id(payload: Mapping[str, Any]) -> str:
    """Return the id of a call; if it has none, it is identified by its content and its number of repetitions."""
    for name in ("call_id", "id"):
        if isinstance(found := payload.get(name), str) and found:
            return found
    return f"{payload['type']}:{digest(without(payload, 'status', 'metadata'))[:32]}"


def _called(payload: Mapping[str, Any], call: str, name: str, arguments: object, **more: object) -> Part:
    known = without(more)
    fields = {"call": call, "name": name, "arguments": arguments}
    is_whole = payload.get("status") not in _UNFINISHED
    key = (payload["type"], call, digest([name, arguments, known]))
    twin = None if call in (payload.get("call_id"), payload.get("id")) else digest(key)
    return Part("tool_call.snapshotted", key, {**fields, "complete": is_whole, **extra(known)}, twin)


def _answered(payload: Mapping[str, Any], call: str, output: object) -> Part:
    """Return a call's result, with its output extracted from forms that have more fields."""
    key = ("output", payload["type"], call, digest(output))
    said, known = _unwrapped(output)
    code = known.get("exit_code", exit_code_of(said))
    is_error = known.pop("success", None) is False or (isinstance(code, int) and code != 0)
    fields = {"call": call, "output": said, "complete": True, **extra(known)}
    return Part("tool_result.snapshotted", key, fields | ({"is_error": True} if is_error else {}))


def _unwrapped(output: object) -> tuple[object, dict[str, Any]]:
    """Return an output and its metadata: `{"output": …, "metadata": {"exit_code": …}}`, as text or object."""
    value: Any = output
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            value = content.parse_json(output)
        except InvalidEventError:
            return output, {}
    match value:
        case {"output": said, "metadata": dict() as metadata} if len(value) == 2:  # noqa: PLR2004 - both keys and no other
            return said, dict(metadata)
        case {"content": said, "success": bool() as success}:
            return said, {"success": success}
        case _:
            return output, {}


_READERS: dict[str, Callable[[Mapping[str, Any]], Iterator[Part]]] = {
    "message": _message,
    "agent_message": _agent_message,
    "reasoning": _reasoning,
    "function_call": _call,
    "function_call_output": _output,
    "custom_tool_call": _call,
    "custom_tool_call_output": _output,
    "local_shell_call": _shell,
    "web_search_call": _web_search,
    "tool_search_call": _tool_search,
    "tool_search_output": _tool_search_output,
    "image_generation_call": _image,
}
