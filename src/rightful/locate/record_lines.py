"""The rows of a `session-records.jsonl` with their byte ranges, so that one row can be repaired alone."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

from rightful import content
from rightful.errors import InvalidEventError
from rightful.importers.sources.text_files import Found, Problem, objects_of
from rightful.locate.wanted_sessions import Wanted, of_row, reference_of

_WIDE = (b"\xff\xfe", b"\xfe\xff")
_STORE = ("state", "sessions")


class Row(NamedTuple):
    """A session record of a file.

    Attributes:
        line: Its line number, from 1.
        value: The record.
        span: Where its line begins and ends, without the line's end; bytes. None where it shares
            its line with others, or the file is in UTF-16 or UTF-32: such a row is not written to.
        wanted: What it says of its session; None where it names none.
        why: Why it names none.
    """

    line: int
    value: dict[str, Any]
    span: tuple[int, int] | None
    wanted: Wanted | None
    why: str | None = None

    @property
    def is_missing(self) -> bool:
        """No transcript stands where it says, or it says nothing."""
        path = reference_of(self.value)[1]
        return path is None or not os.path.isfile(path)  # noqa: PTH113 - False for whatever cannot be asked


class Rows(NamedTuple):
    """What a file of session records holds.

    Attributes:
        rows: The records, in the order of the file.
        problems: What could not be read.
    """

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]


def rows_of(data: bytes, path: str) -> Rows:
    """Return the rows of a file.

    Args:
        data: Its bytes.
        path: Where it stands: one in `state/sessions` belongs to the workspace around that.
    """
    workspace = workspace_of(path)
    rows: list[Row] = []
    problems: list[Problem] = []
    if data.startswith(_WIDE) or b"\0" in data[:4]:
        _take(objects_of(io.BytesIO(data)), 0, workspace, rows, problems)
        return Rows(tuple(rows), tuple(problems))
    at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        _read(line, number, at, workspace, rows, problems)
        at += len(line) + 1
    return Rows(tuple(rows), tuple(problems))


def workspace_of(path: str) -> str | None:
    """Return the workspace that a file of records belongs to; None where its place does not show one."""
    folder = Path(path).absolute().parent
    return str(folder.parents[1]) if folder.parts[-2:] == _STORE else None


def _read(line: bytes, number: int, at: int, workspace: str | None, rows: list[Row], problems: list[Problem]) -> None:
    text = line.decode("utf-8", "surrogateescape").strip(" \t\r\ufeff")
    if not text:
        return
    try:
        value = content.parse_json(text)
    except InvalidEventError:
        _take(objects_of(io.BytesIO(line)), number - 1, workspace, rows, problems)
        return
    if isinstance(value, dict):
        rows.append(_row(value, number, (at, at + len(line)), workspace))
    else:
        problems.append(Problem(number, "Expected a session record, got other JSON"))


def _take(items: Any, before: int, workspace: str | None, rows: list[Row], problems: list[Problem]) -> None:  # noqa: ANN401 - what `objects_of` yields
    """Add the rest of a line that is not one object; no reader sees such rows, so none is written to."""
    for item in items:
        line = None if item.line is None else item.line + before
        if isinstance(item, Found):
            rows.append(_row(item.value, item.line + before, None, workspace))
        elif item.lost:
            problems.append(Problem(line, item.what))


def _row(value: dict[str, Any], line: int, span: tuple[int, int] | None, workspace: str | None) -> Row:
    try:
        return Row(line, value, span, of_row(value, workspace))
    except InvalidEventError as error:
        return Row(line, value, span, None, error.what)
