"""What a reader of a history gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from rightful.projections.histories.chronicle import Compaction
from rightful.projections.histories.history_items import ItemKey
from rightful.tokens import Token


class History(Struct, frozen=True, kw_only=True):
    """What the model would see next. It unpacks into its items and its token.

    Attributes:
        items: The items, oldest first; the caller's own objects.
        token: What was read; needed to append and to compact.
        ids: The id of each item.
        left_out: The ids of tool outputs that are left out because their call is gone.
        owed: The response id of a compaction that is owed (empty if it has none); None if none is.
    """

    items: list[Any]
    token: Token
    ids: list[ItemKey]
    left_out: list[ItemKey] = []
    owed: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.items, self.token))


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One item of the full history, and what became of it.

    Attributes:
        id: Its id.
        item: What it says; None once it is erased.
        position: Where its event stands.
        fate: `shown`, `compacted`, `popped`, `cleared`, `left out` (a tool output whose call is gone), or `inert`
            (a summary that was never shown, since nothing that it stands for was there any more).
        by: The position of the event that took it out of the view; None where it is shown.
        summary: Whether it stands for others: a compaction put it there, or is followed by it in a tool's file.
    """

    id: ItemKey
    item: Any
    position: int
    fate: str = "shown"
    by: int | None = None
    summary: bool = False


class FullHistory(Struct, frozen=True, kw_only=True):
    """Everything that a history ever held, in order, and each of its compactions.

    Attributes:
        session: Whose history.
        position: The position through which it was folded.
        entries: All items.
        compactions: All compactions, by position.
        ignored: Events that say nothing any more, or that could not be followed: the position and why.
    """

    session: str
    position: int
    entries: list[HistoryEntry]
    compactions: list[Compaction]
    ignored: list[tuple[int, str]] = []
