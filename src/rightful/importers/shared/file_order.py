"""Give the items that a log recorded first the places that they have in the tool's own transcript.

A log lacks some of the transcript's items, such as the prompts. If it was imported first, its items precede those in
the ledger. So each of them is placed behind the item that it follows in the transcript. The event is an
`event.withdrawn` that withdraws nothing and has the moved ids in `extra.instead` (`rightful.log.withdrawals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rightful.importers.engine.compacted_files import is_same
from rightful.importers.engine.renewal import withdrawals
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.log.withdrawals import NO_REVISION, WITHDRAWAL

if TYPE_CHECKING:
    from rightful.importers.engine.formats import Wire
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

_COMPACTED = "history.compacted"


class FileOrder:
    """The order of one transcript's items and their changes, compared with their order in the ledger.

    Args:
        reader: The version of the transcript's reader.
    """

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._keys: set[str] = set()
        self._last: dict[str, tuple[str, int]] = {}
        self._placed: dict[str, set[str]] = {}

    def state(self) -> dict[str, Any]:
        """Return the last item of each session that has its place, by the session."""
        return dict(self._last)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._last = {session: (id_, position) for session, (id_, position) in state.items()}

    def add(self, keys: Iterable[str]) -> None:
        """Add items and changes of the history, by their keys. A copy of an earlier line has no place of its own."""
        self._keys.update(keys)

    def moves(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return the events that place the items of a log behind the ones that they follow in the transcript."""
        found: dict[str, tuple[Wire, list[str]]] = {}
        for event, receipt in zip(events, receipts, strict=True):
            position = receipt.first or receipt.position
            if event["key"] not in self._keys or receipt.id is None or position is None:
                continue
            self._keys.discard(event["key"])
            last = self._last.get(event["session"])
            if last is None or position > last[1] or log.of_id(receipt.id)[0].envelope.at_basis != "file":
                self._last[event["session"]] = receipt.id, position
                if event["type"] == _COMPACTED and (known := _of_log(log, event, position)):
                    found[receipt.id] = event, known
            else:
                found.setdefault(last[0], (event, []))[1].append(receipt.id)
        return [wire for last, (event, ids) in found.items() for wire in self._move(log, event, last, ids)]

    def _move(self, log: Log, event: Wire, last: str, ids: list[str]) -> Iterator[Wire]:
        session = event["session"]
        if session not in self._placed:
            self._placed[session] = {id_ for _, known in withdrawals(log, session) for id_ in known.instead}
        new = [id_ for id_ in ids if id_ not in self._placed[session]]
        if new:
            self._placed[session].update(new)
            wire = {name: event[name] for name in ("producer", "session", "at", "at_basis") if name in event}
            head = wire | {"type": WITHDRAWAL, "key": key_of("placed behind", last, digest(new)), "id": last}
            yield head | {"revision": NO_REVISION, "extra": {"reader": self._reader, "instead": new}}


def _of_log(log: Log, event: Wire, position: int) -> list[str]:
    """Return the ids of the same compaction as a log recorded it, if that precedes the transcript's in the ledger."""
    rows = (row for page in log.of_session(event["session"], [_COMPACTED], until=position - 1) for row in page)
    return [row.envelope.id for row in rows if row.envelope.at_basis == "file" and is_same(row, event)]
