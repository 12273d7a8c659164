"""Files that begin with a compaction: the items that it covers are in the ledger, but no longer in the file.

Tools rewrite a file from its last compaction on (openai/codex#44363), and so do clean-up scripts. Such a
compaction covers everything that the ledger has of the session by then. So it is looked up there:

- if nothing precedes it, it covers nothing and is appended unchanged;
- if another file has the same compaction, that event counts;
- otherwise it is appended with a range that is open at both ends and `after`, the position up to which it covers.

An earlier version appended it as covering nothing in the third case too. That event is withdrawn, and `after` is the
position before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import content
from rightful.encoding.envelope import body_of
from rightful.identity import event_id
from rightful.importers.engine.formats import GrowingReader, Plan
from rightful.importers.shared.foreign_fields import key_of
from rightful.importers.shared.record_parts import ITEMS
from rightful.log.rows import Receipt

if TYPE_CHECKING:
    from rightful.importers.engine.formats import Wire
    from rightful.log.log import Log
    from rightful.log.rows import Stored

_COMPACTED, _POPPED, _WITHDRAWN = "history.compacted", "history.popped", "event.withdrawn"
_BOUNDARY = "boundary"


class _Head(NamedTuple):
    """A compaction with which a file begins, in two forms with their ids: as in the file, and covering all items."""

    event: Wire
    whole: Wire
    id: str
    whole_id: str

    @classmethod
    def of(cls, event: Wire) -> _Head:
        """Return the two forms of a compaction that covers nothing in the file."""
        key = key_of(*json.loads(event["key"]), "all")
        whole = event | {"key": key, "covers": [{"first": None, "last": None}]}
        return cls(event, whole, event_id(event["producer"], event["key"]), event_id(event["producer"], key))


class HeadsReader(GrowingReader):
    """A reader of files whose sessions may begin with a compaction.

    Later events of the file refer to the items of such a compaction by the id from the file. In the ledger the
    compaction may have another id; `plan` replaces it.

    Attributes:
        head_ids: The ids in the ledger of these compactions, by the ids from the file; part of the reader's state.
    """

    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}
        self.head_ids: dict[str, str] = {}

    def add_head(self, event: Wire) -> None:
        """Add such a compaction, as in the file."""
        self._heads[event["key"]] = _Head.of(event)

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the events with each of these compactions in the form that fits the ledger."""
        heads = {
            place: head for place, event in enumerate(events) if (head := self._heads.get(event["key"])) is not None
        }
        if not heads:
            return Plan([self._renamed(event) for event in events] if self.head_ids else events)
        after, planned, existing = log.head(), list(events), {}
        for place, head in heads.items():
            found = _planned(log, head, after)
            if isinstance(found, Receipt):
                existing[place] = found
                self.head_ids[head.id] = str(found.id)
            else:
                planned[place] = found
                self.head_ids[head.id] = event_id(found["producer"], found["key"])
        items = [
            DCBQueryItem(types=sorted((*ITEMS, _COMPACTED)), tags=[f"session:{session}"])
            for session in sorted({head.event["session"] for head in heads.values()})
        ]
        self.head_ids = {own: known for own, known in self.head_ids.items() if own != known}
        return Plan([self._renamed(event) for event in planned], DCBQuery(items=items), after, existing)

    def _renamed(self, event: Wire) -> Wire:
        """Return an event with the ledger's ids of these compactions."""
        name = {_COMPACTED: "covers", _POPPED: "items"}.get(event["type"])
        if name is None:
            return event
        return event | {name: [_with_ids(item, self.head_ids) for item in event[name]]}

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return withdrawals of the forms that an earlier version appended."""
        del receipts
        if not self._heads:
            return []
        heads = [head for event in events if (head := self._heads.get(event["key"])) is not None]
        return [_withdrawn(head) for head in heads if log.of_id(head.id) and log.of_id(head.whole_id)]


def _with_ids(name: Any, ids: Mapping[str, str]) -> Any:  # noqa: ANN401 - an item or a range
    """Return the name of items with other ids."""
    if isinstance(name, dict):
        return {end: None if item is None else _with_ids(item, ids) for end, item in name.items()}
    id_, place = name
    return [ids.get(id_, id_), place]


def _planned(log: Log, head: _Head, until: int) -> Wire | Receipt:
    """Return the form of a compaction to append, or the receipt of the one that is in the ledger."""
    if known := log.of_id(head.whole_id):
        return _duplicate(known[0])
    if own := log.of_id(head.id):
        if own[0].body is None or body_of(own[0].envelope, own[0].body, own[0].position).covers:
            return _duplicate(own[0])  # from a file that still had the covered items
        until = min(until, own[0].position - 1)
    session = head.event["session"]
    for row in _rows(log, session, [_COMPACTED], log.head()):
        if row.envelope.id != head.id and row.envelope.producer == head.event["producer"] and is_same(row, head.event):
            return head.event if _BOUNDARY in head.event.get("extra", {}) else _duplicate(row)
    if next(_rows(log, session, ITEMS, until), None) is None:
        return head.event
    return head.whole | {"after": until}


def _rows(log: Log, session: str, types: Any, until: int) -> Iterator[Stored]:  # noqa: ANN401 - some texts
    return (row for page in log.of_session(session, types, until=until) for row in page) if until else iter(())


def is_same(row: Stored, event: Wire) -> bool:
    """Return whether a row is the same compaction: the same boundary, or else the same content."""
    if row.body is None:
        return False
    body = body_of(row.envelope, row.body, row.position)
    stored = content.restore([body.items, body.extra]) if row.envelope.escaped else [body.items, body.extra]
    extra = event.get("extra")
    if extra is not None and (boundary := extra.get(_BOUNDARY)) is not None:
        return bool((stored[1] or {}).get(_BOUNDARY) == boundary)
    return bool(stored == [event.get("items", []), extra])


def _duplicate(row: Stored) -> Receipt:
    return Receipt(row.envelope.id, "duplicate", row.position, row.envelope.first or row.position)


def _withdrawn(head: _Head) -> Wire:
    event = head.event
    wire = {name: event[name] for name in ("producer", "session", "at", "at_basis") if name in event}
    key = key_of(*json.loads(event["key"]), "covers nothing")
    return wire | {"type": _WITHDRAWN, "key": key, "id": head.id, "revision": 1}
