"""Lines of a file or a pipe, in batches: large enough to share a commit, and never held back."""

from __future__ import annotations

import io
import select
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from rightful import limits

_CHUNK_BYTES = 1 << 18


class Line(Struct, frozen=True):
    """One line that is not blank.

    Attributes:
        number: Which line it is, from 1, blank ones counted.
        text: Its bytes without the line's end; None when there are more than `limits.EVENT_BYTES`.
    """

    number: int
    text: bytes | None


def batches(file: BinaryIO) -> Iterator[list[Line]]:
    """Yield the lines of a file in batches of at most `limits.INGEST_EVENTS`.

    A batch ends early when it holds `limits.INGEST_BYTES`, and when a pipe has nothing more
    right now, so that what a slow producer wrote is not held back until it writes more.
    """
    batch: list[Line] = []
    held = 0
    for line in _lines(file):
        if line is not None:
            batch.append(line)
            held += len(line.text or b"")
        if batch and (line is None or len(batch) >= limits.INGEST_EVENTS or held >= limits.INGEST_BYTES):
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _lines(file: BinaryIO) -> Iterator[Line | None]:
    """Yield each line; None where the file has nothing more right now."""
    number, begun, too_long = 1, bytearray(), False
    while chunk := _read(file):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield from _line(number, begun, part, too_long=too_long)
            number, begun, too_long = number + 1, bytearray(), False
        begun += rest
        if len(begun) > limits.EVENT_BYTES:
            begun, too_long = bytearray(), True
        if _is_idle(file):
            yield None
    yield from _line(number, begun, b"", too_long=too_long)


def _read(file: BinaryIO) -> bytes:
    return file.read1(_CHUNK_BYTES) if isinstance(file, io.BufferedReader) else file.read(_CHUNK_BYTES)


def _line(number: int, begun: bytearray, part: bytes, *, too_long: bool) -> Iterator[Line]:
    if too_long or len(begun) + len(part) > limits.EVENT_BYTES:
        yield Line(number, None)
    elif text := (bytes(begun) + part).strip(b" \t\r"):
        yield Line(number, text)


def _is_idle(file: BinaryIO) -> bool:
    try:
        ready, _, _ = select.select([file], [], [], 0)
    except (OSError, ValueError, TypeError):
        return False  # no file that can be waited for: it is never idle
    return not ready
