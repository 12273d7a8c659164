"""The entries that a compaction covers, and those that an undo retracted.

Both name items of the history by their ids and by ranges. Only the view of the history decides what they mean
(`rightful.projections.histories.history_view`). Here it is folded once more, from the facts of a transcript and
without the content of its items, to find the entry of each item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from rightful.projections.facts.completeness import ranges
from rightful.projections.histories.history_items import ERASED, Item, ItemKey, ghost
from rightful.projections.histories.history_view import Change, ChangeEffect, View, summary_of
from rightful.projections.transcripts.entries import Entry
from rightful.projections.transcripts.entry_parts import Part
from rightful.projections.transcripts.session_facts import Fact

_ITEMS = frozenset({"message", "thought", "tool_call", "tool_result"})
_POPPED = "popped"


class CoveredEntries:
    """What the events of one history cover."""

    def __init__(self, facts: Iterable[Fact], before: Iterable[Iterable[Fact]] = ()) -> None:
        self._view = View()
        self._covered: dict[str, list[ItemKey]] = {}
        self._unresolved: dict[str, int] = {}
        self._popped: set[ItemKey] = set()
        self._ids: dict[int, str] = {}
        self._standing: frozenset[ItemKey] = frozenset()
        for others in before:
            self._take_all(others)
            self._view.begin()
        self._elsewhere = frozenset(self._ids.values())
        self._take_all(facts)

    @property
    def view(self) -> list[ItemKey]:
        """The ids of the items in the view at the end, in order."""
        return [item.id for item in self._view.items]

    def _take_all(self, facts: Iterable[Fact]) -> None:
        known = sorted(facts, key=lambda fact: fact.place)
        is_appended = any(fact.kind == "history_appended" and not fact.withdrawn for fact in known)
        for fact in known:
            self._ids[fact.position] = fact.id
            if fact.kind in _ITEMS:
                if not is_appended and not fact.withdrawn:
                    self._append(fact, [_item(fact, 0)])
            elif fact.kind == "history_appended":
                self._append(fact, _appended(fact))
            elif fact.body is not None and not fact.withdrawn:
                self._change(fact, fact.body)

    def _change(self, fact: Fact, body: Any) -> None:  # noqa: ANN401 - the body's struct
        match fact.kind:
            case "history_compacted":
                if self._view.meets(fact.producer, body.extra):
                    put = [_item(fact, place) for place in range(len(body.items))]
                    after, summary = body.after, summary_of(body.extra)
                    change = Change(fact.position, "compacted", after=after, summary=summary)
                    self._note(self._view.replace(body.covers, put, change))
                else:  # the same compaction, of which another file of the tool knows more
                    named, unknown = self._view.named(body.covers)
                    self._covered[fact.id], self._unresolved[fact.id] = [item.id for item in named], unknown
            case "history_popped":
                self._note(self._view.replace(body.items, [], Change(fact.position, _POPPED)))
            case "history_cleared":
                self._view.clear()
            case _:
                pass

    def _append(self, fact: Fact, items: list[Item]) -> None:
        for effect in self._view.append(fact.id, items):
            self._note(effect)

    def _note(self, effect: ChangeEffect) -> None:
        id_, gone = self._ids[effect.change.position], [item.id for item in effect.gone]
        self._covered[id_] = [*self._covered.get(id_, ()), *gone]
        self._unresolved[id_] = effect.unknown
        if effect.change.fate == _POPPED:
            self._popped.update(gone)

    def put(self, entries_with_parts: list[tuple[Entry, list[Part]]]) -> None:
        """Set on entries what they cover, and mark retracted entries."""
        self._standing = frozenset(self.view)
        listed = [(entry, parts) for entry, parts in entries_with_parts if any(_items(part) for part in parts)]
        places: dict[ItemKey, list[int]] = {}
        for number, (entry, parts) in enumerate(listed):
            for item in {item for part in parts for item in _items(part)}:
                places.setdefault(item, []).append(number)
            self._mark(entry, parts)
        entries = [entry for entry, _ in listed]
        for entry, parts in entries_with_parts:
            if any(part.fact.id in self._covered for part in parts):
                self._resolve(entry, parts, places, entries)

    def _mark(self, entry: Entry, parts: list[Part]) -> None:
        if entry.kind == "history_compacted":
            return
        whose = {part.fact.producer for part in parts if self._popped.intersection(_items(part))}
        own = {item for part in parts if part.fact.producer in whose for item in _items(part)}
        if whose and self._standing.isdisjoint(own):
            entry.taken_back = True

    def _resolve(self, entry: Entry, parts: list[Part], places: dict[ItemKey, list[int]], entries: list[Entry]) -> None:
        ids = list(dict.fromkeys(part.fact.id for part in parts if part.fact.id in self._covered))
        covered = {item for id_ in ids for item in self._covered[id_]}
        numbers = sorted({number for item in covered for number in places.get(item, ())})
        found = [(entries[first], entries[last]) for first, last in ranges(numbers)]
        entry.covered = [[entry.position for entry in ends] for ends in found]
        if any(entry.item is not UNSET for ends in found for entry in ends):
            entry.covered_places = [[None if end.item is UNSET else end.item[1] for end in ends] for ends in found]
        untold = sum(item not in places and item[0] not in self._elsewhere for item in covered)
        entry.elsewhere = sum(item[0] in self._elsewhere for item in covered) or UNSET
        entry.unresolved = (min(self._unresolved[id_] for id_ in ids) + untold) or UNSET


def _item(fact: Fact, place: int) -> Item:
    """Return an item of which only the place counts."""
    return ghost((fact.id, place), fact.position) if fact.body is None else Item((fact.id, place), fact.position, b"")


def _appended(fact: Fact) -> list[Item]:
    """Return the items of a batch; what was erased or withdrawn keeps its places, which may be the ends of a range."""
    if fact.body is None:
        return [ghost((fact.id, ERASED), fact.position)]
    items = [_item(fact, place) for place, _ in enumerate(fact.body.items)]
    return [item._replace(is_ghost=True) for item in items] if fact.withdrawn else items


def _items(part: Part) -> list[ItemKey]:
    """Return which items of the history a part is, or which it puts there."""
    if part.kind == "history_compacted":
        return [(part.fact.id, place) for place in range(len(part.fields.get("items") or ()))]
    if part.ordinal is not None or part.kind in _ITEMS:
        return [(part.fact.id, part.ordinal or 0)]
    return []
