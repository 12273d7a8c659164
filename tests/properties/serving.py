"""What a recorder is asked, in this process or in another one that serves requests over a pipe."""

from __future__ import annotations

from hashlib import sha256
from multiprocessing.connection import Connection
from typing import Any

from eventsourcing.dcb.api import DCBEvent, DCBQuery

from rightful import limits
from rightful.storage.recorder import LMDBRecorder

Said = list[tuple[int, DCBEvent]]


def ask(recorder: LMDBRecorder, what: str, *more: Any) -> Any:
    """Return what a recorder answers."""
    match what:
        case "read":
            wanted, after, limit = more
            return [(each.position, each.event) for each in recorder.read(wanted, after=after, limit=limit)]
        case "rows":
            return [(row.position, row.envelope, row.payload) for row in recorder.rows(*more)]
        case "view":
            return view(recorder, *more)
        case _:
            return getattr(recorder, what)(*more)


def view(recorder: LMDBRecorder, tag: str, wanted: DCBQuery, after: int, events: list[DCBEvent]) -> Any:
    """Return what a decision sees, of one that then writes the events."""
    seen: list[Any] = []

    def look(now: Any) -> list[DCBEvent]:
        last = now.last()
        tagged = [(position, event.data) for position, event in now.tagged(tag)]
        seen[:] = now.head, None if last is None else last.data, tagged, now.matches(wanted, after)
        return events

    return recorder.decide(look), *seen


def serve(pipe: Connection, anew: bool) -> None:
    """Answer requests: keep each store open, or open it anew for each."""
    kept: LMDBRecorder | None = None
    while (request := pipe.recv()) is not None:
        folder, kind, small, *question = request
        for name, value in small.items():
            setattr(limits, name, value)
        recorder = kept if kept is not None and kept.path == str(folder) else LMDBRecorder(folder, kind=kind)
        if kept is not None and kept is not recorder:
            kept.close()
        pipe.send(ask(recorder, *question))
        kept = None if anew else recorder
        if anew:
            recorder.close()


class Model:
    """The same as a recorder, as a plain list."""

    def __init__(self) -> None:
        self.events: list[DCBEvent] = []
        self.leaves: list[bytes] = []

    def ask(self, pack: Any, what: str, *more: Any) -> Any:
        """Return what a recorder should answer."""
        match what:
            case "append":
                self.events += more[0]
                self.leaves += [sha256(b"\0" + pack(event)).digest() for event in more[0]]
                return len(self.events)
            case "read":
                wanted, after, limit = more
                return [(at, event) for at, event in self.after(after) if fits(event, wanted)][:limit]
            case "rows":
                after, limit = more
                rows = [(at, pack(event), getattr(event, "payload", None)) for at, event in self.after(after)]
                return rows[:limit]
            case "tags_like":
                start, limit = more
                found = {tag for event in self.events for tag in event.tags if start and tag.startswith(start)}
                return sorted((tag for tag in found if len(tag) <= limits.TAG_KEY_BYTES), key=str.encode)[:limit]
            case "tree_head":
                return len(self.events), root(self.leaves)
            case "view":
                tag, wanted, after, events = more
                last = self.events[-1].data if self.events else None
                tagged = [(at, event.data) for at, event in self.after(0) if tag in event.tags]
                matches = any(fits(event, wanted) for _, event in self.after(after))
                head = len(self.events)
                return self.ask(pack, "append", events), head, last, tagged, matches
            case _:
                raise AssertionError(what)

    def after(self, position: int) -> Said:
        return list(enumerate(self.events, 1))[position:]


def fits(event: DCBEvent, wanted: DCBQuery | None) -> bool:
    if wanted is None or not wanted.items:
        return True
    return any(
        (not item.types or event.type in item.types) and set(item.tags) <= set(event.tags) for item in wanted.items
    )


def root(leaves: list[bytes]) -> bytes:
    """Return the root of RFC 6962, as it is defined there."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"").digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + root(leaves[:split]) + root(leaves[split:])).digest()
