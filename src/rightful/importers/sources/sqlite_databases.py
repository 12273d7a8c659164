"""SQLite databases of other programs, read as they are at one moment; never written, and never waited for by them.

A database is copied first, to a temporary database of SQLite's that no folder ever names, and the copy is read: so no
lock is held while the ledger is written, nothing is made beside it, and whoever is killed leaves no copy behind. How
it is copied depends on what stands there:

- A rollback journal, or a `-wal` with its `-shm`: somebody may be writing now. The copy is made by SQLite
  (its backup API) in one read transaction of a connection that is opened for reading only.
- No `-shm`: nobody has it open in WAL mode. A read-only connection would have to make one (and would fail in a
  folder that cannot be written), so it is read as a file that nobody changes; if anybody did, it is begun again.
- But a `-wal` that a killed program left behind has committed rows, and a journal so left must be rolled back, which
  only a writer can. Then the files are copied as they are to a private temporary folder, for SQLite to mend there.

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
"""How a database begins."""

SUFFIXES = (".db", ".sqlite", ".sqlite3", ".db3")
"""How the names of databases end that are looked for in a folder; one that is named may be called anything."""

WAL = "-wal"
"""How the name of the file ends that has the newest rows of a database in WAL mode."""

_SHM, _JOURNAL = "-shm", "-journal"
_VERSIONS, _WAL_MODE = slice(18, 20), 2  # of the header: how it is written and read
_TRIES = 5
_NO_SPACE = "there is no space for a copy in the temporary folder (TMPDIR); nothing was imported from it"


class _Facts(NamedTuple):
    inode: int
    size: int
    mtime_ns: int


@contextmanager
def peeked(path: str) -> Iterator[Connection | None]:
    """Open a database without a copy, to see of what kind it is: it may be of any size and of any program.

    It is not waited for, and without a log no lock is asked for, since only the names of its tables are read. Texts
    come as bytes. None is given where they cannot be seen so, or there are none yet: then a copy tells.

    Args:
        path: The database. It is not changed, and nothing is made beside it.

    Raises:
        InvalidEventError: A file beside it is none.
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
    """Open a copy of a database as it is now; texts come as bytes.

    Args:
        path: The database. It is not changed, and nothing is made beside it.
        timeout_s: How long to wait for a program that keeps others from reading it; seconds.

    Raises:
        NotYetError: It is locked, or written all the time.
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
    """Return where a database stands, without links: beside that stand its other files.

    Raises:
        InvalidEventError: What stands there is none of SQLite's: opening a pipe would wait for ever.
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
    """Copy a database by whichever way does no harm."""
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


def _back_up(source: str, copy: Connection, timeout_s: float) -> None:
    """Let SQLite copy it, beside whoever writes it."""
    import sqlite3

    with closing(sqlite3.connect(source, uri=True, timeout=timeout_s, isolation_level=None)) as found:
        found.execute("BEGIN")
        found.execute("SELECT count(*) FROM sqlite_master").fetchone()  # waits for its lock; a backup waits for ever
        found.backup(copy)


def _copy_files(real: str, copy: Connection) -> bool:
    """Copy it as a file that nobody changes; say whether nobody did."""
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
        FileNotFoundError: It is not there any more.
        InvalidEventError: It cannot be read, is no regular file, or there is no space for the copy.
    """
    try:
        with opened(real) as file, copy.open("xb") as target:
            shutil.copyfileobj(file.stream, target)
    except FileNotFoundError:
        raise
    except OSError as error:
        what = f"{os.path.basename(real)} could not be read: {error.strerror}; nothing was imported from it"  # noqa: PTH119 - a name is shown, no path is built
        raise InvalidEventError(_NO_SPACE if error.errno == errno.ENOSPC else what) from None
