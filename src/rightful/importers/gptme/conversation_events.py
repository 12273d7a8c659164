"""The conversation file: its messages, the start of its session, and the messages that were undone.

gptme rewrites the file at each change, so an undo or an edit leaves no trace in it. If the file changed since the last
import, the messages that are no longer in it were undone: `history.popped`, never a deletion. Each item is popped by
an event of its own, whose key depends only on the item. So the event log and the backups
(`branches/main-undo-0.jsonl`), which record the same, add nothing.

A message that is in the file again was restored from a backup or from an older version of the file. Then the
`history.popped` of this reader is withdrawn, and the history has the message where it was.

A file that is being written lacks its end for a moment. So no message counts as removed until the file ends with a
complete line and did not change while it was read; until then that waits for the next import.
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
"""The first version of the reader that withdraws the pops of a conversation that a view overwrote."""

_COMPACTED = re.compile(r"(?P<of>.+?)(?:-compacted-\d{8}-\d{6})+\Z")


class Place(NamedTuple):
    """The place of a file of a conversation.

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
        place: Where it is.
        origin: The file.

    Raises:
        InvalidEventError: The folder's name is not a valid session name.
    """

    def __init__(self, place: Place, origin: Origin) -> None:
        self._place, self._origin = place, origin
        self._messages = Messages(place.folder, origin.mtime_us)
        self._began_us: int | None = None
        self._zone: str | None = None
        self._model: str | None = None
        self._known_starts: list[str] = []
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
        """Return the state needed to continue after the last message, with the removals that are not recorded yet."""
        own = {"began_us": self._began_us, "zone": self._zone, "model": self._model, "told": self._known_starts}
        before = [[message.mark, *message.items] for message in self._before]
        return self._messages.state() | own | {"gone": self._gone, "before": before, "popped": self._popped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last message."""
        self._messages.restore(state)
        self._began_us, self._zone, self._model = state["began_us"], state["zone"], state["model"]
        self._known_starts, self._gone, self._popped = list(state["told"]), list(state["gone"]), dict(state["popped"])
        self._before = MessageItems.from_states(state["before"])

    def restart(self, state: Mapping[str, Any]) -> None:
        """Keep the earlier messages until the current ones are known."""
        self._gone = [*state["gone"], *(item for _, *items in state["standing"] for item in items)]
        self._before = MessageItems.from_states(state["before"] or state["standing"])
        self._popped = dict(state["popped"])

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one message, and the session's start if the message adds to it.

        Raises:
            InvalidEventError: It is not a message, or its lessons are not valid.
        """
        self._model = self._model or _model_of(found.value)
        if self._began_us is None and isinstance(text := found.value.get("timestamp"), str):
            with suppress(InvalidEventError):
                self._began_us, self._zone = local_us(text)
        if self._began_us is not None:
            yield from self._starts(self._began_us)
        yield from self._messages.take(found)

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield the messages that were undone, if the file was rewritten."""
        del end
        yield from self._notes
        if self._zone is not None:
            what = f"the times have no UTC offset; they were read as local time of this machine ({self._zone})"
            yield Problem(None, what, lost=False)
        current = {item for message in self._messages.current for item in message.items}
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
        """Yield the restoration of items that were popped and are in the file again.

        The count of an item is how often it was popped; negative after it was restored.
        """
        for item, nth in self._popped.items():
            if nth > 0 and item in current:
                self._popped[item] = -nth
                yield self._messages.put_back(item, nth, at_us=self._origin.mtime_us) | {"at_basis": "file"}

    def _starts(self, began_us: int) -> Iterator[Wire]:
        """Yield each new version of the start: with the facts of the messages, then also with those of the settings."""
        model = self._model or self._beside.get("model")
        facts: Wire = {"harness": "gptme"} | ({"model": model} if isinstance(model, str) else {})
        for known in (facts, facts | self._more()):
            mark = digest(known)
            if mark in self._known_starts:
                continue
            self._known_starts.append(mark)
            key = key_of(self._place.folder, "session.started", mark)
            yield self._messages.stamped("session.started", key, at_us=began_us) | known

    def _more(self) -> Wire:
        """Return the facts of the session from the settings and the folder's name."""
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
