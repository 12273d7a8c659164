"""A run's private folder for temporary files, and its cleanup at the end of the run.

Launchers and hooks leave files for other tools to find: pointers to transcripts, and the state of the
lesson hook. At the end these are moved to the caller's own temporary folder, where they would have been
written without us. An existing file is never overwritten. The rest is removed, unless it is still needed: a
transcript that a pointer refers to, queued hook calls, or the folder of a nested run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rightful.locate.layouts import real_path

PREFIX = "rightful-run-"
"""Prefix of the folder's name."""

_HANDED_BACK = (
    "claude-lesson-match/*.json",
    "cc-session-*",
    "gptme-traj-*.path",
    "grok-build-session-log-ref-*.txt",
)
"""Temporary files that other tools look for: those of the lesson hook and of gptme-contrib's `run_item.py`."""

_SPOOL = "rightful-spool-*"


def temporary(environment: Mapping[str, str]) -> Path:
    """Create a run's private folder, mode 0700, in the caller's temporary folder, and return it.

    Raises:
        OSError: The folder cannot be created.
    """
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=_callers(environment)))


def _callers(environment: Mapping[str, str]) -> str:
    named = environment.get("TMPDIR", "")
    return named if os.path.isabs(named) and os.path.isdir(named) else tempfile.gettempdir()  # noqa: PTH112, PTH117 - text of the environment


def end(temp: Path, environment: Mapping[str, str], needed: list[str], *, keep: bool) -> str | None:
    """Move back the files that other tools look for and remove the rest; return why the folder was kept, or None.

    Args:
        temp: The folder.
        environment: The caller's environment.
        needed: Paths of reported files, such as transcripts.
        keep: Whether to keep the folder in any case.
    """
    if keep:
        return "--keep was given"
    if any(Path(real_path(path)).is_relative_to(temp.resolve()) for path in needed):
        return "it contains a transcript"
    if any(path.is_file() for spool in temp.glob(_SPOOL) for path in spool.rglob("*.json*")):
        return "it contains hook calls that wait for the ledger"
    if any(temp.glob(f"{PREFIX}*")):
        return "a nested run left files in it"
    stayed = [path for path in _left(temp) if not _moved(path, Path(_callers(environment)) / path.relative_to(temp))]
    if stayed:
        return f"{stayed[0].name} could not be moved back: the file exists already, or the folder is not writable"
    shutil.rmtree(temp, ignore_errors=True)
    return "it could not be removed" if temp.exists() else None


def _left(temp: Path) -> Iterator[Path]:
    for pattern in _HANDED_BACK:
        yield from (path for path in sorted(temp.glob(pattern)) if path.is_file() and not path.is_symlink())


def _moved(path: Path, to: Path) -> bool:
    """Move a file to a path that does not exist, and return whether it was moved."""
    try:
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.link(path, to)
        except FileExistsError:
            return False
        except OSError:  # another file system, or one without hard links
            _copy(path, to)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        path.unlink()
    return True


def _copy(path: Path, to: Path) -> None:
    with path.open("rb") as source, to.open("xb") as target:
        to.chmod(0o600)
        shutil.copyfileobj(source, target)
