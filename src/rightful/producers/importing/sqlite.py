"""SQLite databases of other programs, read as they are at one moment; never written, and never waited for by them.

A database is copied first, to a private temporary folder, and the copy is read: so no lock is held while
the ledger is written, and nothing is made beside it. How it is copied depends on what stands there:

- A rollback journal, or a `-wal` with its `-shm`: somebody may be writing now. The copy is made by SQLite
  (its backup API) in one read transaction of a connection that is opened for reading only.
- No `-shm`: nobody has it open in WAL mode. A read-only connection would have to make one (and would fail in a
  folder that cannot be written), so the files are copied as they are; a `-wal` that a killed program left
  behind has committed rows, so it is copied too. If anything changed meanwhile, it is begun again.
- A journal that a killed program left behind, which only a writer can roll back: likewise.

(sqlite.org: `wal.html` "Read-Only Databases", `backup.html`, `lockingv3.html` "Hot Journals".)
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.producers.importing.readers import NotYetError

if TYPE_CHECKING:
    from sqlite3 import Connection

HEADER = b"SQLite format 3\x00"
"""How a database begins."""

SUFFIXES = (".db", ".sqlite", ".sqlite3", ".db3")
"""How the names of databases end that are looked for in a folder; one that is named may be called anything."""

WAL = "-wal"
"""How the name of the file ends that has the newest rows of a database in WAL mode."""

_SHM, _JOURNAL = "-shm", "-journal"
_VERSIONS, _WAL_MODE = slice(18, 20), 2  # of the header: how it is written and read
_TRIES = 5


class _Facts(NamedTuple):
    inode: int
    size: int
    mtime_ns: int


@contextmanager
def copied(path: str, *, timeout_s: float = limits.DATABASE_WAIT_S) -> Iterator[Connection]:
    """Open a copy of a database as it is now; texts come as bytes.

    Args:
        path: The database. It is not changed, and nothing is made beside it.
        timeout_s: How long to wait for a program that keeps others from reading it; seconds.

    Raises:
        NotYetError: It is locked, or written all the time.
        InvalidEventError: It is damaged.
        OSError: It cannot be read, or there is no space for the copy.
    """
    import sqlite3

    real = os.path.realpath(path)  # beside what a link leads to stand its other files
    with tempfile.TemporaryDirectory(prefix="rightful-") as folder:
        try:
            copy = _copy(real, Path(folder), timeout_s)
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                connection.text_factory = bytes
                yield connection
        except sqlite3.DatabaseError as error:
            raise _said(error) from None


def _said(error: Exception) -> InvalidEventError:
    if "locked" in str(error):
        return NotYetError("another program keeps it locked; nothing of it was imported. Import it again")
    return InvalidEventError(f"SQLite cannot read it ({error}); what of it is not in the ledger was not imported")


def _copy(real: str, folder: Path, timeout_s: float) -> Path:
    """Copy a database by whichever way does no harm; return where the copy is."""
    import sqlite3

    for number in range(_TRIES):
        copy = folder / f"{number}.db"
        if _is_shared(real):
            with suppress(sqlite3.OperationalError) if _exists(real, _JOURNAL) else _plainly():
                _backed_up(real, copy, timeout_s)
                return copy
        if _carried(real, copy):
            return copy
    raise NotYetError("it changed all the time while it was copied; nothing of it was imported. Import it again")


@contextmanager
def _plainly() -> Iterator[None]:
    yield


def _is_shared(real: str) -> bool:
    """Say whether SQLite can read it beside others without a file that is not there."""
    with open(real, "rb") as stream:  # noqa: PTH123 - the path is shown as it was given
        is_wal = _WAL_MODE in stream.read(_VERSIONS.stop)[_VERSIONS]
    return not is_wal or (_exists(real, WAL) and _exists(real, _SHM))


def _exists(real: str, suffix: str) -> bool:
    return _facts(real, suffix) is not None


def _facts(real: str, suffix: str = "") -> _Facts | None:
    try:
        facts = os.stat(f"{real}{suffix}")  # noqa: PTH116 - as above
    except FileNotFoundError:
        return None
    return _Facts(facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _backed_up(real: str, copy: Path, timeout_s: float) -> None:
    """Let SQLite copy it, beside whoever writes it."""
    import sqlite3

    source = sqlite3.connect(f"file:{quote(real)}?mode=ro", uri=True, timeout=timeout_s, isolation_level=None)
    with closing(source), closing(sqlite3.connect(copy)) as target:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()  # waits for its lock; a backup waits for ever
        source.backup(target)


def _carried(real: str, copy: Path) -> bool:
    """Copy its files as they are; say whether they stayed the same meanwhile."""
    parts = ("", WAL, _JOURNAL)
    before = [_facts(real, part) for part in parts]
    for part, facts in zip(parts, before, strict=True):
        if facts is not None:
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{real}{part}", f"{copy}{part}")
    return before == [_facts(real, part) for part in parts]
