"""Build the `History` returned to callers from a fold."""

from __future__ import annotations

from rightful import limits
from rightful.errors import UsageError
from rightful.histories.history_model import History
from rightful.projections.histories.history_fold import Fold
from rightful.projections.histories.history_items import objects
from rightful.tokens import Token, Without


def history_from(fold: Fold, token: Token) -> History:
    """Return the visible items of a fold, up to the token's limit.

    Raises:
        UsageError: The limit is negative.
    """
    if token.limit is not None and token.limit < 0:
        raise UsageError(f"Invalid limit {token.limit}. Nothing was read. Pass 0 or more, or None for all items.")
    shown, left_out = fold.view.shown(token.limit)
    ids = [item.id for item in shown]
    return History(items=objects(shown), token=token, ids=ids, left_out=left_out, owed=fold.owed)


def is_small(fold: Fold, limit: int | None) -> bool:
    """Return whether the visible items of a fold are few enough to read them on an event loop's own thread.

    Hidden items between them are counted too, because a read must skip them.
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
    """Return whether the history changes if a run's calls from an ordinal on are ignored."""
    run, ordinal, seen = without
    compactions = fold.compactions.get(run, {})
    compacted_later = any(at is None or at > ordinal for at in compactions) or len(compactions.get(ordinal, ())) > seen
    return fold.runs.get(run, -1) >= ordinal or compacted_later
