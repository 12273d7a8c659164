"""The stored events of handoffs: puts and takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rightful.events import HandoffTaken, HandoffWritten
from rightful.handoffs.writer_identity import CallerFacts, recorded_facts
from rightful.identity import event_id
from rightful.importers.shared.foreign_fields import key_of
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import Recorded, recorded

PRODUCER = "handoff"
"""The producer of the events."""

WRITTEN, TAKEN = "handoff.written", "handoff.taken"
"""The types of the events."""

_NEAR, _WIDER = 64, 8  # the number of rows before the end to search first, and the growth factor of the next searches


class Row(NamedTuple):
    """A recorded event of one of the two types.

    Attributes:
        row: The row.
        event: Its event.
    """

    row: Recorded
    event: Any

    @property
    def facts(self) -> CallerFacts:
        """The facts about the writer."""
        return recorded_facts(self.event.found, self.event.extra)

    @property
    def form(self) -> str:
        """The form of the payload: `text`, `bytes` or `json`."""
        return str((self.event.extra or {}).get("form", "json"))


def taken_id(written_id: str) -> str:
    """Return the event id of a take. Each written handoff can have only one."""
    return event_id(PRODUCER, key_of("taken", written_id))


def last_put(log: Log, session: str, name: str, until: int) -> Row | None:
    """Return a session's last put under a name. The search starts at the end, where it usually is.

    Args:
        log: The ledger's log.
        session: The session.
        name: The name.
        until: The last position to read.
    """
    width = _NEAR
    while until > 0:
        after = max(until - width, 0)
        if found := list(puts(log, session, name, until, after)):
            return found[-1]
        until, width = after, width * _WIDER
    return None


def puts(log: Log, session: str, name: str | None, until: int, after: int = 0) -> Iterator[Row]:
    """Yield a session's puts under a name, or under any name if None, by ascending position."""
    for row in log.read(session=session, types=[WRITTEN], after=after, until=until):
        event = row.event
        if isinstance(event, HandoffWritten) and row.outcome in ACCEPTED and name in {None, event.name}:
            yield Row(row, event)


def takes(log: Log, session: str, name: str, key: str) -> Iterator[Row]:
    """Yield a session's takes under a name with a key."""
    for row in log.read(session=session, types=[TAKEN]):
        event = row.event
        if isinstance(event, HandoffTaken) and event.name == name and (event.extra or {}).get("key") == key:
            yield Row(row, event)


def by_id(log: Log, event_id: str) -> Row | None:
    """Return the put or take with an event id; None if there is none."""
    for stored in log.of_id(event_id):
        row = recorded(stored, log.path)
        if isinstance(row.event, HandoffWritten | HandoffTaken) and row.outcome in ACCEPTED:
            return Row(row, row.event)
    return None
