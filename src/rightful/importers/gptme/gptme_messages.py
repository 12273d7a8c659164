"""The messages of one gptme file, in order, as events that depend only on the message.

| of a message | becomes |
|---|---|
| its role and content | `message.recorded`; its other fields are in `extra` (`hide` as `hidden`) |
| a tool call in an assistant's text | `tool_call.snapshotted`, in addition to the message with its whole text |
| a system message that answers a call | `tool_result.snapshotted`, and no message |
| `metadata` | `usage.recorded` of that message: its numbers; the rest (model, tool …) in `extra` |
| lessons | an exposure, in addition to the message |

A message has no id. Its key is the folder, the digest of its role, time and content, and how often the same message
precedes it in the file. So the same message in the conversation, a branch or the event log is the same fact, and two
equal messages in one file are two facts. `metadata` may come later than the message, or be missing in one of the
files; so its event has its own key, with its digest and the event it belongs to.

A call in the `tool` form has an id, and its result names it. Calls of the other forms have none; their id consists of
the message's digest and their place. Such a call is answered by the next system message that is neither hidden nor
`ui_only`, before the next message of the user or assistant: by the tool that its metadata names, else in order (gptme
expects one result per call).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import msgspec

from rightful import times
from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.importers.engine.formats import Wire
from rightful.importers.gptme.gptme_calls import calls_in
from rightful.importers.gptme.gptme_times import local_us
from rightful.importers.gptme.lesson_messages import exposed, is_lessons
from rightful.importers.shared.foreign_fields import digest, key_of, session_of, shaped
from rightful.importers.shared.record_parts import numbers
from rightful.importers.sources.growing_files import Lines
from rightful.importers.sources.text_files import Found, Problem

PRODUCER = "gptme"
"""The producer of all events except the exposures."""

NAMESPACE = "gptme"
"""The namespace of the sessions."""

_MARK_CHARS = 16  # of a digest, in a state: 64 bits distinguish the messages of one file
_CALL_CHARS = 32
_FAILED = "Error executing tool '"  # gptme's tools/base.py
_READ = frozenset({"role", "content", "timestamp", "metadata", "hide"})
_OLD_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "reasoning_tokens")


class _Message(msgspec.Struct):
    role: str
    content: Any = None
    timestamp: str | None = None


class MessageItems(NamedTuple):
    """A message of a file, with its events.

    Attributes:
        mark: The beginning of its digest.
        items: The ids of the events that are items of the history.
    """

    mark: str
    items: tuple[str, ...]

    @classmethod
    def from_states(cls, states: Iterable[list[str]]) -> list[MessageItems]:
        """Return the messages of a state, each a list of its mark and its items."""
        return [cls(mark, tuple(items)) for mark, *items in states]


class Messages:
    """Turns messages into events, one after the other, and tracks the current messages of the file.

    Its state takes about ninety bytes per message.

    Args:
        folder: The name of the conversation's folder, which is the only name of the session.
        mtime_us: The file's time, for messages before the first one with a time; microseconds since 1970.

    Attributes:
        counts: How often each message occurs, by the beginning of its digest.

    Raises:
        InvalidEventError: The folder's name is not a valid session name.
    """

    def __init__(self, folder: str, mtime_us: int | None) -> None:
        self.folder = folder
        self.session = session_of(NAMESPACE, folder, "$")
        self.current: list[MessageItems] = []
        self.counts: Counter[str] = Counter()
        self._open: list[list[str]] = []
        self._file_us = mtime_us or 0
        self.last_us: int | None = None

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last message."""
        current = [[message.mark, *message.items] for message in self.current]
        return {"standing": current, "open": self._open, "last_us": self.last_us}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.current = MessageItems.from_states(state["standing"])
        self.counts = Counter(message.mark for message in self.current)
        self._open = [list(call) for call in state["open"]]
        self.last_us = state["last_us"]

    def undo(self, count: int) -> list[MessageItems]:
        """Remove the last messages; return them, the last one first."""
        gone = [self.current.pop() for _ in range(min(count, len(self.current)))]
        self.counts.subtract(message.mark for message in gone)
        self._open = []
        return gone

    def take(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one message.

        Raises:
            InvalidEventError: It is not a message, or its lessons are not valid.
        """
        value = found.value
        message: _Message = shaped(value, _Message)
        if message.timestamp is not None:
            self.last_us, _ = local_us(message.timestamp)
        content = digest([message.role, value.get("timestamp"), message.content])
        mark = content[:_MARK_CHARS]
        occurrence = self.counts[mark] + 1
        events = list(self._events(message, value, content, occurrence))
        self.counts[mark] = occurrence
        items = tuple(event_id(PRODUCER, event["key"]) for event in events if _is_item(event))
        self.current.append(MessageItems(mark, items))
        yield from events
        if is_lessons(value):
            yield from exposed(found, self.folder, self.session, occurrence)

    def stamped(self, kind: str, key: str, *, at_us: int | None = None) -> Wire:
        """Return the head of an event: at the last known time, or at that of the file."""
        at_us = self.last_us if at_us is None else at_us
        basis = {} if at_us is not None else {"at_basis": "file"}
        at = times.text_of(self._file_us if at_us is None else at_us)
        return {"type": kind, "producer": PRODUCER, "key": key, "session": self.session, "at": at} | basis

    def popped(self, item: str, *, at_us: int | None = None, nth: int = 1) -> Wire:
        """Return the event that pops an item.

        The key depends only on the item, not on the source: the event log, a backup, or the conversation itself.

        Args:
            item: The item.
            at_us: When it was undone; microseconds since 1970.
            nth: How often it was popped so far, with this time, since it may have been restored.
        """
        key = self._popped_key(item, nth)
        return self.stamped("history.popped", key, at_us=at_us) | {"items": [[item, 0]]}

    def put_back(self, item: str, nth: int, *, at_us: int | None = None) -> Wire:
        """Return the event that restores an item after it was popped for the nth time."""
        of = event_id(PRODUCER, self._popped_key(item, nth))
        key = key_of(self.folder, item, "put back", nth)
        return self.stamped("event.withdrawn", key, at_us=at_us) | {"id": of, "revision": 1}

    def _popped_key(self, item: str, nth: int) -> str:
        return key_of(self.folder, item, "popped", *(() if nth == 1 else (nth,)))

    def _events(self, message: _Message, value: Wire, content: str, occurrence: int) -> Iterator[Wire]:
        first = self._answer(message, value, content, occurrence)
        if first is None:
            first = self.stamped("message.recorded", key_of(self.folder, content, occurrence, "message"))
            first |= {"role": message.role, "content": message.content} | _extra(value, _READ)
        yield first
        if message.role == "assistant" and isinstance(message.content, str):
            yield from self._calls(message.content, content, occurrence)
        if (metadata := value.get("metadata")) not in (None, {}):
            yield self._metadata(metadata, content, occurrence, event_id(PRODUCER, first["key"]))

    def _calls(self, text: str, content: str, occurrence: int) -> Iterator[Wire]:
        for place, call in enumerate(calls_in(text)):
            name = call.id or f"{content[:_CALL_CHARS]}.{occurrence}.{place}"
            if call.id is None:
                self._open.append([name, call.tool])
            head = self.stamped("tool_call.snapshotted", key_of(self.folder, content, occurrence, "call", place))
            yield head | {"call": name, "name": call.tool, "arguments": call.arguments, "complete": True}

    def _answer(self, message: _Message, value: Wire, content: str, occurrence: int) -> Wire | None:
        """Return the tool result that a message contains; None if it is not a result."""
        if message.role in {"user", "assistant"}:
            self._open = []
            return None
        call = value.get("call_id")
        if not isinstance(call, str) or not call:
            call = self._answered(value)
        if call is None:
            return None
        head = self.stamped("tool_result.snapshotted", key_of(self.folder, content, occurrence, "result", call))
        failed = isinstance(message.content, str) and message.content.startswith(_FAILED)
        fields = {"call": call, "output": message.content, "is_error": failed, "complete": True}
        return head | fields | _extra(value, _READ | {"call_id"})

    def _answered(self, value: Wire) -> str | None:
        """Return the call without an id that a system message answers."""
        if value.get("hide") or value.get("ui_only"):
            return None
        metadata = value.get("metadata")
        tool = metadata.get("tool") if isinstance(metadata, dict) else None
        for place, (call, name) in enumerate(self._open):
            if tool in (None, name):
                del self._open[place]
                return call
        return None

    def _metadata(self, metadata: object, content: str, occurrence: int, of: str) -> Wire:
        key = key_of(self.folder, content, occurrence, "metadata", digest(metadata), of)
        counts, rest = _counted(metadata) if isinstance(metadata, dict) else ({}, metadata)
        if counts:
            return (
                self.stamped("usage.recorded", key) | {"counts": counts, "of": of} | ({"extra": rest} if rest else {})
            )
        return self.stamped("data.recorded", key) | {"name": "metadata", "data": {"of": of, "metadata": rest}}


def read_messages(stream: BinaryIO, take: Callable[[Found], Iterable[object]]) -> Iterator[Found]:
    """Yield each message of a file after its events were derived, without the invalid ones.

    Args:
        stream: The file, which is only compared; its own import reports its problems.
        take: Derives the events of a message.
    """
    for item in Lines(stream):
        if isinstance(item, Found):
            with suppress(InvalidEventError):
                for _ in take(item):
                    pass
                yield item


def _is_item(event: Wire) -> bool:
    return event["type"] in {"message.recorded", "tool_call.snapshotted", "tool_result.snapshotted"}


def _extra(value: Mapping[str, Any], known: frozenset[str]) -> Wire:
    """Return the fields that have no event field, as gptme writes them: false and empty ones are omitted."""
    extra = {"hidden": True} if value.get("hide") is True else {}
    extra |= {name: item for name, item in value.items() if name not in known and item}
    return {"extra": extra} if extra else {}


def _counted(metadata: Wire) -> tuple[Wire, Wire]:
    """Return the numbers of a message's metadata, and the other fields."""
    rest = dict(metadata)
    counts: Wire = {}
    for part in ("usage", "timings"):
        if isinstance(inside := rest.get(part), dict):
            counted = numbers(inside)
            counts |= counted
            rest[part] = {name: item for name, item in inside.items() if name not in counted}
            if not rest[part]:
                del rest[part]
    old = numbers({name: rest.get(name) for name in ("cost", *_OLD_COUNTS)})
    return counts | old, {name: item for name, item in rest.items() if name not in old}
