"""The chronicle: everything that a history ever held, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rightful.projections.histories.history_items import Item, ItemKey


class Compaction(Struct, kw_only=True):
    """One compaction of a history, as far as it is known.

    Attributes:
        position: Where its event stands.
        covered: The ids of the replaced items.
        put: The ids of the items that replace them.
        after: The position of the token under which it was done.
        mode: How it was done, in the producer's word.
        response_id: The provider's response that it was made from.
        run: Which run did it.
        inert: Whether it shows nothing, since nothing that it covers was there any more.
    """

    position: int
    covered: list[ItemKey]
    put: list[ItemKey]
    after: int | None = None
    mode: str | None = None
    response_id: str | None = None
    run: str | None = None
    inert: bool = False


class Chronicle:
    """Everything that a history ever held.

    Attributes:
        items: All of it, in the order of the log.
        summaries: The ids of items that replace others.
        fates: What became of those that are not shown: how they went, and at which position.
        compactions: All compactions, in the order of the log.
    """

    def __init__(self) -> None:
        self.items: dict[ItemKey, Item] = {}
        self.summaries: set[ItemKey] = set()
        self.fates: dict[ItemKey, tuple[str, int]] = {}
        self.compactions: list[Compaction] = []

    def add(self, items: Iterable[Item]) -> None:
        """Add items."""
        self.items.update((item.id, item) for item in items)

    def sum_up(self, item: Item) -> None:
        """Record an item as the summary of the last compaction, if it has none.

        Some tools write the summary as a message right behind the compaction, which has no items then.
        """
        if self.compactions and not self.compactions[-1].put:
            self.compactions[-1].put.append(item.id)
            self.summaries.add(item.id)

    def name_summary(self, compaction: Compaction, summary: ItemKey) -> None:
        """Record the summary of a compaction that came before the compaction."""
        if summary in self.items and summary not in compaction.put:
            compaction.put.append(summary)
            self.summaries.add(summary)

    def end(self, items: Iterable[Item], fate: str, position: int) -> None:
        """Record that items ended."""
        self.fates.update((item.id, (fate, position)) for item in items)
