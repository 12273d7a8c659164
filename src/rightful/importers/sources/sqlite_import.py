"""The import of SQLite databases, which are recognised by their header and their tables, never by their names."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeGuard

import msgspec

from rightful.errors import ConditionFailedError, InvalidEventError, RightfulError
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind, NotYetError, Origin
from rightful.importers.engine.recognition import kinds_text
from rightful.importers.sources.sqlite_databases import copied, peeked
from rightful.importers.sources.text_files import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from sqlite3 import Connection

    from rightful.importers.engine.file_import import FileImport
    from rightful.log.log import Log

PIPED = (
    "Expected a file, got a SQLite database on stdin: its newest rows may be in a separate `-wal` file; "
    "nothing was imported. Name the file"
)
"""The problem of a database on standard input."""

NO_DATABASE = "not a SQLite database"
"""The note on a file in a folder that has a database's name but is not one."""

_TRIES = 50  # copies, if other writers keep changing the same sessions


class Share(msgspec.Struct):
    """How much of a database was read.

    Attributes:
        done: How many parts.
        total: Of how many.
    """

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
    for tries_left in reversed(range(_TRIES)):
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
            if seen is not None and _kind(kinds, seen) is None:
                return _foreign(kinds, others, origin, seen)  # decided without a copy
        with copied(origin.path) as connection:
            kind = _kind(kinds, connection)
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


def _kind(kinds: Iterable[Kind], connection: Connection) -> DatabaseKind | None:
    return next((kind for kind in kinds if reads_databases(kind) and kind.matches(connection)), None)


def _foreign(kinds: list[Kind], others: Callable[[], list[Kind]], origin: Origin, connection: Connection) -> FileReport:
    """Return the report of a database that is of no accepted kind."""
    if (other := _kind(others(), connection)) is not None:
        what = f"this looks like a database of kind {other.NAME}"
        return _passed(origin, f"{what}; nothing was imported from it. Import it as {other.NAME}, or as auto")
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT 5").fetchall()
    said = ", ".join(f"`{name[:32].decode('utf-8', 'replace')}`" for (name,) in tables) or "no tables"
    return _passed(origin, f"a SQLite database with {said} is not of {kinds_text(kinds)}")


def _passed(origin: Origin, what: str) -> FileReport:
    return FileReport.unread(origin.path, Problem(None, what, lost=origin.is_named))
