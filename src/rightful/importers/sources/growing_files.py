"""Files that grow: read from a place in them on, one line at a time, as far as they are whole.

A tool appends to its transcript while we read it, so the last line may be torn, or end without a
newline. What of it is a whole JSON object is read, and what is written behind it later, on the same
line, is read then. What is torn waits, which is no problem. Reading every prefix of a file in turn,
each from where the last reading stopped, yields the objects of reading it once.

Only a newline byte ends a line, and a line is never held beyond the limit. What a line says is read
with msgspec where that is certain to say the same as `content.parse_json`, and by that otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from rightful import content, limits
from rightful.importers.sources.text_files import Found, OpenFile, Problem, leading, of_line, opened

WAITS = "the last line is incomplete or still being written; the next import reads it"
"""What is said of a last line that is not whole."""

_CHUNK = 1 << 20
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Readable(Protocol):
    """Bytes that come one after the other."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, and none at the end."""


class Place(msgspec.Struct, frozen=True):
    """A place in a file.

    Attributes:
        offset: How many bytes stand before it.
        line: The line that it is in, from 1.
        start: Where that line begins; less than `offset` in the midst of a line. Bytes.
    """

    offset: int = 0
    line: int = 1
    start: int = 0


class Lines:
    """The objects of a file that grows, and its problems, from a place on.

    Args:
        stream: The file's bytes, standing at that place.
        place: The place.
        limit: The longest line that is read; bytes. Of a longer one the whole objects within the
            limit are taken, and the rest is a problem.

    Attributes:
        limit: The longest line that is read; bytes.
    """

    def __init__(self, stream: Readable, place: Place | None = None, *, limit: int = limits.EVENT_BYTES) -> None:
        self._stream = stream
        self.limit = limit
        place = place or Place()
        self._offset, self._line, self._start = place.offset, place.line, place.start
        self._settled = True

    @property
    def offset(self) -> int:
        """How much of the file is behind what was yielded; bytes."""
        return self._offset

    @property
    def place(self) -> Place | None:
        """Behind all that was yielded so far; None while a line has more to yield."""
        return Place(self._offset, self._line, self._start) if self._settled else None

    def __iter__(self) -> Iterator[Found | Problem]:
        """Yield objects and problems; `place` is behind what was yielded last."""
        try:
            yield from self._items()
        except OSError as error:
            yield Problem(self._line, f"could not be read: {error.strerror}")

    def _items(self) -> Iterator[Found | Problem]:
        open_line, over = b"", 0  # `over`: bytes of it beyond the limit, which are not kept
        while chunk := self._stream.read(_CHUNK):
            lines = chunk.split(b"\n")
            tail = lines.pop()
            for line in lines:
                if open_line or over:
                    line, over = self._kept(open_line, line, over)  # noqa: PLW2901 - its beginning is put back before it
                    open_line = b""
                yield from self._of_whole(line, over)
                over = 0
            open_line, over = self._kept(open_line, tail, over)
        if open_line or over:
            yield from self._of_open(open_line, over)

    def _kept(self, begun: bytes, more: bytes, over: int) -> tuple[bytes, int]:
        """Return as much of a line as is within the limit, and how many bytes are beyond it."""
        length = len(begun) + len(more) + over
        room = max(self.limit - (self._offset - self._start), 0)
        return (begun if over else (begun + more)[:room]), max(length - room, 0)

    def _of_whole(self, line: bytes, over: int) -> Iterator[Found | Problem]:
        number, end = self._line, self._offset + len(line) + over + 1
        room = max(self.limit - (self._offset - self._start), 0)
        is_long = over > 0 or len(line) > room
        if not is_long and (value := _certain(line)) is not None:
            self._offset, self._line, self._start = end, number + 1, end
            yield Found(number, value)
            return
        if is_long:
            items = [item for item, _ in leading(line[:room], number)]
            items.append(Problem(number, f"longer than {self.limit} bytes; not read"))
        else:
            items = list(of_line(line, number))
        self._settled = False
        yield from items[:-1]
        self._settled = True
        self._offset, self._line, self._start = end, number + 1, end
        yield from items[-1:]

    def _of_open(self, line: bytes, over: int) -> Iterator[Found | Problem]:
        taken = list(leading(line, self._line))
        begin = self._offset
        for item, end in taken:
            self._offset = begin + end
            yield item
        if over or line[self._offset - begin :].strip():
            yield Problem(self._line, WAITS, lost=False)


def is_settled(path: Path, mtime_us: int | None) -> bool:
    """Say whether a file is whole, and is what it was when it was opened.

    Args:
        path: The file.
        mtime_us: When it was last written, as it was opened; microseconds since 1970.
    """
    try:
        with opened(str(path)) as file:
            return file.mtime_us == mtime_us and is_whole(file)
    except OSError:
        return False


def is_whole(file: OpenFile) -> bool:
    """Say whether an open file ends with a whole line; its stream stands at its end then."""
    file.stream.seek(max(file.size - 1, 0))
    return file.stream.read() == b"\n"


def _certain(line: bytes) -> dict[str, object] | None:
    """Return the object of a line where msgspec surely reads what `content.parse_json` would.

    They differ in a key that stands twice alone, which msgspec does not see. A line that comes out
    as it went in has none.
    """
    if content.has_too_many_values(line):
        return None
    try:
        value = _decode(line)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict and _encode(value) == line else None
