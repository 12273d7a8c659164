"""The types returned to readers of a history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from rightful.projections.histories.chronicle import Compaction
from rightful.projections.histories.history_items import ItemKey
from rightful.tokens import Token


class History(Struct, frozen=True, kw_only=True):
    """The items that the model would see next. It unpacks into its items and its token.

    Attributes:
        items: The items, oldest first. The caller may change them.
        token: Identifies this read; needed to append and to compact.
        ids: The id of each item.
        left_out: The ids of tool outputs that are omitted because their call was removed.
        owed: The response id of a deferred compaction (empty if it has none); None without one.
    """

    items: list[Any]
    token: Token
    ids: list[ItemKey]
    left_out: list[ItemKey] = []
    owed: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.items, self.token))


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One item of the full history, and its current state.

    Attributes:
        id: Its id.
        item: Its content; None once it is erased.
        position: The position of its event.
        fate: `shown`, `compacted`, `popped`, `cleared`, `left out` (a tool output whose call was removed), or `inert`
            (a summary that was never shown, because none of the items it replaces was left).
        by: The position of the event that removed it from the view; None if it is shown.
        summary: Whether it replaces other items: a compaction added it, or it follows one in a tool's file.
    """

    id: ItemKey
    item: Any
    position: int
    fate: str = "shown"
    by: int | None = None
    summary: bool = False


class FullHistory(Struct, frozen=True, kw_only=True):
    """All items that were ever in a history, in order, and all of its compactions.

    Attributes:
        session: The session of the history.
        position: The position through which it was folded.
        entries: All items.
        compactions: All compactions, by position.
        ignored: Events without effect, or that could not be applied: the position and the reason.
    """

    session: str
    position: int
    entries: list[HistoryEntry]
    compactions: list[Compaction]
    ignored: list[tuple[int, str]] = []
