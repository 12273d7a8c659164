"""Give the items that a log recorded first the places that they have in the tool's own transcript.

A log lacks some of the transcript's items, such as the prompts. If it was imported first, its items precede those in
the ledger. So each of them is placed behind the item that it follows in the transcript. The event is an
`event.withdrawn` that withdraws nothing and has the moved ids in `extra.instead` (`rightful.log.withdrawals`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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

    Attributes:
        keys: The keys of the items and changes that were read. A copy of an earlier line has no place of its own.
        last: The last of them that has its place, by session: its id and position; part of the reader's state.
        compactions: The compactions that were not yet compared with those of a log, each with its id and position. They
            wait for a sign of a log; part of the reader's state.
        reached: The position of the file's last event, as long as nothing shows that a log may have been imported: an
            event that was in the ledger, or rows of others between two events. None from then on.
    """

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self.keys: set[str] = set()
        self.last: dict[str, tuple[str, int]] = {}
        self.compactions: list[tuple[Wire, str, int]] = []
        self.reached: int | None = 0
        self._placed: dict[str, set[str]] = {}

    def moves(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return the events that place the items of a log behind the ones that they follow in the transcript."""
        found: dict[str, tuple[Wire, list[str]]] = {}
        for event, receipt in zip(events, receipts, strict=True):
            position = receipt.first or receipt.position
            if self.reached is not None and position is not None:
                is_alone = receipt.outcome == "appended" and self.reached in (0, position - 1)
                self.reached = position if is_alone else None
            if event["key"] not in self.keys or receipt.id is None or position is None:
                continue
            self.keys.discard(event["key"])
            last = self.last.get(event["session"])
            if last is None or position > last[1] or log.of_id(receipt.id)[0].envelope.at_basis != "file":
                self.last[event["session"]] = receipt.id, position
                if event["type"] == _COMPACTED:
                    extra = {"boundary": event["extra"]["boundary"]}
                    self.compactions.append(({**_head(event), "extra": extra}, receipt.id, position))
            else:
                found.setdefault(last[0], (event, []))[1].append(receipt.id)
        if self.reached is not None:
            return []
        for event, id_, position in self.compactions:
            if known := _of_log(log, event, position):
                found[id_] = event, [*known, *found.get(id_, (event, []))[1]]
        self.compactions = []
        return [wire for last, (event, ids) in found.items() for wire in self._move(log, event, last, ids)]

    def _move(self, log: Log, event: Wire, last: str, ids: list[str]) -> Iterator[Wire]:
        session = event["session"]
        if session not in self._placed:
            self._placed[session] = {id_ for _, known in withdrawals(log, session) for id_ in known.instead}
        new = [id_ for id_ in ids if id_ not in self._placed[session]]
        if new:
            self._placed[session].update(new)
            head = _head(event) | {"type": WITHDRAWAL, "key": key_of("placed behind", last, digest(new)), "id": last}
            yield head | {"revision": NO_REVISION, "extra": {"reader": self._reader, "instead": new}}


def _head(event: Wire) -> Wire:
    return {name: event[name] for name in ("producer", "session", "at", "at_basis") if name in event}


def _of_log(log: Log, event: Wire, position: int) -> list[str]:
    """Return the ids of the same compaction as a log recorded it, if that precedes the transcript's in the ledger."""
    rows = (row for page in log.of_session(event["session"], [_COMPACTED], until=position - 1) for row in page)
    return [row.envelope.id for row in rows if row.envelope.at_basis == "file" and is_same(row, event)]
