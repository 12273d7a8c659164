"""Checkpoints: where the import of a growing file stopped, so that the next import reads only the new part.

Checkpoints are a cache below `imports/` in the ledger's folder: one small file for each kind and real path. They may
be deleted at any time. The files are then read from their beginning, which adds nothing, since an event's id is
derived from the file's content. A checkpoint is written after the commit of its events, so an import that is killed
reads a part again and never omits one.

A newer reader (`READER_VERSION` of its kind) reads a file again that an older one has read; see `renewal`.

No checkpoint is trusted. One that is damaged, of another version of the program, of another ledger, or of rows that
the ledger does not have (it was restored from a backup) counts as missing. Reading continues only if the file still
begins with the bytes that were read:

- append-only files: it is the same file (device and inode), not shorter, and the digests of its head and of the
  64 KiB before the place are the same. An in-place change of equal length in between is not detected: no tool makes
  one, and `import --again` reads the whole file;
- files that may be rewritten: the digest of everything that was read is the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from rightful import limits
from rightful.errors import DamagedRowError
from rightful.importers.engine.formats import REWRITTEN
from rightful.importers.engine.renewal import Derived, Renewal
from rightful.importers.sources.growing_files import Lines, Place
from rightful.importers.sources.text_files import (
    Digested,
    OpenFile,
    PrefixedStream,
    Problem,
    Readable,
    named_errors,
    opened,
)

if TYPE_CHECKING:
    from rightful.importers.engine.formats import GrowingKind
    from rightful.log.log import Log

FOLDER = "imports"
"""Its name in a ledger's folder."""

VERSION = 1
"""Version of the checkpoint format; raise it with every change of the format."""

EDGE_BYTES = 1 << 16
"""How many bytes of the head, and before the place, are compared in an append-only file."""

_NAME_DIGITS = 32
_CHECK_BYTES = 65  # SHA-256 in hexadecimal, and a newline
_TORN_S = 3_600
_DAY_S = 86_400


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read, and how it is recognised again.

    Attributes:
        version: The checkpoint format and the program version: a newer program may derive more from the same lines.
        reader: The version of the reader; 1 if an earlier program wrote the checkpoint.
        form: The version of the reader's state.
        kind: The kind it was read as.
        path: Its real path; surrogates are escaped.
        ledger: The id of the ledger that has its events.
        head: A position of that ledger up to which all of them are stored.
        anchor: The commitment of the row at `head`, which is unique.
        file: Device and inode.
        place: Where reading continues.
        size: How many bytes were read, including an incomplete last line.
        edges: The digests of the head and of the bytes before the place; for a file that may be rewritten, the
            digest of everything that was read.
        lost: The number of problems before the place.
        conflicts: How many of them are events in conflict.
        derived: The positions of its events, as inclusive ranges.
        state: The state of its reader.
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
    conflicts: int = 0


_decoder = msgspec.json.Decoder(Checkpoint)


