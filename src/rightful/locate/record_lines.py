"""The rows of a `session-records.jsonl` with their byte ranges, so that one row can be repaired alone."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

from rightful import content
from rightful.errors import InvalidEventError
from rightful.importers.sources.text_files import Found, Problem, objects_of
from rightful.locate.wanted_sessions import WantedSession, reference_of, session_of_record

_WIDE = (b"\xff\xfe", b"\xfe\xff")
_STORE = ("state", "sessions")


class RecordRow(NamedTuple):
    """A session record of a file.

    Attributes:
        line: Its line number, from 1.
        value: The record.
        span: The byte offsets of its line, without the line end. None if it shares its line with
            others, or the file is in UTF-16 or UTF-32: such a row is not rewritten.
        session: Its session; None if it names none.
        why: The reason why it names none.
    """

    line: int
    value: dict[str, Any]
    span: tuple[int, int] | None
    session: WantedSession | None
    why: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether it has no transcript path, or no file is there."""
        path = reference_of(self.value)[1]
        return path is None or not os.path.isfile(path)  # noqa: PTH113 - False for whatever cannot be asked


class RecordRows(NamedTuple):
    """The content of a session records file.

    Attributes:
        rows: The records, in the order of the file.
        problems: What could not be read.
    """

    rows: tuple[RecordRow, ...]
    problems: tuple[Problem, ...]


def rows_of(data: bytes, path: str) -> RecordRows:
    """Return the rows of a file.

    Args:
        data: Its bytes.
        path: Its path. A file in `state/sessions` belongs to the workspace around that folder.
    """
    reader = _RecordReader(workspace_of(path))
    if data.startswith(_WIDE) or b"\0" in data[:4]:
        reader.add_unwritable(data, 0)
    else:
        at = 0
        for number, line in enumerate(data.split(b"\n"), 1):
            reader.add_line(line, number, at)
            at += len(line) + 1
    return RecordRows(tuple(reader.rows), tuple(reader.problems))


def workspace_of(path: str) -> str | None:
    """Return the workspace that a records file belongs to; None if its path does not show it."""
    folder = Path(path).absolute().parent
    return str(folder.parents[1]) if folder.parts[-2:] == _STORE else None


class _RecordReader:
    def __init__(self, workspace: str | None) -> None:
        self._workspace = workspace
        self.rows: list[RecordRow] = []
        self.problems: list[Problem] = []

    def add_line(self, line: bytes, number: int, at: int) -> None:
        text = line.decode("utf-8", "surrogateescape").strip(" \t\r\ufeff")
        if not text:
            return
        try:
            value = content.parse_json(text)
        except InvalidEventError:
            self.add_unwritable(line, number - 1)
            return
        if isinstance(value, dict):
            self._add(value, number, (at, at + len(line)))
        else:
            self.problems.append(Problem(number, "Expected a session record, got other JSON"))

    def add_unwritable(self, data: bytes, before: int) -> None:
        """Add the objects of a line that is not exactly one object; such rows are not rewritten."""
        for item in objects_of(io.BytesIO(data)):
            if isinstance(item, Found):
                self._add(item.value, item.line + before, None)
            elif item.lost:
                self.problems.append(Problem(None if item.line is None else item.line + before, item.what))

    def _add(self, value: dict[str, Any], line: int, span: tuple[int, int] | None) -> None:
        try:
            self.rows.append(RecordRow(line, value, span, session_of_record(value, self._workspace)))
        except InvalidEventError as error:
            self.rows.append(RecordRow(line, value, span, None, error.what))
