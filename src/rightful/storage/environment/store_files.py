"""The files of an LMDB store: created by us, and checked before LMDB opens them.

LMDB opens a missing or empty file as a new, empty store. It dies by SIGBUS on a truncated file,
or on a full disk while it makes its lock file. It makes both files readable for everyone. So
the files are created here. Nothing here may run while this process has the store open: closing
one of these files drops LMDB's own locks (trust.md 3).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from operator import itemgetter
from pathlib import Path

from rightful import limits
from rightful.errors import ForeignStoreError
from rightful.storage import folder_sync
from rightful.storage.locks import PRIVATE_FOLDER, open_private

DATA = "data.mdb"
LOCK = "lock.mdb"
JOURNAL = "journal"
STORE = "store"
HALF_MADE = "store.new"

NEVER_WRITTEN = frozenset({errno.EINVAL, errno.EROFS})
"""Errors of a sync on a file system that is never written, where nothing needs a sync."""

_MAGIC = 0xBEEFC0DE
_VERSION = 1  # of LMDB 0.9, which `lib_version=0` pins
_PAGE_HEADER = 16
_META = struct.Struct("<II16xI92xQQ")  # magic, version, page size, last page, transaction
_READER_BYTES = 64
_LOCK_HEADER = 128


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can use, and make its entry durable."""
    path.mkdir(mode=PRIVATE_FOLDER)
    path.chmod(PRIVATE_FOLDER)
    folder_sync.sync_folder(path.parent)


def make_folders(path: Path) -> None:
    """Make a folder and its missing parents, as `make_folder` does, unless another process made them."""
    if not path.parent.exists():
        make_folders(path.parent)
    with contextlib.suppress(FileExistsError):
        make_folder(path)


def make_journal_file(store: Path, begins_with: bytes) -> None:
    """Make a journal at its full size, so that a disk that fills up later cannot fail a small commit.

    Args:
        store: The folder.
        begins_with: Its first bytes; the others are zeros.

    Raises:
        OSError: The disk is full.
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
        ForeignStoreError: It is missing or truncated, and acknowledged rows with it.
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
    """Make durable what any process wrote to an open file.

    Raises:
        OSError: The system failed, and what is durable is unknown; or its number is in `NEVER_WRITTEN`.
    """
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_data(store: Path) -> None:
    """Sync the data file. LMDB keeps no locks on it, so it may be opened and closed.

    Raises:
        OSError: The system failed; what is durable is unknown.
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
    """Reserve disk space for the reader table, where the platform can.

    LMDB writes to it through the map, so a full disk would kill the process with SIGBUS.

    Raises:
        OSError: The disk is full.
    """
    fd = open_private(store / LOCK)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, lock_file_bytes())
    finally:
        os.close(fd)


def lock_file_bytes() -> int:
    """Return the size of a complete lock.mdb; bytes, up to a page."""
    page = os.sysconf("SC_PAGESIZE")
    return -(-(_READER_BYTES * limits.MAX_READERS + _LOCK_HEADER) // page) * page


def lock_file_is_whole(store: Path) -> bool:
    """Return whether lock.mdb exists at its full size."""
    with contextlib.suppress(OSError):
        return (store / LOCK).stat().st_size >= lock_file_bytes()
    return False


def inspect(root: Path, store: Path) -> None:
    """Refuse a data.mdb that is missing, empty, truncated or written by another program.

    Raises:
        ForeignStoreError: It is one of these, which the error names. The file was only read.
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
    if len(second) < len(first) or _META.unpack_from(second, _PAGE_HEADER)[:2] != (_MAGIC, _VERSION):
        raise ForeignStoreError(str(root), f"{STORE}/{DATA} is cut short")
    metas = _META.unpack_from(first, _PAGE_HEADER), _META.unpack_from(second, _PAGE_HEADER)
    last_page = max(metas, key=itemgetter(4))[3]  # of the newest transaction
    needed = (last_page + 1) * page_bytes
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
