"""The spool: calls of a hook that could not be written to the ledger, kept until they can.

A file is one call: its events in wire form, one a line, exactly as they would have been appended; or
its input, where no events could be made of it yet. It is written under another name, synced, and
renamed. The next command that opens the ledger for writing appends what waits and then removes the
file. Ids make that safe: whoever else drains meanwhile, and whenever one of them is killed, each
event stands in the ledger once. `at` is the time of the call; the drain does not change it.

What can never be written is set aside in the folder `aside`, for people, and is not deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits

if TYPE_CHECKING:
    from rightful.ledger.log import Log

Wire = dict[str, Any]

FOLDER = "spool"
"""Its name in a ledger's folder."""

ASIDE = "aside"
"""The folder in it for what can never be written."""

FULL = "full"
"""The file that says, by its time, that a call was refused because the spool was full."""

_EVENTS, _INPUT, _NOTE = ".events.jsonl", ".input.json", ".note.json"
_PRIVATE = 0o700
_OTHERS_WRITE = 0o022
_NAME_DIGITS = 32
_TORN_S = 3_600
_IN_VAIN_US = 60_000_000
_AT_DIGITS = 16


class Drained(NamedTuple):
    """What became of the files that waited.

    Attributes:
        files: How many were written to the ledger, and removed.
        aside: Where those went that can never be written.
        left: How many still wait.
    """

    files: int = 0
    aside: tuple[str, ...] = ()
    left: int = 0


class Spool:
    """The spool of one ledger: up to three folders, of which the first that can be written is used.

    The ledger's own folder comes first; then the user's folder for state, and then the one for
    temporary files, for a ledger that is missing, full or not to be written. One that is named by a
    relative path is left out: it would be another one from each folder.

    Attributes:
        folders: Where files may wait.
    """

    def __init__(self, ledger: str, environment: Mapping[str, str]) -> None:
        root = os.path.realpath(ledger)
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:_NAME_DIGITS]
        home = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        temp = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - a folder of our own in it
        self._root = root
        elsewhere = (f"{home}/rightful/{FOLDER}/{name}", f"{temp}/rightful-{FOLDER}-{os.geteuid()}/{name}")
        self.folders = (f"{root}/{FOLDER}", *(folder for folder in elsewhere if os.path.isabs(folder)))

    # -- keeping ---------------------------------------------------------------------------

    def keep_events(self, events: list[Wire], at_us: int) -> str | None:
        """Keep events that could not be appended; return the file, None if no folder takes it."""
        lines = "".join(json.dumps(event) + "\n" for event in events)
        return self._keep(_EVENTS, lines.encode(), at_us)

    def keep_input(self, raw: bytes, reason: str, at_us: int, nonce: str) -> str | None:
        """Keep the input of a call of which no events could be made yet; return the file, or None."""
        kept = {"at_us": at_us, "nonce": nonce, "reason": reason, "input": _text(raw)}
        return self._keep(_INPUT, json.dumps(kept).encode(), at_us)

    def set_aside(self, raw: bytes, reason: str, at_us: int) -> str | None:
        """Keep, for people, an input of which no event can be made; the first ones, as far as they fit."""
        shown = {"at_us": at_us, "reason": reason, "bytes": len(raw), "input": _text(raw[: limits.ASIDE_BYTES])}
        return self._keep(_NOTE, json.dumps(shown).encode(), at_us)

    def _keep(self, suffix: str, data: bytes, at_us: int) -> str | None:
        name = f"{at_us:0{_AT_DIGITS}}-{os.urandom(8).hex()}{suffix}"
        full: list[str] = []
        for folder in self._usable():
            with contextlib.suppress(OSError, ValueError):
                made = _made(folder)
                if suffix == _NOTE:
                    made = _made(f"{made}/{ASIDE}")
                if _has_room(made, len(data), limits.ASIDE_FILES if suffix == _NOTE else limits.SPOOL_FILES):
                    return _written(made, name, data)
                full.append(made)
        if full and suffix != _NOTE:
            with contextlib.suppress(OSError):
                _mark_full(full[0])
        return None

    def _usable(self) -> Iterator[str]:
        """Yield the folders; the ledger's own only if there is a ledger."""
        own, *others = self.folders
        if os.path.isdir(f"{self._root}/store"):
            yield own
        yield from others

    # -- looking ---------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return the files that wait, the oldest call first."""
        found = [
            entry for folder in self.folders for entry in _entries(folder) if entry.name.endswith((_EVENTS, _INPUT))
        ]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.name)]

    def wait_s(self, at_us: int) -> float:
        """Return how long a call may wait for the ledger: less, if calls just before it are in the spool.

        Args:
            at_us: When the call was made; microseconds since 1970, UTC.
        """
        waiting = self.waiting()
        vain = waiting and 0 <= at_us - at_us_of(waiting[-1]) < _IN_VAIN_US
        return limits.HOOK_AGAIN_S if vain else limits.HOOK_WAIT_S

    def aside(self) -> list[str]:
        """Return the files that were set aside."""
        found = [entry for folder in self.folders for entry in _entries(f"{folder}/{ASIDE}")]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.name)]

    def full(self) -> list[str]:
        """Return the marks that a call was refused."""
        return [entry.path for folder in self.folders for entry in _entries(folder) if entry.name == FULL]

    # -- draining --------------------------------------------------------------------------

    def drain(self, log: Log, *, timeout_s: float, most: int | None = None) -> Drained:
        """Append what waits, the oldest first, and remove it.

        Args:
            log: The ledger's log.
            timeout_s: How long to wait for other writers, each time; seconds.
            most: How many files to take; all if None.

        Raises:
            StorageError: The ledger cannot be written. What was not written still waits.
        """
        waiting = self.waiting()
        taken = waiting if most is None else waiting[:most]
        aside: list[str] = []
        for batch in _batches(taken):
            events = [event for one in batch for event in one.events]
            receipts = iter(log.append(events, timeout_s=timeout_s)) if events else iter(())
            for one in batch:
                outcomes = {receipt.outcome for _, receipt in zip(one.events, receipts, strict=False)}
                aside += _settled(one.path, whole=one.whole and "invalid" not in outcomes)
        for folder in self.folders:
            _remove_torn(folder)
        return Drained(len(taken) - len(aside), tuple(aside), len(waiting) - len(taken))


