"""The `.bak` file of pm-dispatch: written as the tool does, and restored by a rollback.

The bytes before a publication are kept like all bytes that a backfill replaces. Their hash, or that there was
no such file, is kept under the publication's id.
"""

from __future__ import annotations

import json

from rightful.backfill import target_file
from rightful.backfill.replaced_bytes import ReplacedBytes
from rightful.backfill.target_file import FileState
from rightful.errors import StorageError


class Backup:
    """A tool's backup of its file, as one publication, given by its event id, finds and leaves it."""

    def __init__(self, replaced: ReplacedBytes, real: str, publication: str) -> None:
        self._replaced, self._real, self._publication = replaced, real, publication
        self.path = f"{real}.bak"

    def keep(self) -> None:
        """Keep the present backup, before the publication is appended."""
        present = target_file.read_plannable(self.path)
        if present.data is not None:
            self._replaced.keep(present.data)
        self._replaced.keep_backup(self._publication, json.dumps({"sha256": present.sha256}).encode() + b"\n")

    def write(self, seen: FileState) -> None:
        """Write the present file to the backup, as its tool does before it writes the file."""
        if seen.data is not None:
            target_file.write_aside(self.path, seen.data, seen)

    def restore(self) -> None:
        """Restore the backup from before the publication; the present one is kept."""
        before = self.before()
        target_file.drop(target_file.temporary_path(self.path))  # a kill may have left it
        if before is None:
            return
        present = target_file.read_plannable(self.path)
        if present.sha256 == before.sha256:
            return
        if present.data is not None:
            self._replaced.keep(present.data)
        if before.data is None:
            target_file.drop(self.path)
        else:
            target_file.write_aside(self.path, before.data, present)
        target_file.sync(self._real)

    def before(self) -> FileState | None:
        """Return the earlier backup; None if the publication did not touch it.

        Raises:
            StorageError: It is no longer kept, or is damaged.
        """
        said = self._replaced.backup_of(self._publication)
        if said is None:
            return None
        name = json.loads(said)["sha256"]
        if name is None:
            return FileState(None)
        data = self._replaced.find(name)
        if data is None:
            what = f"the earlier bytes {name} of {self.path} are missing from this ledger, or damaged"
            raise StorageError(what, "Restore the ledger's folder `backfill` from a backup and roll back again.")
        return FileState(data)
