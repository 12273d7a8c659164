"""What a backfill stores in the ledger's folder: the bytes that it replaced, and the last plan of each target.

Bytes are named by their SHA-256, plans by that of the target's path, what is known of a tool's own
backup by that of the publication's id, so no path is built from what a file or an event says.
All of it is written whole or not at all, and is its owner's alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from rightful.backfill.target_file import sha256
from rightful.storage.environment.store_files import make_folder
from rightful.storage.locks import PRIVATE_FILE

FOLDER = "backfill"
"""Its name in the ledger's folder."""


class ReplacedBytes:
    """The files that backfills keep in the folder of a ledger."""

    def __init__(self, ledger: Path) -> None:
        self.folder = ledger / FOLDER

    def keep(self, data: bytes) -> str:
        """Store bytes durably, unless they are already there, and return their SHA-256."""
        name = sha256(data)
        if self.find(name) is None:
            self._write(f"{name}.bytes", data)
        return name

    def find(self, name: str) -> bytes | None:
        """Return the bytes of a SHA-256; None where they are not kept, or are damaged."""
        data = self._read(f"{name}.bytes")
        return data if data is not None and sha256(data) == name else None

    def keep_at(self, data: bytes) -> str:
        """Store bytes as `keep` does, and return their path."""
        return self.path_of(self.keep(data))

    def path_of(self, name: str) -> str:
        """Return where the bytes of a SHA-256 are kept."""
        return str(self.folder / f"{name}.bytes")

    def keep_plan(self, target: str, document: bytes) -> Path:
        """Store the last plan of a target, and return its path."""
        return self._write(_plan_name(target), document)

    def plan_of(self, target: str) -> bytes | None:
        """Return the last plan of a target; None where there is none."""
        return self._read(_plan_name(target))

    def keep_backup(self, publication: str, document: bytes) -> None:
        """Store the state of a tool's own backup before a publication."""
        self._write(_backup_name(publication), document)

    def backup_of(self, publication: str) -> bytes | None:
        """Return the state of a tool's own backup before a publication; None if it was not stored."""
        return self._read(_backup_name(publication))

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> Path:
        with contextlib.suppress(FileExistsError):
            make_folder(self.folder)
        turn = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)  # one writer at a time, so that a partial file has one name
            self._write_whole(self.folder / name, data)
            os.fsync(turn)
        finally:
            os.close(turn)
        return self.folder / name

    def _write_whole(self, path: Path, data: bytes) -> None:
        half = path.with_name(f"{path.name}.new")
        half.unlink(missing_ok=True)
        try:
            fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, PRIVATE_FILE)
                file.write(data)
                file.flush()
                os.fsync(fd)
            half.rename(path)
        except OSError:
            half.unlink(missing_ok=True)
            raise


def _backup_name(publication: str) -> str:
    return f"{sha256(publication.encode())}.bak.json"


def _plan_name(target: str) -> str:
    return f"{sha256(os.fsencode(target))}.plan.json"
