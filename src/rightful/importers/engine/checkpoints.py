"""Where the import of a file that grows stopped, kept so that only what grew is read the next time.

Checkpoints are a cache: below `imports/` in the ledger's folder, one small file for each kind and
real path. All of them may be deleted at any time; the files are then read from their beginning, which
adds nothing, since an event's id comes from what the file says. One is written after the commit of the
events it stands for, so a killed import reads a part again and never leaves one out.

A newer reader (`READER_VERSION` of its kind) reads a file again that an older one has read; see `renewal`.

None is trusted. What is damaged, of another version of the program, of another ledger, or of rows that
the ledger does not have (it was restored from a backup) counts as missing. Reading goes on only where
the file still begins with what was read:

- a file that is only ever appended to: it is the same file (device and inode), no shorter, and the
  digests of its head and of the 64 KiB before that place are the same. A change in between, of as many
  bytes, in place, is not seen: no tool makes one, and `import --again` reads all of it;
- a file that may be rewritten: the digest of all that was read is the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from rightful import limits
from rightful.errors import DamagedRowError
from rightful.importers.engine.renewal import Derived, Renewal
from rightful.importers.sources.growing_files import Lines, Place, Readable
from rightful.importers.sources.text_files import OpenFile, Problem, opened

if TYPE_CHECKING:
    from rightful.importers.engine.formats import GrowingKind
    from rightful.log.log import Log

FOLDER = "imports"
"""Its name in a ledger's folder."""

VERSION = 1
"""Version of this form; raised by any change of what is kept or how."""

EDGE_BYTES = 1 << 16
"""How much of the head, and before the place, is compared of a file that is only appended to; bytes."""

