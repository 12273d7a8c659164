"""A tool's file: read whole, and replaced so that no write is lost.

New bytes are written to a temporary file in the same folder, synced, and *exchanged* with the file in one
system call. Then the bytes that came out are compared with the expected ones, and restored if a tool wrote in
between. If the system cannot exchange, the file is read again right before the rename. The lock is a flock on
the file's folder: it leaves no file behind, and two ledgers that publish to one file exclude each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rightful import limits
from rightful.errors import BackfillRefusedError, StorageError, TargetChangedError, TargetError
from rightful.importers.sources import text_files

_FILE = 0o666  # less the umask: what a tool's own write gives a new file
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_AT_ONCE = "another program wrote it at the same time"
_TWICE = "Compare it with the present file, and plan again."
_AS_OWNER = "Nothing was written; run the command as the file's owner."
_POLL_S = 0.02  # between two attempts to acquire a lock
_ROUNDS = 8  # writes of a tool that are followed while its file is put back; each has to hit a moment
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


class FileState(NamedTuple):
    """A file as it was at one moment.

    Attributes:
        data: Its bytes; None where there is no file.
        mtime_us: When it was last written; microseconds since 1970, UTC.
        mode: Its permissions; None where there is no file.
        owner: Its user and group.
        links: How many names it has.
    """

    data: bytes | None
    mtime_us: int = 0
    mode: int | None = None
    owner: tuple[int, int] = (-1, -1)
    links: int = 1

    @property
    def sha256(self) -> str | None:
        """SHA-256 of its bytes, in hexadecimal; None where there is no file."""
        return None if self.data is None else sha256(self.data)


def sha256(data: bytes) -> str:
    """Return SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def resolved(path: str, *, makes_folder: bool = False) -> str:
    """Return the real path of a target; a link is followed to the file that the tool reads.

    Args:
        path: The target, as it was named.
        makes_folder: Whether its folder is made before the first write, if it does not exist.

    Raises:
        TargetError: Its folder does not exist and is not made, or it is not a valid path.
    """
    try:
        real = os.path.realpath(path)
        folders = Path(real).parents if makes_folder else Path(real).parents[:1]
        folder = next((folder for folder in folders if folder.exists()), None)
    except ValueError:
        raise TargetError(repr(path), "it is not a valid path", "Name a file.") from None
    if not path or folder is None or not folder.is_dir():
        raise TargetError(
            path or "an empty path", "its folder does not exist", "Make the folder, or name a file in one that exists."
        )
    return real


def make_folder(real: str) -> None:
    """Make the folder of a target that does not exist yet, durable, with those above it."""
    missing = [folder for folder in Path(real).parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync(str(folder))


def read_plannable(real: str, limit: int = limits.EVENT_BYTES) -> FileState:
    """Return the present file at a path, if a plan can be made for it.

    Raises:
        TargetError: It is not a file, or has more than `limit` bytes; a planned file has to fit in an event.
        OSError: It cannot be read.
    """
    try:
        with text_files.opened(real) as file:
            facts = os.fstat(file.stream.fileno())
            data = file.stream.read(limit + 1)
    except FileNotFoundError:
        return FileState(None)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.EISDIR, errno.ENXIO}:
            what = (
                ("it is a folder") if error.errno == errno.EISDIR or Path(real).is_dir() else "it is not a regular file"
            )
            raise TargetError(real, what, "Name the state file itself.") from None
        raise
    if len(data) > limit:
        raise TargetError(real, f"it has more than {limit} bytes")
    return FileState(data, file.mtime_us, facts.st_mode & 0o7777, (facts.st_uid, facts.st_gid), facts.st_nlink)


def read_state(real: str) -> FileState:
    """Return the present file, even if it is too large for a plan; raises as `read_plannable`."""
    return read_plannable(real, limits.REPLACED_BYTES)


def check_size(real: str, data: bytes) -> None:
    """Raise TargetError if new bytes are too large for another plan."""
    if len(data) > limits.EVENT_BYTES:
        what = f"it would have {len(data):,} bytes, and a file above {limits.EVENT_BYTES:,} could not be read again"
        raise TargetError(real, what, "Merge arms with the policy's arm_aliases, and plan again.")


