"""A small kind of a file that grows, for tests of what all such kinds share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import APPENDED, REWRITTEN, End, GrowingKind, GrowingReader, Origin, Wire
from rightful.importers.shared.foreign_fields import key_of
from rightful.importers.sources.text_files import Found, Problem


class DiaryReader(GrowingReader):
    """Counts what it has read, so that an event tells whether the reader went on where it stopped."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._count = 0
        self._before: list[str] = []
        self._ids: list[str] = []

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield a message of each entry, and its number."""
        row = found.value
        if not isinstance(row.get("say"), str):
            raise InvalidEventError("Expected `str`", "$.say")
        self._count += 1
        self._ids.append(row["say"])
        yield self._event(row["say"], self._count)
        if row.get("twice"):
            yield self._event(row["say"], -self._count)

    def _event(self, text: str, number: int) -> Wire:
        return {
            "type": "message.recorded",
            "producer": "diary",
            "key": key_of(self._origin.name, ascii(text), number),
            "session": "t:diary",
            "at": "2026-08-01T10:00:00Z",
            "role": "user",
            "content": text,
            "extra": {"number": number},
        }

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Say what vanished of a file that is not what it was."""
        del end
        for text in (text for text in self._before if text not in self._ids):
            yield self._event(f"gone: {text}", 0)

    def state(self) -> dict[str, Any]:
        """As `GrowingReader.state`."""
        return {"count": self._count, "ids": self._ids}

    def restore(self, state: Mapping[str, Any]) -> None:
        """As `GrowingReader.restore`."""
        self._count, self._ids = state["count"], list(state["ids"])

    def restart(self, state: Mapping[str, Any]) -> None:
        """As `GrowingReader.restart`."""
        self._before = state["ids"]


class Diary(GrowingKind):
    """Is appended to."""

    NAME = "diary"
    GROWS = APPENDED

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is an entry."""
        return "say" in value

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file."""
        if origin.name == "refused.jsonl":
            raise InvalidEventError("Expected a diary")
        return DiaryReader(origin)


class Draft(Diary):
    """May be rewritten."""

    NAME = "draft"
    GROWS = REWRITTEN
