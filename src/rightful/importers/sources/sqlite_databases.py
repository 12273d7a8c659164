"""Read a consistent snapshot of SQLite databases of other programs, without writing to them or blocking them.

A database is first copied to an anonymous temporary database of SQLite, and the copy is read. So no lock is held while
the ledger is written, no file is created next to the database, and a killed import leaves no copy. How it is copied
depends on the files next to it:

- A rollback journal, or a `-wal` with its `-shm`: another program may be writing. SQLite makes the copy
  (its backup API) in one read transaction of a read-only connection.
- No `-shm`: no program has it open in WAL mode. A read-only connection would have to create one (and would fail in a
  read-only folder), so the database is opened as immutable; if it changed meanwhile, the copy is repeated.
- But a `-wal` of a killed program has committed rows, and a hot journal must be rolled back, which only a writer can
  do. Then the files are copied unchanged to a private temporary folder, where SQLite recovers them.

(sqlite.org: `wal.html` "Read-Only Databases", `backup.html`, `lockingv3.html` "Hot Journals", `inmemorydb.html`.)
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import NotYetError
from rightful.importers.sources.text_files import opened

if TYPE_CHECKING:
    from sqlite3 import Connection

HEADER = b"SQLite format 3\x00"
"""The first bytes of a database."""

SUFFIXES = (".db", ".sqlite", ".sqlite3", ".db3")
"""Suffixes of the databases that are searched for in a folder; one that the user names may have any name."""

WAL = "-wal"
"""Suffix of the file with the newest rows of a database in WAL mode."""

_SHM, _JOURNAL = "-shm", "-journal"
_VERSIONS, _WAL_MODE = slice(18, 20), 2  # in the header: write and read version
_TRIES = 5
_NO_SPACE = "there is no space for a copy in the temporary folder (TMPDIR); nothing was imported from it"


class _Facts(NamedTuple):
    inode: int
    size: int
    mtime_ns: int


@contextmanager
def peeked(path: str) -> Iterator[Connection | None]:
    """Open a database without a copy, to recognise its kind: it may be large, and of any program.

    It never waits for a lock, and without a `-wal` file it acquires none, since only the table names are read. Texts
    are returned as bytes. Yields None if the table names cannot be read this way, or if there are no tables yet; the
    kind must then be read from a copy.

    Args:
        path: The database. It is not changed, and no file is created next to it.

    Raises:
        InvalidEventError: A file that belongs to it is not a regular file.
        sqlite3.DatabaseError: It is damaged, or locked.
    """
    import sqlite3

    real = _real(path)
    log = _facts(real, WAL)
    how = "" if log is not None and log.size else "&immutable=1"
    if not how and not _exists(real, _SHM):
        yield None
        return
    source = f"file:{quote(os.fsencode(real))}?mode=ro{how}"
    with closing(sqlite3.connect(source, uri=True, timeout=0, isolation_level=None)) as found:
        found.text_factory = bytes
        yield found if found.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] else None


@contextmanager
def copied(path: str, *, timeout_s: float = limits.DATABASE_WAIT_S) -> Iterator[Connection]:
    """Open a copy of a database; texts are returned as bytes.

    Args:
        path: The database. It is not changed, and no file is created next to it.
        timeout_s: How long to wait for a lock; seconds.

    Raises:
        NotYetError: It is locked, or changes continuously.
        InvalidEventError: It is damaged, or there is no space for the copy.
        OSError: It cannot be read.
    """
    import sqlite3

    real = _real(path)
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as copy:
            _copy(real, copy, timeout_s)
            copy.text_factory = bytes
            copy.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.EVENT_BYTES)
            yield copy
    except sqlite3.DatabaseError as error:
        raise _import_error(error) from None


def _real(path: str) -> str:
    """Return the real path of a database; its other files are next to that.

    Raises:
        InvalidEventError: One of these files is not a regular file: opening a pipe would block forever.
    """
    real = os.path.realpath(path)
    for part in (WAL, _SHM, _JOURNAL):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(f"{real}{part}").st_mode):  # noqa: PTH116 - the path is shown as it was given
                what = f"{os.path.basename(real)}{part} is not a regular file"  # noqa: PTH119 - a name is shown, no path is built
                raise InvalidEventError(f"{what}; nothing was imported from the database")
    return real


def _import_error(error: Exception) -> InvalidEventError:
    if "locked" in str(error):
        return NotYetError("another program has locked it; nothing was imported from it. Import it again")
    if "full" in str(error):  # the copy's disk, since nothing else is written
        return InvalidEventError(_NO_SPACE)
    return InvalidEventError(f"SQLite cannot read it ({error}); rows missing from the ledger were not imported")


def _copy(real: str, copy: Connection, timeout_s: float) -> None:
    """Copy a database without disturbing other programs."""
    import sqlite3

    for _ in range(_TRIES):
        if _is_shared(real):
            with suppress(sqlite3.OperationalError) if _exists(real, _JOURNAL) else nullcontext():
                _back_up(f"file:{quote(os.fsencode(real))}?mode=ro", copy, timeout_s)
                return
        if _copy_files(real, copy):
            return
    raise NotYetError("it kept changing while it was copied; nothing was imported from it. Import it again")


def _is_shared(real: str) -> bool:
    """Return whether SQLite can read it concurrently without creating a file."""
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


def _back_up(source: str, copy: Connection, timeout_s: float) -> None:
    """Copy it with SQLite's backup API, concurrently with writers."""
    import sqlite3

    with closing(sqlite3.connect(source, uri=True, timeout=timeout_s, isolation_level=None)) as found:
        found.execute("BEGIN")
        found.execute("SELECT count(*) FROM sqlite_master").fetchone()  # waits with a timeout; a backup waits forever
        found.backup(copy)


def _copy_files(real: str, copy: Connection) -> bool:
    """Copy it as an unchanging file; return whether no program changed it meanwhile."""
    import sqlite3

    parts = ("", WAL, _JOURNAL)
    before = [_facts(real, part) for part in parts]
    left = [part for part, facts in zip(parts[1:], before[1:], strict=True) if facts is not None and facts.size]
    try:
        if not left:
            _back_up(f"file:{quote(os.fsencode(real))}?mode=ro&immutable=1", copy, 0)
        else:
            with tempfile.TemporaryDirectory(prefix="rightful-") as folder:
                for part in ("", *left):
                    _write(f"{real}{part}", Path(folder, f"copy{part}"))
                _back_up(f"file:{quote(os.fsencode(folder))}/copy", copy, 0)
    except (FileNotFoundError, sqlite3.DatabaseError):
        if before == [_facts(real, part) for part in parts]:
            raise
    return before == [_facts(real, part) for part in parts]


def _write(real: str, copy: Path) -> None:
    """Copy one file to the private folder.

    Raises:
        FileNotFoundError: It no longer exists.
        InvalidEventError: It cannot be read, is not a regular file, or there is no space for the copy.
    """
    try:
        with opened(real) as file, copy.open("xb") as target:
            shutil.copyfileobj(file.stream, target)
    except FileNotFoundError:
        raise
    except OSError as error:
        what = f"{os.path.basename(real)} could not be read: {error.strerror}; nothing was imported from it"  # noqa: PTH119 - a name is shown, no path is built
        raise InvalidEventError(_NO_SPACE if error.errno == errno.ENOSPC else what) from None
