"""The items that a compaction covers: those read with its token and those appended with it, in whole groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rightful import limits
from rightful.errors import UsageError
from rightful.field_types import Covers, ItemRange
from rightful.projections.histories.history_fold import Fold
from rightful.projections.histories.history_items import Item, ItemKey, ranges
from rightful.projections.histories.item_groups import split_pairs, whole
from rightful.tokens import Token


def stored_names(named: Iterable[Any]) -> Covers:
    """Convert names of items to their stored form.

    Raises:
        UsageError: A name is not an item id or a range.
    """
    try:
        return msgspec.convert(list(named), Covers)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError) as error:
        raise UsageError(
            f"Invalid item names ({error}). Nothing was written. Name each item by its id, or items by a range."
        ) from None


def covers_of(token: Token, fold: Fold, named: Covers | None) -> Covers:
    """Return the items that a compaction with a token covers, in their stored form.

    Args:
        token: The token of the read; no item was removed from the history since.
        fold: The current history.
        named: The items to replace; all possible ones if None.

    Raises:
        UsageError: A named item was neither read nor appended with the token, or a group would be split.
    """
    view, _ = fold.view.shown()
    own = known_items(token, fold)
    if named is None:
        chosen = whole({item.id for item in own}, view)
    else:
        requested = _resolved_names(named, own, token)
        chosen = [item.id for item in own if item.id in requested]
        _refuse_split_groups(requested, view)
    covers = ranges(chosen)
    if len(covers) > limits.COVERS_COUNT:
        raise UsageError(
            f"The compaction would cover {len(covers)} batches of items; the limit is {limits.COVERS_COUNT}. "
            "Nothing was written. Name fewer items, starting with the oldest, or read with a limit."
        )
    return msgspec.convert(covers, Covers)


def known_items(token: Token, fold: Fold) -> list[Item]:
    """Return the items known to the token's owner: those read with it, and those appended with it since."""
    window, _ = fold.view.shown(token.limit, token.position)
    known = {item.id for item in window}
    wrote = {batch.id: batch.count for batch in token.wrote}
    later = [
        item
        for item in (fold.view.shown()[0] if wrote else ())
        if item.id not in known and item.id[1] < wrote.get(item.id[0], 0)
    ]
    return [*window, *later]


def _resolved_names(names: Covers, own: list[Item], token: Token) -> set[ItemKey]:
    places = {item.id: at for at, item in enumerate(own)}

    def place(name: ItemKey) -> int:
        if name not in places:
            raise UsageError(
                f"Item {name[1]} of event {name[0]} was not read with this token from {token.session}. "
                "Nothing was written. Cover only items that were read with it, or appended with it since."
            )
        return places[name]

    found: set[ItemKey] = set()
    for name_or_range in names:
        if isinstance(name_or_range, ItemRange):
            first = 0 if name_or_range.first is None else place(name_or_range.first)
            last = len(own) - 1 if name_or_range.last is None else place(name_or_range.last)
        else:
            first = last = place(name_or_range)
        found.update(item.id for item in own[first : last + 1])
    return found


def _refuse_split_groups(requested: set[ItemKey], view: list[Item]) -> None:
    for pair, item in split_pairs(requested, view):
        raise UsageError(
            f"Call {pair[1]!r} would be separated from its output: item {item.id[1]} of event {item.id[0]} was named "
            "without the rest of its group, or has no output yet. Nothing was written. Cover both, or neither."
        )
