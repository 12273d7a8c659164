"""What the agents of a Copilot CLI session have said so far: the main one, and those that it started."""

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
"""The id of an item of the history: the event that states it, and its place there."""


class Compacted(msgspec.Struct):
    """A compaction that stands in an agent's history.

    Attributes:
        id: The event that states it.
        record: The record that says so.
        covered: The last item that it covers.
        asked: How many messages of the user there were when it began: those it covers.
        item: What replaces that and all before it; None where nothing does.
    """

    id: str
    record: str
    covered: Item | None
    asked: int
    item: Item | None


class Rewound(NamedTuple):
    """What a rewind undid: the first and the last item, and the compactions."""

    first: Item
    last: Item
    compacted: list[Compacted]


class Agent(msgspec.Struct):
    """What is known of one agent behind the last line that was read.

    Attributes:
        interaction: What the user had asked for when its turn began.
        turn: The turn that is open.
        thoughts: Marks of what it thought in that turn; the file may tell it twice.
        calls: Calls that were asked for and have no result yet, with the mark of their arguments.
        last: The last item of its history.
        compacts: Of a compaction that is under way, what came before it: the last item, and how many
            messages of the user; what comes later is not covered.
        asked: The messages of the user that a rewind can go back to, each with the item before it; those before a
            compaction too.
        done: The compactions that were not undone.
        is_begun: An item, or a compaction, was read of it.
        is_headed: A compaction came before anything else: the file was written again from there.
        streamed: The message that streams in pieces.
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
        """Begin a turn. Its number begins anew with each interaction, so the interaction tells it apart."""
        self.interaction = word(data.get("interactionId"), event_id)
        self.turn = qualified(self.interaction, data.get("turnId"))
        self.thoughts = []

    def turn_of(self, data: Mapping[str, Any]) -> str | None:
        """Return the turn that a record speaks of, else the one that is open."""
        number = data.get("turnId")
        if number is None or self.interaction is None:
            return self.turn
        return qualified(word(data.get("interactionId"), self.interaction), number)

    def thinks(self, text: str) -> bool:
        """Take a thought in; say whether this turn has not told it yet."""
        mark = digest(text)[:_MARK_CHARS]
        is_new = mark not in self.thoughts
        if is_new:
            self.thoughts.append(mark)
        return is_new

    def calls_anew(self, call: str, arguments: object) -> bool:
        """Take a call in; say whether it was not told yet with these arguments."""
        mark = digest(arguments)[:_MARK_CHARS]
        is_new = self.calls.get(call) != mark
        self.calls[call] = mark
        return is_new

    def add(self, item: Item, *, asks: bool) -> None:
        """Put an item at the end of the history."""
        if asks:
            self.asked[item[0]] = self.last
        self.last, self.is_begun = item, True

    def rewind(self, event_id: str) -> Rewound | None:
        """Undo a message of the user and all behind it, and the compactions that cover it."""
        names = list(self.asked)
        at = names.index(event_id) if event_id in self.asked else len(names)
        rewound = self.behind(at, {compaction.record for compaction in self.done if compaction.asked > at})
        if rewound is None:
            return None
        self.last = self.asked[event_id]
        self.asked = {name: self.asked[name] for name in names[:at]}
        self.done = [compaction for compaction in self.done if compaction.asked <= at]
        if self.compacts is not None and self.compacts[1] > len(self.asked):
            self.compacts = self.last, len(self.asked)  # what it covered was taken back meanwhile
        return rewound

    def behind(self, at: int, gone: Container[str]) -> Rewound | None:
        """Return what stands from a message of the user on.

        Args:
            at: Which message it is, from 0.
            gone: The records of the compactions that are undone with it.
        """
        undone = [compaction for compaction in self.done if compaction.record in gone]
        last = self.last
        for compaction in reversed(undone):
            last = compaction.covered if last == compaction.item else last
        return None if last is None or at >= len(self.asked) else Rewound((list(self.asked)[at], 0), last, undone)

    def compact(self) -> Item | None:
        """Begin to compact; return the last item that is covered."""
        self.compacts = self.compacts or (self.last, len(self.asked))
        return self.compacts[0]

    def compacted(self, event_id: str, record: str, item: Item | None) -> None:
        """End the compaction.

        Args:
            event_id: The event that states it.
            record: The record that says so.
            item: What replaces what was covered; None where nothing does.
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
        """End a compaction that was not done."""
        self.compacts = None

    def clear(self) -> None:
        """Take everything out of the history."""
        self.asked, self.done, self.last, self.compacts = {}, [], None, None


def qualified(interaction: str, number: object) -> str:
    """Return the name of a turn."""
    return f"{interaction}/{number}"
