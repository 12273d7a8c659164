"""What a fold shows to who reads it."""

from __future__ import annotations

from rightful import limits
from rightful.errors import UsageError
from rightful.histories.history_model import History
from rightful.projections.histories.history_fold import Fold
from rightful.projections.histories.history_items import objects
from rightful.tokens import Token, Without


def history_from(fold: Fold, token: Token) -> History:
    """Return what a fold shows, as much of it as the token says.

    Raises:
        UsageError: Its limit is negative.
    """
    if token.limit is not None and token.limit < 0:
        raise UsageError(f"Invalid limit {token.limit}. Nothing was read. Pass 0 or more, or None for all items.")
    shown, left_out = fold.view.shown(token.limit)
    ids = [item.id for item in shown]
    return History(items=objects(shown), token=token, ids=ids, left_out=left_out, owed=fold.owed)


def is_small(fold: Fold, limit: int | None) -> bool:
    """Whether what a fold shows is read so soon that an event loop need not wait elsewhere for it.

    What stands among it and is not shown is passed over when it is read, and so is counted.
    """
    wanted, size_bytes = len(fold.view.items) if limit is None else limit, 0
    for passed, item in enumerate(reversed(fold.view.items)):
        if wanted <= 0:
            break
        if passed >= limits.HISTORY_READY_ITEMS:
            return False
        size_bytes += len(item.raw)
        wanted -= not (item.is_ghost or fold.view.is_left_out(item))
    return size_bytes <= limits.HISTORY_READY_BYTES


def affects(fold: Fold, without: Without) -> bool:
    """Whether a history is another one without what a run did from an ordinal on."""
    run, ordinal, seen = without
    compactions = fold.compactions.get(run, {})
    compacted_later = any(at is None or at > ordinal for at in compactions) or len(compactions.get(ordinal, ())) > seen
    return fold.runs.get(run, -1) >= ordinal or compacted_later
