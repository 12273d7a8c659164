"""Read JSON files of other programs line by line, without trusting them and without blocking.

A line ends only at a newline byte (U+2028 inside a text does not end a line). A line that cannot be read becomes a
`Problem` with its number, and the other lines are still read. One line may have several objects: gptme-sessions
appends to a last line that has no newline, which joins two rows, and a torn last line is joined to the next row in
the same way.

Only regular files are read, so a FIFO or a device never blocks.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from rightful import content, limits
from rightful.errors import InvalidEventError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

NO_OBJECT = "Expected `object`, got"
"""Prefix of the problem of valid JSON that is not an object."""

COMPRESSED = "compressed with zstd: decompress it (`zstd -d`) and import the result"
"""The problem of a file that Codex has compressed (`rollout-….jsonl.zst`)."""

HEAD_BYTES = 1 << 12
"""How much of a file is read to recognise its encoding and its format."""

_CHUNK = 1 << 16
_ZSTD = b"\x28\xb5\x2f\xfd"  # magic number of a frame (RFC 8878, 3.1.1)
_BRACKETS = (b"{", b"[")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BY_ZEROS = {b"\1\0\0\0": "utf-32-le", b"\0\0\0\1": "utf-32-be", b"\1\0\1\0": "utf-16-le", b"\0\1\0\1": "utf-16-be"}
_ROW = re.compile(rb'^\{[ \t]*"', re.MULTILINE)  # start of a JSON line, but of no line in an indented document
_TORN = re.compile(r'[\w.+-]*\x00*(?=\{")')
_GARBAGE = re.compile(
    r'[^"\[{]*(?<![:,])(?<![:,] )(?=\{")'
)  # not the inside of an object: that has a quote before a bracket
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_LITERALS = json.JSONDecoder(parse_int=str)
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_NUMBER_TAIL = re.compile(r"(?:\.|[eE][+-]?)\Z")
_ESCAPE_TAIL = re.compile(r"u[0-9a-fA-F]{0,4}\Z")  # json also refuses four digits at the very end


class Problem(NamedTuple):
    """A problem or a note of a file.

    Attributes:
        line: The line, from 1; None if it is about the file as a whole.
        what: The message.
        lost: Whether something that should have been imported was not. False for notes and for skipped files.
    """

    line: int | None
    what: str
    lost: bool = True


class Found(NamedTuple):
    """One JSON object of a file.

    Attributes:
        line: The line it begins on, from 1.
        value: The object.
    """

    line: int
    value: dict[str, Any]


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes; none at the end."""


class OpenFile(NamedTuple):
    """A regular file that is open for reading.

    Attributes:
        path: As it was named or found.
        stream: Its bytes.
        head: The first `HEAD_BYTES` of them.
        size: Its size when it was opened; bytes.
        mtime_us: When it was last written; microseconds since 1970, UTC.
    """

    path: str
    stream: BinaryIO
    head: bytes
    size: int
    mtime_us: int


