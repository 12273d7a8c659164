"""The view: items in the order in which the model would see them, and what takes them out of it.

This is the only rule of coverage and undo: histories and transcripts fold their events through the same `View`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from rightful.field_types import ItemRange
from rightful.projections.histories.chronicle import Compaction
from rightful.projections.histories.history_items import ERASED, Item, ItemKey, Pair, ends

ITEM_BYTES = 500
"""Approximate memory of one item besides its JSON; bytes."""

BOUNDARY, SUMMARY = "boundary", "summary"
"""Where a compaction names in `extra` its boundary in the tool's file, and the item that sums up what it covers."""


class Change(NamedTuple):
    """An event that takes items out of the view.

    Attributes:
        position: The position of its row.
        fate: What becomes of the items: `compacted` or `popped`.
        record: The compaction, if a chronicle is kept of it.
        after: The position at which an open range ends, and behind which an output that covers nothing is put;
            None for the end of the view.
        summary: The item of a tool that replaces what is covered.
    """

    position: int
    fate: str
    record: Compaction | None = None
    after: int | None = None
    summary: ItemKey | None = None


class ChangeEffect(NamedTuple):
    """What a change did.

    Attributes:
        change: The change.
        gone: The items that it took out of the view.
        put: The items that it was to put there.
        is_put: Whether they were put there: not if all that is named is gone already.
        unknown: How many names are not in the view.
    """

    change: Change
    gone: list[Item]
    put: list[Item]
    is_put: bool
    unknown: int


class PendingChange(Struct, eq=False):
    """What names items that are not known yet: the importer of a tool's files may tell them later.

    Attributes:
        covers: The names.
        put: What shall stand where the first of them stands; empty once it stands somewhere, or was cleared.
        change: The event that names them.
    """

    covers: list[Any]
    put: list[Item]
    change: Change


def summary_of(extra: Any) -> ItemKey | None:  # noqa: ANN401 - content
    """Return the item that a compaction names as its summary."""
    named = extra.get(SUMMARY) if isinstance(extra, dict) else None
    match named:
        case [str() as id_, int() as place]:
            return id_.lower(), place
        case _:
            return None


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
        self._late: dict[str, list[PendingChange]] = {}
        self._awaited: dict[ItemKey, ItemKey] = {}
        self._boundaries: set[tuple[str, str]] = set()

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
            later: How many calls of its pair follow that position.
        """
        if item.answers is None or self._open.get(item.answers) != later:
            return False
        return until is None or self._first[item.answers] <= until

    def append(self, id_: str, items: Iterable[Item]) -> list[ChangeEffect]:
        """Add the items of an event at the end; return what earlier changes, which named them, did to them.

        A summary that was announced (`Change.summary`) is put before what was kept behind it.
        """
        for item in items:
            kept = self._awaited.pop(item.id, None) if self._awaited else None
            at = None if kept is None else self._places.get(kept)
            if at is None:
                self._places[item.id] = len(self.items)
                self.items.append(item)
            else:
                self.items.insert(at, item)
                self._index(at)
            self._come(item)
        return [self.replace(late.covers, late.put, late.change) for late in self._waiting(id_)]

    def renew(self, item: Item) -> None:
        """Replace an item in place, if it is in the view."""
        at = self._places.get(item.id)
        if at is None:
            return
        self._go(self.items[at])
        self.items[at] = item._replace(position=self.items[at].position)
        self._come(self.items[at])

    def clear(self) -> list[Item]:
        """Remove all items."""
        gone = self.items
        for item in gone:
            self._go(item)
        self.items, self._places, self._awaited = [], {}, {}
        for waiting in self._late.values():
            for late in waiting:
                late.put = []
        return gone

    def _waiting(self, id_: str) -> Iterator[PendingChange]:
        """Yield what has named items of an event before it was known; each once."""
        for late in self._late.pop(id_, ()):
            if late.covers:
                yield structs.replace(late)
                late.covers, late.put = [], []  # it may wait for other events too, which it registers again

    def begin(self) -> None:
        """Go on as the view of another session's history: nothing of this one is awaited any more."""
        self._late, self._awaited, self._boundaries = {}, {}, set()

    def meets(self, producer: str, extra: Any) -> bool:  # noqa: ANN401 - content
        """Return whether a compaction is new: two files of one tool may each tell it, with what they know of it."""
        boundary = extra.get(BOUNDARY) if isinstance(extra, dict) else None
        if not isinstance(boundary, str):
            return True
        is_new = (producer, boundary) not in self._boundaries
        self._boundaries.add((producer, boundary))
        return is_new

    def replace(self, covers: Sequence[Any], put: list[Item], change: Change) -> ChangeEffect:
        """Replace items by others, which are put where the first visible item was."""
        end = self._place_after(change.after)
        places, unknown = self._found(covers, end)
        visible = [place for place in places if not self.items[place].is_ghost]
        is_put = bool(visible) or not covers
        at = min(visible) if visible else end
        if unknown:
            self._wait(unknown, PendingChange(unknown, [] if is_put else put, change))
        if visible and change.summary is not None:
            gone = self._summed_up(places, put, change.summary)
        else:
            gone = self._splice(places, at, put if is_put else [])
        return ChangeEffect(change, gone, put, is_put and bool(put), len(unknown))

    def named(self, covers: Sequence[Any]) -> tuple[list[Item], int]:
        """Return the items in the view that some names mean, and how many names are not in it."""
        places, unknown = self._found(covers, len(self.items))
        return [self.items[place] for place in sorted(places)], len(unknown)

    def _found(self, covers: Sequence[Any], end: int) -> tuple[set[int], list[Any]]:
        """Return the places that some names mean, and the names that are not in the view."""
        places: set[int] = set()
        unknown: list[Any] = []
        for name in covers:
            found = ends(name, self._place, end)
            if found is None:
                unknown.append(name)
            else:
                places.update(range(found[0], found[1] + 1))
        return places, unknown

    def _summed_up(self, places: set[int], put: list[Item], summary: ItemKey) -> list[Item]:
        """Remove items whose summary is an item of its own, which goes before all remaining items once it is known."""
        known = self._places.get(summary)
        if known is not None and known not in places:
            own = self.items[known]
            gone = self._splice(places | {known}, 0, [*put, own])
            return [item for item in gone if item is not own]
        kept = next((item.id for place, item in enumerate(self.items) if place not in places), None)
        if known is None and kept is not None:
            self._awaited[summary] = kept
        return self._splice(places, 0, put)

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
        self._index(start)
        return gone

    def _index(self, start: int) -> None:
        for place in range(start, len(self.items)):
            self._places[self.items[place].id] = place

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

    def _wait(self, names: list[Any], late: PendingChange) -> None:
        both = [end for name in names for end in ((name.first, name.last) if isinstance(name, ItemRange) else (name,))]
        for id_ in {end[0] for end in both if end is not None and self._place(end) is None}:
            self._late.setdefault(id_, []).append(late)
