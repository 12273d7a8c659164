"""The cursor of a session: how far its lesson files were read by earlier hook calls.

It is a small file for each session, in the folder `hook` of the ledger. It only saves work. If it is missing or
damaged, or the ledger's store was replaced, everything is read again and the events are `duplicate`. So it is not
synced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import NamedTuple

from rightful import limits

FOLDER = "hook"
"""Its name in a ledger's folder."""


class ReadState(NamedTuple):
    """The read state of a file.

    Attributes:
        size: The number of bytes read, to the end of a line; for a document, the number of exposures.
        mark: A digest that shows whether the part already read is unchanged.
        seen: The data to detect repeated lines: 8 bytes of the digest of each, in base64. For a document, the
            digest of its exposures.
    """

    size: int = 0
    mark: str = ""
    seen: str = ""


ReadStates = dict[str, ReadState]
"""The read state of each file."""


class Cursor:
    """The cursor of one session.

    Args:
        ledger: The ledger's folder.
        raw: The session's id; the file is named by its digest.
    """

    def __init__(self, ledger: str, raw: str) -> None:
        self._ledger = ledger
        self._folder = f"{ledger}/{FOLDER}"
        name = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
        self._path = f"{self._folder}/{name}.json"

    def load(self) -> ReadStates:
        """Return the stored read state; an empty one if it is unknown."""
        try:
            with open(self._path, "rb") as file:
                stored = json.load(file)
            if stored["store"] != self._store():
                return {}
            states = stored["taken"].items()
            return {path: ReadState(int(size), str(mark), str(seen)) for path, (size, mark, seen) in states}
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return {}

    def _store(self) -> list[int]:
        """Return the identity of the store's files: a restored ledger has others, and may lack exposures."""
        facts = [os.stat(f"{self._ledger}/store/data.mdb")]
        with contextlib.suppress(FileNotFoundError):  # a store of format 1 has none
            facts.append(os.stat(f"{self._ledger}/store/journal"))
        return [number for file in facts for number in (file.st_dev, file.st_ino)]

    def save(self, states: ReadStates) -> None:
        """Store the read state, if the ledger's folder is writable."""
        temporary = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            stored = {"store": self._store(), "taken": states}
            if not os.path.isdir(self._folder):
                os.mkdir(self._folder, 0o700)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(stored, file)
            os.replace(temporary, self._path)

    def forget(self) -> None:
        """Remove the cursor at the session's end, and the oldest cursors of other sessions if there are many."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        with contextlib.suppress(OSError), os.scandir(self._folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.stat().st_mtime)
            for entry in entries[: max(len(entries) - limits.HOOK_CURSORS, 0)]:
                os.unlink(entry.path)
