"""Events of a history, which is what the model would see next: growth, shrinking and handoffs."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from rightful.events.base import SessionEvent
from rightful.field_types import Count, Covers, FoundFacts, HistoryRead, Session, Uuid, Word


class HistoryAppended(SessionEvent, frozen=True, kw_only=True, tag="history.appended"):
    """Items were added at the end of a history.

    Attributes:
        items: What was added, in order; content. The item at place n has the id (event id, n).
        run: Which run of a program added them.
        ordinal: Which batch of that run it is, from 0.
        response_id: The provider's id of the response that they came with.
        read: What that run had read before.
        agent: Which agent of the run spoke.
        usage: What the response used; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "items", "agent", "usage")

    items: list[Any]
    run: Word | None = None
    ordinal: Count | None = None
    response_id: Word | None = None
    read: HistoryRead | None = None
    agent: str | None = None
    usage: dict[str, Any] | None = None


class HistoryCompacted(SessionEvent, frozen=True, kw_only=True, tag="history.compacted"):
    """Items were replaced with a summary of them. Both remain in the log.

    Attributes:
        covers: Which items were replaced.
        after: The position of the token under which it was done; for a tool's file that begins with its compaction, the
            position up to which it covers. A range that is open at its end ends there.
        response_id: The provider's response that they were compacted from.
        mode: How it was done, in the producer's term (`input`, `previous_response_id`, `auto` …).
        run: Which run of a program did it.
        ordinal: How many calls that run had made before. A repeated run sees the compaction once it has made as many.
        items: What replaces them, in order; content.
        usage: What the compaction itself used; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "items", "usage")

    covers: Covers = ()
    after: Count | None = None
    response_id: Word | None = None
    mode: Word | None = None
    items: list[Any] = field(default_factory=list)
    run: Word | None = None
    usage: dict[str, Any] | None = None
    ordinal: Count | None = None


class HistoryPopped(SessionEvent, frozen=True, kw_only=True, tag="history.popped"):
    """Items were removed: an undo, a rewind, a rollback. They remain in the log."""

    items: Covers


class HistoryCleared(SessionEvent, frozen=True, kw_only=True, tag="history.cleared"):
    """All items were removed from the history. They remain in the log."""


class HistoryForked(SessionEvent, frozen=True, kw_only=True, tag="history.forked"):
    """This history begins with another history's view at a position. Nothing is copied.

    It is the first event of its history; items keep the ids that they have there.

    Attributes:
        of: The session whose history it begins with.
        through: The position through which that history is included.
    """

    of: Session
    through: Count


class CompactionDeferred(SessionEvent, frozen=True, kw_only=True, tag="compaction.deferred"):
    """A compaction was due and could not be done yet. It is owed until the history is compacted or cleared.

    Attributes:
        response_id: The provider's response at which it was due.
        store: Whether the provider stores that response; None if that is not known.
        run: Which run of a program owes it.
        reason: Why it could not be done.
    """

    response_id: Word | None = None
    store: bool | None = None
    run: Word | None = None
    reason: Word | None = None


class HandoffWritten(SessionEvent, frozen=True, kw_only=True, tag="handoff.written"):
    """A session left something for its own next step, or for another session.

    Attributes:
        name: What it is called.
        payload: What it is; content.
        found: Facts about the writing process that were found independently of the caller.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "payload")

    name: Word
    payload: Any = None
    found: FoundFacts | None = None


class HandoffTaken(SessionEvent, frozen=True, kw_only=True, tag="handoff.taken"):
    """A session took a handoff.

    Attributes:
        written_id: The event id of the `handoff.written` that was taken.
        name: What it is called.
        found: Facts about the taking process that were found independently of the caller.
    """

    written_id: Uuid
    name: Word | None = None
    found: FoundFacts | None = None
