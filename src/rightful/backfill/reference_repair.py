"""Write repaired references into a file of session records, without changing any other byte.

The order, under the lock that gptme-sessions takes (`<file>.lock`): the file is compared with what
was searched for, its bytes are kept in the same folder under their hash, and the new bytes are exchanged
with it in one step. A kill at any moment leaves the old file or the new one, and a repeated call
continues. Only the value of a row's reference is replaced, or added before its last brace.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rightful.backfill import target_file
from rightful.backfill.target_file import FileState
from rightful.errors import TargetChangedError
from rightful.locate.record_lines import RecordRow
from rightful.locate.wanted_sessions import reference_of

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_int=str)
_AGAIN = "Nothing was written. Run the command again."
_NAME_DIGITS = 16


class Repair(Struct, frozen=True, kw_only=True):
    """What writing references back did.

    Attributes:
        lines: The lines that were repaired, from 1.
        glued: Lines with an owner that were left, since they hold several objects and no reader sees them.
        backup: Where the bytes of before are kept; None where nothing was written.
        sha256: SHA-256 of the present bytes.
        left: The path of bytes that only an interrupted write had left; they are kept.
    """

    lines: tuple[int, ...] = ()
    glued: tuple[int, ...] = ()
    backup: str | None = None
    sha256: str = ""
    left: str | None = None


def write_back(path: str, looked: FileState, rows: tuple[RecordRow, ...], owners: Mapping[str, str]) -> Repair:
    """Write the transcripts that have an owner into the rows that miss them.

    Args:
        path: The file of session records.
        looked: The file as it was searched.
        rows: Its rows that miss their transcript.
        owners: The path of the transcript, by session.

    Raises:
        TargetChangedError: The file is not what was searched for any more. Nothing was written.
        BackfillRefusedError: It has hard links, which would keep the old bytes. Nothing was written.
        StorageError: The system failed. The file is the old one or the new one; the same call goes on.
    """
    real = target_file.resolved(path)
    able = [row for row in rows if row.session is not None and row.session.name in owners]
    edits = [(row, owners[row.session.name]) for row in able if row.span is not None and row.session is not None]
    glued = tuple(sorted({row.line for row in able if row.span is None}))
    data = _edit_rows(looked.data or b"", edits)
    with target_file.locked(real, "repaired", as_tool=True):
        left = _remove_leftover(real, data)
        seen = target_file.read_state(real)
        if seen.sha256 != looked.sha256:
            raise TargetChangedError(real, "another program wrote it during the search", _AGAIN)
        if data == (seen.data or b""):
            target_file.sync(real)
            return Repair(glued=glued, sha256=looked.sha256 or "", left=left)
        target_file.check_writable(real, seen)
        target_file.check_alone(real, seen)
        backup = _keep_copy(real, seen.data or b"", seen)
        target_file.place(real, data, seen, lambda other: _keep_copy(real, other, seen))
    lines = tuple(row.line for row, _ in edits)
    return Repair(lines=lines, glued=glued, backup=backup, sha256=target_file.sha256(data), left=left)


def _remove_leftover(real: str, new: bytes) -> str | None:
    """Remove the temporary file of a killed process; return the path of its bytes if they had to be kept."""
    left = target_file.read_state(target_file.temporary_path(real))
    if left.data is None:
        return None
    where = None
    if not new.startswith(left.data) and not Path(_backup_name(real, left.data)).is_file():
        where = _keep_copy(real, left.data, left)
    target_file.drop(target_file.temporary_path(real))
    return where


def _backup_name(real: str, data: bytes) -> str:
    return f"{real}.{target_file.sha256(data)[:_NAME_DIGITS]}.bak"


def _keep_copy(real: str, data: bytes, like: FileState) -> str:
    """Store bytes durably in the same folder under their hash, unless they are already there."""
    name = _backup_name(real, data)
    if target_file.read_state(name).data != data:
        target_file.write_aside(name, data, like)
        target_file.sync(name)
    return name


def _edit_rows(data: bytes, edits: list[tuple[RecordRow, str]]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for row, path in edits:
        assert row.span is not None
        start, end = row.span
        parts += [data[at:start], repaired(data[start:end], reference_of(row.value)[0], path)]
        at = end
    return b"".join([*parts, data[at:]])


def repaired(line: bytes, field: str, path: str) -> bytes:
    """Return a row's line with its reference (`field`) replaced, or added as the last member; no other byte changes."""
    text = line.decode("utf-8", "surrogateescape")
    value = json.dumps(os.fspath(path))
    spans, end = _members(text, text.index("{"))
    if field in spans:
        first, last = spans[field]
        text = text[:first] + value + text[last:]
    else:
        comma, colon = (", ", ": ") if '": ' in text else (",", ":")
        text = f'{text[:end]}{comma * bool(spans)}"{field}"{colon}{value}{text[end:]}'
    return text.encode("utf-8", "surrogateescape")


def _members(text: str, start: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Return where the value of each member of an object begins and ends, and where the last one ends."""
    spans: dict[str, tuple[int, int]] = {}
    at = end = _skip_space(text, start + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        first = _skip_space(text, _skip_space(text, at) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(text, first)
        spans[name] = (first, end)
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return spans, end


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