_NAME_DIGITS = 32
_CHECK_BYTES = 65  # SHA-256 in hexadecimal, and a newline
_CHUNK = 1 << 20
_TORN_S = 3_600
_DAY_S = 86_400


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read, and by what it is known again.

    Attributes:
        version: The form, and the program that wrote it: a newer one may take more of the same lines.
        reader: The version of the reader; 1 where an earlier program wrote it.
        form: The form of the reader's state.
        kind: The kind it was read as.
        path: Its real path; surrogates are escaped.
        ledger: The id of the ledger that holds what was read.
        head: A position of that ledger up to which all of it stands.
        anchor: The commitment of the row there, which no other row has.
        file: Device and inode.
        place: Where reading goes on.
        size: How much was read, the torn last line included; bytes.
        edges: The digests of the head and of what stands before the place; of a rewritten file the
            digest of all that was read.
        lost: How many problems were reported up to there.
        derived: The positions of what it derives: ranges, both ends in them.
        state: What its reader said.
    """

    version: str
    form: int
    kind: str
    path: str
    ledger: str
    head: int
    anchor: str
    file: tuple[int, int]
    place: Place
    size: int
    edges: list[str]
    lost: int
    state: dict[str, Any]
    reader: int = 1
    derived: list[tuple[int, int]] = []


_decoder = msgspec.json.Decoder(Checkpoint)


class Checkpoints:
    """The checkpoints of one ledger.

    Args:
        folder: Where they are kept; made when one is written first.
        ledger: The ledger's id.
        log: Its log.
        again: Read every file from its beginning, whatever is kept.
    """

    def __init__(self, folder: Path, ledger: str, log: Log, *, again: bool = False) -> None:
        self.folder = folder
        self.ledger = ledger
        self.again = again
        self._log = log
        self._version = f"{VERSION}/{_program()}"
        self._derived: dict[str, Derived] = {}
        self._is_reported = self._swept = False

    def load(self, kind: GrowingKind, path: str) -> Checkpoint | None:
        """Return what is kept of a file, if it can be used with this ledger; None otherwise."""
        found = self._found(kind, path)
        wanted = (self._version, _form(kind), reader_version(kind))
        return found if found is not None and (found.version, found.form, found.reader) == wanted else None

    def older(self, kind: GrowingKind, path: str) -> Checkpoint | None:
        """Return what an older reader kept of a file in this ledger; nothing can be read on from there."""
        found = self._found(kind, path)
        return found if found is not None and found.reader < reader_version(kind) else None

    def renewal(self, kind: GrowingKind, older: Checkpoint) -> Renewal:
        """Return what finds the events that an older reader derived from a file and a newer one does not."""
        is_rewritten = kind.GROWS == "rewritten"
        readers, until = (older.reader, reader_version(kind)), older.place.offset
        return Renewal(self._log, self.derived(kind), older.head, until, readers, is_rewritten=is_rewritten)

    def derived(self, kind: GrowingKind) -> Derived:
        """Return what the files of a kind derive, as this version reads them."""
        if kind.NAME not in self._derived:
            self._derived[kind.NAME] = Derived(self._log, lambda: self._kept_ranges(kind))
        return self._derived[kind.NAME]

    def _kept_ranges(self, kind: GrowingKind) -> Iterator[tuple[int, int]]:
        try:
            names = [path.name for path in self.folder.iterdir() if path.suffix == ".json"]
        except OSError:
            return
        for name in names:
            kept = self._read(name)
            if kept is not None and (kept.kind, kept.ledger, kept.reader) == (
                kind.NAME,
                self.ledger,
                reader_version(kind),
            ):
                yield from kept.derived

    def is_of_newer(self, kind: GrowingKind, path: str) -> bool:
        """Return whether a newer reader than this program's has read a file."""
        found = self._found(kind, path)
        return found is not None and found.reader > reader_version(kind)

    def drop(self, kind: GrowingKind, path: str) -> None:
        """Remove what is kept of a file as one of a kind; it is a cache, so a failure costs only time."""
        with contextlib.suppress(OSError):
            (self.folder / _name(kind, Path(path).resolve())).unlink(missing_ok=True)

    def _found(self, kind: GrowingKind, path: str) -> Checkpoint | None:
        real = Path(path).resolve()
        found = self._read(_name(kind, real))
        if found is None or (found.kind, found.path, found.ledger) != (kind.NAME, _path_text(real), self.ledger):
            return None
        return found if self._is_in_ledger(found) else None

    def _read(self, name: str) -> Checkpoint | None:
        """Return the checkpoint in a file; None where it is damaged or of another form."""
        try:
            with opened(str(self.folder / name), follow=False) as file:
                check, _, data = file.stream.read(limits.CHECKPOINT_BYTES + _CHECK_BYTES).partition(b"\n")
            if hashlib.sha256(data).hexdigest().encode() != check:
                return None
            found = _decoder.decode(data)
        except (OSError, ValueError, RecursionError):
            return None
        return found if found.version.partition("/")[0] == str(VERSION) else None

    def _is_in_ledger(self, kept: Checkpoint) -> bool:
        """Say whether the ledger has the rows that it had when this was kept."""
        try:
            return kept.head <= self._log.head() and self._anchor(kept.head) == kept.anchor
        except DamagedRowError:
            return False

    def _anchor(self, position: int) -> str:
        return next(iter(self._log.scan(position - 1, position)))[0].envelope.commitment if position else ""

    def save(
        self,
        kind: GrowingKind,
        reading: Reading,
        state: dict[str, Any],
        lost: int,
        derived: Sequence[tuple[int, int]] = (),
    ) -> Problem | None:
        """Keep how far a file was read, once its events are in the ledger.

        Returns:
            Why that could not be done, the first time; nothing is lost by it but time.
        """
        try:
            extent = reading.extent()
            facts = os.fstat(reading.file.stream.fileno())
        except OSError as error:
            return self._problem_once(f"could not be stored: {error.strerror}")
        if extent is None:
            return None
        real, head = Path(reading.file.path).resolve(), self._log.head()
        checkpoint = Checkpoint(
            version=self._version,
            form=_form(kind),
            kind=kind.NAME,
            path=_path_text(real),
            ledger=self.ledger,
            head=head,
            anchor=self._anchor(head),
            file=(facts.st_dev, facts.st_ino),
            place=extent.place,
            size=extent.size,
            edges=extent.edges,
            lost=lost,
            state=state,
            reader=reader_version(kind),
            derived=list(derived),
        )
        try:
            self._write(_name(kind, real), checkpoint)
        except OSError as error:
            return self._problem_once(f"could not be stored: {error.strerror or error}")
        except ValueError as error:
            return self._problem_once(f"could not be stored: {error}")
        return None

    def _write(self, name: str, checkpoint: Checkpoint) -> None:
        data = msgspec.json.encode(checkpoint)
        data = hashlib.sha256(data).hexdigest().encode() + b"\n" + data
        if len(data) > limits.CHECKPOINT_BYTES + _CHECK_BYTES:
            raise ValueError(f"the reader's state is larger than {limits.CHECKPOINT_BYTES} bytes")
        from rightful.importers.sources.private_folder import private_folder

        folder = Path(private_folder(str(self.folder)))
        if not self._swept:
            self._swept = True
            _sweep(folder, time.time())
        _write_atomically(folder, name, data)

    def _problem_once(self, why: str) -> Problem | None:
        if self._is_reported:
            return None
        self._is_reported = True
        return Problem(None, f"the file's checkpoint {why}; the next import reads all of the file", lost=False)


class ReadExtent(NamedTuple):
    """What a checkpoint says of a file: the place, how much was read, and the digests."""

    place: Place
    size: int
    edges: list[str]


