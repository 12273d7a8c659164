"""Which entries a compaction covers, and which an undo took back.

Both name items of the history by their ids and by ranges. A range means what stood between its ends in the view
that the model had then: items as they were recorded, without what was taken back, cleared or compacted before,
and with what stands for it in its place. It is the view of `rightful.projections.histories`: what a fork was begun
with stands before its own items, what covers only what is gone shows nothing, and what covers nothing stands where
the view ended that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from rightful.projections.completeness import ranges
from rightful.projections.histories.items import ends
from rightful.projections.transcripts.entries import Entry
from rightful.projections.transcripts.facts import Fact
from rightful.projections.transcripts.parts import Part

Item = tuple[str, int]

_ITEMS = frozenset({"message", "thought", "tool_call", "tool_result"})


class Covering:
    """What the events of one history cover.

    Attributes:
        view: The items that stand in the view at the end, in order.

    Args:
        facts: All facts of a session.
        before: The facts of the sessions whose history it was begun with, the earliest session first.
    """

    def __init__(self, facts: Iterable[Fact], before: Iterable[Iterable[Fact]] = ()) -> None:
        self.view: list[Item] = []
        self._places: dict[Item, int] = {}
        self._covered: dict[str, list[Item]] = {}
        self._unresolved: dict[str, int] = {}
        self._popped: set[Item] = set()
        self._positions: dict[str, int] = {}
        for others in before:
            self._take_all(others)
        self._elsewhere = frozenset(self._positions)
        self._take_all(facts)

    def _take_all(self, facts: Iterable[Fact]) -> None:
        """Take the facts of one session."""
        known = sorted(facts, key=lambda one: one.place)
        is_appended = any(one.kind == "history_appended" and not one.withdrawn for one in known)
        for fact in known:
            self._positions[fact.id] = fact.position
            self._take(fact, is_appended=is_appended)

    def _take(self, fact: Fact, *, is_appended: bool) -> None:
        if fact.withdrawn:
            return
        if fact.kind in _ITEMS and not is_appended:
            self._append((fact.id, 0))
        elif fact.body is None:
            return
        elif fact.kind == "history_appended":
            for place in range(len(fact.body.items)):
                self._append((fact.id, place))
        elif fact.kind == "history_compacted":
            put = [(fact.id, place) for place in range(len(fact.body.items))]
            self._take_out(fact, fact.body.covers, put, after=fact.body.after)
        elif fact.kind == "history_popped":
            self._take_out(fact, fact.body.items, [])
            self._popped.update(self._covered[fact.id])
        elif fact.kind == "history_cleared":
            self.view, self._places = [], {}

    def _append(self, item: Item) -> None:
        self._places[item] = len(self.view)
        self.view.append(item)

    def _take_out(self, fact: Fact, covers: Iterable[Any], put: list[Item], after: int | None = None) -> None:
        """Take items out of the view, and put others where the first of them stood."""
        named = [self._ends(one) for one in covers]
        found = sorted(one for one in named if one is not None)
        self._unresolved[fact.id] = len(named) - len(found)
        if named and not found:
            put = []
        at = kept_from = found[0][0] if found else self._end_of(after)
        gone: list[Item] = []
        kept: list[Item] = []
        for first, last in found:
            kept += self.view[kept_from:first]
            gone += self.view[max(first, kept_from) : last + 1]
            kept_from = max(kept_from, last + 1)
        self._covered[fact.id] = gone
        for item in gone:
            del self._places[item]
        self.view[at:] = [*put, *kept, *self.view[kept_from:]]
        for place in range(at, len(self.view)):
            self._places[self.view[place]] = place

    def _end_of(self, after: int | None) -> int:
        """Return where the view ended at a position; its end now, if None."""
        at = len(self.view)
        while after is not None and at and self._positions[self.view[at - 1][0]] > after:
            at -= 1
        return at

    def _ends(self, one: Any) -> tuple[int, int] | None:  # noqa: ANN401 - an item or a range
        """Return the places of the first and the last item of a range; None where they do not stand in the view."""
        found = ends(one, self._place, len(self.view))
        return None if found is None or found[0] > found[1] else found

    def _place(self, item: Iterable[Any]) -> int | None:
        id_, place = item
        return self._places.get((id_.lower(), place))

    def put(self, told: list[tuple[Entry, list[Part]]]) -> None:
        """Say on entries what they cover, and mark what was taken back.

        Args:
            told: All entries in order, each with the parts that told it.
        """
        listed = [(entry, parts) for entry, parts in told if any(_items(part) for part in parts)]
        places: dict[Item, list[int]] = {}
        for number, (entry, parts) in enumerate(listed):
            for item in {item for part in parts for item in _items(part)}:
                places.setdefault(item, []).append(number)
            self._mark(entry, parts)
        entries = [entry for entry, _ in listed]
        for entry, parts in told:
            if any(part.fact.id in self._covered for part in parts):
                self._resolve(entry, parts, places, entries)

    def _mark(self, entry: Entry, parts: list[Part]) -> None:
        """Mark what was taken back, unless who said it has said it again."""
        if entry.kind == "history_compacted":
            return
        whose = {part.fact.producer for part in parts if self._popped.intersection(_items(part))}
        if whose and not any(
            item in self._places for part in parts if part.fact.producer in whose for item in _items(part)
        ):
            entry.taken_back = True

    def _resolve(self, entry: Entry, parts: list[Part], places: dict[Item, list[int]], entries: list[Entry]) -> None:
        ids = list(dict.fromkeys(part.fact.id for part in parts if part.fact.id in self._covered))
        covered = {item for id_ in ids for item in self._covered[id_]}
        numbers = sorted({number for item in covered for number in places.get(item, ())})
        found = [(entries[first], entries[last]) for first, last in ranges(numbers)]
        entry.covered = [[one.position for one in ends] for ends in found]
        if any(one.item is not UNSET for ends in found for one in ends):
            entry.covered_places = [[_place(one) for one in ends] for ends in found]
        untold = sum(item not in places and item[0] not in self._elsewhere for item in covered)
        entry.elsewhere = sum(item[0] in self._elsewhere for item in covered) or UNSET
        entry.unresolved = (min(self._unresolved[id_] for id_ in ids) + untold) or UNSET


def _place(entry: Entry) -> int | None:
    """Return the place of an entry in its batch; None of one that is no item of a batch."""
    return None if entry.item is UNSET else entry.item[1]


def _items(part: Part) -> list[Item]:
    """Return which items of the history a part is, or which it puts there."""
    if part.kind == "history_compacted":
        return [(part.fact.id, place) for place in range(len(part.said.get("items") or ()))]
    if part.ordinal is not None or part.kind in _ITEMS:
        return [(part.fact.id, part.ordinal or 0)]
    return []
