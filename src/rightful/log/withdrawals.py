"""Withdrawals: the revisions of events that `event.withdrawn` rows make ineffective.

A withdrawal is an event like any other, so a later withdrawal of it puts the revision in force again. That
second withdrawal cannot be undone: to withdraw the revision once more, write a new one.

An importer withdraws the events that its newer reader does not derive. It adds to `extra`: `reader`, the version of
that reader, and `instead`, the ids of the events that it derived from the same line. Those take the place of the
withdrawn event, wherever they are in the ledger, so an upgraded ledger shows the same as a new one.

An importer that reads a tool's own transcript after a log of the same session places the log's items in the same way,
behind the item that they follow in the transcript. It names `NO_REVISION`, so nothing is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rightful import limits
from rightful.encoding.envelope import body_of
from rightful.log.classify import ACCEPTED
from rightful.log.rows import Stored

WITHDRAWAL = "event.withdrawn"
"""The type of the event that withdraws a revision of another."""

NO_REVISION = limits.SEQ_MAX
"""A revision that no event has: a withdrawal of it only gives places."""


class Withdrawal(NamedTuple):
    """The content of one `event.withdrawn` row.

    Attributes:
        id: Its own event id.
        of: The event whose revision is withdrawn.
        revision: The revision, from 1.
        reader: The version of the reader that did not derive it; None if there was another reason.
        instead: The ids of the events that this reader derived in its place.
    """

    id: str
    of: str
    revision: int
    reader: int | None = None
    instead: tuple[str, ...] = ()


def withdrawal_of(row: Stored) -> Withdrawal | None:
    """Return the withdrawal in a row; None if the row is not an accepted withdrawal, or was erased.

    Raises:
        UpgradeError: A newer program wrote it.
    """
    if row.envelope.type != WITHDRAWAL or row.envelope.outcome not in ACCEPTED or row.body is None:
        return None
    body = body_of(row.envelope, row.body, row.position)
    extra = body.extra if isinstance(body.extra, dict) else {}
    reader, instead = extra.get("reader"), extra.get("instead")
    if type(reader) is not int:
        return Withdrawal(row.envelope.id, body.id.lower(), body.revision)
    ids = tuple(id_ for id_ in instead if isinstance(id_, str)) if isinstance(instead, list) else ()
    return Withdrawal(row.envelope.id, body.id.lower(), body.revision, reader, ids)


def in_force(withdrawals: Iterable[Withdrawal]) -> dict[str, set[int]]:
    """Return the withdrawn revisions of each event, independent of the order of the withdrawals."""
    revisions: dict[str, set[int]] = {}
    for withdrawal in _in_force(withdrawals):
        revisions.setdefault(withdrawal.of, set()).add(withdrawal.revision)
    return revisions


def replacements(withdrawals: Iterable[Withdrawal]) -> dict[str, tuple[str, ...]]:
    """Return, for each withdrawn event, the ids of the events in its place; each id once."""
    placed: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for withdrawal in _in_force(withdrawals):
        ids = tuple(id_ for id_ in dict.fromkeys(withdrawal.instead) if id_ not in placed and id_ != withdrawal.of)
        if ids:
            placed.update(ids)
            found[withdrawal.of] = found.get(withdrawal.of, ()) + ids
    return found


def _in_force(withdrawals: Iterable[Withdrawal]) -> list[Withdrawal]:
    found = list(withdrawals)
    undone = {withdrawal.of for withdrawal in found}
    return [withdrawal for withdrawal in found if withdrawal.id not in undone]
