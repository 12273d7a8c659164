"""Find the thread of each line of a Codex rollout, and track the state of the threads.

A fork copies its parent's lines, starting with the parent's `session_meta`, with the time of the copy. So the first
`session_meta` names the file's own thread, and a second one is followed by lines of that other thread, its ancestor.
These rules separate them, in this order:

1. A turn id is a UUID of version 7, which contains the start of the turn. A turn belongs to the youngest thread of
   the file that existed by then (agentsview's pull request 657, tokscale's issue 679).
2. A turn whose id has no time (version 4, older threads) may have `started_at`.
3. While no turn id has had a time: copied lines have times within a moment of each other, and a line more than a
   second after the copied `session_meta` belongs to the file's own thread.

A subagent may be started with only the last turns of its parent (`truncate_rollout_to_last_n_fork_turns` of codex-rs).
Then the parent's `session_meta` is not copied: the file's own one has `forked_from_id`, and the lines after it belong
to the parent until the first own turn begins, by the same rules. The parent's file has them, in turns that the copy
may not name, so here they are stored as data.

Rule 3 can fail only for threads of the oldest versions: a prompt that starts a fork within that second is treated as
its parent's last message. Otherwise a version 4 turn in a copy never ends it (tokscale's issue 895).
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import msgspec

from rightful.importers.codex.codex_events import Running
from rightful.importers.shared.record_parts import Part

COPIED_US = 1_000_000
"""How long after the copied `session_meta` a copied line may be dated; agentsview saw 50 ms. Microseconds."""

_TOLD_CHARS = 16  # of a digest; enough to distinguish the texts of one turn
_VERSION_7, _MS_BITS = 7, 80

Item = tuple[str, int]
"""The id of an item of the history: its event, and its place in the event."""


class TurnStart(msgspec.Struct, array_like=True):
    """The place in the history where a turn of the user begins.

    Attributes:
        first: Its first item.
        before: The item before that one; None if there is none.
    """

    first: Item
    before: Item | None = None


class Compacted(msgspec.Struct):
    """A compaction in a thread's history.

    Attributes:
        id: The id of its event.
        size: The number of items that replace everything before it.
        before: The last item before it.
        turn: The index of the turn with which it is undone: its own, else the last one before it; -1 for none.
        waits: The open turn, if it had no prompt yet: the compaction is undone together with that prompt.
        is_first: Whether it came before the prompt of its turn.
    """

    id: str
    size: int
    before: Item | None
    turn: int
    waits: str | None = None
    is_first: bool = False

    @property
    def last(self) -> Item | None:
        """Its last item."""
        return (self.id, self.size - 1) if self.size else None


class Popped(NamedTuple):
    """The effect of a rollback: the first and the last undone item, and the undone compactions."""

    first: Item
    last: Item
    compacted: list[str]


class Thread(msgspec.Struct):
    """The state of one thread after the last line that was read.

    Attributes:
        id: Its id.
        created_ms: When it was created; milliseconds since 1970; None if unknown.
        turn: The open turn.
        scope: The scope in which repeats of a line are counted: the last turn id, or, if turns have none,
            the number of turns that the user has begun.
        has_turns: Whether its turns have ids.
        asked: The number of turns that the user has begun.
        told: For parts with two forms, the numbers of repeats in this scope: as event messages, as response items.
        turns: The turns of the user that were not rolled back, in order, including those before a compaction.
        compacted: The compactions that were not undone.
        lead: The first of the context items at the end of the history.
        last: The last item of its history.
        is_begun: Whether an item or a compaction was read.
        has_asked: Whether the open turn has a message of the user.
        facts: The facts of its `session_meta`, until its model is known too.
        running: Its running total of tokens.
    """

    id: str
    created_ms: int | None = None
    turn: str | None = None
    scope: str = ""
    has_turns: bool = False
    asked: int = 0
    told: dict[str, tuple[int, int]] = {}
    turns: list[TurnStart] = []
    compacted: list[Compacted] = []
    lead: TurnStart | None = None
    last: Item | None = None
    is_begun: bool = False
    has_asked: bool = False
    facts: dict[str, Any] | None = None
    running: Running = msgspec.field(default_factory=Running)

    def begin(self, turn: str) -> None:
        """Continue in a turn with an id."""
        self.turn, self.has_turns = turn, True
        if turn != self.scope:
            self.scope, self.told, self.has_asked = turn, {}, False

    def was_recorded(self, part: Part) -> bool:
        """Return whether this scope already has the part, in either form."""
        return part.twin is not None and part.twin[:_TOLD_CHARS] in self.told

    def tell(self, part: Part, *, is_item: bool) -> tuple[int, bool]:
        """Count a part that has two forms; return the number of its repeat, and whether it is new.

        Args:
            part: The part.
            is_item: Whether it is from a response item; if not, from an event message.
        """
        mark = (part.twin or "")[:_TOLD_CHARS]
        events, items = self.told.get(mark, (0, 0))
        count, other = (items, events) if is_item else (events, items)
        is_new = count >= other
        if is_new and part.asks and not self.has_turns:
            self.asked += 1
            self.scope, self.told = f"#{self.asked}", {}
            events = items = count = 0
        self.told[mark] = (events, items + 1) if is_item else (events + 1, items)
        return count, is_new

    def add(self, item: Item, part: Part) -> None:
        """Append an item to the history."""
        self.is_begun = True
        if part.asks:
            self._ask()
            self.turns.append(self.lead if self.lead is not None and self.turns else TurnStart(item, self.last))
        if not part.leads:
            self.lead = None
        elif self.lead is None:
            self.lead = TurnStart(item, self.last)
        self.last = item

    def _ask(self) -> None:
        """Begin a turn of the user; compactions made in it earlier are undone with it."""
        self.has_asked = True
        for compacted in self.compacted:
            if compacted.waits is not None:
                compacted.is_first = compacted.waits == self.turn
                compacted.turn, compacted.waits = len(self.turns) if compacted.is_first else compacted.turn, None

    def pop(self, count: int) -> Popped | None:
        """Undo the last turns of the user, and the compactions in them or after them."""
        popped = self.turns[-count:] if count > 0 else []
        if not popped:
            return None
        at = len(self.turns) - len(popped)
        undone = [compacted for compacted in self.compacted if compacted.turn >= at]
        last = self.last
        for compacted in reversed(undone):
            last = compacted.before if last == compacted.last else last
        if last is None:
            return None
        before = popped[0].before
        for compacted in reversed(undone):
            if compacted.turn == at and compacted.is_first:
                before = compacted.before if before == compacted.last else before
        self.turns, self.compacted = self.turns[:at], self.compacted[: len(self.compacted) - len(undone)]
        self.lead, self.last = None, before
        return Popped(popped[0].first, last, [compacted.id for compacted in undone])

    def compact(self, event_id: str, count: int) -> None:
        """Replace the whole history by other items.

        Args:
            event_id: The event of the items.
            count: Their number.
        """
        waits = None if self.has_asked else self.turn
        done = Compacted(event_id, count, self.last, len(self.turns) - 1, waits)
        self.compacted.append(done)
        self.lead, self.last, self.is_begun = None, done.last, True


class Threads(msgspec.Struct):
    """The threads with lines in one file.

    Attributes:
        named: The thread in the file's name; it counts only if the beginning of the file is missing.
        owner: The file's own thread.
        current: The thread of the current line.
        known: All of them by id.
        copied_us: The time of the last copied `session_meta`; microseconds since 1970.
        is_timed: Whether the last turn id had a time.
        inherits_us: The time of the file's own `session_meta`, while copies of its parent's lines follow it;
            None after them. Microseconds since 1970.
    """

    named: str | None = None
    owner: str | None = None
    current: str | None = None
    known: dict[str, Thread] = {}
    copied_us: int | None = None
    is_timed: bool = False
    inherits_us: int | None = None

    def meet(self, thread: str, created_ms: int | None, at_us: int | None, *, is_first: bool) -> Thread:
        """Return the thread that a `session_meta` names; the following lines belong to it.

        Args:
            thread: Its id.
            created_ms: When it was created, if its `session_meta` says so.
            at_us: The time of the line.
            is_first: Whether it is the first line of the file; if not, the file's name names the file's own thread.
        """
        if self.owner is None:
            self.owner = thread if is_first or self.named is None else self.named
            self.known.setdefault(self.owner, Thread(self.owner, made_ms(self.owner)))
        if thread not in self.known:
            self.known[thread] = Thread(thread)
        if thread != self.owner:
            self.copied_us = at_us
        self.current = thread
        found = self.known[thread]
        found.created_ms = made_ms(thread) or created_ms or found.created_ms
        return found

    def inherits(self, turn: str | None, started_ms: int | None, at_us: int | None) -> bool:
        """Return whether a line is a copy of the last turns of the parent of a fork.

        Args:
            turn: The turn that the line begins, if any.
            started_ms: The start of that turn, if the line has it; milliseconds since 1970.
            at_us: The time of the line; microseconds since 1970.
        """
        if self.inherits_us is None or self.owner is None:
            return False
        own = self.known[self.owner]
        began_ms = (made_ms(turn) if turn is not None else None) or started_ms
        if began_ms is not None and own.created_ms is not None:
            self.is_timed = True
            is_own = began_ms >= own.created_ms
        else:
            is_own = not self.is_timed and at_us is not None and at_us > self.inherits_us + COPIED_US
        if is_own:
            self.inherits_us, self.is_timed = None, False
        return not is_own

    def of(self, turn: str | None, started_ms: int | None, at_us: int | None) -> Thread | None:
        """Return the thread that wrote a line; None before any is known.

        Args:
            turn: The turn that the line begins or refers to, if any.
            started_ms: The start of that turn, if the line has it; milliseconds since 1970.
            at_us: The time of the line; microseconds since 1970.
        """
        if self.owner is None and self.named is not None:
            self.owner = self.current = self.named
            self.known[self.named] = Thread(self.named, made_ms(self.named))
        if self.current is None:
            return None
        if len(self.known) > 1 and turn is not None:
            self._part(made_ms(turn) or started_ms)
        if self.current != self.owner and not self.is_timed and self._is_late(at_us):
            self.current = self.owner
        return self.known[self.current]  # type: ignore[index]

    def is_head(self, thread: Thread) -> bool:
        """Return whether a compaction begins the file: no earlier line of its own thread or of a parent was read."""
        return thread.id == self.owner and not thread.is_begun and len(self.known) == 1

    def _part(self, began_ms: int | None) -> None:
        """Switch to the thread whose turn began at that time."""
        self.is_timed = began_ms is not None
        if began_ms is None:
            return
        threads = self.known.values()
        there = [thread for thread in threads if thread.created_ms is not None and thread.created_ms <= began_ms]
        if there:
            self.current = max(there, key=lambda thread: thread.created_ms or 0).id

    def _is_late(self, at_us: int | None) -> bool:
        return at_us is not None and self.copied_us is not None and at_us > self.copied_us + COPIED_US


def made_ms(text: str) -> int | None:
    """Return the time in a UUID of version 7; milliseconds since 1970; None for any other text."""
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return value.int >> _MS_BITS if value.version == _VERSION_7 else None
