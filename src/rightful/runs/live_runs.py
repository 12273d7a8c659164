"""The runs that are alive: each has a file that stays locked until the run ends.

The lock is a flock. The kernel releases it however the process ends, so a killed run never looks alive and
no process ids are compared. The next run that finds an unlocked file removes it. The first line of a file
describes its own run. A new run appends a line about itself to the file of every live run. So each run
knows at its end which runs overlapped with it, even for a second.

The files are in every folder that runs which could disturb each other share: the repository's common
folder, whatever ledger a run uses (outside of a repository, the user's state folder), and the ledger's
folder, whatever the working folder is. Other machines do not see them, and neither do processes on a
network file system without locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LIVE = "live"
"""The folder for these files, in the runs folder of a ledger."""

IN_GIT = "rightful"
"""The folder for these files, in a repository's common folder."""

_SUFFIX = ".run"
_BYTES = 1 << 20


class LiveRun(NamedTuple):
    """A run that is alive.

    Attributes:
        session: The run's own name.
        cwd: Its working folder.
        top: Its work tree; None outside of one.
    """

    session: str
    cwd: str
    top: str | None


class LiveRunFiles:
    """The locked files of one live run, one in each folder.

    Args:
        folders: The folders for the files; a folder that is not writable is skipped.
        mark: The run's mark.
        life: The facts that other runs read.

    Attributes:
        before: The runs that were alive when this one began.
        refused: The folders that are not writable.
    """

    def __init__(self, folders: list[Path], mark: str, live_run: LiveRun) -> None:
        self.refused: list[Path] = []
        self._name = f"{mark}{_SUFFIX}"
        self._files: list[tuple[Path, int]] = []
        for folder in folders:
            try:
                self._files.append((folder, _create_locked(folder, self._name, live_run)))
            except OSError:
                self.refused.append(folder)
        found = [(folder / name, live_run) for folder, _ in self._files for name, live_run in _live_runs(folder)]
        others = [(path, live_run) for path, live_run in found if path.name != self._name]
        for path, _ in others:
            _add(path, live_run)
        self.before = list(dict.fromkeys(live_run for _, live_run in others))

    def others(self) -> list[LiveRun]:
        """Return every other run that was alive since this one began, without duplicates."""
        later = [run for _, fd in self._files for run in _runs_in(fd)[1:]]
        return list(dict.fromkeys([*self.before, *later]))

    def close(self) -> None:
        """Remove the files and release their locks."""
        while self._files:
            folder, fd = self._files.pop()
            with contextlib.suppress(OSError):
                (folder / self._name).unlink()
            os.close(fd)


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that all runs of a user share, for runs outside of a repository."""
    named = environment.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"  # noqa: PTH117 - text
    return state / "rightful" / LIVE


def live_sessions(folder: Path) -> list[str]:
    """Return the names of the live runs in a folder; no file is removed."""
    return [live_run.session for _, live_run in _live_runs(folder, clear=False)]


def _create_locked(folder: Path, name: str, live_run: LiveRun) -> int:
    """Create a run's file, locked before other processes can see it, and return its descriptor."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, _line(live_run))
        hidden.rename(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            hidden.unlink()
        os.close(fd)
        raise
    return fd


def _live_runs(folder: Path, *, clear: bool = True) -> Iterator[tuple[str, LiveRun]]:
    """Yield the live runs in a folder by file name. If `clear`, remove the files of ended runs."""
    try:
        names = sorted(path.name for path in folder.glob(f"[!.]*{_SUFFIX}"))
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            if (live_run := _live_run(folder / name, clear=clear)) is not None:
                yield name, live_run


def _live_run(path: Path, *, clear: bool) -> LiveRun | None:
    """Return the live run of a file. Return None if the run ended, and remove the file if `clear`.

    Raises:
        OSError: The file cannot be read.
        ValueError, TypeError, LookupError: Its content is not that of a run's file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _runs_in(fd)[0]
        if clear:
            path.unlink()
        return None
    finally:
        os.close(fd)


def _add(path: Path, live_run: LiveRun) -> None:
    """Append a line to another run's file. Errors are ignored: a run that has ended does not need it."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(fd, _line(live_run))
        finally:
            os.close(fd)


def _line(live_run: LiveRun) -> bytes:
    return json.dumps(live_run._asdict()).encode() + b"\n"


def _runs_in(fd: int) -> list[LiveRun]:
    """Return the runs listed in a file; the first is the file's own run."""
    data = os.pread(fd, _BYTES, 0)
    rows = (json.loads(line) for line in data.split(b"\n")[:-1])
    return [LiveRun(*(run[name] for name in LiveRun._fields)) for run in rows]  # a later version may add fields
