"""Make the names in a folder durable. Hooks import this module early, so it imports nothing else of storage."""

from __future__ import annotations

import os


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync a folder, so that the names in it survive a power cut; LMDB does not."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
