"""The event log of a gptme conversation: `events.jsonl`, one object for each change.

| type | becomes |
|---|---|
| `message_append` | the message, the same fact as in the conversation |
| `undo` | `history.popped` of the last messages, as many as it says |
| `message_edit` | its messages; earlier messages that are not among them are popped |
| `checkpoint` | its messages: the initial messages of gptme are only here in the log |
| any other | `data.recorded`, unchanged |

(gptme's logmanager/eventlog.py.) An event is identified by its message, never by its `seq`: two processes write the
same numbers, and a copied folder repeats them. Newer versions drop the events before a checkpoint, so the log may
begin with one, and a shorter log proves nothing.

In a conversation with views a checkpoint may be of a view. Messages that are in no complete conversation are then left
to the view's own file, which shows their place. An undo there only affects the view, and the log does not say so:
messages that the conversation still has are not popped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import GrowingReader, Origin, Wire
from rightful.importers.gptme.conversation_events import Place
from rightful.importers.gptme.gptme_messages import MessageItems, Messages
from rightful.importers.gptme.neighbour_files import Main
from rightful.importers.shared.foreign_fields import below, digest, key_of, moment_us, shaped
from rightful.importers.sources.text_files import Found, Problem

EVENTS = "events.jsonl"
"""The file's name."""


class _Event(msgspec.Struct):
    seq: int
    ts: str
    type: str
    payload: dict[str, Any]


class _Appended(msgspec.Struct):
    message: dict[str, Any]


class _Edited(msgspec.Struct):
    messages: list[dict[str, Any]]


class _Undone(msgspec.Struct):
    n: int = 1  # older versions did not say how many


class EventLogReader(GrowingReader):
    """Reads an event log.

    Args:
        place: Where its conversation is.
        origin: The file.
        main: The conversation itself.
    """

    def __init__(self, place: Place, origin: Origin, main: Main) -> None:
        self._place, self._origin = place, origin
        self._messages = Messages(place.folder, origin.mtime_us)
        self._main = main
        self._has_views = (place.path / "views").is_dir()
        self._others: Counter[str] = Counter()

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last event."""
        return self._messages.state() | {"others": self._others}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last event."""
        self._messages.restore(state)
        self._others = Counter(state["others"])

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one log entry.

        Raises:
            InvalidEventError: It does not have the shape of one of its type.
        """
        event: _Event = shaped(found.value, _Event)
        at_us, _ = moment_us(event.ts, "$.ts")
        try:
            yield from self._of(event, at_us, found)
        except InvalidEventError as error:
            raise below("$.payload", error) from None

    def _of(self, event: _Event, at_us: int, found: Found) -> Iterator[Wire | Problem]:
        match event.type:
            case "message_append":
                message = shaped(event.payload, _Appended).message
                try:
                    yield from self._messages.take(Found(found.line, message))
                except InvalidEventError as error:
                    raise below("$.message", error) from None
            case "undo":
                yield from self._undone(shaped(event.payload, _Undone).n, at_us, found.line)
            case "message_edit" | "checkpoint":
                messages = shaped(event.payload, _Edited).messages
                yield from self._replaced(messages, at_us, found.line, is_edit=event.type == "message_edit")
            case _:
                mark = digest(found.value)
                self._others[mark] += 1
                key = key_of(self._place.folder, "event", mark, self._others[mark])
                head = self._messages.stamped("data.recorded", key, at_us=at_us)
                yield head | {"name": event.type or "event", "data": found.value}

    def _undone(self, count: int, at_us: int, line: int) -> Iterator[Wire | Problem]:
        gone = self._messages.undo(max(count, 0))
        yield from self._popped(gone, frozenset(), at_us)
        if (unknown := count - len(gone)) > 0:
            what = f"it undoes more messages than this log has: {unknown}; the conversation's import records the rest"
            yield Problem(line, what, lost=False)

    def _replaced(
        self, messages: list[dict[str, Any]], at_us: int, line: int, *, is_edit: bool
    ) -> Iterator[Wire | Problem]:
        """Replace the current messages by a list; yield the new messages, and the pops of those edited away."""
        before = self._messages.current
        known = {item for message in before for item in message.items}
        self._messages = Messages(self._place.folder, self._origin.mtime_us)
        for place, message in enumerate(messages):
            try:
                events = list(self._messages.take(Found(line, message)))
            except InvalidEventError as error:
                yield Problem(line, str(below(f"$.payload.messages[{place}]", error)))
                continue
            if self._is_recorded(self._messages.current[-1], known, is_edit=is_edit):
                yield from events
        if is_edit:
            current = frozenset(item for message in self._messages.current for item in message.items)
            yield from self._popped(before, current, at_us)

    def _popped(self, gone: list[MessageItems], current: frozenset[str], at_us: int) -> Iterator[Wire]:
        """Yield the pops of undone messages, except those still in the conversation: these were undone in a view."""
        for message in gone:
            left = self._main.without(message) if self._main.is_known else message.items
            for item in left:
                if item not in current:
                    yield self._messages.popped(item, at_us=at_us)

    def _is_recorded(self, message: MessageItems, known: set[str], *, is_edit: bool) -> bool:
        """Return whether to record a message of a list: it is new, and not part of a view."""
        if known.issuperset(message.items):
            return False
        return is_edit or not self._has_views or not self._main.is_known or not self._main.without(message)
