"""When a line of a tool's file was written: its own time, else the last one before it, else the file's."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import moment_us


class LineTimes:
    """Gives every line of one file a time.

    Args:
        mtime_us: When the file was last written; microseconds since 1970, UTC; None for a pipe.

    Attributes:
        known_us: The last time that a line gave; what is needed to go on behind that line.
    """

    def __init__(self, mtime_us: int | None) -> None:
        self._mtime_us = mtime_us
        self.known_us: int | None = None

    def of(self, text: object) -> dict[str, Any]:
        """Return the fields `at` and, where only the file's own time is known, `at_basis`.

        Args:
            text: What stands where the line's time should stand; what is no time is passed over.

        Raises:
            InvalidEventError: No time is known, of no line before it and not of the file either.
        """
        if isinstance(text, str):
            with suppress(InvalidEventError):
                self.known_us, _ = moment_us(text, "$.timestamp")
        if self.known_us is not None:
            return {"at": times.text_of(self.known_us)}
        if self._mtime_us is None:
            raise InvalidEventError("Expected a time: no line has one so far, and stdin has none", "$.timestamp")
        return {"at": times.text_of(self._mtime_us), "at_basis": "file"}
