"""What is done to a store's data file beside LMDB, which keeps no locks on it.

LMDB names what a commit wrote on one of the first two pages, by turns. A system that could not
write a page forgets that it had to, and the next sync succeeds without it. LMDB then writes
over what the page on the disk still names, two commits later.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_SECTOR: Final = 512
"""What holds all that LMDB writes on either page; bytes."""


def sync(data: Path) -> None:
    """Make durable what was written to the file, by whichever process; a reader may do it too.

    Raises:
        OSError: The system failed.
    """
    fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
    try:
        getattr(os, "fdatasync", os.fsync)(fd)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EROFS}:  # what cannot be written need not be synced
            raise
    finally:
        os.close(fd)


def write_again(data: Path, page_bytes: int) -> None:
    """Write both pages as they are, so that the next sync is of them too; only who has the turn may.

    Raises:
        OSError: The system failed.
    """
    fd = os.open(data, os.O_RDWR | os.O_CLOEXEC)
    try:
        for at in (0, page_bytes):
            os.pwrite(fd, os.pread(fd, _SECTOR, at), at)
    finally:
        os.close(fd)
