"""The time of each line of a tool's file: its own, else that of an earlier line, else the file's."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import moment_us


class LineTimes:
    """Returns a time for every line of one file.

    Args:
        mtime_us: When the file was last written; microseconds since 1970, UTC; None for a pipe.

    Attributes:
        known_us: The last time of a line; the state needed to continue after it.
    """

    def __init__(self, mtime_us: int | None) -> None:
        self._mtime_us = mtime_us
        self.known_us: int | None = None

    def of(self, text: object) -> dict[str, Any]:
        """Return the fields `at` and, if only the file's time is known, `at_basis`.

        Args:
            text: The value of the line's time field; a value that is not a time is ignored.

        Raises:
            InvalidEventError: Neither an earlier line nor the file has a time.
        """
        if isinstance(text, str):
            with suppress(InvalidEventError):
                self.known_us, _ = moment_us(text, "$.timestamp")
        if self.known_us is not None:
            return {"at": times.text_of(self.known_us)}
        if self._mtime_us is None:
            raise InvalidEventError("Expected a time: no line has one so far, and stdin has none", "$.timestamp")
        return {"at": times.text_of(self._mtime_us), "at_basis": "file"}
