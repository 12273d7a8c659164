"""The tables of the SDK's sessions in SQLite, found by their shape, since an app may choose their names.

| class of the SDK (0.24.0) | tables |
|---|---|
| `SQLiteSession`, `AsyncSQLiteSession` | sessions (`session_id`, `created_at`, `updated_at`); messages (`id`, `session_id`, `message_data`, `created_at`), read in the order of `id` |
| `SQLAlchemySession` | the same, read in the order of `created_at`, then `id`; recognised by its index `idx_<messages>_session_time` |
| `AdvancedSQLiteSession` | the same, and `message_structure` (the messages of each branch, in order) and `turn_usage` |

A session that `message_structure` does not name has no branches, in any database.
"""  # noqa: E501 - a table

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection

MAIN = "main"
"""The branch that is the session itself."""

_MESSAGES = frozenset({"id", "session_id", "message_data"})
_SESSIONS = frozenset({"session_id", "created_at", "updated_at"})
_STRUCTURE = frozenset({"session_id", "message_id", "branch_id", "sequence_number"})
_USAGE = frozenset({"session_id", "branch_id", "user_turn_number", "total_tokens"})
_FIRST = "agent_messages"  # the SDK's own name, which counts before others
_COUNTS = (
    "requests", "input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details",
)  # fmt: skip


class Store(NamedTuple):
    """One pair of tables.

    Attributes:
        messages: The table of the messages.
        sessions: That of the sessions; None if it is unknown.
        has_time: Whether messages have a time.
        by_time: Whether they are read in the order of their times.
        branches: Whether `message_structure` refers to this table.
        usage: Whether `turn_usage` refers to it.
        last_row: The highest row id that the table ever used; None if it may reuse row ids.
    """

    messages: str
    sessions: str | None
    has_time: bool
    by_time: bool
    branches: bool
    usage: bool
    last_row: int | None


class Row(NamedTuple):
    """The identity of a message.

    Attributes:
        id: The row's id.
        sha256: SHA-256 of its time, a newline and its text, as they are stored.
    """

    id: int
    sha256: str


class Message(NamedTuple):
    """One stored message.

    Attributes:
        row: Its identity.
        created: When it was written, as stored.
        data: Its text; None if it is longer than `limits.EVENT_BYTES`.
    """

    row: Row
    created: bytes
    data: bytes | None