@contextlib.contextmanager
def locked(real: str, new: str, *, as_tool: bool) -> Iterator[None]:
    """Lock a target against every other backfill, and against its tool if that has a lock.

    A folder that does not exist is made.

    Args:
        real: The file.
        new: Which bytes are written under the lock, for the message of an error.
        as_tool: Take the lock file of pm-dispatch, `bandit-state.json.lock`, as it does.

    Raises:
        TargetError: Its `.bak`, which such a tool keeps, cannot be written.
        StorageError: Another process held it for all of `limits.WAIT_S`, and nothing was written; or the system failed.
    """
    with contextlib.ExitStack() as held, _system_errors(real, new):
        make_folder(real)
        folder = os.open(Path(real).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held.callback(os.close, folder)
        _acquire(folder, f"the folder of {real}")
        if as_tool:
            if os.path.isdir(f"{real}.bak"):  # noqa: PTH112 - as `_write`
                raise TargetError(real, f"{real}.bak, where its tool keeps a copy, is a folder", "Move it away.")
            lock = os.open(f"{real}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE)
            held.callback(os.close, lock)
            _acquire(lock, f"{real}.lock")
        yield


@contextlib.contextmanager
def _system_errors(real: str, new: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{real} could not be written ({error.strerror or error}); it has its old bytes or the {new} ones",
            "Fix the cause and repeat the command: it continues where it stopped.",
        ) from error


def _acquire(fd: int, what: str) -> None:
    """Acquire an exclusive lock; give up after `limits.WAIT_S`, since an owner that takes longer is hung."""
    until = time.monotonic() + limits.WAIT_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                held = f"another process held the lock of {what} for more than {limits.WAIT_S:g} s; nothing was written"
                raise StorageError(held, "Wait until it ends, or stop it, and repeat the command.") from None
            time.sleep(_POLL_S)


def temporary_path(real: str) -> str:
    """Return where new bytes are written before they take the file's place."""
    folder, name = os.path.split(real)
    return os.path.join(folder, f".{name}.rightful")  # noqa: PTH118 - text all the way, as the event has it


def place(real: str, data: bytes | None, expected: FileState, keep: Callable[[bytes], str]) -> None:
    """Replace or remove a file, if it still has the expected bytes.

    Args:
        real: The file.
        data: The new bytes; None removes the file.
        expected: The file as it was read; its permissions and owner stay.
        keep: Stores bytes that a tool wrote in between, and returns their path.

    Raises:
        TargetChangedError: Another program wrote it at the same time. Its bytes are in place.
        OSError: The system failed. The file has its old bytes or the new ones.
    """
    temp = temporary_path(real)
    if data is not None:
        _write(temp, data, expected)
    if read_state(real).sha256 != expected.sha256:
        drop(temp)
        raise TargetChangedError(real, _AT_ONCE)
    if data is None:
        os.rename(real, temp)  # noqa: PTH104 - as `_write`
    elif expected.data is None:
        is_new = _linked(temp, real)
        drop(temp)
        if not is_new:
            raise TargetChangedError(real, _AT_ONCE)
    elif not _exchange(temp, real):
        os.rename(temp, real)  # noqa: PTH104 - as `_write`
    sync(real)
    ours = None if data is None else sha256(data)
    settle(real, expected.sha256, ours, keep)
    if read_state(real).sha256 != ours:
        raise TargetChangedError(real, "another program wrote it right after it was replaced")


def settle(real: str, expected: str | None, ours: str | None, keep: Callable[[bytes], str]) -> None:
    """Compare the replaced bytes with the expected ones, and restore them if a tool wrote them.

    A tool can write again while its file is restored. Then its last write ends up in place, and the
    earlier one is kept: no write of a tool is dropped.

    Args:
        real: The file, which has the new bytes by now.
        expected: SHA-256 of what should have come out; None where there was no file.
        ours: SHA-256 of the new bytes; None where the file was removed.
        keep: Stores bytes and returns their path.

    Raises:
        TargetChangedError: A tool wrote the file between the last read and the exchange. Its bytes
            are in place again.
    """
    temp = temporary_path(real)
    out, inside = read_state(temp), read_state(real)
    if out.data is None or out.sha256 in {expected, inside.sha256}:
        drop(temp)
        return
    where = keep(out.data)
    kept_paths = _restore(real, out, where, ours, keep) if inside.sha256 == ours else [where]
    drop(temp)
    sync(real)
    if kept_paths:
        why = f"a tool wrote it more than once at the same time; an earlier write is kept as {', '.join(kept_paths)}"
        raise TargetChangedError(real, why, _TWICE)
    raise TargetChangedError(real, _AT_ONCE)


def _restore(real: str, out: FileState, where: str, ours: str | None, keep: Callable[[bytes], str]) -> list[str]:
    """Restore a replaced file (`out`, kept at `where`); return the paths of writes that are not in place in the end."""
    temp, inside, kept_paths = temporary_path(real), ours, list[str]()
    for _ in range(_ROUNDS):
        if inside is None:
            return kept_paths if _linked(temp, real) else [*kept_paths, where]
        if not _exchange(temp, real):
            if (found := read_state(real)).data is not None and found.sha256 != inside:
                return [*kept_paths, where]  # it wrote later than what we hold
            os.rename(temp, real)  # noqa: PTH104 - as `_write`
            return kept_paths
        came = read_state(temp)
        if came.data is None or came.sha256 == inside:
            return kept_paths
        kept_paths.append(where)
        inside, where = out.sha256, keep(came.data)
        out = came
    return [*kept_paths, where]


def write_aside(path: str, data: bytes, like: FileState) -> None:
    """Write a file whole or not at all, as `place` does, for a file that no other program writes: a tool's `.bak`."""
    temp = temporary_path(path)
    _write(temp, data, like)
    os.rename(temp, path)  # noqa: PTH104 - as `_write`


def check_writable(real: str, seen: FileState) -> None:
    """Raise StorageError if the folder is not writable for you, or the file belongs to another user.

    Such a write would fail only after its publication.
    """
    me, folder = os.geteuid(), Path(real).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{folder} is not writable for you, so {real} cannot be replaced", _AS_OWNER)
    if seen.data is not None and me not in {0, seen.owner[0]}:
        raise StorageError(
            f"{real} belongs to another user (uid {seen.owner[0]}), and replacing it would change its owner", _AS_OWNER
        )


def check_alone(real: str, seen: FileState) -> None:
    """Raise BackfillRefusedError if a file has hard links, whose other names would keep the old bytes."""
    if seen.links > 1:
        why = f"it has {seen.links} names (hard links), and the other names would keep the old bytes"
        raise BackfillRefusedError(real, (why,), "Copy it and move the copy into its place, or use --force.")


def check_outside(real: str, ledger: Path) -> None:
    """Raise TargetError if a target is among the ledger's own files."""
    if within(real, ledger):
        raise TargetError(real, "it is in the ledger's own folder", "Name the state file that a tool reads.")


def within(path: str, folder: Path) -> bool:
    """Return whether a path, links followed, is a folder or lies in it."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def sync(real: str) -> None:
    """Make a file's name durable."""
    folder = os.open(Path(real).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(temp: str, data: bytes, like: FileState) -> None:
    """Write a new file, durable, with the permissions and the owner of the file that it replaces."""
    drop(temp)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE)
    try:
        try:
            if like.mode is not None:
                os.fchmod(fd, like.mode)
                own = os.fstat(fd)
                if (own.st_uid, own.st_gid) != like.owner:
                    os.fchown(fd, *like.owner)
            done = 0
            while done < len(data):
                done += os.write(fd, data[done:])
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        drop(temp)
        raise


def drop(temp: str) -> None:
    """Remove a temporary file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temp)  # noqa: PTH108 - as `_write`


def _linked(temp: str, real: str) -> bool:
    """Link a file to a new name; return False if the name exists by now. A rename would replace that file."""
    try:
        os.link(temp, real)
    except FileExistsError:
        return False
    return True


def _exchange(path: str, other: str) -> bool:
    """Exchange two files in one step (Linux renameat2); False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), other)
