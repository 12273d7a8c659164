"""The spool: files of hook calls that could not be written to the ledger, kept until they can be.

A file contains one call: its events in wire form, one per line, exactly as they would have been appended; or its
input, if it could not be converted to events yet. It is written under a temporary name, synced, and renamed. The
next command that opens the ledger for writing appends the events and then removes the file (`drain`). Event ids
make that safe: each event is stored once, even if several processes drain, or one of them is killed. `at` is the
time of the call; the drain does not change it.

A call that can never be written is moved to the folder `aside`, for people, and is not deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rightful import limits
from rightful.importers.sources.private_folder import private_folder
from rightful.integrations.spool.durable_files import open_marker, private_files, read_file, write_file
from rightful.integrations.spool.spool_folders import PATHS, SpoolFolders

if TYPE_CHECKING:
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

Wire = dict[str, Any]

ASIDE = "aside"
"""The folder, within the spool, for calls that can never be written."""

FULL = "full"
"""The file whose modification time is that of a call that was refused because the spool was full."""

WAITED = "waited"
"""The file whose modification time is that of the last call that waited for the ledger without success."""

EVENTS, INPUT = ".events.jsonl", ".input.json"
"""The name suffixes of a file with events, and of a file with an input."""

_NOTE = ".note.json"
_MORE = f"more{_NOTE}"
_NAME_DIGITS = 32
_AFTER_TIMEOUT_US = 60_000_000  # how long a call that timed out shortens the wait of later ones
_AT_DIGITS = 16


class Spool:
    """The spool of one ledger: up to three folders, of which the first writable one is used.

    The ledger's own folder comes first. If the ledger is missing, full or not writable, the user's state folder
    follows, and then the folder for temporary files. A folder with a relative path is skipped, because it would
    depend on the working folder.

    Attributes:
        folders: The folders that may contain files.
    """

    def __init__(self, ledger: str, environment: Mapping[str, str]) -> None:
        self._root = os.path.realpath(ledger)
        self._folders = SpoolFolders(self._root, environment)
        self._marks: list[str] = []
        self.folders = [*self._folders.usable, *self._folders.former]

    # -- storing ---------------------------------------------------------------------------

    def keep_events(self, events: list[Wire], at_us: int) -> str | None:
        """Store events that could not be appended. Return the file, or None if no folder accepts it."""
        from rightful import content

        return self._store(EVENTS, b"".join(content.to_json(event) + b"\n" for event in events), at_us)

    def keep_input(self, raw: bytes, reason: str, at_us: int, nonce: str) -> str | None:
        """Store the input of a call that could not be converted to events yet. Return the file, or None."""
        kept = {"at_us": at_us, "nonce": nonce, "reason": reason, "input": _text(raw)}
        return self._store(INPUT, json.dumps(kept).encode(), at_us)

    def set_aside(self, raw: bytes, reason: str, at_us: int) -> str | None:
        """Store, for people, an input that is not valid. Once the folder is full, later inputs are not stored."""
        return self._note(_name(at_us, _NOTE), _note_of(raw, reason, at_us))

    def set_aside_once(self, about: str, raw: bytes, reason: str, at_us: int) -> str | None:
        """Store one note for all inputs with the same `about`: the first input, and the count."""
        name = f"{hashlib.sha256(about.encode('utf-8', 'surrogatepass')).hexdigest()[:_NAME_DIGITS]}{_NOTE}"
        for folder in self._writable_folders():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                note = json.loads(read_file(f"{folder}/{ASIDE}/{name}", limits.SPOOL_LINE_BYTES))
                count = int(note.get("count", 1)) + 1
                note |= {"count": count, "reason": f"{reason} ({count} times)"}
                return write_file(private_folder(f"{folder}/{ASIDE}"), name, json.dumps(note).encode())
        return self._note(name, _note_of(raw, reason, at_us))

    def _note(self, name: str, note: Wire) -> str | None:
        data = json.dumps(note).encode()
        for folder in self._writable_folders():
            with contextlib.suppress(OSError, ValueError):
                made = private_folder(f"{private_folder(folder)}/{ASIDE}")
                if _has_room(made, len(data), limits.ASIDE_FILES):
                    return write_file(made, name, data)
                if not os.path.lexists(f"{made}/{_MORE}"):
                    reason = "this folder is full: what was to be set aside from then on was not kept"
                    write_file(made, _MORE, json.dumps({"at_us": note["at_us"], "reason": reason}).encode())
        return None

    def _store(self, suffix: str, data: bytes, at_us: int) -> str | None:
        full: list[str] = []
        for folder in self._writable_folders():
            with contextlib.suppress(OSError, ValueError):
                made = private_folder(folder)
                if _has_room(made, len(data), limits.SPOOL_FILES):
                    return write_file(made, _name(at_us, suffix), data)
                full.append(made)
        if full:
            with contextlib.suppress(OSError):
                os.close(open_marker(f"{full[0]}/{FULL}"))
        return None

    def _writable_folders(self) -> Iterator[str]:
        """Yield the folders; the ledger's own only if there is a ledger."""
        own, *others = self._folders.usable
        if os.path.isdir(f"{self._root}/store"):
            yield own
        yield from others

    # -- reading ---------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return the queued files, the oldest call first."""
        found = [
            entry for folder in self.folders for entry in private_files(folder) if entry.name.endswith((EVENTS, INPUT))
        ]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.name)]

    def wait_s(self, at_us: int) -> float:
        """Return how long a call may wait for the ledger: less, if a call of the last minute timed out.

        Args:
            at_us: When the call was made; microseconds since 1970, UTC.
        """
        self._marks = []
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                if abs(at_us - os.lstat(f"{folder}/{WAITED}").st_mtime_ns // 1_000) < _AFTER_TIMEOUT_US:
                    self._marks.append(f"{folder}/{WAITED}")
        return limits.HOOK_AGAIN_S if self._marks else limits.HOOK_WAIT_S

    def note_timeout(self, at_us: int) -> None:
        """Record that a call timed out after the full wait. Calls with a shorter wait do not record it."""
        for folder in self._writable_folders():
            with contextlib.suppress(OSError, ValueError):
                fd = open_marker(f"{private_folder(folder)}/{WAITED}")
                try:
                    os.utime(fd, ns=(at_us * 1_000, at_us * 1_000))
                finally:
                    os.close(fd)
                return

    def note_success(self) -> None:
        """Record that the ledger can be written again, and remember its path."""
        self._folders.remember()
        for mark in self._marks:
            with contextlib.suppress(OSError):
                os.unlink(mark)

    def aside(self) -> list[str]:
        """Return the files that were set aside."""
        found = [entry for folder in self.folders for entry in private_files(f"{folder}/{ASIDE}")]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.name)]

    def full(self) -> list[str]:
        """Return the marker files of refused calls."""
        return [entry.path for folder in self.folders for entry in private_files(folder) if entry.name == FULL]


