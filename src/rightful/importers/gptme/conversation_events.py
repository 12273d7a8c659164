"""The conversation itself: its messages, that its session began, and what was taken back of it.

gptme writes the file anew at each change, so an undo or an edit leaves no trace in it. Where the
file is not what it was at the last import, what stood in it then and does not now was taken back:
`history.popped`, and never a deletion. What is told is each item for itself, with the item's own
key, so that the event log and the backups (`branches/main-undo-0.jsonl`), which tell of the same,
add nothing to it.

What stands in it again was put back: a copy of a backup, or of an older version of the file. Then the
`history.popped` that this reader said of it is withdrawn, and the history has it where it was.

A file that is being written has lost its end for a moment. So nothing is said to be gone until the
file was whole, and the same after it was read as before; until then that waits for the next import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import End, GrowingReader, OlderReading, Origin, Wire
from rightful.importers.gptme.gptme_messages import NAMESPACE, MessageItems, Messages
from rightful.importers.gptme.gptme_times import local_us
from rightful.importers.gptme.neighbour_files import settings_of
from rightful.importers.gptme.overwritten_views import before_overwritten, overwritten
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.importers.sources.growing_files import is_settled
from rightful.importers.sources.text_files import Found, Problem

_READS_OVERWRITTEN_AGAIN = 3
"""The first version of the reader that withdraws the pops of a conversation which a view wrote over."""

_COMPACTED = re.compile(r"(?P<of>.+?)(?:-compacted-\d{8}-\d{6})+\Z")


class Place(NamedTuple):
    """Where a file of a conversation stands.

    Attributes:
        path: The conversation's folder.
        folder: Its name, which is the session's.
        kind: `main`, `events`, `checkpoints`, `branches` or `views`.
    """

    path: Path
    folder: str
    kind: str


class _Metadata(msgspec.Struct):
    model: str | None = None
    resolved_model: str | None = None


class MainReader(GrowingReader):
    """Reads a conversation.

    Args:
        place: Where it stands.
        origin: The file.

    Raises:
        InvalidEventError: The folder's name cannot be that of a session.
    """

    def __init__(self, place: Place, origin: Origin) -> None:
        self._place, self._origin = place, origin
        self._messages = Messages(place.folder, origin.mtime_us)
        self._began_us: int | None = None
        self._zone: str | None = None
        self._model: str | None = None
        self._told: list[str] = []
        self._gone: list[str] = []
        self._before: list[MessageItems] = []
        self._popped: dict[str, int] = {}
        self._notes: list[Problem] = []
        self._beside: Wire = {}
        for item in settings_of(place.path):
            if isinstance(item, Problem):
                self._notes.append(item)
            else:
                self._beside = item

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on behind the last message, and what is still to be said to be gone."""
        own = {"began_us": self._began_us, "zone": self._zone, "model": self._model}
        return (
            self._messages.state()
            | own
            | {
                "told": self._told,
                "gone": self._gone,
                "before": [[message.mark, *message.items] for message in self._before],
                "popped": self._popped,
            }
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on behind the last message."""
        self._messages.restore(state)
        self._began_us, self._zone, self._model = state["began_us"], state["zone"], state["model"]
        self._told, self._gone, self._popped = list(state["told"]), list(state["gone"]), dict(state["popped"])
        self._before = [MessageItems(mark, tuple(items)) for mark, *items in state["before"]]

    def restart(self, state: Mapping[str, Any]) -> None:
        """Keep what stood in the file, until it is known what stands there now."""
        self._gone = [*state["gone"], *(item for _, *items in state["standing"] for item in items)]
        self._before = [MessageItems(mark, tuple(items)) for mark, *items in state["before"] or state["standing"]]
        self._popped = dict(state["popped"])

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield what one message says, and that the session began where it tells more of that.

        Raises:
            InvalidEventError: It is no message, or its lessons are not in their form.
        """
        self._model = self._model or _model_of(found.value)
        if self._began_us is None and isinstance(text := found.value.get("timestamp"), str):
            with suppress(InvalidEventError):
                self._began_us, self._zone = local_us(text)
        if self._began_us is not None:
            yield from self._starts(self._began_us)
        yield from self._messages.take(found)

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield what was taken back, where the file is not what it was."""
        del end
        yield from self._notes
        if self._zone is not None:
            what = f"the times have no UTC offset; they were read as local time of this machine ({self._zone})"
            yield Problem(None, what, lost=False)
        current = {item for said in self._messages.current for item in said.items}
        gone = [item for item in self._gone if item not in current]
        yield from self._put_back(current)
        if not gone:
            self._gone, self._before = [], []
        elif is_settled(Path(self._origin.path), self._origin.mtime_us):
            for compacted in overwritten(self._place.path, self._before, self._messages, self._origin.mtime_us):
                yield compacted
                covered = {item for item, _ in compacted["covers"]}
                gone = [item for item in gone if item not in covered]
            self._gone, self._before = [], []
            for item in gone:
                self._popped[item] = nth = 1 - self._popped.get(item, 0)
                yield self._messages.popped(item, at_us=self._origin.mtime_us, nth=nth) | {"at_basis": "file"}
        else:
            what = (
                "earlier messages are missing and the file is being written; the next import records what was removed"
            )
            yield Problem(None, what, lost=False)

    def changes(self, former: OlderReading) -> Iterator[Wire]:
        """Yield the compactions that a reader of an earlier version recorded as pops."""
        if former.reader < _READS_OVERWRITTEN_AGAIN:
            before = before_overwritten(self._messages.current, former)
            place = self._place.path
            yield from overwritten(place, before, self._messages, self._origin.mtime_us, is_past=True)

    def _put_back(self, current: set[str]) -> Iterator[Wire]:
        """Yield what was taken back and stands in the file again.

        An item counts how often it was taken back, as a negative number once it was put back.
        """
        for item, nth in self._popped.items():
            if nth > 0 and item in current:
                self._popped[item] = -nth
                yield self._messages.put_back(item, nth, at_us=self._origin.mtime_us) | {"at_basis": "file"}

    def _starts(self, began_us: int) -> Iterator[Wire]:
        """Yield what is known of the start now, each once: what messages tell, and with it what stands beside them."""
        model = self._model or self._beside.get("model")
        facts: Wire = {"harness": "gptme"} | ({"model": model} if isinstance(model, str) else {})
        for told in (facts, facts | self._more()):
            mark = digest(told)
            if mark in self._told:
                continue
            self._told.append(mark)
            key = key_of(self._place.folder, "session.started", mark)
            yield self._messages.stamped("session.started", key, at_us=began_us) | told

    def _more(self) -> Wire:
        """Return what the settings and the folder's name say of the session."""
        names = ("name", "workspace", "agent")
        extra = {name: text for name in names if isinstance(text := self._beside.get(name), str) and text}
        if (copied := _COMPACTED.match(self._place.folder)) is not None:
            extra["forked_from"] = f"{NAMESPACE}:{copied['of']}"
        workspace = extra.get("workspace", "")
        return ({"cwd": workspace} if workspace.startswith("/") else {}) | ({"extra": extra} if extra else {})


def _model_of(value: Mapping[str, Any]) -> str | None:
    try:
        metadata = msgspec.convert(value.get("metadata"), _Metadata | None)
    except (msgspec.ValidationError, UnicodeEncodeError):  # the second: a lone surrogate
        return None
    return None if metadata is None else metadata.model or metadata.resolved_model