class FileStamp(NamedTuple):
    """The metadata of a file, to detect changes without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int


def stamp_of(path: str, *, follow: bool = True) -> FileStamp | None:
    """Return the metadata of a file; None if there is none."""
    try:
        facts = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - the path is shown as it was given
    except (OSError, ValueError):  # the second: a NUL in the path
        return None
    return FileStamp(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@contextmanager
def opened(path: str, *, follow: bool = True) -> Iterator[OpenFile]:
    """Open a regular file for reading.

    Args:
        path: The file.
        follow: Whether its last component may be a symbolic link.

    Raises:
        OSError: It cannot be opened, is not a regular file, or is compressed.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        with named_errors(path):
            head = os.pread(stream.fileno(), HEAD_BYTES, 0)
        if head.startswith(_ZSTD):
            raise OSError(errno.EINVAL, COMPRESSED, path)
        yield OpenFile(path, stream, head, facts.st_size, facts.st_mtime_ns // 1_000)


@contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Add the file's name to errors of reading it; only errors of opening have it."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def is_lines(head: bytes) -> bool:
    """Return whether a file with these first bytes can later be read from the middle: JSON lines in UTF-8.

    That excludes a single indented document, and text in UTF-16 or UTF-32.
    """
    first, newline, _ = head.partition(b"\n")
    return _utf_16_or_32(head[:4]) is None and not (newline and first.strip() in _BRACKETS)


def objects_of(stream: BinaryIO, *, limit: int = limits.EVENT_BYTES) -> Iterator[Found | Problem]:
    """Yield the JSON objects of JSON lines, or of one indented JSON document, and the problems.

    Args:
        stream: Bytes: UTF-8 with or without byte order mark, with bad bytes (kept as lone
            surrogates), UTF-16 or UTF-32.
        limit: The longest line that is read; bytes.
    """
    number = 0
    try:
        reader = _as_utf8(stream)
        line = reader.readline(limit + 1)
        if line.strip() in _BRACKETS:
            data = line + reader.read(limit)
            if (items := _of_document(data, limit)) is not None:
                yield from items
                return
            reader = io.BufferedReader(PrefixedStream(reader, data))
            line = reader.readline(limit + 1)
        while line:
            number += 1
            if len(line) > limit and not line.endswith(b"\n"):
                yield Problem(number, f"longer than {limit} bytes; not read")
                while line and not line.endswith(b"\n"):
                    line = reader.readline(limit + 1)
            else:
                yield from of_line(line, number)
            line = reader.readline(limit + 1)
    except OSError as error:
        yield Problem(number + 1, f"could not be read: {error.strerror}")
        return
    if number == 0:
        yield Problem(None, "the file is empty", lost=False)


def _of_document(data: bytes, limit: int) -> Iterable[Found | Problem] | None:
    """Return the items of a file that is one JSON document over several lines; a broken one is one problem.

    Return None if it has JSON lines instead.
    """
    is_rows = _ROW.search(data) is not None
    if len(data) > limit:
        return None if is_rows else [Problem(1, f"longer than {limit} bytes; not read")]
    text = data.decode("utf-8", "surrogateescape").strip(" \t\r\n")
    if content.has_too_many_values(text):
        return None if is_rows else [Problem(1, content.TOO_MANY)]
    try:
        return [_object(content.parse_json(text), 1)]
    except InvalidEventError:
        return None if is_rows else _of_pieces(text, 1)


def of_line(line: bytes, number: int) -> Iterator[Found | Problem]:
    """Yield the items of a complete line: one object, several joined ones, torn ones, or none.

    Args:
        line: Its bytes: UTF-8; invalid bytes become lone surrogates.
        number: Its number, from 1.
    """
    text = line.decode("utf-8", "surrogateescape").strip(" \t\r\n\ufeff")
    if not text:
        return
    if content.has_too_many_values(text):
        yield Problem(number, content.TOO_MANY)
        return
    try:
        value = content.parse_json(text)
    except InvalidEventError:
        yield from _of_pieces(text, number)
    else:
        yield _object(value, number)


def leading(line: bytes, number: int) -> Iterator[tuple[Found | Problem, int]]:
    """Yield the complete objects at the start of a line, each with the byte offset of its end.

    Args:
        line: Its bytes, or the first of them.
        number: Its number, from 1.
    """
    if content.has_too_many_values(line):
        return
    text = line.decode("utf-8", "surrogateescape")
    at = end = 0
    while text.startswith("{", begin := _behind_space(text, at)):
        try:
            _, stop = _LITERALS.raw_decode(text, begin)
        except (json.JSONDecodeError, RecursionError):
            return
        end += len(text[at:stop].encode("utf-8", "surrogateescape"))
        at = stop
        yield _piece(text[begin:stop], number), end


def incomplete_line_problem(line: bytes, number: int) -> Problem | None:
    """Return why an incomplete line can never begin with an object, whatever is added to it; None if it can.

    Args:
        line: Its bytes, without the objects at its start.
        number: Its number, from 1.
    """
    text = line.decode("utf-8", "surrogateescape").strip(" \t\r\n\ufeff")
    if text.startswith("{") and not content.has_too_many_values(text):
        try:
            _LITERALS.raw_decode(text)
        except json.JSONDecodeError as error:
            if _is_cut_off(error):
                return None
        except RecursionError:
            pass
    return next((item for item in of_line(line, number) if isinstance(item, Problem)), None)


def _is_cut_off(error: json.JSONDecodeError) -> bool:
    """Return whether parsing failed only because the text ends too early, maybe within a word, number or escape."""
    rest = error.doc[error.pos :]
    if error.msg == "Expecting value":
        return any(word.startswith(rest) for word in _WORDS)
    if error.msg.startswith("Expecting ',' delimiter"):
        return not rest or (error.doc[error.pos - 1].isdigit() and _NUMBER_TAIL.match(rest) is not None)
    if error.msg.startswith("Invalid \\u"):
        return _ESCAPE_TAIL.match(rest) is not None
    return not rest or error.msg.startswith("Unterminated string")


def _behind_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _object(value: object, line: int) -> Found | Problem:
    if isinstance(value, dict):
        return Found(line, value)
    return Problem(line, f"{NO_OBJECT} `{content.json_type(value)}`")


def _of_pieces(text: str, number: int) -> Iterator[Found | Problem]:
    """Yield the items of a line that is not one JSON value: joined objects, torn ones, or none."""
    pieces, rest = _values(text, 0)
    items: list[Found | Problem] = [_piece(piece, number) for piece in pieces]
    if rest is not None:
        items.append(Problem(number, rest.why))
        items += [_piece(piece, number) for piece in _behind_torn(text, rest)]
    yield from items
    found = sum(isinstance(item, Found) for item in items)
    if found and len(items) > 1:
        yield Problem(number, f"several objects share this line; read from it: {found}", lost=False)


def _piece(text: str, number: int) -> Found | Problem:
    try:
        return _object(content.parse_json(text), number)
    except InvalidEventError as error:
        return Problem(number, error.what if error.place == "$" else str(error))  # `$` says nothing about a line


class _Rest(NamedTuple):
    """The unreadable rest of a line: where parsing stopped, why, and whether that was outside of any value."""

    stop: int
    why: str
    is_outside: bool


def _values(text: str, at: int) -> tuple[list[str], _Rest | None]:
    """Split a line into the texts of its JSON values, up to the part that cannot be parsed."""
    pieces: list[str] = []
    while at < len(text):
        try:
            _, end = _LITERALS.raw_decode(text, at)
        except json.JSONDecodeError as error:
            return pieces, _Rest(error.pos, _why(error), error.pos == at)
        except RecursionError:
            why = f"Expected JSON nested at most {limits.NESTING_DEPTH} levels deep"
            return pieces, _Rest(len(text), why, is_outside=False)
        pieces.append(text[at:end])
        at = _behind_space(text, end)
    return pieces, None


def _why(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc) or error.msg.startswith("Unterminated string"):
        return "Expected JSON, got a truncated line"
    line = f"line {error.lineno} " * (error.lineno > 1)
    return f"Expected JSON: {error.msg}, {line}column {error.colno}"


def _behind_torn(text: str, rest: _Rest) -> list[str]:
    """Return the objects joined after a torn one, but only if they cannot be a part of it.

    A `{` starts a new object if the grammar does not allow it there, or if it is in a string whose closing quote is
    really the first quote of the next object. So does a `{` after NULs, which a file system leaves after a power
    failure, or after other garbage at the start of a line or an object. Everything that follows must be complete
    objects; otherwise nothing is returned.
    """
    if text[rest.stop - 2 : rest.stop] == '{"':
        start = rest.stop - 2
    elif (torn := (_GARBAGE if rest.is_outside else _TORN).match(text, rest.stop)) is not None:
        start = torn.end()
    else:
        return []
    pieces, unread = _values(text, start)
    return pieces if unread is None and all(piece.startswith("{") for piece in pieces) else []


def _as_utf8(stream: BinaryIO) -> io.BufferedReader:
    """Return a stream's text as UTF-8 without byte order mark, whichever UTF encoding it has."""
    head = stream.read(4)
    encoding = _utf_16_or_32(head)
    source = PrefixedStream(stream, head.removeprefix(codecs.BOM_UTF8))
    if encoding is not None:
        source = PrefixedStream(source, b"", codecs.getincrementaldecoder(encoding)("replace"))
    return io.BufferedReader(source, _CHUNK)


def _utf_16_or_32(head: bytes) -> str | None:
    """Return the encoding that the first four bytes show by their byte order mark, or by the zeros of ASCII."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    return _BY_ZEROS.get(bytes(map(bool, head)))


class PrefixedStream(io.RawIOBase):
    """A stream preceded by bytes that were already read, converted to UTF-8 if a decoder is given."""

    def __init__(self, stream: Readable, head: bytes, decoder: codecs.IncrementalDecoder | None = None) -> None:
        self._stream = stream
        self._head = head
        self._decoder = decoder

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer with the next bytes; return their number, 0 at the end."""
        space = memoryview(buffer).cast("B")
        ended = False
        while not self._head and not ended:
            chunk = self._stream.read(_CHUNK) or b""
            ended = not chunk
            self._head = chunk if self._decoder is None else self._decoder.decode(chunk, ended).encode()
        count = min(len(space), len(self._head))
        space[:count] = self._head[:count]
        self._head = self._head[count:]
        return count


class Digested(io.RawIOBase):
    """A stream that computes the digest of the bytes read from it, so that nothing is read twice.

    Args:
        stream: The underlying stream.

    Attributes:
        size: The number of bytes read so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._sha256 = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer with the next bytes; return their number, 0 at the end."""
        space = memoryview(buffer).cast("B")
        chunk = self._stream.read(len(space))
        self._sha256.update(chunk)
        self.size += len(chunk)
        space[: len(chunk)] = chunk
        return len(chunk)

    def between(self, begin: int, end: int) -> bytes | None:
        """Read up to an offset and return the bytes from another one on; None if the stream is shorter."""
        rest = bytearray()
        while left := min((begin if self.size < begin else end) - self.size, _CHUNK):
            skips, data = self.size < begin, self.read(left)
            if not data:
                return None
            rest += b"" if skips else data
        return bytes(rest)

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes read so far, in hexadecimal."""
        return self._sha256.hexdigest()
