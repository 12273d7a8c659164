"""The folders of a ledger's spool, including those from before the ledger was moved.

Calls made while a ledger is not available are stored in folders whose names are derived from its path. So a
ledger stores the paths at which hooks wrote to it, in the file `paths` of its spool. Files for a former path are
drained too, unless another ledger is there now, which drains them itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping

from rightful import limits

FOLDER = "spool"
"""The spool's name in a ledger's folder."""

PATHS = "paths"
"""The file with the paths that the ledger had when hooks wrote to it, the latest one last."""

_NAME_DIGITS = 32
_PATHS_BYTES = 1 << 20


class SpoolFolders:
    """The folders that may contain a ledger's queued calls.

    Args:
        root: The ledger's real path.
        environment: The environment variables.

    Attributes:
        usable: The folders for new calls, in this order; the first is the ledger's own.
        former: The folders from before the ledger was moved; only drained.
    """

    def __init__(self, root: str, environment: Mapping[str, str]) -> None:
        self._root = root
        self._paths = _stored_paths(root)
        self.usable = [f"{root}/{FOLDER}", *_outside(root, environment)]
        self.former: list[str] = []
        for path in self._paths:
            if path != root and not os.path.lexists(f"{path}/store"):
                self.former += _outside(path, environment)

    def remember(self) -> None:
        """Store the ledger's current path if it is new."""
        if self._paths[-1:] == [self._root]:
            return
        from rightful.importers.sources.private_folder import private_folder
        from rightful.integrations.spool.durable_files import write_file

        paths = [*(path for path in self._paths if path != self._root), self._root][-limits.SPOOL_PATHS :]
        with contextlib.suppress(OSError, ValueError):
            write_file(private_folder(f"{self._root}/{FOLDER}"), PATHS, json.dumps(paths).encode())
            self._paths = paths


def may_wait(root: str, environment: Mapping[str, str]) -> bool:
    """Return whether a ledger can have queued calls. If no hook ever wrote, none of these folders exists.

    A command that appends one event calls this first, and so does not load the rest of the spool.
    """
    return os.path.lexists(f"{root}/{FOLDER}") or any(map(os.path.lexists, _roots(environment)))


def _roots(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the folders outside of ledgers that contain the spools of all ledgers."""
    home = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    temp = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - a folder of our own in it
    return f"{home}/rightful/{FOLDER}", f"{temp}/rightful-{FOLDER}-{os.geteuid()}"


def _outside(root: str, environment: Mapping[str, str]) -> list[str]:
    """Return the folders outside of a ledger, without relative paths, which depend on the working folder."""
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:_NAME_DIGITS]
    return [f"{folder}/{name}" for folder in _roots(environment) if os.path.isabs(folder)]


def _stored_paths(root: str) -> list[str]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(f"{root}/{FOLDER}/{PATHS}", flags)
        try:
            paths = json.loads(os.read(fd, _PATHS_BYTES))
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return []
    paths = paths if isinstance(paths, list) else []
    return [path for path in paths if isinstance(path, str) and os.path.isabs(path) and "\0" not in path]
