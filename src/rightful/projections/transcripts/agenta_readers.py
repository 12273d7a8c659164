"""A transcript as the two readers of Agenta's session records give it to a model.

Both fold records into messages: what a user says opens one, and what the agent says and does up to the next is
the content blocks of one of the assistant's. They differ (read in Agenta's `reconstruct.ts` and
`interactions_dispatcher.py`):

| | runner | API |
|---|---|---|
| an empty message of a user | kept | skipped |
| a turn of the assistant that is all text | one string | blocks |
| an error | a text block `[error: …]` | skipped |
| a result with text and data | the text | the data |

Both read what this transcript tells, so nothing is doubled that was recorded twice. What came late, what was
withdrawn, and system messages are not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from rightful.projections.transcripts.entries import Entry, Transcript, jsonable

Message = dict[str, Any]

_USER, _ASSISTANT = "user", "assistant"


def runner(transcript: Transcript) -> list[Message]:
    """Return the messages as Agenta's runner reconstructs them."""
    messages = _messages(transcript, _runner_blocks, keeps_empty=True)
    for message in messages:
        content = message["content"]
        if message["role"] == _ASSISTANT and all(block["type"] == "text" for block in content):
            message["content"] = "".join(block["text"] for block in content)
    return messages


def api(transcript: Transcript) -> list[Message]:
    """Return the messages as Agenta's API replays them."""
    return _messages(transcript, _api_blocks, keeps_empty=False)


def _messages(
    transcript: Transcript, blocks_of: Callable[[Entry], Iterator[Message]], *, keeps_empty: bool
) -> list[Message]:
    messages: list[Message] = []
    for entry in transcript.entries:
        if entry.late is True or entry.withdrawn is True:
            continue
        if entry.kind == "message" and entry.role == _USER:
            text = entry.text if entry.text is not UNSET else ""
            if text or keeps_empty:
                messages.append({"role": _USER, "content": jsonable(text)})
            continue
        for block in blocks_of(entry):
            if not messages or messages[-1]["role"] != _ASSISTANT:
                messages.append({"role": _ASSISTANT, "content": []})
            messages[-1]["content"].append({name: jsonable(value) for name, value in block.items()})
    return messages


def _runner_blocks(entry: Entry) -> Iterator[Message]:
    if entry.kind == "error":
        text = "" if entry.text is UNSET else entry.text
        yield {"type": "text", "text": f"[error: {text}]"}
        return
    yield from _blocks(entry, lambda output, data: data if output is None else output)


def _api_blocks(entry: Entry) -> Iterator[Message]:
    yield from _blocks(entry, lambda output, data: output if data is None else data)


def _blocks(entry: Entry, value_of: Callable[[Any, Any], Any]) -> Iterator[Message]:
    if entry.kind == "message" and entry.role == _ASSISTANT and entry.text:
        yield {"type": "text", "text": entry.text}
    if entry.kind != "tool_call":
        return
    named = {} if entry.name is UNSET else {"toolName": entry.name}
    called = {} if entry.call is UNSET else {"toolCallId": entry.call}
    if entry.unpaired is UNSET:
        given = {} if entry.arguments is UNSET or entry.arguments is None else {"input": entry.arguments}
        yield {"type": "tool_call"} | called | named | given
    if entry.output is not UNSET and entry.result_late is UNSET:
        data = None if entry.result_extra is UNSET else entry.result_extra.get("data")
        value = value_of(entry.output, data)
        output = {} if value is None else {"output": value}
        yield {"type": "tool_result"} | called | named | output | {"isError": entry.is_error}
