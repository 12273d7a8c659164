"""Build the full history returned to callers from a fold."""

from __future__ import annotations

from rightful.histories.history_model import FullHistory, HistoryEntry
from rightful.projections.histories.history_fold import Fold
from rightful.projections.histories.history_items import objects


def full_history(session: str, position: int, fold: Fold) -> FullHistory:
    """Return all items that were ever in a history, in the order of the log.

    Args:
        session: The session of the history.
        position: The position through which it was folded.
        fold: Its fold, created with `whole`.
    """
    chronicle = fold.chronicle
    assert chronicle is not None
    kept = list(chronicle.items.values())
    entries = [
        HistoryEntry(
            id=item.id,
            item=content,
            position=item.position,
            fate=chronicle.fates.get(item.id, ("left out" if fold.view.is_left_out(item) else "shown", 0))[0],
            by=chronicle.fates[item.id][1] if item.id in chronicle.fates else None,
            summary=item.id in chronicle.summaries,
        )
        for item, content in zip(kept, objects(kept), strict=True)
    ]
    entries.sort(key=lambda entry: (entry.position, entry.id[1]))
    return FullHistory(
        session=session,
        position=position,
        entries=entries,
        compactions=chronicle.compactions,
        ignored=list(fold.ignored),
    )
