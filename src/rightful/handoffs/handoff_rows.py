"""What stands in the ledger of handoffs: what was put, and what was taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rightful.events import HandoffTaken, HandoffWritten
from rightful.handoffs.writer_identity import Facts, recorded_facts
from rightful.identity import event_id
from rightful.importers.shared.foreign_fields import key_of
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import Recorded, recorded

PRODUCER = "handoff"
"""The producer of the events."""

WRITTEN, TAKEN = "handoff.written", "handoff.taken"
"""Their types."""

_NEAR, _WIDER = 64, 8  # rows before the end that are looked at first, and how many times more are next


class Row(NamedTuple):
    """An event of one of the two types, as it is recorded.

    Attributes:
        row: The row.
        event: The event in it.
    """

    row: Recorded
    event: Any

    @property
    def facts(self) -> Facts:
        """What was found of who wrote it."""
        return recorded_facts(self.event.found, self.event.extra)

    @property
    def form(self) -> str:
        """The form of the payload: `text`, `bytes` or `json`."""
        return str((self.event.extra or {}).get("form", "json"))


def taken_id(written_id: str) -> str:
    """Return the id of the one take that what was written can have."""
    return event_id(PRODUCER, key_of("taken", written_id))


def last_put(log: Log, session: str, name: str, until: int) -> Row | None:
    """Return what a session put last under a name, which mostly stands near the end.

    Args:
        log: What is read.
        session: The session.
        name: The name.
        until: The last position that counts.
    """
    width = _NEAR
    while until > 0:
        after = max(until - width, 0)
        if found := list(puts(log, session, name, until, after)):
            return found[-1]
        until, width = after, width * _WIDER
    return None


def puts(log: Log, session: str, name: str | None, until: int, after: int = 0) -> Iterator[Row]:
    """Yield what a session put under a name, or under any if None, by ascending position."""
    for row in log.read(session=session, types=[WRITTEN], after=after, until=until):
        event = row.event
        if isinstance(event, HandoffWritten) and row.outcome in ACCEPTED and name in {None, event.name}:
            yield Row(row, event)


def takes(log: Log, session: str, name: str, key: str) -> Iterator[Row]:
    """Yield what a session took under a name with a key."""
    for row in log.read(session=session, types=[TAKEN]):
        event = row.event
        if isinstance(event, HandoffTaken) and event.name == name and (event.extra or {}).get("key") == key:
            yield Row(row, event)


def found(log: Log, event_id: str) -> Row | None:
    """Return the handoff, or the take, of that id."""
    for stored in log.of_id(event_id):
        row = recorded(stored, log.path)
        if isinstance(row.event, HandoffWritten | HandoffTaken) and row.outcome in ACCEPTED:
            return Row(row, row.event)
    return None