class Checkpoints:
    """The checkpoints of one ledger.

    Args:
        folder: The folder of the checkpoints; created with the first one.
        ledger: The ledger's id.
        log: Its log.
        again: Read every file from its beginning, ignoring checkpoints.
    """

    def __init__(self, folder: Path, ledger: str, log: Log, *, again: bool = False) -> None:
        self.folder = folder
        self.ledger = ledger
        self.again = again
        self._log = log
        self._version = f"{VERSION}/{_program()}"
        self._derived: dict[str, Derived] = {}
        self._is_reported = self._swept = False

    def find(self, kinds: Iterable[GrowingKind], path: str) -> Iterator[tuple[GrowingKind, Checkpoint]]:
        """Yield the checkpoints of a file that fit this ledger, whichever reader wrote them."""
        real = Path(path).resolve()
        for kind, name in _names(kinds, real):
            kept = self._read(name) if (self.folder / name).is_file() else None
            if kept is None or (kept.kind, kept.path, kept.ledger) != (kind.NAME, _path_text(real), self.ledger):
                continue
            if self._is_in_ledger(kept):
                yield kind, kept

    def is_current(self, kind: GrowingKind, kept: Checkpoint) -> bool:
        """Return whether this program can continue from a checkpoint."""
        return (kept.version, kept.form, kept.reader) == (self._version, kind.STATE_VERSION, kind.READER_VERSION)

    def renewal(self, kind: GrowingKind, older: Checkpoint) -> Renewal:
        """Return the search for events that an older reader derived from a file and this version does not."""
        readers = older.reader, kind.READER_VERSION
        is_rewritten = kind.GROWS == REWRITTEN
        return Renewal(
            self._log, self.derived(kind), older.head, older.place.offset, readers, is_rewritten=is_rewritten
        )

    def derived(self, kind: GrowingKind) -> Derived:
        """Return the events that the files of a kind derive in this version."""
        if kind.NAME not in self._derived:
            self._derived[kind.NAME] = Derived(self._log, lambda: self._kept_ranges(kind))
        return self._derived[kind.NAME]

    def _kept_ranges(self, kind: GrowingKind) -> Iterator[tuple[int, int]]:
        own = kind.NAME, self.ledger, kind.READER_VERSION
        for path in self.folder.glob("*.json"):
            kept = self._read(path.name)
            if kept is not None and (kept.kind, kept.ledger, kept.reader) == own:
                yield from kept.derived

    def drop(self, kind: GrowingKind, path: str) -> None:
        """Remove the checkpoint of a file; it is a cache, so a failure costs only time."""
        [(_, name)] = _names([kind], Path(path).resolve())
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

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
        """Return whether the ledger still has the rows that it had when the checkpoint was written."""
        try:
            return self._log.commitment(kept.head) == kept.anchor
        except DamagedRowError:
            return False

    def save(
        self,
        kind: GrowingKind,
        reading: Reading,
        state: dict[str, Any],
        lost: int,
        derived: Sequence[tuple[int, int]] = (),
        conflicts: int = 0,
    ) -> Problem | None:
        """Store how far a file was read. Call it after its events are committed.

        Returns:
            A note with the reason if that failed, once per process; a failure costs only time.
        """
        real, head = Path(reading.file.path).resolve(), self._log.head()
        anchor = self._log.commitment(head)
        try:
            extent = reading.extent()
            if extent is None:
                return None
            place, size, edges = extent
            facts = os.fstat(reading.file.stream.fileno())
            checkpoint = Checkpoint(
                version=self._version,
                form=kind.STATE_VERSION,
                kind=kind.NAME,
                path=_path_text(real),
                ledger=self.ledger,
                head=head,
                anchor=anchor,
                file=(facts.st_dev, facts.st_ino),
                place=place,
                size=size,
                edges=edges,
                lost=lost,
                state=state,
                reader=kind.READER_VERSION,
                derived=list(derived),
                conflicts=conflicts,
            )
            [(_, name)] = _names([kind], real)
            self._write(name, checkpoint)
        except (OSError, ValueError) as error:
            return self._problem_once(f"could not be stored: {getattr(error, 'strerror', None) or error}")
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


