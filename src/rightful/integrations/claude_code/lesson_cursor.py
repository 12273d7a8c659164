"""How far one session's lesson files were taken, from one call of the hook to the next.

It is a small file for a session, in the folder `hook` of the ledger. It only saves work: without
it, with a damaged one, or when the ledger's store was replaced, all is read again and
answers `duplicate`. So it is not synced.
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


class Known(NamedTuple):
    """How much of a file was taken.

    Attributes:
        size: How many bytes, to the end of a line; of a document, how many exposures.
        mark: A digest that shows whether the part that was read is unchanged.
        seen: What shows whether a line occurred before: 8 bytes of the digest of each, in base64. Of a
            document, the digest of its exposures.
    """

    size: int = 0
    mark: str = ""
    seen: str = ""


Taken = dict[str, Known]
"""How much was taken, by file."""


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

    def load(self) -> Taken:
        """Return what was taken; nothing if that is not known."""
        try:
            with open(self._path, "rb") as file:
                kept = json.load(file)
            if kept["store"] != self._store():
                return {}
            return {path: Known(int(size), str(mark), str(seen)) for path, (size, mark, seen) in kept["taken"].items()}
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return {}

    def _store(self) -> list[int]:
        """Return which files the rows stand in: a restored ledger has others, and may lack what was taken."""
        facts = [os.stat(f"{self._ledger}/store/data.mdb")]
        with contextlib.suppress(FileNotFoundError):  # a store of format 1 has none
            facts.append(os.stat(f"{self._ledger}/store/journal"))
        return [number for file in facts for number in (file.st_dev, file.st_ino)]

    def save(self, taken: Taken) -> None:
        """Keep what was taken, if the ledger's folder can be written."""
        half = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            kept = {"store": self._store(), "taken": taken}
            if not os.path.isdir(self._folder):
                os.mkdir(self._folder, 0o700)
            fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(kept, file)
            os.replace(half, self._path)

    def forget(self) -> None:
        """Remove it, when the session ends, and the oldest of sessions that never did, if they are many."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        with contextlib.suppress(OSError), os.scandir(self._folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.stat().st_mtime)
            for entry in entries[: max(len(entries) - limits.HOOK_CURSORS, 0)]:
                os.unlink(entry.path)
