"""What belongs together: a call and its outputs, a request and its answer, a thought and the call after it.

A provider refuses a call without its output and an output without its call, so a compaction covers both or neither.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rightful.projections.histories.history_items import Item, ItemKey, Pair


def whole(covered: Collection[ItemKey], view: Sequence[Item]) -> list[ItemKey]:
    """Return what can be covered of some items, in the order of the view: without the parts of what would be cut."""
    asked = set(covered)
    kept = {item.id for item in view if item.id in asked}
    while torn := {
        pair for pair, _ in split_pairs(kept, view)
    }:  # a message may hold several calls, and tear their outputs
        kept = {item.id for item in view if item.id in kept and torn.isdisjoint(_pairs(item))}
    call_stays = False
    for item in reversed(view):
        if item.thinks and call_stays:
            kept.discard(item.id)
        else:
            call_stays = bool(item.opens) and item.id not in kept
    return [item.id for item in view if item.id in kept]


def split_pairs(covered: Collection[ItemKey], view: Sequence[Item]) -> list[tuple[Pair, Item]]:
    """Return which pairs would be cut if only these items were covered, each with the item that shows it.

    A provider may use a call's id again: what is behind one id is one group, open until each call has an output.
    """
    members: dict[Pair, list[Item]] = {}
    for item in view:
        for pair in _pairs(item):
            members.setdefault(pair, []).append(item)
    return [
        (pair, next(item for item in items if item.id in covered))
        for pair, items in members.items()
        if any(item.id in covered for item in items) and _is_cut(items, covered)
    ]


def _pairs(item: Item) -> tuple[Pair, ...]:
    return item.opens if item.answers is None else (item.answers,)


def _is_cut(items: list[Item], covered: Collection[ItemKey]) -> bool:
    is_open = sum(bool(item.opens) for item in items) > sum(item.answers is not None for item in items)
    return is_open or any(item.id not in covered for item in items)
