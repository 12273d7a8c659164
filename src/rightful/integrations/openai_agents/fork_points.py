"""Branches: where in which history a fork begins, since a history may itself have begun in another one."""

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
"""The longest session id."""

ID_CHARS = 12
"""Length of what sets a branch's own id apart; hexadecimal digits. An id that is taken all the same is refused."""


def own_id(session_id: str, run_key: str | None, ordinal: int) -> str:
    """Return an id for a branch; under a run key, the same one for the same call. It begins with the session's own."""
    key = uuid.uuid4().hex if run_key is None else composite_key(session_id, run_key, ordinal)
    end = f"/fork-{hashlib.sha256(key.encode()).hexdigest()[:ID_CHARS]}"
    return session_id.encode()[: ID_BYTES - len(end)].decode(errors="ignore") + end


def fork_point(ledger: Ledger, session: str, at: int | ItemId | None) -> tuple[str, int]:
    """Return the history that a branch begins with, and the position through which it takes it.

    Args:
        ledger: Where they are.
        session: The history to branch from.
        at: A position; or an item's id, for what stood when the batch with that item had been appended.
            The end of the ledger if None.

    Raises:
        UsageError: The history has no such item.
    """
    if at is None:
        return session, ledger.log.head()
    return _at(ledger, session, at if isinstance(at, int) else _position_of(ledger, session, at))


def _at(ledger: Ledger, session: str, at: int) -> tuple[str, int]:
    """A position from before a branch began means the history that it was forked from, as far as it took that."""
    for row in ledger.read(session=session, types=["history.forked"]):
        if isinstance(row.event, HistoryForked) and at < row.position:
            return _at(ledger, row.event.of, min(at, row.event.through))
    return session, at


def _position_of(ledger: Ledger, session: str, item: ItemId) -> int:
    for entry in ledger.full_history(session).entries:
        if entry.id == tuple(item):
            return entry.position
    raise UsageError(f"{tuple(item)!r} is not an item of {session}. Nothing was forked. Get ids from `full_history()`.")


def is_forked(ledger: Ledger, session: str, of: str, through: int | None) -> bool:
    """Say whether a branch was made before, from that history (and up to that position)."""
    return any(
        isinstance(row.event, HistoryForked) and row.event.of == of and through in (None, row.event.through)
        for row in ledger.read(session=session, types=["history.forked"])
    )