class Reading:
    """The reading of one growing file, from where the last import stopped if the file still matches.

    Args:
        file: The file.
        kind: The kind it is read as.
        kept: Its checkpoint.

    Attributes:
        file: The file.
        kept: Its checkpoint; None if there is none.
        begin: The place it is read from.
        lines: Its objects and problems from there on.
        fits: Whether the file still begins with the bytes read before. True without a checkpoint.
    """

    def __init__(self, file: OpenFile, kind: GrowingKind, kept: Checkpoint | None = None) -> None:
        self.file, self.kept = file, kept
        self._all: Digested | None = None
        self.begin, self.fits = Place(), True
        rest: Readable | None = None
        if kept is not None:
            with named_errors(file.path):
                file.stream.seek(0)
                self._all = Digested(file.stream) if kind.GROWS == REWRITTEN else None
                rest = self._stream_from(kept)
            self.begin, self.fits = (kept.place, True) if rest is not None else (Place(), False)
        if rest is None:
            file.stream.seek(0)
            self._all = Digested(file.stream) if kind.GROWS == REWRITTEN else None
        self.lines = Lines(rest or self._all or file.stream, self.begin)

    def _stream_from(self, kept: Checkpoint) -> Readable | None:
        """Return the file's bytes from the checkpoint on, if it still begins with the bytes read before."""
        stream, place = self.file.stream, kept.place
        if self._all is not None:
            rest = self._all.between(place.offset, kept.size)
            return PrefixedStream(self._all, rest) if rest is not None and [self._all.sha256] == kept.edges else None
        facts = os.fstat(stream.fileno())
        if (facts.st_dev, facts.st_ino) != kept.file or facts.st_size < place.offset:
            return None
        if _edges(stream, place.offset) != kept.edges:
            return None
        stream.seek(place.offset)
        return stream

    def extent(self) -> tuple[Place, int, list[str]] | None:
        """Return the place, the number of bytes read, and the digests; None if no checkpoint is possible here."""
        place = self.lines.place
        if place is None:
            return None
        if self._all is None:
            return place, max(place.offset, self.file.size), _edges(self.file.stream, place.offset)
        if self._all.size - place.offset > limits.EVENT_BYTES:
            return None  # the bytes after the place would be held in memory when reading continues
        return place, self._all.size, [self._all.sha256]

    @property
    def has_grown(self) -> bool:
        """Whether the file has other bytes than at the last import, an incomplete last line included."""
        if self.kept is None or not self.fits or self.lines.place != self.kept.place:
            return True
        return self.kept.size != (self.file.size if self._all is None else self._all.size)

    @property
    def digest(self) -> str:
        """SHA-256 of everything read from a file that may be rewritten, in hexadecimal; empty for others."""
        return "" if self._all is None else self._all.sha256


def _edges(stream: BinaryIO, offset: int) -> list[str]:
    fd = stream.fileno()
    parts = ((0, min(offset, EDGE_BYTES)), (max(offset - EDGE_BYTES, 0), offset))
    return [hashlib.sha256(os.pread(fd, end - begin, begin)).hexdigest() for begin, end in parts]


def _path_text(real: Path) -> str:
    """Return a path as text that is valid in JSON."""
    return os.fsencode(real).decode("utf-8", "backslashreplace")


def _names(kinds: Iterable[GrowingKind], real: Path) -> list[tuple[GrowingKind, str]]:
    """Return each kind with the name of its checkpoint of a file."""
    found: list[tuple[GrowingKind, str]] = []
    for kind in kinds:
        digest = hashlib.sha256(json.dumps([kind.NAME, ""]).encode() + os.fsencode(real)).hexdigest()
        found.append((kind, f"{digest[:_NAME_DIGITS]}.json"))
    return found


def _program() -> str:
    from importlib import metadata  # it loads half of the mail library

    try:
        return metadata.version("rightful")
    except metadata.PackageNotFoundError:
        return "0"


def _sweep(folder: Path, now_s: float) -> None:
    """Remove partial files of killed imports, and checkpoints of files that have not grown for long.

    Most of these files no longer exist. One that does is read from its beginning at its next import.
    """
    for path in folder.iterdir():
        longest_s = _TORN_S if path.name.startswith(".") else limits.CHECKPOINT_DAYS * _DAY_S
        with contextlib.suppress(OSError):
            if now_s - path.lstat().st_mtime > longest_s:
                path.unlink()


def _write_atomically(folder: Path, name: str, data: bytes) -> None:
    """Write a file atomically, without syncing: it is a cache and need not survive a power failure."""
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
    """Create a file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
