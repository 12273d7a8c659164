"""Locks between processes, outside LMDB's own.

LMDB's writer lock cannot be waited for with a limit, nor be queued for. So everybody who
opens a store holds `ledger.lock` shared, which compaction, repair and restore take alone;
and writers pass a turnstile of two locks, so that a process that writes in a tight loop
cannot starve the others: whoever holds `queue.lock` is the only one who waits for
`writer.lock`. Each is a flock: it ends with its holder, however that ends.
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
"""How long an opener waits for one who gives the store a journal; seconds. It takes milliseconds, once."""

_NOT_A_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""What the system says to an open that follows no link: of a symbolic link, a folder, a socket."""

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def open_private(path: Path) -> int:
    """Open a file for reading and writing, made with mode 0600 whatever the umask says.

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
    """One lock file. Its lock is shared by fork, so a child closes it and never unlocks it.

    Attributes:
        path: The file.
    """

    __slots__ = ("_file", "path")

    def __init__(self, path: Path, fd: int, mode: str = "r+") -> None:
        self.path = path
        self._file = io.FileIO(fd, mode)  # closed in C: no exception comes between, and one that is lost is closed

    @classmethod
    def open(cls, path: Path) -> Flock:
        """Open the lock file, making it if it is missing.

        Raises:
            ReadOnlyStoreError: It is missing or locked for you, and cannot be made.
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
        """Take it alone, waiting as long as it takes."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def try_exclusive(self) -> bool:
        """Take it alone if nobody has it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_shared(self) -> bool:
        """Take it together with others, unless one has it alone."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_alone(self) -> bool:
        """Take alone what is held together with others; if somebody else has it, go on holding it so.

        Raises:
            InUseError: Another one took it meanwhile, since the system gives it back for a moment. It is not held.
        """
        if self.try_exclusive():
            return True
        self.share()
        return False

    def share(self) -> None:
        """Hold what one had alone, or lost, together with others again.

        Raises:
            InUseError: Another one took it meanwhile. It is not held.
        """
        if not self.try_shared():
            raise InUseError(str(self.path.parent), holders(self.path))

    def unlock(self) -> None:
        """Give it back, for every process that inherited it too."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the lock ends with its last holder."""
        self._file.close()


class Turnstile:
    """The way of one process at a time to write. Both waits block; neither polls."""

    __slots__ = ("_at_once", "_queue", "_writer")

    def __init__(self, folder: Path) -> None:
        self._at_once = 0
        self._queue = Flock.open(folder / "queue.lock")
        try:
            self._writer = Flock.open(folder / "writer.lock")
        except BaseException:
            self._queue.close()
            raise

    def enter(self) -> bool:
        """Wait for the turn, however long another process holds it; always true."""
        if self.try_enter():
            return True
        self._at_once = 0
        self._queue.exclusive()
        try:
            self._writer.exclusive()
        finally:
            self._queue.unlock()
        return True

    def try_enter(self) -> bool:
        """Take the turn if it can be had at once, unless it was so had too often; tell whether it was."""
        if self._at_once == limits.TURNS_AT_ONCE or not self._writer.try_exclusive():
            return False
        self._at_once += 1
        return True

    def leave(self) -> None:
        """Let the next one write."""
        self._writer.unlock()

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
    """Hold `ledger.lock` with all others who have the store open.

    Returns:
        The lock, held until it is closed; None if the folder is read-only and has no such file.

    Raises:
        InUseError: Compaction, repair or restore has the store for itself.
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
    """Have the turn and the store alone meanwhile, if nobody else has either; who opens it then waits a little.

    Raises:
        InUseError: Another one took it alone meanwhile. It is not held any more.
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
    """Wait until nobody has the turn, but not for ever for one who was stopped in it."""

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
    """Take `ledger.lock` alone: for compaction, repair and restore.

    Returns:
        The lock, held until it is closed.

    Raises:
        InUseError: Somebody has the store open; the error names whom the system knows.
    """
    lock = Flock.open(folder / "ledger.lock")
    if not lock.try_exclusive():
        lock.close()
        raise InUseError(str(folder), holders(folder / "ledger.lock"))
    return lock


def holders(path: Path) -> tuple[str, ...]:
    """Name the processes that hold a flock on the file, as far as /proc/locks knows them."""
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
