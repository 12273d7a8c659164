"""The history and position at which a branch begins. They may be those of a history that was forked itself."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

from rightful import limits
from rightful.errors import UsageError
from rightful.events import HistoryForked
from rightful.identity import composite_key

if TYPE_CHECKING:
    from rightful import Ledger
    from rightful.field_types import ItemId

NAMESPACE = "openai-agents"
"""The namespace of the sessions of this SDK."""

ID_BYTES = limits.SESSION_BYTES - len(f"{NAMESPACE}:")
"""The maximum length of a session id; bytes."""

ID_CHARS = 12
"""Length of the unique suffix of a branch's id; hexadecimal digits. An id that exists already is refused."""


def own_id(session_id: str, run_key: str | None, ordinal: int) -> str:
    """Return an id for a branch, which begins with the session's id. With a run key, a repeated call gets the same."""
    key = uuid.uuid4().hex if run_key is None else composite_key(session_id, run_key, ordinal)
    end = f"/fork-{hashlib.sha256(key.encode()).hexdigest()[:ID_CHARS]}"
    return session_id.encode()[: ID_BYTES - len(end)].decode(errors="ignore") + end


def fork_point(ledger: Ledger, session: str, at: int | ItemId | None) -> tuple[str, int]:
    """Return the history that a branch begins with, and the last position that the branch includes.

    With an item's id, the branch begins after the batch with that item; with None, at the end of the ledger.

    Raises:
        UsageError: The history has no such item.
    """
    if at is None:
        return session, ledger.log.head()
    return _resolved(ledger, session, at if isinstance(at, int) else _position_of(ledger, session, at))


def _resolved(ledger: Ledger, session: str, at: int) -> tuple[str, int]:
    """Resolve a position before the start of a branch to the history that the branch was forked from."""
    for row in ledger.read(session=session, types=["history.forked"]):
        if isinstance(row.event, HistoryForked) and at < row.position:
            return _resolved(ledger, row.event.of, min(at, row.event.through))
    return session, at


def _position_of(ledger: Ledger, session: str, item: ItemId) -> int:
    for entry in ledger.full_history(session).entries:
        if entry.id == tuple(item):
            return entry.position
    raise UsageError(f"{tuple(item)!r} is not an item of {session}. Nothing was forked. Get ids from `full_history()`.")


def is_forked(ledger: Ledger, session: str, of: str, through: int | None) -> bool:
    """Return whether a branch was already forked from that history (and at that position)."""
    return any(
        isinstance(row.event, HistoryForked) and row.event.of == of and through in (None, row.event.through)
        for row in ledger.read(session=session, types=["history.forked"])
    )