def stores_of(connection: Connection) -> list[Store]:
    """Return the pairs of tables of a database; the pair with the SDK's own names comes first."""
    names = _texts(connection, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    sql = "SELECT lower(name) FROM pragma_table_info(?)"
    columns = {name.lower(): frozenset(_texts(connection, sql, name)) for name in names}
    found = [name for name in names if columns[name.lower()] >= _MESSAGES and _is_numbered(connection, name)]
    found.sort(key=lambda name: (name != _FIRST, name))
    return [_store(connection, name, columns, is_only=len(found) == 1) for name in found]


def _store(connection: Connection, name: str, columns: dict[str, frozenset[str]], *, is_only: bool) -> Store:
    """Return one pair of tables. The keys of `columns` are lowercase: SQLite ignores the case of a name."""
    sessions = _owner(connection, name, "session_id")
    structure = columns.get("message_structure", frozenset()) >= _STRUCTURE
    owner = _owner(connection, "message_structure", "message_id") if structure else None
    branches = structure and (owner.lower() == name.lower() if owner else is_only)
    return Store(
        name,
        sessions if columns.get((sessions or "").lower(), frozenset()) >= _SESSIONS else None,
        "created_at" in columns[name.lower()],
        f"idx_{name}_session_time" in _texts(connection, "SELECT name FROM pragma_index_list(?)", name),
        branches,
        branches and columns.get("turn_usage", frozenset()) >= _USAGE,
        _last_row(connection, name),
    )


def _is_numbered(connection: Connection, table: str) -> bool:
    """Return whether `id` is the table's row id, as in the SDK's tables; other programs may differ."""
    sql = "SELECT type FROM pragma_table_info(?) WHERE lower(name) = 'id' AND pk = 1"
    return [kind.upper() for kind in _texts(connection, sql, table)] == ["INTEGER"]


def _owner(connection: Connection, table: str, column: str) -> str | None:
    sql = 'SELECT "table" FROM pragma_foreign_key_list(?) WHERE lower("from") = ?'
    return next(iter(_texts(connection, sql, table, column)), None)


def _texts(connection: Connection, sql: str, *values: str) -> list[str]:
    return [text.decode("utf-8", "surrogateescape") for (text,) in connection.execute(sql, values)]


def _last_row(connection: Connection, name: str) -> int | None:
    made = _texts(connection, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", name)
    if "AUTOINCREMENT" not in made[0].upper():
        return None
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).fetchone()
    return found[0] if found and isinstance(found[0], int) else 0


def _sql(text: str, store: Store) -> str:
    """Return a statement with the names of a store's tables inserted."""
    named = {"MESSAGES": store.messages, "SESSIONS": store.sessions or store.messages}
    return re.sub("MESSAGES|SESSIONS", lambda hit: '"' + named[hit[0]].replace('"', '""') + '"', text)


def sessions_of(connection: Connection, store: Store) -> Iterator[tuple[str | None, Any]]:
    """Yield each session of a store: its id, and its creation time as stored.

    An id that is not UTF-8 text is returned as None.
    """
    begun = "(SELECT created_at FROM SESSIONS s WHERE s.session_id = ids.session_id)" if store.sessions else "NULL"
    known = " UNION SELECT session_id FROM SESSIONS" if store.sessions else ""
    sql = f"SELECT session_id, {begun} FROM (SELECT DISTINCT session_id FROM MESSAGES{known}) ids ORDER BY session_id"  # noqa: S608 - our own words
    for name, created in connection.execute(_sql(sql, store)).fetchall():
        yield _utf8(name), created


def branches_of(connection: Connection, store: Store, session_id: str) -> list[str | None]:
    """Return the branches of a session, in the order of their creation; empty for a session without branches.

    A branch whose id is not UTF-8 text is returned as None.
    """
    if not store.branches:
        return []
    sql = "SELECT branch_id FROM message_structure WHERE session_id = ? GROUP BY branch_id ORDER BY min(id)"
    return [_utf8(name) for (name,) in connection.execute(sql, (session_id,)).fetchall()]


def _utf8(value: object) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def messages_of(connection: Connection, store: Store, session_id: str, branch: str | None) -> Iterator[Message]:
    """Yield the messages of a session, or of one of its branches, in the order in which the SDK shows them.

    SQLite refuses a value above its limit before it reads it (`copied` sets `limits.EVENT_BYTES`), and with it the
    whole statement. From that row on the messages are read one by one.
    """
    import sqlite3

    count = 0
    values: tuple[str, ...] = (session_id,)
    if branch is None:
        rest = "FROM MESSAGES m WHERE m.session_id = ? ORDER BY "
        rest += "m.created_at, m.id" if store.by_time else "m.id"
    else:
        rest = "FROM MESSAGES m JOIN message_structure s ON m.id = s.message_id WHERE m.session_id = ? "
        rest += "AND s.branch_id = ? ORDER BY s.sequence_number"
        values = (session_id, branch)
    try:
        for found in connection.execute(_selected(store, rest), values):
            yield _message(*found)
            count += 1
    except sqlite3.DataError:
        later = connection.execute(_sql(f"SELECT m.id {rest} LIMIT -1 OFFSET {count}", store), values)
        for (row,) in later:
            yield message_of(connection, store, row)


def message_of(connection: Connection, store: Store, row: int) -> Message:
    """Return one message again.

    Raises:
        sqlite3.DatabaseError: It is no longer found, since the database is damaged.
    """
    import sqlite3

    of_row = "FROM MESSAGES m WHERE m.id = ?"
    try:
        found = connection.execute(_selected(store, of_row), (row,)).fetchone()
    except sqlite3.DataError:
        found = connection.execute(_selected(store, of_row, data="NULL"), (row,)).fetchone()
    if found is None:
        raise sqlite3.DatabaseError(f"row {row} of {store.messages} is not in its place")
    return _message(*found)


def session_of(connection: Connection, store: Store, row: int) -> str | None:
    """Return the SDK's session id of a stored message; None if it is not UTF-8 text."""
    (name,) = connection.execute(_sql("SELECT session_id FROM MESSAGES WHERE id = ?", store), (row,)).fetchone()
    return _utf8(name)


def unbranched_of(connection: Connection, store: Store, session_id: str) -> list[int]:
    """Return the row ids of a session's messages that are in no branch."""
    sql = "SELECT id FROM MESSAGES WHERE session_id = ? AND id NOT IN (SELECT message_id FROM message_structure) "
    return [row for (row,) in connection.execute(_sql(f"{sql}ORDER BY id", store), (session_id,))]


def usage_of(connection: Connection, session_id: str, branch: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the usage of each turn of a branch: its number, and the counts by their names; details as stored."""
    sql = f"SELECT user_turn_number, {', '.join(_COUNTS)} FROM turn_usage "  # noqa: S608 - our own words
    sql += "WHERE session_id = ? AND branch_id = ? ORDER BY user_turn_number"
    for turn, *counts in connection.execute(sql, (session_id, branch)):
        yield turn, {name: count for name, count in zip(_COUNTS, counts, strict=True) if count is not None}


def _selected(store: Store, rest: str, *, data: str = "m.message_data") -> str:
    created = "CAST(m.created_at AS TEXT)" if store.has_time else "NULL"
    return _sql(f"SELECT m.id, {created}, {data} {rest}", store)


def _message(row: Any, created: Any, data: Any) -> Message:  # noqa: ANN401 - the value of a column
    time = created if isinstance(created, bytes) else b""
    text = data if isinstance(data, bytes) or data is None else str(data).encode()
    return Message(Row(row, hashlib.sha256(time + b"\n" + (text or b"")).hexdigest()), time, text)