def at_us_of(path: str) -> int:
    """Return when the call was made that a file keeps; microseconds since 1970, UTC; 0 if its name does not say."""
    digits = os.path.basename(path)[:_AT_DIGITS]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


class _Waiting(NamedTuple):
    """A file that waits: what of it can be read, and whether that is all."""

    path: str
    events: list[Wire]
    whole: bool
    size: int


def _batches(paths: list[str]) -> Iterator[list[_Waiting]]:
    """Yield files with about as many events as share a transaction."""
    batch: list[_Waiting] = []
    count = size = 0
    for path in paths:
        try:
            one = _read(path)
        except OSError:
            continue  # somebody else drained it
        if batch and (count + len(one.events) > limits.INGEST_EVENTS or size + one.size > limits.INGEST_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(one)
        count, size = count + len(one.events), size + one.size
    if batch:
        yield batch


def _read(path: str) -> _Waiting:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        data = file.read()
    if path.endswith(_INPUT):
        events = _of_input(data)
        return _Waiting(path, events or [], events is not None, len(data))
    from rightful import content
    from rightful.errors import InvalidEventError

    lines = data.split(b"\n")
    events = []
    for line in lines[:-1]:
        with contextlib.suppress(InvalidEventError):
            events.append(content.parse_json(line))
    return _Waiting(path, events, len(events) == len(lines) - 1 and not lines[-1], len(data))


def _of_input(data: bytes) -> list[Wire] | None:
    """Return the events of an input that was kept; None if none can be made of it."""
    from rightful.producers import claude_hook

    try:
        kept = json.loads(data)
        raw = kept["input"].encode("utf-8", "surrogateescape")
        return claude_hook.events_of(claude_hook.input_of(raw), kept["at_us"], kept["nonce"])
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is kept, and must not stop its neighbours
        return None


def _settled(path: str, *, whole: bool) -> list[str]:
    """Remove a file that is in the ledger, or set it aside; return where it went then."""
    with contextlib.suppress(OSError):
        if whole:
            os.unlink(path)
            return []
        folder, name = os.path.split(path)
        kept = f"{_made(f'{folder}/{ASIDE}')}/{name}"
        os.rename(path, kept)
        return [kept]
    return []


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what stands in a folder of ours; nothing if it is missing, or could be a stranger's."""
    try:
        if not _is_ours(folder):
            return []
        with os.scandir(folder) as listing:
            return [entry for entry in listing if not entry.name.startswith(".")]
    except (OSError, ValueError):
        return []


def _is_ours(folder: str) -> bool:
    facts = os.lstat(folder)
    return stat.S_ISDIR(facts.st_mode) and not facts.st_mode & _OTHERS_WRITE and facts.st_uid == os.geteuid()


def _made(folder: str) -> str:
    """Make a folder that is its owner's alone, and those above it.

    Raises:
        OSError: It cannot be made, or what stands there may be a stranger's.
    """
    try:
        os.mkdir(folder, _PRIVATE)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(folder, _PRIVATE)
    else:
        os.chmod(folder, _PRIVATE)
        _sync_folder(os.path.dirname(folder))
    if not _is_ours(folder):
        raise OSError(f"{folder} may be somebody else's")
    return folder


def _has_room(folder: str, size: int, most: int) -> bool:
    """Say whether one more file fits into a folder. What is there is kept; it is the newest that is refused."""
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in _entries(folder) if not entry.is_dir()]
    return len(sizes) < most and sum(sizes) + size <= limits.SPOOL_BYTES


def _mark_full(folder: str) -> None:
    os.close(os.open(f"{folder}/{FULL}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _written(folder: str, name: str, data: bytes) -> str:
    """Write a file that is there whole, and durable, or not at all."""
    half, path = f"{folder}/.{name}", f"{folder}/{name}"
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.fchmod(fd, 0o600)
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(half, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half)
        raise
    with contextlib.suppress(OSError):
        _sync_folder(folder)
    return path


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_torn(folder: str) -> None:
    """Remove what calls that were killed had begun to write; nobody writes for an hour."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder) if _is_ours(folder) else ():
            if entry.name.startswith(".") and time.time() - entry.stat(follow_symlinks=False).st_mtime > _TORN_S:
                os.unlink(entry.path)
