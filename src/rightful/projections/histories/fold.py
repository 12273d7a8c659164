"""The fold of a history: rows of one session in, the items that the model would see next out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from rightful.envelope import body_of
from rightful.ledger.classify import ACCEPTED
from rightful.ledger.recorded import Stored
from rightful.parts import ItemRange

ItemKey = tuple[str, int]
"""The id of an item: its event's id, and its place in that event."""

CHANGES = frozenset({"history.compacted", "history.popped", "history.cleared", "event.withdrawn"})
"""The event types after which a token is stale."""


class Item(NamedTuple):
    """One item of a history.

    Attributes:
        id: Its id.
        position: Where its event stands.
        raw: The item as stored JSON.
        escaped: Some of it is kept in an escape (`content.restore`).
    """

    id: ItemKey
    position: int
    raw: bytes
    escaped: bool


class Fold:
    """The history of one session, as far as its rows were folded.

    Attributes:
        items: What it shows, in order.
        changed_at: The position of the last change after which a token is stale; 0 if there was none.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.changed_at = 0

    def step(self, row: Stored) -> None:
        """Fold one row of the session; rows come by ascending position."""
        envelope, body = row.envelope, row.body
        if envelope.outcome not in ACCEPTED or body is None:
            return
        if envelope.type in CHANGES:
            self.changed_at = row.position
        said = body_of(envelope, body, row.position)
        match envelope.type:
            case "history.appended":
                self.items += _items(row, said)
            case "history.compacted":
                self._replace(said.covers, _items(row, said), said.after)
            case "history.popped":
                self._replace(said.items, [], None)
            case "history.cleared":
                self.items = []
            case _:
                pass

    def _replace(self, covers: Iterable[Any], put: list[Item], after: int | None) -> None:
        places = {item.id: at for at, item in enumerate(self.items)}
        gone: set[int] = set()
        named = list(covers)
        for one in named:
            first, last = _ends(one, places, len(self.items))
            if first is not None and last is not None:
                gone.update(range(first, last + 1))
        if named and not gone:
            return
        if gone:
            at = min(gone)
        else:
            at = len(self.items)
            while after is not None and at and self.items[at - 1].position > after:
                at -= 1
        kept = [item for place, item in enumerate(self.items) if place >= at and place not in gone]
        self.items[at:] = [*put, *kept]


def _ends(one: Any, places: dict[ItemKey, int], count: int) -> tuple[int | None, int | None]:  # noqa: ANN401 - an item or a range
    if isinstance(one, ItemRange):
        first = 0 if one.first is None else places.get(one.first)
        return first, count - 1 if one.last is None else places.get(one.last)
    at = places.get((one[0], one[1]))
    return at, at


def _items(row: Stored, said: Any) -> list[Item]:  # noqa: ANN401 - one struct a type
    encode = msgspec.json.encode
    return [
        Item((row.envelope.id, at), row.position, encode(one), row.envelope.escaped)
        for at, one in enumerate(said.items)
    ]
