"""The streams of Grok Build (`grok --output-format streaming-json`), stored as `grok-trajectories/<id>.jsonl`.

| line | events |
|---|---|
| `thought`, `text` | growing states of a thought or a message |
| `tool_call` | a call; incomplete while it has no input |
| `tool_call_update` | the call's input, if it came late; its result, growing until it is final |
| `usage` | `usage.recorded` |
| `error` | `error.recorded` |
| `end` | `session.ended`, the usage of all models, and the model if it was only one |
| any other (`available_commands` …) | data |

The stream has no times, and its session id (`sessionId`) only in its last line. So the session is `grok:<file name>`,
but only for files in a folder `grok-trajectories`, which are named after the session (gptme-contrib's run-item); other
files are not imported. Its times are the file's. The key of an event is the line's number among the objects and its
content.

The text of a line is in `data` (grok 1.0, RunMaestro/Maestro issue 1485) or `content`. Consecutive lines of one type
form one text; only another text, a call, an error or the end closes it. Up to a fifth of an open text waits
(`Streamed`), and is stored once an import finds no more lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful.errors import InvalidEventError
from rightful.importers.engine.file_report import SKIPPED
from rightful.importers.engine.formats import APPENDED, End, GrowingKind, GrowingReader, Origin, Wire
from rightful.importers.engine.loop import STDIN
from rightful.importers.grok import grok_store
from rightful.importers.shared.foreign_fields import digest, key_of, session_of
from rightful.importers.shared.line_times import LineTimes
from rightful.importers.shared.record_parts import Part, arguments_of, data, extra, numbers, without, word
from rightful.importers.shared.streamed_texts import Streamed
from rightful.importers.sources.text_files import Found, Problem

NAMESPACE = "grok"
"""The namespace of the sessions."""

FOLDER = "grok-trajectories"
"""The folder whose files are named after the session."""

_TEXTS = {"thought": "thought.recorded", "text": "message.recorded"}
_CLOSING = frozenset({"tool_call", "tool_call_update", "error", "end"})
_FAILED = ("failed", "error", "cancelled", "canceled")  # a tuple: a value from a file may not be hashable
_SETTLED = (*_FAILED, "completed", "success", "succeeded", "done")
_NOTHING: tuple[object, ...] = (None, "", {})
_OF_TEXT = frozenset({"type", "data", "content", "text", "timestamp"})  # no other key: many tools have such a type
_OF_CALL = frozenset({"toolName", "rawInput", "title", "status", "kind"})
_OTHERS = frozenset({"role", "session_id", "sessionID", "messageID", "uuid", "message"})  # what no line of a stream has
_UNKNOWN_SESSION = (
    "a stream of Grok has no session id and no time, and this one is not in a folder `grok-trajectories`: "
    "nothing was imported from it. Move it there as <session id>.jsonl and import that file"
)


class _Call(msgspec.Struct):
    """A call without a result.

    Attributes:
        key: The key of its events.
        fields: Its recorded fields, except for its arguments.
        is_whole: Whether its arguments were recorded.
        output: Its output, as recorded last.
        outputs: The number of recorded outputs that do not extend each other.
    """

    key: list[str | int]
    fields: dict[str, Any]
    is_whole: bool = False
    output: Any = None
    outputs: int = 0


class _Text(msgspec.Struct):
    """An open text: its type, the key of its event, and its characters so far."""

    kind: str
    key: list[str | int]
    streamed: Streamed


class _State(msgspec.Struct):
    """The state after the last line that was read."""

    count: int = 0
    known_us: int | None = None
    text: _Text | None = None
    calls: dict[str, _Call] = {}


class Grok(GrowingKind):
    """The kind `grok`."""

    NAME = "grok"
    GROWS = APPENDED
    READER_VERSION = 2

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a line that only Grok's streams or its own store have."""
        if grok_store.proves(value):
            return True
        if not _OTHERS.isdisjoint(value):
            return False
        match value.get("type"):
            case "available_commands":
                return "commands" in value
            case "thought" | "text":
                return _piece_of(value) is not None and value.keys() <= _OF_TEXT
            case "tool_call":
                return isinstance(value.get("toolCallId"), str) and not _OF_CALL.isdisjoint(value)
            case "tool_call_update":
                return isinstance(value.get("toolCallId"), str)
            case "end":
                return "modelUsage" in value or "stopReason" in value
            case _:
                return False

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: Its path does not name a session, and the user named the file.
        """
        if origin.name == grok_store.MAIN and origin.path != STDIN:
            return grok_store.StoreReader(origin)
        folder = os.path.realpath(os.path.dirname(origin.path) or ".")  # noqa: PTH120 - the file's own link is not followed
        if origin.path == STDIN or os.path.basename(folder) != FOLDER:  # noqa: PTH119 - a name is compared
            if origin.is_named:
                raise InvalidEventError(_UNKNOWN_SESSION)
            return _UnknownSessionReader()
        value = origin.name.removesuffix(".jsonl")
        return GrokReader(LineTimes(origin.mtime_us), value, session_of(NAMESPACE, value, "$"))


class GrokReader(GrowingReader):
    """Reads one stream.

    Args:
        line_times: Returns the time of each line.
        value: The session's id.
        session: Its name.
    """

    def __init__(self, line_times: LineTimes, value: str, session: str) -> None:
        self._times, self._value, self._session = line_times, value, session
        self._known = _State()

    def state(self) -> dict[str, Any]:
        """Return the state of the stream."""
        self._known.known_us = self._times.known_us
        known: dict[str, Any] = msgspec.to_builtins(self._known)
        return known

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._known = msgspec.convert(state, _State)
        self._times.known_us = self._known.known_us

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one line.

        Raises:
            InvalidEventError: It has no type, or a call no id.
        """
        at = self._times.of(found.value.get("timestamp"))
        number, self._known.count = self._known.count, self._known.count + 1
        for part in self._said(found.value, number):
            yield self._wire(part) | at

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield the rest of an open text if the file has not grown since the last import, else a note of its length."""
        text = self._known.text
        waiting = 0 if text is None else len(text.streamed.text) - text.streamed.told
        if text is not None and waiting and end.has_grown:
            what = f"the file ends within a {text.kind}: its last {waiting:,} characters wait for the next lines"
            yield Problem(None, f"{what}. If none come, import the file again to store them", lost=False)
        elif text is not None and waiting:
            yield self._wire(_state_of(text)) | self._times.of(None)

    def _wire(self, part: Part) -> Wire:
        key = key_of(self._value, *part.key)
        return {"type": part.type, "producer": Grok.NAME, "key": key, "session": self._session, **part.fields}

    def _said(self, value: Mapping[str, Any], number: int) -> Iterator[Part]:
        if number == 0:
            yield _started({"harness": "grok"})
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidEventError("Expected the type of a line", "$.type")
        if kind in _TEXTS and (piece := _piece_of(value)) is not None:
            yield from self._grown(kind, piece, value, number)
            return
        mark: list[str | int] = [number, digest(value)]
        if kind in _CLOSING:
            yield from self._closed()
        match kind:
            case "tool_call":
                yield from self._called(value, mark)
            case "tool_call_update":
                yield from self._updated(value, mark)
            case "usage":
                used = value.get("usage")
                fields = {"counts": numbers(used if isinstance(used, dict) else value), "of": f"line:{number}"}
                yield Part("usage.recorded", tuple(mark), fields)
            case "error":
                said = value.get("message")
                message = said if isinstance(said, str) else None
                more = extra(without(value, "type", *(() if message is None else ("message",))))
                yield Part("error.recorded", tuple(mark), {"message": message, **more})
            case "end":
                yield from _ended(value, mark)
            case _:
                yield data(word(kind), dict(value), *mark)

    def _grown(self, kind: str, piece: str, value: Mapping[str, Any], number: int) -> Iterator[Part]:
        """Add the next piece of a text; the first one identifies it."""
        text = self._known.text
        if text is None or text.kind != kind:
            yield from self._closed()
            text = self._known.text = _Text(kind, [number, digest(value)], Streamed(kind))
        if text.streamed.grow(piece):
            yield _state_of(text)

    def _closed(self) -> Iterator[Part]:
        """Yield the complete open text."""
        text, self._known.text = self._known.text, None
        if text is not None and text.streamed.tell():
            yield _state_of(text)

    def _called(self, value: Mapping[str, Any], mark: list[str | int]) -> Iterator[Part]:
        call, given = grok_store.call_id(value, "toolCallId"), value.get("rawInput")
        known = self._known.calls.get(call)
        if known is None or known.is_whole:
            name = value.get("toolName") or value.get("title")
            more = extra(without(value, "type", "toolCallId", "toolName", "rawInput", "status"))
            fields = {"call": call, **without({"name": name if isinstance(name, str) else None}), **more}
            known = self._known.calls[call] = _Call(mark, fields)
        known.is_whole = given not in _NOTHING
        yield _snapshot(known, given)

    def _updated(self, value: Mapping[str, Any], mark: list[str | int]) -> Iterator[Part]:
        """Yield the additions of an update: late input, output, or the end of the call."""
        call, given, status = grok_store.call_id(value, "toolCallId"), value.get("rawInput"), value.get("status")
        known = self._known.calls.get(call)
        if known is None:
            known = self._known.calls[call] = _Call(mark, {"call": call}, is_whole=True)
        elif not known.is_whole and given not in _NOTHING:
            known.is_whole = True
            yield _snapshot(known, given)
        output = next((value[name] for name in ("rawOutput", "content", "error") if value.get(name) is not None), None)
        is_settled = status in _SETTLED
        if is_settled:
            del self._known.calls[call]
        if output is None and not is_settled:
            return
        if known.output is not None and not _is_more(output, known.output):
            known.outputs += 1
        known.output = output
        fields = {"call": call, "output": output, "complete": is_settled, "is_error": status in _FAILED}
        yield Part("tool_result.snapshotted", (*known.key, "result", known.outputs), fields)


class _UnknownSessionReader(GrowingReader):
    """Reads a stream whose folder does not name the session."""

    def state(self) -> dict[str, Any]:
        """Return nothing: nothing is kept of it."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with nothing."""

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield nothing."""
        del found
        return iter(())

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield why it is skipped."""
        del end
        yield Problem(None, f"{SKIPPED}{_UNKNOWN_SESSION}", lost=False)


