"""Folders that no other user can write to: for checkpoints, spools and other files that are read back and trusted."""

from __future__ import annotations

import os
import stat

from rightful.storage.folder_sync import sync_folder

_PRIVATE = 0o700
_OTHERS_WRITE = 0o022


def is_private(folder: str) -> bool:
    """Return whether no other user can write to a folder, or replace it."""
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_mode & _OTHERS_WRITE or facts.st_uid != os.geteuid():
        return False
    above = os.stat(os.path.dirname(folder))
    if above.st_mode & stat.S_ISVTX:
        return True
    return above.st_uid in {0, os.geteuid()} and not above.st_mode & _OTHERS_WRITE


def private_folder(folder: str) -> str:
    """Make a folder, and those above it that are missing, that only this user can enter. Return its path.

    Raises:
        OSError: The folder cannot be made, or the existing one can be written by another user.
    """
    _make(folder)
    if not is_private(folder):
        raise OSError(f"{folder} may belong to another user")
    return folder


def _make(folder: str) -> None:
    above = os.path.dirname(folder)
    try:
        os.mkdir(folder, _PRIVATE)
    except FileExistsError:
        return
    except FileNotFoundError:
        if above == folder:
            raise
        _make(above)
        _make(folder)
        return
    os.chmod(folder, _PRIVATE)
    sync_folder(above)
