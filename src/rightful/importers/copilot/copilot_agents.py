"""The state of the agents of a Copilot CLI session: the main one, and its subagents."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import msgspec

from rightful.importers.shared.foreign_fields import digest
from rightful.importers.shared.record_parts import word
from rightful.importers.shared.streamed_texts import Streamed

MAIN = ""
"""The main agent, which has no id."""

_MARK_CHARS = 16  # of a digest; enough for the calls and thoughts of one turn

Item = tuple[str, int]
"""The id of an item of the history: its event, and its place in the event."""


class Compacted(msgspec.Struct):
    """A compaction in an agent's history.

    Attributes:
        id: The id of its event.
        record: Its record.
        covered: The last item that it covers.
        asked: The number of messages of the user that it covers.
        item: The item that replaces everything covered; None if nothing does.
    """

    id: str
    record: str
    covered: Item | None
    asked: int
    item: Item | None


class Rewound(NamedTuple):
    """The effect of a rewind: the first and the last undone item, and the undone compactions."""

    first: Item
    last: Item
    compacted: list[Compacted]


class Agent(msgspec.Struct):
    """The state of one agent after the last line that was read.

    Attributes:
        interaction: The user's request at the start of its turn.
        turn: The open turn.
        thoughts: Marks of its thoughts in that turn; the file may have them twice.
        calls: Requested calls without a result, with the mark of their arguments.
        last: The last item of its history.
        compacts: For a running compaction, the last item before it, and the number of messages of the user before it;
            later items are not covered.
        asked: The messages of the user to which a rewind can go, each with the item before it, including those before
            a compaction.
        done: The compactions that were not undone.
        is_begun: Whether an item or a compaction was read.
        is_headed: Whether a compaction came first: the file was rewritten from there.
        streamed: The message that is being streamed.
    """

    interaction: str | None = None
    turn: str | None = None
    thoughts: list[str] = []
    calls: dict[str, str] = {}
    last: Item | None = None
    compacts: tuple[Item | None, int] | None = None
    asked: dict[str, Item | None] = {}
    done: list[Compacted] = []
    is_begun: bool = False
    is_headed: bool = False
    streamed: Streamed | None = None

    def begin(self, data: Mapping[str, Any], event_id: str) -> None:
        """Begin a turn. Turn numbers restart with each interaction, so the interaction is part of the name."""
        self.interaction = word(data.get("interactionId"), event_id)
        self.turn = qualified(self.interaction, data.get("turnId"))
        self.thoughts = []

    def turn_of(self, data: Mapping[str, Any]) -> str | None:
        """Return the turn that a record names, else the open one."""
        number = data.get("turnId")
        if number is None or self.interaction is None:
            return self.turn
        return qualified(word(data.get("interactionId"), self.interaction), number)

    def thinks(self, text: str) -> bool:
        """Add a thought; return whether it is new in this turn."""
        mark = digest(text)[:_MARK_CHARS]
        is_new = mark not in self.thoughts
        if is_new:
            self.thoughts.append(mark)
        return is_new

    def calls_anew(self, call: str, arguments: object) -> bool:
        """Add a call; return whether it is new with these arguments."""
        mark = digest(arguments)[:_MARK_CHARS]
        is_new = self.calls.get(call) != mark
        self.calls[call] = mark
        return is_new

    def add(self, item: Item, *, asks: bool) -> None:
        """Append an item to the history."""
        if asks:
            self.asked[item[0]] = self.last
        self.last, self.is_begun = item, True

    def rewind(self, event_id: str) -> Rewound | None:
        """Undo a message of the user and everything after it, and the compactions that cover it."""
        names = list(self.asked)
        at = names.index(event_id) if event_id in self.asked else len(names)
        rewound = self.behind(at, {compaction.record for compaction in self.done if compaction.asked > at})
        if rewound is None:
            return None
        self.last = self.asked[event_id]
        self.asked = {name: self.asked[name] for name in names[:at]}
        self.done = [compaction for compaction in self.done if compaction.asked <= at]
        if self.compacts is not None and self.compacts[1] > len(self.asked):
            self.compacts = self.last, len(self.asked)  # the covered messages were undone meanwhile
        return rewound

    def behind(self, at: int, gone: Container[str]) -> Rewound | None:
        """Return the items from a message of the user on.

        Args:
            at: The index of the message.
            gone: The records of the compactions that are undone with it.
        """
        undone = [compaction for compaction in self.done if compaction.record in gone]
        last = self.last
        for compaction in reversed(undone):
            last = compaction.covered if last == compaction.item else last
        return None if last is None or at >= len(self.asked) else Rewound((list(self.asked)[at], 0), last, undone)

    def compact(self) -> Item | None:
        """Begin a compaction; return the last covered item."""
        self.compacts = self.compacts or (self.last, len(self.asked))
        return self.compacts[0]

    def compacted(self, event_id: str, record: str, item: Item | None) -> None:
        """End the compaction.

        Args:
            event_id: The id of its event.
            record: Its record.
            item: The item that replaces the covered ones; None if nothing does.
        """
        covered, count = self.compacts or (None, 0)
        if self.last == covered or (covered is None and item is not None):
            self.last = item
        for name in list(self.asked)[count:]:
            if self.asked[name] == covered:
                self.asked[name] = item
        self.done.append(Compacted(event_id, record, covered, count, item))
        self.is_headed = self.is_headed or not self.is_begun
        self.compacts, self.is_begun = None, True

    def failed(self) -> None:
        """End a compaction that failed."""
        self.compacts = None

    def clear(self) -> None:
        """Remove everything from the history."""
        self.asked, self.done, self.last, self.compacts = {}, [], None, None


def qualified(interaction: str, number: object) -> str:
    """Return the name of a turn."""
    return f"{interaction}/{number}"
