"""Import SQLite databases of other programs from a consistent snapshot, without writing to them or blocking them.

A database is recognised by its header and its tables, never by its name.

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
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard
from urllib.parse import quote

import msgspec

from rightful import limits
from rightful.errors import ConditionFailedError, InvalidEventError, RightfulError
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind, NotYetError, Origin
from rightful.importers.engine.recognition import kinds_text
from rightful.importers.sources.text_files import Problem, opened, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

    from rightful.importers.engine.file_import import FileImport
    from rightful.log.log import Log

HEADER = b"SQLite format 3\x00"
"""The first bytes of a database."""

SUFFIXES = (".db", ".sqlite", ".sqlite3", ".db3")
"""Suffixes of the databases that are searched for in a folder; one that the user names may have any name."""

WAL = "-wal"
"""Suffix of the file with the newest rows of a database in WAL mode."""

PIPED = (
    "Expected a file, got a SQLite database on stdin: its newest rows may be in a separate `-wal` file; "
    "nothing was imported. Name the file"
)
"""The problem of a database on standard input."""

NO_DATABASE = "not a SQLite database"
"""The note on a file in a folder that has a database's name but is not one."""

_IMPORT_TRIES = 50  # copies, if other writers keep changing the same sessions
_SHM, _JOURNAL = "-shm", "-journal"
_VERSIONS, _WAL_MODE = slice(18, 20), 2  # in the header: write and read version
_TRIES = 5
_NO_SPACE = "there is no space for a copy in the temporary folder (TMPDIR); nothing was imported from it"


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
    log = stamp_of(f"{real}{WAL}")
    how = "" if log is not None and log.size else "&immutable=1"
    if not how and stamp_of(f"{real}{_SHM}") is None:
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
            with suppress(sqlite3.OperationalError) if stamp_of(f"{real}{_JOURNAL}") else nullcontext():
                _back_up(f"file:{quote(os.fsencode(real))}?mode=ro", copy, timeout_s)
                return
        if _copy_files(real, copy):
            return
    raise NotYetError("it kept changing while it was copied; nothing was imported from it. Import it again")


def _is_shared(real: str) -> bool:
    """Return whether SQLite can read it concurrently without creating a file."""
    with open(real, "rb") as stream:  # noqa: PTH123 - the path is shown as it was given
        is_wal = _WAL_MODE in stream.read(_VERSIONS.stop)[_VERSIONS]
    return not is_wal or (stamp_of(f"{real}{WAL}") is not None and stamp_of(f"{real}{_SHM}") is not None)


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
    before = [stamp_of(f"{real}{part}") for part in parts]
    left = [part for part, facts in zip(parts[1:], before[1:], strict=True) if facts is not None and facts.size]
    try:
        if not left:
            _back_up(f"file:{quote(os.fsencode(real))}?mode=ro&immutable=1", copy, 0)
        else:
            with tempfile.TemporaryDirectory(prefix="rightful-") as folder:
                for part in ("", *left):
                    _copy_file(f"{real}{part}", Path(folder, f"copy{part}"))
                _back_up(f"file:{quote(os.fsencode(folder))}/copy", copy, 0)
    except (FileNotFoundError, sqlite3.DatabaseError):
        if before == [stamp_of(f"{real}{part}") for part in parts]:
            raise
    return before == [stamp_of(f"{real}{part}") for part in parts]


def _copy_file(real: str, copy: Path) -> None:
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


class Share(msgspec.Struct):
    """How many parts of a database were read, and of how many."""

    done: int = 0
    total: int = 1


class DatabaseKind(Kind, Protocol):
    """A kind whose files are SQLite databases."""

    def matches(self, connection: Connection) -> bool:
        """Return whether a database is of this kind, by the shape of its tables."""

    def import_rows(self, run: FileImport, log: Log, origin: Origin, connection: Connection, share: Share) -> None:
        """Append the rows of a database that the ledger does not have.

        Args:
            run: Receives events and problems; the line of a problem is the row's id.
            log: The ledger's log.
            origin: Where the database is; its own file is not read.
            connection: A copy of it.
            share: Receives the progress.

        Raises:
            ConditionFailedError: Another writer changed the same sessions. It is called again with a newer copy.
        """


def reads_databases(kind: Kind) -> TypeGuard[DatabaseKind]:
    """Return whether the files of a kind are databases."""
    return hasattr(kind, "import_rows")


def import_database(
    kinds: list[Kind], others: Callable[[], list[Kind]], origin: Origin, begin: Callable[[Share], FileImport]
) -> FileReport:
    """Import one database.

    Args:
        kinds: The accepted kinds.
        others: Returns every kind, to name one that is not accepted.
        origin: Where it is.
        begin: Begins an import of it, which reports its progress by the share.
    """
    share, report = Share(), None
    for tries_left in reversed(range(_IMPORT_TRIES)):
        run = begin(share)
        if report is not None:
            run.report.appended, run.report.kinds = report.appended, report.kinds
        try:
            return _imported(kinds, others, origin, run, share)
        except ConditionFailedError:
            report = run.report
            if not tries_left:
                raise
    raise AssertionError


def _imported(
    kinds: list[Kind], others: Callable[[], list[Kind]], origin: Origin, run: FileImport, share: Share
) -> FileReport:
    import sqlite3

    try:
        with suppress(sqlite3.DatabaseError), peeked(origin.path) as seen:
            if seen is not None and _kind_of(kinds, seen) is None:
                return _foreign(kinds, others, origin, seen)  # decided without a copy
        with copied(origin.path) as connection:
            kind = _kind_of(kinds, connection)
            if kind is None:
                return _foreign(kinds, others, origin, connection)
            kind.import_rows(run, run.log, origin, connection, share)
    except InvalidEventError as error:
        run.report.waits = isinstance(error, NotYetError)
        run.report.add_problem(Problem(None, error.what))
        run.report.is_read = bool(run.report.appended)
    except (RightfulError, OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - as in `FileImport`
        run.internal_error(None, error)
    return run.report


def _kind_of(kinds: Iterable[Kind], connection: Connection) -> DatabaseKind | None:
    return next((kind for kind in kinds if reads_databases(kind) and kind.matches(connection)), None)


def _foreign(kinds: list[Kind], others: Callable[[], list[Kind]], origin: Origin, connection: Connection) -> FileReport:
    """Return the report of a database that is of no accepted kind."""
    if (other := _kind_of(others(), connection)) is not None:
        what = f"this looks like a database of kind {other.NAME}; nothing was imported from it"
        what += f". Import it as {other.NAME}, or as auto"
    else:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT 5"
        names = [f"`{name[:32].decode('utf-8', 'replace')}`" for (name,) in connection.execute(query)]
        what = f"a SQLite database with {', '.join(names) or 'no tables'} is not of {kinds_text(kinds)}"
    return FileReport.unread(origin.path, Problem(None, what, lost=origin.is_named))
