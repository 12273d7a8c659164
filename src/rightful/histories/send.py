"""Append the events of a history, and retry if the outcome is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import limits
from rightful.errors import OutcomeUnknownError
from rightful.events import Event
from rightful.log.log import Log
from rightful.log.rows import Receipt, Stored, valid


def send(
    log: Log,
    events: Sequence[Event],
    *,
    unless: DCBQuery | None = None,
    after: int | None = None,
    all_new: bool = False,
    wrote: list[Stored] | None = None,
    inline: bool = False,
) -> list[Receipt]:
    """Append events. If the outcome is unknown, append them again to find it out.

    Args:
        log: The ledger's log.
        events: The events to append.
        unless: As `Log.append`.
        after: As `Log.append`.
        all_new: As `Log.append`.
        wrote: As `Log.append`.
        inline: As `Log.append`.

    Raises:
        InvalidEventError: An event is not valid. Nothing of it was written.
        ConditionFailedError: As `Log.append`.
        StorageError: As `Log.append`.
    """
    for last in (*[False] * (limits.HISTORY_SENDS - 1), True):
        try:
            receipts = log.append(events, unless=unless, after=after, all_new=all_new, wrote=wrote, inline=inline)
        except OutcomeUnknownError:
            if last:
                raise
        else:
            return [valid(receipt) for receipt in receipts]
    raise AssertionError("the last attempt returns or raises")


def any_of(session: str, types: Iterable[str]) -> DCBQuery:
    """Return the query that matches every row of a session with one of these types."""
    return DCBQuery(items=[DCBQueryItem(types=sorted(types), tags=[f"session:{session}"])])
