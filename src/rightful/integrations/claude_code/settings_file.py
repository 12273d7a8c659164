"""The bytes of a settings file: read only from a regular file, and written atomically.

The new bytes are written and flushed to a temporary file first, which is then renamed. What a killed
process leaves of that is swept later.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from rightful.errors import StorageError, UsageError

UNCHANGED = "Nothing was changed. Run the command again when no other process writes the file."
"""The effect and the fix for a file that other processes keep writing."""

_OURS = ".rightful-"
_HALF = re.compile(rf"(?:\.before-rightful(?:\.[0-9]+)?)?{re.escape(_OURS)}([0-9]{{1,9}})\.tmp")


def read(path: str) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        UsageError: It is not a regular file: a pipe or a device might never end.
        OSError: It cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{path} is not a regular file; nothing was changed. Name a settings file.")
    with open(fd, "rb") as file:
        return file.read()


@contextmanager
def prepared_file(path: str, data: bytes, like: str) -> Iterator[str]:
    """Yield a temporary file in the same folder with the new bytes of a file; it is removed afterwards.

    Args:
        path: The file that it shall become.
        data: Its bytes.
        like: The file whose owner and mode it gets; the owner of its folder, if there is none.

    Raises:
        StorageError: It belongs to another user, and the owner cannot be kept.
        OSError: It cannot be written.
    """
    temporary = f"{path}{_OURS}{os.getpid()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            _copy_owner(file.fileno(), like)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def replace(temporary: str, path: str) -> None:
    """Rename a prepared file to its final name, durably."""
    os.replace(temporary, path)
    from rightful.storage.folder_sync import sync_folder

    with contextlib.suppress(OSError):
        sync_folder(os.path.dirname(path) or ".")


def make_folder(path: str) -> None:
    """Create a folder and its parents, each with the owner of its parent folder."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        _set_owner(path, os.stat(above))


def _copy_owner(fd: int, like: str) -> None:
    try:
        found = os.stat(like)
    except FileNotFoundError:
        _set_owner(fd, os.stat(os.path.dirname(like)))
        return
    if found.st_uid != os.fstat(fd).st_uid and os.geteuid() != 0:
        raise StorageError(
            f"{like} belongs to another user; writing it would change its owner",
            "Nothing was changed. Run the command as that user.",
        )
    _set_owner(fd, found)
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):  # a group that we are not in
            os.fchown(fd, -1, found.st_gid)
    os.fchmod(fd, stat.S_IMODE(found.st_mode))


def _set_owner(what: int | str, owner: os.stat_result) -> None:
    """Set the owner of a new file, if we write for another user; only root can."""
    if os.geteuid() == 0:
        os.chown(what, owner.st_uid, owner.st_gid)


def remove_leftovers(path: str) -> None:
    """Remove the temporary files of killed processes next to a file and its backups."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            temporary = _HALF.fullmatch(entry.removeprefix(name)) if entry.startswith(name) else None
            if temporary and not _is_running(int(temporary[1])):
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/{entry}")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return process != os.getpid()