def append(log: Log, events: list[Wire], *, timeout_s: float) -> list[Receipt]:
    """Append events. The timeout limits only the wait for other writers; a write that has begun is finished.

    Raises:
        BusyError: Other writers had the write lock until the timeout. Nothing was written.
        StorageError: The events cannot be written.
    """
    from rightful.errors import OutcomeUnknownError

    try:
        return log.append(events, timeout_s=timeout_s)
    except OutcomeUnknownError:
        return log.append(events, timeout_s=limits.HOOK_TOTAL_S)  # queued after the first; its events are `duplicate`


def set_aside_file(path: str, name: str) -> str:
    """Move a queued file to the folder `aside`, and return its new path.

    Raises:
        OSError: The file cannot be moved, or is gone.
    """
    kept = f"{private_folder(f'{os.path.dirname(path)}/{ASIDE}')}/{name}"
    os.rename(path, kept)
    return kept


def at_us_of(path: str) -> int:
    """Return the time of a file's call; microseconds since 1970, UTC. Return 0 if the name does not contain it."""
    digits = os.path.basename(path)[:_AT_DIGITS]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _name(at_us: int, suffix: str) -> str:
    return f"{at_us:0{_AT_DIGITS}}-{os.urandom(8).hex()}{suffix}"


def _note_of(raw: bytes, reason: str, at_us: int) -> Wire:
    return {"at_us": at_us, "reason": reason, "bytes": len(raw), "input": _text(raw[: limits.ASIDE_BYTES])}


def _has_room(folder: str, size: int, max_files: int) -> bool:
    """Return whether one more file fits into a folder. Existing files are kept; the newest is refused."""
    kept = [entry for entry in private_files(folder) if entry.name not in {FULL, WAITED, PATHS, _MORE}]
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in kept]
    return len(sizes) < max_files and sum(sizes) + size <= limits.SPOOL_BYTES