def _started(facts: dict[str, Any]) -> Part:
    return Part("session.started", ("session.started", digest(facts)), facts)


def _state_of(text: _Text) -> Part:
    role = {"role": "assistant"} if text.kind == "text" else {}
    return Part(_TEXTS[text.kind], tuple(text.key), {**role, "content": text.streamed.text})


def _snapshot(call: _Call, given: object) -> Part:
    fields = {**call.fields, "arguments": arguments_of(given), "complete": call.is_whole}
    return Part("tool_call.snapshotted", tuple(call.key), fields)


def _ended(value: Mapping[str, Any], mark: list[str | int]) -> Iterator[Part]:
    """Yield that the session ended, and what it used in all: the sum over its models, else what the line says."""
    turns, by_model, used = value.get("num_turns"), value.get("modelUsage"), value.get("usage")
    is_count = isinstance(turns, int) and not isinstance(turns, bool) and turns >= 0
    yield Part(
        "session.ended",
        (*mark, "ended"),
        {**({"turns": turns} if is_count else {}), **extra(without(value, "type", "usage", "modelUsage"))},
    )
    by_model = by_model if isinstance(by_model, dict) else {}
    counts: dict[str, Any] = {}
    for usage in by_model.values() or [used]:
        for name, count in numbers(usage).items():
            counts[name] = counts.get(name, 0) + count
    if counts:
        stretch = f"{mark[0]}"  # each `end` counts what its own run used
        more = extra(without({"modelUsage": by_model or None, "usage": used if by_model else None, "stretch": stretch}))
        yield Part("usage.recorded", (*mark, "usage"), {"counts": counts, "cumulative": True, **more})
    if len(by_model) == 1:
        yield _started({"harness": "grok", "model": next(iter(by_model))})


def _piece_of(value: Mapping[str, Any]) -> str | None:
    """Return the text of a line, in whichever field its version has it."""
    for name in ("data", "content", "text"):
        match value.get(name):
            case str() as text:
                return text
            case {"type": "text", "text": str() as text}:
                return text
            case _:
                pass
    return None


def _is_more(new: object, old: object) -> bool:
    """Return whether an output equals the other one, or extends it."""
    return new == old or (isinstance(new, str) and isinstance(old, str) and new.startswith(old))
