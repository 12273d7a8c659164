"""Whose the lines of a Codex rollout are, and what its threads have said so far.

A fork copies its parent's lines, the parent's `session_meta` first, stamped with the moment of the
copy. So the first `session_meta` names the file's own thread, and behind another one stand lines of
that other thread, its ancestor. What parts them, in this order:

1. A turn id is a UUID of version 7 and tells when the turn began. A turn belongs to the youngest
   thread of the file that was there by then (agentsview's pull request 657, tokscale's issue 679).
2. A turn whose id tells no time (version 4, older threads) may say `started_at`.
3. While no turn id has told a time: copied lines are stamped within a moment of each other, and a
   line stamped more than a second after the copied `session_meta` is the file's own thread's.

A subagent may be begun with the last turns of its parent alone (`truncate_rollout_to_last_n_fork_turns` of codex-rs).
Then the parent's `session_meta` is not copied: the file's own says `forked_from_id`, and what follows it is the
parent's until the first own turn begins, by the same rules. The parent's file tells it, in turns that the copy may not
name, so here it is kept as data.

Rule 3 can err for threads of the oldest versions only: there a prompt that a fork was begun with
within that second is taken for its parent's last word. Elsewhere a version 4 turn in a copy never
ends it (tokscale's issue 895).
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import msgspec

from rightful.importers.codex.codex_events import Running
from rightful.importers.shared.record_parts import Part

COPIED_US = 1_000_000
"""How long after the copied `session_meta` a copied line may be stamped; agentsview saw 50 ms. Microseconds."""

_TOLD_CHARS = 16  # of a digest; two texts of one turn do not meet in them
_VERSION_7, _MS_BITS = 7, 80

Item = tuple[str, int]
"""The id of an item of the history: the event that states it, and its place there."""


class TurnStart(msgspec.Struct, array_like=True):
    """Where in the history a turn begins that a person began.

    Attributes:
        first: Its first item.
        before: The item before that one; None where there is none.
    """

    first: Item
    before: Item | None = None


class Compacted(msgspec.Struct):
    """A compaction that stands in a thread's history.

    Attributes:
        id: The event that states it.
        size: How many items it put in the place of all before it.
        before: The last item before it.
        turn: Which turn it is undone with: the one in which it was done, else the last before it, from 0; -1 for none.
        waits: The turn that was open and had not asked anything yet: it is undone with what that asks.
        is_first: It was done before its turn asked.
    """

    id: str
    size: int
    before: Item | None
    turn: int
    waits: str | None = None
    is_first: bool = False

    @property
    def last(self) -> Item | None:
        """The last item that it put there."""
        return (self.id, self.size - 1) if self.size else None


class Popped(NamedTuple):
    """What a rollback undid: the first and the last item, and the compactions."""

    first: Item
    last: Item
    compacted: list[str]


class Thread(msgspec.Struct):
    """What is known of one thread behind the last line that was read.

    Attributes:
        id: Its id.
        created_ms: When it was made; milliseconds since 1970; None where nothing tells.
        turn: The turn that is open.
        scope: What its lines are told apart within: the last turn id, or where turns have none,
            how many a person has begun.
        has_turns: Its turns have ids.
        asked: How many turns a person has begun in it.
        told: Of what is told twice, how often in this scope: by event messages, by response items.
        turns: The turns that a person began and that were not rolled back, in the order in which they were begun,
            whatever was compacted since.
        compacted: The compactions that were not undone.
        lead: Where the context items begin that stand at the end of the history.
        last: The last item of its history.
        is_begun: An item, or a compaction, was read of it.
        has_asked: A person has said something in the turn that is open.
        facts: What its `session_meta` says, until its model is known too.
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
        """Go on in a turn that has an id."""
        self.turn, self.has_turns = turn, True
        if turn != self.scope:
            self.scope, self.told, self.has_asked = turn, {}, False

    def was_told(self, part: Part) -> bool:
        """Return whether this scope has told of it in either form."""
        return part.twin is not None and part.twin[:_TOLD_CHARS] in self.told

    def tell(self, part: Part, *, is_item: bool) -> tuple[int, bool]:
        """Count what is told twice; return which of its kind it is, and whether it is new.

        Args:
            part: What is told.
            is_item: A response item tells it, else an event message.
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
        """Put an item at the end of the history."""
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
        """Begin a turn of a person; what was compacted in it before is undone with it."""
        self.has_asked = True
        for compacted in self.compacted:
            if compacted.waits is not None:
                compacted.is_first = compacted.waits == self.turn
                compacted.turn, compacted.waits = len(self.turns) if compacted.is_first else compacted.turn, None

    def pop(self, count: int) -> Popped | None:
        """Undo the last turns that a person began, and the compactions that were done in them or behind them."""
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
        """Put other items in the place of the whole history.

        Args:
            event_id: The event that states them.
            count: How many there are.
        """
        waits = None if self.has_asked else self.turn
        done = Compacted(event_id, count, self.last, len(self.turns) - 1, waits)
        self.compacted.append(done)
        self.lead, self.last, self.is_begun = None, done.last, True


class Threads(msgspec.Struct):
    """The threads whose lines one file holds.

    Attributes:
        named: The thread that the file's name says; it counts only where the file itself does not begin whole.
        owner: The file's own thread.
        current: The thread that wrote the line that is read.
        known: All of them by id.
        copied_us: When the last copied `session_meta` is stamped; microseconds since 1970.
        is_timed: The last turn id told when its turn began.
        inherits_us: When the file's own `session_meta` is stamped, as long as copies of its parent's lines follow it;
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
        """Return the thread that a `session_meta` names; the lines behind it are its own.

        Args:
            thread: Its id.
            created_ms: When it was made, as far as its `session_meta` says.
            at_us: When the line is stamped.
            is_first: It is the first line of the file; else the file's name says whose the file is.
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
            turn: The turn that the line begins, if it does.
            started_ms: When that turn began, as far as the line says; milliseconds since 1970.
            at_us: When the line is stamped; microseconds since 1970.
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
            turn: The turn that the line begins or speaks of, if it does.
            started_ms: When that turn began, as far as the line says; milliseconds since 1970.
            at_us: When the line is stamped; microseconds since 1970.
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
        """Return whether a compaction begins the file: nothing was read of its own thread, nor of a parent's copy."""
        return thread.id == self.owner and not thread.is_begun and len(self.known) == 1

    def _part(self, began_ms: int | None) -> None:
        """Go over to the thread whose turn began at that time."""
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
    """Return when a UUID of version 7 was made; milliseconds since 1970; None of anything else."""
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return value.int >> _MS_BITS if value.version == _VERSION_7 else None
