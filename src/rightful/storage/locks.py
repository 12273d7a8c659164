"""Locks between processes, outside LMDB's own.

LMDB's writer lock has neither a timeout nor a queue. So every process that opens a store locks
`ledger.lock` shared; compaction, repair and restore lock it exclusively. Writers need the write lock,
which is two locks, so that a process that writes in a tight loop cannot starve the others: only the owner of
`queue.lock` waits for `writer.lock`. Each lock is a flock, which the system releases when its process
ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from rightful import limits
from rightful.errors import ForeignStoreError, InUseError, ReadOnlyStoreError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_TURN_WAIT_S = 2.0
"""How long an opener waits while another process adds a journal; seconds. That takes milliseconds, once a store."""

_NOT_A_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""Errors of an open with O_NOFOLLOW for a symbolic link, a folder or a socket."""

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def open_private(path: Path) -> int:
    """Open a file for reading and writing, created with mode 0600 whatever the umask is.

    Returns:
        The file descriptor, closed on exec; the caller closes it.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(fd, PRIVATE_FILE)
    return fd


class Flock:
    """One lock file. A fork shares its lock, so the child closes the file and never unlocks it.

    Attributes:
        path: The file.
    """

    __slots__ = ("_file", "path")

    def __init__(self, path: Path, fd: int, mode: str = "r+") -> None:
        self.path = path
        self._file = io.FileIO(fd, mode)  # closed in C, so no exception interrupts it, and a lost object is closed too

    @classmethod
    def open(cls, path: Path) -> Flock:
        """Open the lock file; create it if it is missing.

        Raises:
            ReadOnlyStoreError: It is missing or not readable, and cannot be created.
            ForeignStoreError: Something else has its name, such as a symbolic link.
        """
        try:
            return cls(path, open_private(path))
        except OSError as error:
            if error.errno in _NOT_A_FILE:
                raise ForeignStoreError(str(path.parent), f"{path.name} is not a regular file") from error
            if error.errno not in _DENIED:
                raise
            raise ReadOnlyStoreError(str(path.parent), f"{path.name}: {error.strerror}") from error

    def exclusive(self) -> None:
        """Acquire the exclusive lock. Waits without a limit."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def try_exclusive(self) -> bool:
        """Acquire the exclusive lock if it is free; return whether it was acquired."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_shared(self) -> bool:
        """Acquire the shared lock unless another process has the exclusive one; return whether it was acquired."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_alone(self) -> bool:
        """Upgrade the shared lock to an exclusive one. If another process shares it, keep the shared lock.

        Raises:
            InUseError: Another process acquired it, since an upgrade releases it for a moment. It is not held.
        """
        if self.try_exclusive():
            return True
        self.share()
        return False

    def share(self) -> None:
        """Downgrade to a shared lock, or re-acquire one.

        Raises:
            InUseError: Another process acquired it meanwhile. It is not held.
        """
        if not self.try_shared():
            raise InUseError(str(self.path.parent), holders(self.path))

    def unlock(self) -> None:
        """Release the lock, for every process that inherited it too."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. The lock is released when its last owner closes it."""
        self._file.close()


class WriteLock:
    """The write lock between processes. Both waits block; neither polls.

    Attributes:
        release: Releases the write lock.
    """

    __slots__ = ("_queue", "_times_in_a_row", "_writer", "release")

    def __init__(self, folder: Path) -> None:
        self._times_in_a_row = 0
        self._queue = Flock.open(folder / "queue.lock")
        try:
            self._writer = Flock.open(folder / "writer.lock")
        except BaseException:
            self._queue.close()
            raise
        self.release = self._writer.unlock

    def acquire(self, *, waits: bool = True) -> bool:
        """Acquire the write lock; return whether it was acquired. Waits without a limit, or not at all.

        Queues after `TURNS_AT_ONCE` acquisitions in a row, so that queued processes get a chance.
        """
        if self._times_in_a_row < limits.TURNS_AT_ONCE and self._writer.try_exclusive():
            self._times_in_a_row += 1
            return True
        if not waits:
            return False
        self._times_in_a_row = 0
        self._queue.exclusive()
        try:
            self._writer.exclusive()
        finally:
            self._queue.unlock()
        return True

    def clear(self) -> None:
        """Unlock what an exception may have left locked."""
        for lock in (self._writer, self._queue):
            with contextlib.suppress(OSError):
                lock.unlock()

    def close(self) -> None:
        """Close both files."""
        self._queue.close()
        self._writer.close()


def hold_shared(folder: Path, *, readonly: bool = False) -> Flock | None:
    """Lock `ledger.lock` shared, together with every other process that has the store open.

    Returns:
        The lock, held until it is closed; None if the folder is read-only and has no such file.

    Raises:
        InUseError: Compaction, repair or restore has locked the store exclusively.
        ReadOnlyStoreError: The lock file cannot be opened.
    """
    path = folder / "ledger.lock"
    lock = _open_to_read(path) if readonly else Flock.open(path)
    try:
        if lock is not None and not lock.try_shared():
            _await_turn(folder)
            lock.share()
        return lock  # noqa: TRY300 - the lock is not lost here either
    except BaseException:
        if lock is not None:
            lock.close()
        raise


@contextlib.contextmanager
def alone_in_turn(folder: Path, hold: Flock) -> Iterator[bool]:
    """Acquire the write lock and the exclusive store lock, if both are free. Openers of the store wait meanwhile.

    Raises:
        InUseError: Another process locked it exclusively meanwhile. It is no longer held here.
    """
    turn = Flock.open(folder / "writer.lock")
    try:
        if not turn.try_exclusive() or not hold.try_alone():
            yield False
            return
        try:
            yield True
        finally:
            hold.share()
    finally:
        turn.close()


def _await_turn(folder: Path) -> None:
    """Wait until the write lock is free, with a limit in case its owner was stopped."""

    def wait() -> None:
        with contextlib.suppress(OSError, ReadOnlyStoreError):
            turn = Flock.open(folder / "writer.lock")
            try:
                turn.exclusive()
            finally:
                turn.close()

    thread = threading.Thread(target=wait, name="rightful-waits", daemon=True)
    thread.start()
    thread.join(_TURN_WAIT_S)


def hold_alone(folder: Path) -> Flock:
    """Lock `ledger.lock` exclusively, for compaction, repair and restore.

    Returns:
        The lock, held until it is closed.

    Raises:
        InUseError: Another process has the store open. The error names the processes that the system reports.
    """
    lock = Flock.open(folder / "ledger.lock")
    if not lock.try_exclusive():
        lock.close()
        raise InUseError(str(folder), holders(folder / "ledger.lock"))
    return lock


def holders(path: Path) -> tuple[str, ...]:
    """Return the processes that have a flock on the file, as far as /proc/locks lists them."""
    try:
        seen = path.stat()
        table = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return ()
    inode = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
    rows = (line.split() for line in table.splitlines() if " FLOCK " in line)
    pids = {int(row[4]) for row in rows if inode in row}
    return tuple(f"pid {pid}" for pid in sorted(pids) if pid > 0)


def _open_to_read(path: Path) -> Flock | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise ForeignStoreError(str(path.parent), f"{path.name} is not a regular file") from error
        raise ReadOnlyStoreError(str(path.parent), f"{path.name}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ReadOnlyStoreError(str(path.parent), f"{path.name} is not a regular file")
    return Flock(path, fd, "r")
