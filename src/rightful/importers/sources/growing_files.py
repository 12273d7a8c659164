"""Read growing files from a place on, line by line, as far as they are complete.

A tool appends to its transcript while it is read, so the last line may be incomplete, or end without a newline. A
complete JSON object on it is read; what is written after it on the same line is read by the next import. An
incomplete object waits, which is not a problem. What can never become an object is a problem of every reading until
the file changes. Reading a file in several steps, each from where the last one stopped, yields the same objects as
reading it once.

Only a newline byte ends a line, and no more of a line than the limit is held in memory. A line is parsed with msgspec
if the result is certain to equal that of `content.parse_json`, and with that function otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rightful import content, limits
from rightful.importers.sources.text_files import (
    Found,
    OpenFile,
    Problem,
    Readable,
    incomplete_line_problem,
    leading,
    of_line,
    opened,
)

WAITS = "the last line is incomplete or still being written; the next import reads it"
"""The note on an incomplete last line."""

_CHUNK = 1 << 20
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Place(msgspec.Struct, frozen=True):
    """A place in a file.

    Attributes:
        offset: The number of bytes before it.
        line: The line that it is in, from 1.
        start: The offset at which that line begins; less than `offset` in the middle of a line.
    """

    offset: int = 0
    line: int = 1
    start: int = 0


class Lines:
    """The objects and problems of a growing file, from a place on.

    Args:
        stream: The file's bytes, positioned at that place.
        place: The place.
        limit: The longest line that is read; bytes. Of a longer line the complete objects within the limit are
            read, and the rest is a problem.

    Attributes:
        limit: The longest line that is read; bytes.
        offset: The offset after the object that was yielded last; bytes.
        ends_unreadable: Whether the file ends in an incomplete line that can never become an object. The place is
            before it, so the next reading yields the same problem.
    """

    def __init__(self, stream: Readable, place: Place | None = None, *, limit: int = limits.EVENT_BYTES) -> None:
        self._stream = stream
        self.limit = limit
        place = place or Place()
        self.offset, self._line, self._start = place.offset, place.line, place.start
        self._settled = True
        self.ends_unreadable = False

    @property
    def place(self) -> Place | None:
        """The place after everything yielded so far; None while a line has more to yield."""
        return Place(self.offset, self._line, self._start) if self._settled else None

    def __iter__(self) -> Iterator[Found | Problem]:
        """Yield objects and problems; `place` is after the one yielded last."""
        open_line, over = b"", 0  # `over`: number of its bytes beyond the limit, which are dropped
        try:
            while chunk := self._stream.read(_CHUNK):
                lines = chunk.split(b"\n")
                tail = lines.pop()
                for line in lines:
                    if open_line or over:
                        line, over = self._kept(open_line, line, over)  # noqa: PLW2901 - its beginning is put back
                        open_line = b""
                    is_long = over > 0 or len(line) > max(self.limit - self.offset + self._start, 0)
                    if not is_long and (value := _certain(line)) is not None:
                        number, self.offset = self._line, self.offset + len(line) + 1
                        self._line, self._start = number + 1, self.offset
                        yield Found(number, value)
                    else:
                        yield from self._of_whole(line, over, is_long=is_long)
                        over = 0
                open_line, over = self._kept(open_line, tail, over)
            if open_line or over:
                yield from self._of_open(open_line, over)
        except OSError as error:
            yield Problem(self._line, f"could not be read: {error.strerror}")

    def _kept(self, begun: bytes, more: bytes, over: int) -> tuple[bytes, int]:
        """Return the part of a line within the limit, and the number of bytes beyond it."""
        length = len(begun) + len(more) + over
        room = max(self.limit - (self.offset - self._start), 0)
        return (begun if over else (begun + more)[:room]), max(length - room, 0)

    def _of_whole(self, line: bytes, over: int, *, is_long: bool) -> Iterator[Found | Problem]:
        number, end = self._line, self.offset + len(line) + over + 1
        if is_long:
            items = [item for item, _ in leading(line[: max(self.limit - self.offset + self._start, 0)], number)]
            items.append(Problem(number, f"longer than {self.limit} bytes; not read"))
        else:
            items = list(of_line(line, number))
        self._settled = False
        yield from items[:-1]
        self._settled = True
        self.offset, self._line, self._start = end, number + 1, end
        yield from items[-1:]

    def _of_open(self, line: bytes, over: int) -> Iterator[Found | Problem]:
        taken = list(leading(line, self._line))
        begin = self.offset
        for item, end in taken:
            self.offset = begin + end
            yield item
        rest = line[self.offset - begin :]
        too_long = Problem(self._line, f"longer than {self.limit} bytes; not read") if over else None
        if problem := too_long or incomplete_line_problem(rest, self._line):
            self.ends_unreadable = True
            yield problem
        elif rest.strip():
            yield Problem(self._line, WAITS, lost=False)


def is_settled(path: Path, mtime_us: int | None) -> bool:
    """Return whether a file ends with a complete line and has not changed since it was opened.

    Args:
        path: The file.
        mtime_us: Its modification time when it was opened; microseconds since 1970.
    """
    try:
        with opened(str(path)) as file:
            return file.mtime_us == mtime_us and is_whole(file)
    except OSError:
        return False


def is_whole(file: OpenFile) -> bool:
    """Return whether an open file ends with a complete line; moves its stream to the end."""
    file.stream.seek(max(file.size - 1, 0))
    return file.stream.read() == b"\n"


def _certain(line: bytes) -> dict[str, object] | None:
    """Return the object of a line if msgspec certainly reads the same as `content.parse_json`; else None.

    They differ only in duplicate keys, which msgspec does not detect. A line that msgspec encodes back to the same
    bytes has none.
    """
    if len(line) > limits.JSON_VALUES and content.has_too_many_values(line):
        return None
    try:
        value = _decode(line)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict and _encode(value) == line else None
