"""The view: items in the order in which the model would see them, and what takes them out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from rightful.parts import ItemRange
from rightful.projections.histories.items import ERASED, Item, ItemKey, Pair, ends
from rightful.projections.histories.whole import Compaction

ITEM_BYTES = 500
"""What one item takes in memory beside its JSON; bytes, about."""


class Late(Struct, eq=False):
    """What names items that are not known yet: the importer of a tool's files may tell them later.

    Attributes:
        covers: The names.
        put: What shall stand where the first of them stands; empty once it stands somewhere, or was cleared.
        position: Where the event stands that names them.
        fate: What becomes of them.
        record: The compaction, where it is one.
    """

    covers: list[Any]
    put: list[Item]
    position: int
    fate: str
    record: Compaction | None


class View:
    """What a history shows.

    An output whose call was here and is gone stays in its place and is left out of what is shown.

    Attributes:
        items: What stands in it, ghosts and outputs without their call included.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._bytes = 0
        self._places: dict[ItemKey, int] = {}
        self._open: dict[Pair, int] = {}
        self._first: dict[Pair, int] = {}
        self._late: dict[str, list[Late]] = {}

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, about; what is known of calls that are gone included."""
        return self._bytes + ITEM_BYTES * len(self._open)

    def shown(self, limit: int | None = None, until: int | None = None) -> tuple[list[Item], list[ItemKey]]:
        """Return what is shown, and the ids of the outputs among it that are left out.

        Args:
            limit: Only the last items, so many; all if None.
            until: Only what stood at that position; nothing may have been taken out since.
        """
        if limit is None and until is None:
            return self._all_shown()
        found: list[Item] = []
        left_out: list[ItemKey] = []
        later: Counter[Pair] = Counter()
        for item in reversed(self.items):
            if limit is not None and len(found) >= limit:
                break
            if until is not None and item.position > until:
                later.update(item.opens)
            elif item.is_ghost:
                pass
            elif item.answers is not None and self.is_left_out(item, until, later[item.answers]):
                left_out.append(item.id)
            else:
                found.append(item)
        return found[::-1], left_out[::-1]

    def _all_shown(self) -> tuple[list[Item], list[ItemKey]]:
        """Return what `shown` does without a limit; what an agent asks for before every turn."""
        stand = [item for item in self.items if not item.is_ghost]
        if not any([item.answers for item in stand]):  # noqa: C419 - a list is twice as fast, and there are thousands
            return stand, []
        gone = {item.id for item in stand if item.answers is not None and self.is_left_out(item)}
        if not gone:
            return stand, []
        return [item for item in stand if item.id not in gone], [item.id for item in stand if item.id in gone]

    def is_left_out(self, item: Item, until: int | None = None, later: int = 0) -> bool:
        """Whether it is an output whose call was in this history and is gone.

        Args:
            item: The item.
            until: Only what stood at that position counts.
            later: How many calls of its pair stand behind that position.
        """
        if item.answers is None or self._open.get(item.answers) != later:
            return False
        return until is None or self._first[item.answers] <= until

    def append(self, items: Iterable[Item]) -> None:
        """Add items at the end."""
        for item in items:
            self._places[item.id] = len(self.items)
            self.items.append(item)
            self._come(item)

    def renew(self, item: Item) -> None:
        """Let an item say something else at its place, if it stands in the view."""
        at = self._places.get(item.id)
        if at is None:
            return
        self._go(self.items[at])
        self.items[at] = item._replace(position=self.items[at].position)
        self._come(self.items[at])

    def clear(self) -> list[Item]:
        """Take all out."""
        gone = self.items
        for item in gone:
            self._go(item)
        self.items, self._places = [], {}
        for waiting in self._late.values():
            for late in waiting:
                late.put = []
        return gone

    def late(self, id_: str) -> Iterator[Late]:
        """Yield what has named items of an event before it was known; each once."""
        for late in self._late.pop(id_, ()):
            if late.covers:
                yield structs.replace(late)
                late.covers, late.put = [], []  # it may wait for other events too, and waits anew for those

    def forget_late(self) -> None:
        """Wait for nothing any more."""
        self._late = {}

    def replace(
        self,
        covers: Sequence[Any],
        put: list[Item],
        *,
        after: int | None,
        late: tuple[int, str, Compaction | None],
    ) -> tuple[list[Item], bool]:
        """Let items give way to others, which stand where the first visible one stood.

        Args:
            covers: Their names.
            put: What stands for them.
            after: Where it stands if no items are named: behind what stood at that position; None for the end.
            late: The position of the event that says so, what becomes of the items, and the compaction.

        Returns:
            What went, and whether what stands for it was put there: not if all that is named is gone already.
        """
        places: set[int] = set()
        unknown: list[Any] = []
        for one in covers:
            found = ends(one, self._place, len(self.items))
            if found is None:
                unknown.append(one)
            else:
                places.update(range(found[0], found[1] + 1))
        visible = [place for place in places if not self.items[place].is_ghost]
        is_put = bool(visible) or not covers
        at = min(visible) if visible else self._place_after(after)
        if unknown:
            self._wait(unknown, Late(unknown, [] if is_put else put, *late))
        gone = self._splice(places, at, put if is_put else [])
        return gone, is_put and bool(put)

    def _place_after(self, after: int | None) -> int:
        at = len(self.items)
        while after is not None and at and self.items[at - 1].position > after:
            at -= 1
        return at

    def _splice(self, places: set[int], at: int, put: list[Item]) -> list[Item]:
        if not places and not put:
            return []
        start = min(places, default=at)
        start = min(start, at)
        gone: list[Item] = []
        kept: list[Item] = []
        for place in range(start, len(self.items)):
            if place == at:
                kept += put
            if place in places:
                gone.append(self.items[place])
            else:
                kept.append(self.items[place])
        if at == len(self.items):
            kept += put
        for item in gone:
            del self._places[item.id]
            self._go(item)
        for item in put:
            self._come(item)
        self.items[start:] = kept
        for place in range(start, len(self.items)):
            self._places[self.items[place].id] = place
        return gone

    def _come(self, item: Item) -> None:
        self._bytes += len(item.raw) + ITEM_BYTES
        for pair in item.opens:
            self._open[pair] = self._open.get(pair, 0) + 1
            self._first.setdefault(pair, item.position)

    def _go(self, item: Item) -> None:
        self._bytes -= len(item.raw) + ITEM_BYTES
        for pair in item.opens:
            self._open[pair] -= 1

    def _place(self, name: Sequence[Any]) -> int | None:
        id_, place = name
        found = self._places.get((id_, place))
        return self._places.get((id_, ERASED)) if found is None else found

    def _wait(self, names: list[Any], late: Late) -> None:
        both = [end for one in names for end in ((one.first, one.last) if isinstance(one, ItemRange) else (one,))]
        for id_ in {end[0] for end in both if end is not None and self._place(end) is None}:
            self._late.setdefault(id_, []).append(late)
