"""Whatever stands in a database: rows of all kinds, tables of all names, and databases of other programs."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import EncryptedSession
from tests.importers.conftest import Importer
from tests.importers.sdk_databases import execute, items, name, put, shown, user

from rightful import limits
from rightful.importers.openai_agents.sdk_tables import message_of, stores_of
from rightful.ledger import Ledger

ROW = "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES ('s', ?, ?)"
TIMES = "TIMESTAMP DEFAULT (CURRENT_TIMESTAMP) NOT NULL"
SQLALCHEMY = (
    f"CREATE TABLE agent_sessions (session_id VARCHAR PRIMARY KEY, created_at {TIMES}, updated_at {TIMES})",
    f"""CREATE TABLE agent_messages (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, session_id VARCHAR NOT NULL,
    message_data TEXT NOT NULL, created_at {TIMES},
    FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE)""",
    "CREATE INDEX idx_agent_messages_session_time ON agent_messages (session_id, created_at)",
)
"""The tables of SQLAlchemySession, whose driver the tests do without."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def told(report: Any) -> list[tuple[int | None, str]]:
    return [(one.line, one.what) for one in report.problems]


def test_broken_row_is_a_problem_with_table_and_id_and_others_are_read(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"))
    for data in ('{"role": "user", "con', "[" * 70 + "]" * 70, b"\xff\xfe"):
        execute(path, ROW, values=(data, "2026-08-01 10:15:00"))
    put(path, user("b"))

    [report], [again] = imported("openai-agents", path), imported("openai-agents", path)
    put(path, user("c"))
    imported("openai-agents", path)

    assert shown(ledger) == [user("a"), user("b"), user("c")]
    assert told(report) == [
        (2, "row 2 of `agent_messages`: Expected JSON: Unterminated string starting at, line 1 column 18"),
        (3, "row 3 of `agent_messages`: Expected content nested at most 64 levels deep"),
        (4, report.problems[2].what),
    ]
    assert (report.exit_code, told(again), again.appended) == (2, told(report), 0)


@pytest.mark.parametrize("data", ["[1, 2]", '"text"', "7", "null", "NaN", '{"a": 1e400, "b": "\\ud800"}'])
def test_what_the_sdk_shows_is_kept_whatever_it_is(imported: Importer, ledger: Ledger, path: Path, data: str) -> None:
    put(path, user("a"))
    execute(path, ROW, values=(data, "2026-08-01 10:15:00"))

    [report] = imported("openai-agents", path)

    assert json.dumps(shown(ledger), sort_keys=True) == json.dumps(items(path), sort_keys=True)
    assert report.lost == 0


def test_a_huge_row_is_a_problem_and_its_neighbours_are_read(imported: Importer, ledger: Ledger, path: Path) -> None:
    room = limits.EVENT_BYTES - len(json.dumps(user("")))
    put(path, user("a"), user("x" * (room + 1)), user("x" * (room - 1_000)), user("b"))

    [report] = imported("openai-agents", path)

    assert [len(one["content"]) for one in shown(ledger)] == [1, room - 1_000, 1]
    assert told(report) == [(2, f"row 2 of `agent_messages`: longer than {limits.EVENT_BYTES} bytes")]


@pytest.mark.parametrize("created", ["yesterday", None, b"\xff", "0001-01-01 00:00:00"])
def test_a_row_without_a_time_has_that_of_the_database(
    imported: Importer, ledger: Ledger, path: Path, created: object
) -> None:
    put(path)
    execute(path, ROW, values=('{"role": "user"}', created))

    [report] = imported("openai-agents", path)

    [row] = ledger.read(session=name(), types=["history.appended"])
    assert row.event is not None
    assert (row.event.at_basis, report.problems, row.event.at <= row.recorded_at) == ("file", [], True)  # type: ignore[union-attr]


@pytest.mark.parametrize("newest", ["", "-wal"])
def test_the_time_of_a_database_is_that_of_its_file_with_the_newest_rows(
    imported: Importer, ledger: Ledger, path: Path, newest: str
) -> None:
    put(path)
    execute(path, ROW, values=('{"role": "user"}', None))
    Path(f"{path}-wal").touch()
    for part in ("", "-wal"):
        os.utime(f"{path}{part}", (1_600_000_000 + (part == newest),) * 2)

    imported("openai-agents", path)

    [row] = ledger.read(session=name(), types=["history.appended"])
    assert row.event is not None
    assert row.event.at.timestamp() == 1_600_000_001  # type: ignore[union-attr]


def test_tables_are_recognised_by_their_shape_and_not_by_their_names(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), sessions_table="SESSIONS", messages_table="my_MESSAGES")
    put(path, user("b"), session_id="t")
    put(path, user("c"), session_id="t", sessions_table='"odd ""table"', messages_table="a_table")

    [report] = imported("openai-agents", path)

    assert (shown(ledger), shown(ledger, name("t"))) == ([user("a")], [user("b")])
    assert told(report) == [(None, "openai-agents:t is in this database twice; the one in `a_table` was not imported")]


