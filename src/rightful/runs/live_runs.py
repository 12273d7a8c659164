"""Which runs live: a file each, locked for as long as its run is there.

The lock is a flock, which the system takes back however its holder ends; so a run that was killed is
never taken for one that lives, and no process id is compared. A file that nobody holds is removed by
the next run that sees it. Its first line is the run it stands for. A run that begins adds a line about
itself to the file of each that lives, so that this one knows at its end who was there meanwhile, be it
for a second.

The files stand where all who could disturb each other see them: in the repository's common folder
(outside of one, in the user's own for such state), whatever ledger a run has, and in the ledger's,
whatever its working folder. They are not seen by other machines, nor through a network file system
that does not lock.
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
"""The folder for these files in a ledger's folder for runs."""

IN_GIT = "rightful"
"""Their folder in a repository's common folder."""

_SUFFIX = ".run"
_BYTES = 1 << 20


class Life(NamedTuple):
    """A run that is there.

    Attributes:
        session: The run's own name.
        cwd: Its working folder.
        top: The work tree that it works in; None outside of one.
    """

    session: str
    cwd: str
    top: str | None


class Held:
    """The file of a run that is there, in each of some folders.

    Args:
        folders: Where it is seen; one that cannot be written is left out.
        mark: The run's mark.
        life: What others are told.

    Attributes:
        before: Those who were there when this one began.
        refused: The folders that could not be written.
    """

    def __init__(self, folders: list[Path], mark: str, life: Life) -> None:
        self.refused: list[Path] = []
        self._name = f"{mark}{_SUFFIX}"
        self._held: list[tuple[Path, int]] = []
        for folder in folders:
            try:
                self._held.append((folder, _locked(folder, self._name, life)))
            except OSError:
                self.refused.append(folder)
        living = [(folder / name, one) for folder, _ in self._held for name, one in _living(folder)]
        others = [(path, one) for path, one in living if path.name != self._name]
        for path, _ in others:
            _add(path, life)
        self.before = list(dict.fromkeys(one for _, one in others))

    def others(self) -> list[Life]:
        """Return everybody else who was there since this one began, each once."""
        came = [run for _, fd in self._held for run in _lives(fd)[1:]]
        return list(dict.fromkeys([*self.before, *came]))

    def close(self) -> None:
        """Be there no more."""
        while self._held:
            folder, fd = self._held.pop()
            with contextlib.suppress(OSError):
                (folder / self._name).unlink()
            os.close(fd)


def of_user(environment: Mapping[str, str]) -> Path:
    """Return the folder that all runs of a user see, for those outside of a repository."""
    named = environment.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"  # noqa: PTH117 - text
    return state / "rightful" / LIVE


def living(folder: Path) -> list[str]:
    """Return the names of the runs that a folder's files show to be there; nothing is removed."""
    found = (life for _, life in _living(folder, clear=False))
    return [life.session for life in found]


def _locked(folder: Path, name: str, life: Life) -> int:
    """Make a run's file, locked before anybody can see it; return its descriptor.

    Raises:
        OSError: It cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, _line(life))
        hidden.rename(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            hidden.unlink()
        os.close(fd)
        raise
    return fd


def _living(folder: Path, *, clear: bool = True) -> Iterator[tuple[str, Life]]:
    """Yield the runs that a folder tells of, and remove the files of those that are gone if they are to be cleared."""
    try:
        names = sorted(path.name for path in folder.glob(f"[!.]*{_SUFFIX}"))
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            if (life := _life(folder / name, clear=clear)) is not None:
                yield name, life


def _life(path: Path, *, clear: bool) -> Life | None:
    """Return the run that holds a file; None if nobody does, and the file is removed if it is to be cleared.

    Raises:
        OSError: It cannot be read.
        ValueError, TypeError, LookupError: Something else stands in it.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _lives(fd)[0]
        if clear:
            path.unlink()
        return None
    finally:
        os.close(fd)


def _add(path: Path, life: Life) -> None:
    """Add a line to another run's file; it may have ended meanwhile, which needs no line."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(fd, _line(life))
        finally:
            os.close(fd)


def _line(life: Life) -> bytes:
    return json.dumps(life._asdict()).encode() + b"\n"


def _lives(fd: int) -> list[Life]:
    """Return the runs that stand in a file, its own first."""
    data = os.pread(fd, _BYTES, 0)
    told = (json.loads(line) for line in data.split(b"\n")[:-1])
    return [Life(*(run[name] for name in Life._fields)) for run in told]  # a later version may tell more