class Reading:
    """The reading of one growing file, from where the last one stopped if the file is still what it was.

    Args:
        file: The file, open at its beginning.
        is_rewritten: Whether its tool may write it anew.
        kept: How far it was read.
        limit: The longest line that is read; bytes.

    Attributes:
        file: The file.
        begin: The place it is read from.
        lines: Its objects and problems from there on.
        fits: Whether the file still begins with what was read. True where nothing is kept.
    """

    def __init__(
        self, file: OpenFile, kept: Checkpoint | None, *, is_rewritten: bool, limit: int = limits.EVENT_BYTES
    ) -> None:
        self.file = file
        self._all = _DigestingStream(file.stream) if is_rewritten else None
        behind = None if kept is None else self._stream_from(kept)
        self.fits = kept is None or behind is not None
        self.begin = kept.place if kept is not None and behind is not None else Place()
        if behind is None:
            file.stream.seek(0)
            self._all = None if self._all is None else _DigestingStream(file.stream)
        self.lines = Lines(behind or self._all or file.stream, self.begin, limit=limit)

    def _stream_from(self, kept: Checkpoint) -> Readable | None:
        """Return the file's bytes from the place on, if it still begins with what was read."""
        stream, place = self.file.stream, kept.place
        if self._all is not None:
            rest = self._all.taken(kept.size, place.offset)
            return _Prefixed(rest, self._all) if rest is not None and [self._all.digest()] == kept.edges else None
        facts = os.fstat(stream.fileno())
        if (facts.st_dev, facts.st_ino) != kept.file or facts.st_size < place.offset:
            return None
        if _edges(stream, place.offset) != kept.edges:
            return None
        stream.seek(place.offset)
        return stream

    def restarted(self) -> Reading:
        """Return the reading of the whole file."""
        return Reading(self.file, None, is_rewritten=self._all is not None, limit=self.lines.limit)

    def extent(self) -> ReadExtent | None:
        """Return how far it was read and what it is known by; None where it cannot be known now."""
        place = self.lines.place
        if place is None:
            return None
        if self._all is None:
            return ReadExtent(place, place.offset, _edges(self.file.stream, place.offset))
        if self._all.size - place.offset > limits.EVENT_BYTES:
            return None  # what stands behind the place is held when reading goes on
        return ReadExtent(place, self._all.size, [self._all.digest()])

    @property
    def digest(self) -> str:
        """SHA-256 of all that was read of a file that may be rewritten, in hexadecimal; empty for others."""
        return "" if self._all is None else self._all.digest()


class _DigestingStream:
    """A stream that takes the digest of all that is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._sha256 = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._sha256.update(data)
        self.size += len(data)
        return data

    def taken(self, size: int, offset: int) -> bytes | None:
        """Read the first bytes and return those from an offset on; None if there are not so many."""
        while left := min(offset - self.size, _CHUNK):
            if not self.read(left):
                return None
        rest = []
        while left := min(size - self.size, _CHUNK):
            rest.append(self.read(left))
            if not rest[-1]:
                return None
        return b"".join(rest)

    def digest(self) -> str:
        return self._sha256.hexdigest()


class _Prefixed:
    """Bytes that were read already, and then the stream behind them."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head, b""
        return head or self._stream.read(size)


def _edges(stream: BinaryIO, offset: int) -> list[str]:
    fd = stream.fileno()
    parts = ((0, min(offset, EDGE_BYTES)), (max(offset - EDGE_BYTES, 0), offset))
    return [hashlib.sha256(os.pread(fd, end - begin, begin)).hexdigest() for begin, end in parts]


def _path_text(real: Path) -> str:
    """Return a path as text that JSON can hold."""
    return os.fsencode(real).decode("utf-8", "backslashreplace")


def _name(kind: GrowingKind, real: Path) -> str:
    digest = hashlib.sha256(json.dumps([kind.NAME, ""]).encode() + os.fsencode(real)).hexdigest()
    return f"{digest[:_NAME_DIGITS]}.json"


def _form(kind: GrowingKind) -> int:
    return int(getattr(kind, "STATE_VERSION", 1))


def reader_version(kind: GrowingKind) -> int:
    """Return the version of a kind's reader: what it derives from the same bytes."""
    return int(getattr(kind, "READER_VERSION", 1))


def _program() -> str:
    from importlib import metadata  # it loads half of the mail library

    try:
        return metadata.version("rightful")
    except metadata.PackageNotFoundError:
        return "0"


def _sweep(folder: Path, now_s: float) -> None:
    """Remove what killed imports had begun to write, and checkpoints of files that did not grow for long.

    Most of these files are gone; one that is not is read from its beginning once, if it is imported again.
    """
    for path in folder.iterdir():
        longest_s = _TORN_S if path.name.startswith(".") else limits.CHECKPOINT_DAYS * _DAY_S
        with contextlib.suppress(OSError):
            if now_s - path.lstat().st_mtime > longest_s:
                path.unlink()


def _write_atomically(folder: Path, name: str, data: bytes) -> None:
    """Write a file that is there whole or not at all. It need not outlive a loss of power: it is a cache.

    Raises:
        OSError: It cannot be written.
    """
    half = folder / f".{os.urandom(4).hex()}-{name}"
    try:
        with _create_private(half) as file:
            file.write(data)
        half.rename(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            half.unlink()
        raise


def _create_private(path: Path) -> BinaryIO:
    """Make a file that is its owner's alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