def test_sqlalchemys_tables_are_read_in_the_order_of_their_times(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    execute(path, *SQLALCHEMY)
    for second, text in ((2, "second"), (1, "first"), (1, "first too")):
        execute(path, ROW, values=(json.dumps(user(text)), f"2026-08-01 10:15:0{second}.000000"))
    imported("openai-agents", path)
    assert shown(ledger) == [user("first"), user("first too"), user("second")]

    execute(path, ROW, values=(json.dumps(user("between")), "2026-08-01 10:15:01.500000"))
    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("first"), user("first too"), user("between"), user("second")]
    assert (report.kinds, report.problems) == ({"history.popped": 1, "history.appended": 2}, [])


def test_cleared_session_leaves_the_view_if_its_table_reuses_ids(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    """Tables that an app made itself have no AUTOINCREMENT; only the path says that it is the same database."""
    execute(path, *(statement.replace(" AUTOINCREMENT", "") for statement in SQLALCHEMY))
    execute(path, ROW, values=(json.dumps(user("a")), "2026-08-01 10:15:01.000000"))
    imported("openai-agents", path)
    execute(path, "DELETE FROM agent_messages")
    execute(path, "DELETE FROM agent_sessions")

    [report] = imported("openai-agents", path)

    assert shown(ledger) == []
    assert [what for _, what in told(report)] == [
        (
            "note: openai-agents:s: 1 item of an earlier import deleted from the database; removed from its view, kept "
            "in its full history"
        )
    ]


def test_encrypted_items_are_kept_as_they_are_and_that_is_said(imported: Importer, ledger: Ledger, path: Path) -> None:
    session = EncryptedSession("s", SQLiteSession("s", path), "a key of at least some length")
    asyncio.run(session.add_items([{"role": "user", "content": "secret"}]))
    session.underlying_session.close()  # type: ignore[attr-defined]

    [report] = imported("openai-agents", path)

    assert shown(ledger) == items(path)
    assert shown(ledger)[0]["__enc__"] == 1
    assert told(report) == [(None, "note: openai-agents:s: 1 item of EncryptedSession; imported in encrypted form")]


@pytest.mark.parametrize("session_id", ["", "unknown", "a\nb", "x" * 1_100])
def test_a_session_that_names_nobody_is_a_problem_and_the_others_are_read(
    imported: Importer, ledger: Ledger, path: Path, session_id: str
) -> None:
    put(path, user("a"), session_id=session_id)
    put(path, user("b"))

    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("b")]
    [(_, what)] = told(report)
    cannot = "which is a placeholder or not a valid name; it was not imported"
    assert what == f"a session of `agent_messages` has the id {session_id[:64]!r}, {cannot}"


@pytest.mark.parametrize(
    "table",
    [
        "TABLE msgs (id TEXT PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT)",
        "TABLE msgs (id INTEGER, session_id TEXT, message_data TEXT)",
        "VIRTUAL TABLE msgs USING fts5 (id, session_id, message_data)",
    ],
)
def test_a_table_of_another_program_with_such_columns_is_not_the_sdks(
    imported: Importer, ledger: Ledger, path: Path, table: str
) -> None:
    execute(path, f"CREATE {table}", "INSERT INTO msgs (id, session_id, message_data) VALUES (7, 's', '{}')")

    [report] = imported("openai-agents", path)

    assert ledger.log.head() == 0
    assert told(report)[0][1].endswith("is not of kind openai-agents")


def test_a_row_that_damage_moved_is_recorded_as_damage(path: Path) -> None:
    """A scan sees it, and a search for its id does not."""
    put(path, user("a"))
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        [store] = stores_of(connection)
        with pytest.raises(sqlite3.DatabaseError, match="row 2 of agent_messages is not in its place"):
            message_of(connection, store, 2)


def test_a_changed_row_is_another_one(imported: Importer, ledger: Ledger, path: Path) -> None:
    put(path, user("a"), user("b"), user("c"))
    imported("openai-agents", path)
    execute(path, "UPDATE agent_messages SET message_data = ? WHERE id = 2", values=[json.dumps(user("edited"))])
    imported("openai-agents", path)

    assert shown(ledger) == [user("a"), user("edited"), user("c")]


def test_a_table_that_is_torn_out_of_a_pair_is_read_without_it(imported: Importer, ledger: Ledger, path: Path) -> None:
    create = "CREATE TABLE old (ID INTEGER PRIMARY KEY, Session_Id TEXT, Message_Data TEXT)"
    execute(path, create, "INSERT INTO old VALUES (1, 's', '{}'), (2, NULL, '{}'), (3, x'ff', '{}')")

    [report] = imported("openai-agents", path)

    assert shown(ledger) == [{}]
    assert told(report) == [(None, "a session of `old` has an id that is not text; it was not imported")] * 2
