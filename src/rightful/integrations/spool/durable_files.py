"""Files in folders that no other user can write to: written durably, and read without blocking."""

from __future__ import annotations

import contextlib
import errno
import os
import time

from rightful.importers.sources.private_folder import is_private
from rightful.storage.folder_sync import sync_folder

_TORN_S = 3_600


def private_files(folder: str) -> list[os.DirEntry[str]]:
    """Return the regular files in a folder; none if it is missing, or may belong to another user.

    Other entries, such as a FIFO or a link, are skipped, because reading them could block forever.
    """
    try:
        if not is_private(folder):
            return []
        with os.scandir(folder) as listing:
            return [entry for entry in listing if entry.name[:1] != "." and entry.is_file(follow_symlinks=False)]
    except (OSError, ValueError):
        return []


def read_file(path: str, limit: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: The file cannot be read, has more than `limit` bytes, or is not a regular file.
    """
    from rightful.importers.sources.text_files import opened

    with opened(path, follow=False) as file:
        data = file.stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, "longer than what is read", path)
    return data


def write_file(folder: str, name: str, data: bytes) -> str:
    """Write a file atomically and durably, and return its path.

    Raises:
        OSError: The file cannot be written.
    """
    temporary, path = f"{folder}/.{os.urandom(4).hex()}-{name}", f"{folder}/{name}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.fchmod(fd, 0o600)
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):
        sync_folder(folder)
    return path


def open_marker(path: str) -> int:
    """Open a marker file, created if it is missing, and return the descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def remove_torn(folder: str) -> None:
    """Remove the temporary files of killed calls; no call writes for an hour."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder) if is_private(folder) else ():
            if entry.name.startswith(".") and time.time() - entry.stat(follow_symlinks=False).st_mtime > _TORN_S:
                os.unlink(entry.path)
