"""The conversations of gptme: messages, tool calls, shown lessons, and undone messages.

| file | read by |
|---|---|
| `<dir>/conversation.jsonl` | `main`: its messages, its start, and the messages that were undone |
| `<dir>/events.jsonl` | `eventlog`: its changes, one by one |
| `<dir>/branches/*.jsonl`, `<dir>/conv-checkpoints.jsonl` | `copies` |
| `<dir>/views/*.jsonl` | `views`: the compacted forms of the conversation |
| `<dir>/config.toml` | with the conversation: its name, model and workspace |

The session is `gptme:<dir>`: nothing in the file names it, so the folder's name does. A fork is a copy of the folder
under another name, and another session with the same messages and lessons. Older versions compacted into a folder
`<dir>-compacted-<date>-<time>`; its start has `forked_from`.

The files of one conversation overlap. A fact has the same id and body in each of them, so that the order of import
only decides positions (`messages`). A message's time has no UTC offset; gptme writes the local time of its machine,
so it is read as local time of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rightful.errors import InvalidEventError
from rightful.importers.engine.file_report import SKIPPED
from rightful.importers.engine.formats import (
    REWRITTEN,
    End,
    GrowingKind,
    GrowingReader,
    NotYetError,
    Origin,
    Wire,
)
from rightful.importers.engine.loop import STDIN
from rightful.importers.gptme.branches_and_labels import BranchReader, CheckpointsReader
from rightful.importers.gptme.conversation_events import MainReader, Place
from rightful.importers.gptme.gptme_eventlog import EVENTS, EventLogReader
from rightful.importers.gptme.gptme_views import ViewReader
from rightful.importers.gptme.lesson_messages import is_lessons
from rightful.importers.gptme.neighbour_files import MAIN, Main
from rightful.importers.sources.text_files import Found, Problem

_KINDS = {MAIN: "main", EVENTS: "events", "conv-checkpoints.jsonl": "checkpoints"}
_COPIES = frozenset({"branches", "views"})
_ROLES = ("system", "user", "assistant", "tool")  # a tuple: a value from a file may not be hashable
_CHANGES = ("message_append", "message_edit", "undo", "checkpoint")
_OTHERS = frozenset({"type", "session_id", "sessionId", "sessionID", "uuid", "parts", "message"})
_EVENT = frozenset({"seq", "ts", "type", "payload"})
_CHECKPOINT = frozenset({"index", "label", "timestamp"})


class Gptme(GrowingKind):
    """The kind `gptme`."""

    NAME = "gptme"
    GROWS = REWRITTEN
    READER_VERSION = 3  # 1: files of other tools were read; 1 and 2: pops stayed where a compaction is derived

    def __init__(self) -> None:
        self._main: Main | None = None

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a message of a conversation, a change to one, or a label in one."""
        return _is_message(value) or _is_event(value) or value.keys() == _CHECKPOINT

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: Its path does not name a conversation. For a file found in a folder, only if it
                must belong to a conversation.
            NotYetError: It is a branch or a view, and the conversation to compare it with is being written.
        """
        try:
            place = _place_of(origin)
            main = self._main_of(place)
            reader = _reader(place, origin, main)
        except InvalidEventError as error:
            if origin.is_named:
                raise
            return _UnknownSessionReader(error.what)
        if _is_compared(place) and main.is_torn:
            raise NotYetError(
                f"`{MAIN}` of its conversation is incomplete or being written; the next import reads this file"
            )
        return reader

    def _main_of(self, place: Place) -> Main:
        """Return the conversation that the other files of its folder are compared with; cached until it changes."""
        if self._main is None or not self._main.still_is(place.path):
            self._main = Main(place.path, place.folder)
        return self._main


def _is_message(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a message with a textual time, and without fields of other tools."""
    is_timed = "content" in value and isinstance(value.get("timestamp"), str)
    return is_timed and value.get("role") in _ROLES and _OTHERS.isdisjoint(value)


def _is_event(value: Mapping[str, Any]) -> bool:
    return value.keys() >= _EVENT and value["type"] in _CHANGES


def _is_compared(place: Place) -> bool:
    """Return whether a file is compared with its conversation: a copy, or a log that may contain a view."""
    return place.kind in _COPIES or (place.kind == "events" and (place.path / "views").is_dir())


def _reader(place: Place, origin: Origin, main: Main) -> GrowingReader:
    match place.kind:
        case "main":
            return MainReader(place, origin)
        case "events":
            return EventLogReader(place, origin, main)
        case "branches":
            return BranchReader(place, origin, main)
        case "views":
            return ViewReader(place, origin, main)
        case _:
            return CheckpointsReader(place)


def _place_of(origin: Origin) -> Place:
    """Return the place of a file of a conversation."""
    if origin.path == STDIN:
        raise InvalidEventError("Expected a file: a conversation is named by its folder, and standard input has none")
    folder = Path(os.path.realpath(Path(origin.path).parent))  # the file's own link is not followed
    if (kind := _KINDS.get(origin.name)) is not None:
        return Place(folder, folder.name, kind)
    if folder.name in _COPIES:
        return Place(folder.parent, folder.parent.name, folder.name)
    what = f"messages outside `{MAIN}` and the folders `branches` and `views`: their session is unknown"
    raise InvalidEventError(what)


class _UnknownSessionReader(GrowingReader):
    """Reads a file that is not part of a conversation: messages of other tools, unless they show lessons."""

    def __init__(self, why: str) -> None:
        self._why = why
        self._first: int | None = None
        self._shown = 0

    def state(self) -> dict[str, Any]:
        return {"first": self._first, "shown": self._shown}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._first, self._shown = state["first"], state["shown"]

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        if is_lessons(found.value):
            self._first = self._first or found.line
            self._shown += 1
        return iter(())

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield why the file is skipped, or a problem if it has lessons that were shown to an unknown session."""
        del end
        if self._shown:
            yield Problem(self._first, f"{self._why}; messages that show lessons and were not imported: {self._shown}")
        else:
            yield Problem(None, f"{SKIPPED}{self._why}", lost=False)
