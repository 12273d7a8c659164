"""The files of an LMDB store: made by us, and looked at before LMDB sees them.

LMDB opens a missing or empty file as a new, empty store, dies by SIGBUS on one that is cut
short or on a full disk while it makes its lock file, and makes both readable for all. So
the files are made here. Nothing here may run while this process has the store open: a plain
close of one of them gives up LMDB's own locks (trust.md 3).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from pathlib import Path

from rightful import limits
from rightful.errors import ForeignStoreError
from rightful.storage.locks import PRIVATE_FOLDER, open_private

DATA = "data.mdb"
LOCK = "lock.mdb"
JOURNAL = "journal"
STORE = "store"
HALF_MADE = "store.new"

NEVER_WRITTEN = frozenset({errno.EINVAL, errno.EROFS})
"""What a file system says to a sync that is never written, where nothing need be synced."""

_MAGIC = 0xBEEFC0DE
_VERSION = 1  # of LMDB 0.9, which `lib_version=0` pins
_PAGE_HEADER = 16
_META = struct.Struct("<II16xI92xQQ")  # magic, version, page size, last page, transaction
_READER_BYTES = 64
_LOCK_HEADER = 128


def make_folder(path: Path) -> None:
    """Make a folder that is its owner's alone, and make its entry durable."""
    path.mkdir(mode=PRIVATE_FOLDER)
    path.chmod(PRIVATE_FOLDER)
    sync_folder(path.parent)


def make_folders(path: Path) -> None:
    """Make a folder and the ones above it that are missing, each as `make_folder` does, unless another process did."""
    if not path.parent.exists():
        make_folders(path.parent)
    with contextlib.suppress(FileExistsError):
        make_folder(path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; LMDB does not."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_data_file(store: Path) -> None:
    """Make the empty file that LMDB starts a new store in."""
    os.close(open_private(store / DATA))


def make_journal_file(store: Path, begins_with: bytes) -> None:
    """Make a journal at its full size, so that no disk that fills up later fails a small commit.

    Args:
        store: The folder.
        begins_with: Its first bytes; the others are zeros.

    Raises:
        OSError: There is no room for it.
    """
    fd = open_private(store / JOURNAL)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, limits.JOURNAL_BYTES)
        else:
            os.pwrite(fd, bytes(limits.JOURNAL_BYTES), 0)
        os.pwrite(fd, begins_with, 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def open_journal(root: Path, store: Path, size: int, *, readonly: bool) -> int:
    """Open a store's journal and return its file descriptor.

    Raises:
        ForeignStoreError: It is missing or cut short, and with it rows that were acknowledged.
        OSError: It cannot be opened.
    """
    flags = (os.O_RDONLY if readonly else os.O_RDWR) | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    name = f"{STORE}/{JOURNAL}"
    try:
        fd = os.open(store / JOURNAL, flags)
    except FileNotFoundError as error:
        raise ForeignStoreError(str(root), f"{name} is missing") from error
    except OSError as error:
        if error.errno in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
            raise ForeignStoreError(str(root), f"{name} is not a regular file") from error
        raise
    found, what = os.fstat(fd), ""
    if not stat.S_ISREG(found.st_mode):
        what = "is not a regular file"
    elif found.st_size < size:
        what = f"is cut short: {found.st_size} of {size} bytes"
    if what:
        os.close(fd)
        raise ForeignStoreError(str(root), f"{name} {what}")
    return fd


def sync(fd: int) -> None:
    """Make durable what was written to an open file, whoever wrote it.

    Raises:
        OSError: The system failed, and what is durable is not known; or it is of `NEVER_WRITTEN`.
    """
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_data(store: Path) -> None:
    """Make durable what LMDB shows. It keeps no locks on this file, so it may be opened and closed.

    Raises:
        OSError: The system failed; what is durable is not known.
    """
    fd = os.open(store / DATA, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd)
    except OSError as error:
        if error.errno not in NEVER_WRITTEN:
            raise
    finally:
        os.close(fd)


def make_lock_file(store: Path) -> None:
    """Make room on disk for the table of readers, where the platform can.

    LMDB writes to it through the map, so a full disk would kill the process by SIGBUS.

    Raises:
        OSError: There is no room for it.
    """
    fd = open_private(store / LOCK)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, lock_file_bytes())
    finally:
        os.close(fd)


def lock_file_bytes() -> int:
    """Return the size of a whole lock.mdb; bytes, up to a page."""
    page = os.sysconf("SC_PAGESIZE")
    return -(-(_READER_BYTES * limits.MAX_READERS + _LOCK_HEADER) // page) * page


def lock_file_is_whole(store: Path) -> bool:
    """Tell whether lock.mdb is there at its full size."""
    with contextlib.suppress(OSError):
        return (store / LOCK).stat().st_size >= lock_file_bytes()
    return False


def inspect(root: Path, store: Path) -> None:
    """Refuse a data.mdb that is missing, empty, cut short or of another program.

    Raises:
        ForeignStoreError: It is; the error says which. It was only read.
    """
    path = store / DATA
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = file.read(_PAGE_HEADER + _META.size)
            page_bytes = _page_bytes(root, size, first)
            file.seek(page_bytes)
            second = file.read(_PAGE_HEADER + _META.size)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is missing") from error
    metas = [_META.unpack_from(page, _PAGE_HEADER) for page in (first, second) if len(page) == len(first)]
    if len(metas) < 2 or metas[1][:2] != (_MAGIC, _VERSION):  # noqa: PLR2004 - LMDB has two
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is cut short")
    newest = max(metas, key=lambda meta: int(meta[4]))
    needed = (newest[3] + 1) * page_bytes
    if size < needed:
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is cut short: {size} of {needed} bytes")


def _page_bytes(root: Path, size: int, first: bytes) -> int:
    if size == 0:
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is empty")
    if size < _PAGE_HEADER + _META.size:
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is not an LMDB file, or is cut short")
    magic, version, page_bytes, _, _ = _META.unpack_from(first, _PAGE_HEADER)
    if (magic, version) != (_MAGIC, _VERSION) or not 256 <= page_bytes <= 65_536:  # noqa: PLR2004 - LMDB's own range
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is not an LMDB file of format {_VERSION}")
    return int(page_bytes)
