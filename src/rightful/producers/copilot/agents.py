"""What the agents of a Copilot CLI session have said so far: the main one, and those that it started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rightful.producers.fields import digest
from rightful.producers.telling.parts import word
from rightful.producers.telling.streamed import Streamed

MAIN = ""
"""The main agent, which has no id."""

_MARK_CHARS = 16  # of a digest; enough for the calls and thoughts of one turn

Item = tuple[str, int]
"""The id of an item of the history: the event that states it, and its place there."""


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
        asked: The messages of the user that a rewind can go back to, each with the item before it.
        streamed: The message that streams in pieces.
    """

    interaction: str | None = None
    turn: str | None = None
    thoughts: list[str] = []
    calls: dict[str, str] = {}
    last: Item | None = None
    compacts: tuple[Item | None, int] | None = None
    asked: dict[str, Item | None] = {}
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
        self.last = item

    def rewind(self, event_id: str) -> tuple[Item, Item] | None:
        """Take a message of the user and all behind it back; return the first and the last item of that."""
        if event_id not in self.asked or self.last is None:
            return None
        ends = (event_id, 0), self.last
        self.last = self.asked[event_id]
        names = list(self.asked)
        self.asked = {name: self.asked[name] for name in names[: names.index(event_id)]}
        if self.compacts is not None and self.compacts[1] > len(self.asked):
            self.compacts = self.last, len(self.asked)  # what it covered was taken back meanwhile
        return ends

    def compact(self) -> Item | None:
        """Begin to compact; return the last item that is covered."""
        self.compacts = self.compacts or (self.last, len(self.asked))
        return self.compacts[0]

    def compacted(self, item: Item | None) -> None:
        """End the compaction.

        Args:
            item: What stands for what was covered; None where it failed.
        """
        covered, count = self.compacts or (None, 0)
        if item is not None:
            self.last = item if self.last == covered else self.last
            later = list(self.asked.items())[count:]
            self.asked = {name: item if before == covered else before for name, before in later}
        self.compacts = None

    def clear(self) -> None:
        """Take everything out of the history."""
        self.asked, self.last, self.compacts = {}, None, None


def qualified(interaction: str, number: object) -> str:
    """Return the name of a turn."""
    return f"{interaction}/{number}"
