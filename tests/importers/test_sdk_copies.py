"""Several databases with one session: an original, its backups and copies, and what only has the same id."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from tests.importers.conftest import Importer
from tests.importers.import_files import import_paths
from tests.importers.sdk_databases import advanced, everything, items, name, put, said, shown, user
from tests.log.memory import MemoryRecorder

from rightful.importers.openai_agents.sdk_databases import OpenAIAgents
from rightful.ledger import Ledger
from rightful.log.log import Log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def notes(report: Any) -> list[str]:
    return [problem.what for problem in report.problems]


def refusal(source: Path, session: str = "openai-agents:s") -> str:
    return (
        f"{session} was imported from {source}, and this database has a different conversation under that id; "
        "nothing was imported from it. Import this database with --session-prefix, such as --session-prefix app2/"
    )


def change(path: Path, how: str) -> None:
    """Clear a session with the SDK, or pop each of its items, and add others if it is refilled."""
    session = SQLiteSession("s", path)
    if how.startswith("cleared"):
        asyncio.run(session.clear_session())
    while how.startswith("popped") and asyncio.run(session.pop_item()) is not None:
        pass
    session.close()
    if how.endswith("refilled"):
        put(path, user(f"again in {path.name}"), said(f"again in {path.name}"))


def test_older_copy_undoes_nothing_and_a_moved_database_continues(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"))
    shutil.copy(path, tmp_path / "backup.db")
    put(path, said("b"))
    imported("openai-agents", path)
    [backup] = imported("openai-agents", tmp_path / "backup.db")
    moved = path.rename(tmp_path / "moved.db")
    put(moved, user("c"))
    [grown] = imported("openai-agents", moved)

    assert notes(backup) == [
        f"note: openai-agents:s is an older copy of what was imported from {path}; nothing was undone"
    ]
    assert (grown.appended, grown.lost) == (2, 0)
    assert shown(ledger) == [user("a"), said("b"), user("c")]
    session = SQLiteSession("s", moved)
    asyncio.run(session.clear_session())
    session.close()
    imported("openai-agents", moved)
    assert shown(ledger) == []


async def _after(path: Path, change: str) -> None:
    session = SQLiteSession("s", path)
    kept = await session.get_items()
    if change == "popped":
        await session.pop_item()
    else:
        await session.clear_session()
    if change == "compacted":
        await session.add_items([{"type": "compaction", "encrypted_content": "x"}, *kept[-1:]])
    if change == "cleared and refilled":
        await session.add_items([{"role": "user", "content": "again"}])
    session.close()


@pytest.mark.parametrize("change", ["popped", "cleared", "compacted", "cleared and refilled"])
@pytest.mark.parametrize("copy", ["before.db", "z.db"])
def test_copy_next_to_a_database_restores_no_item_and_hides_none(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, change: str, copy: str
) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    path = folder / "sessions.db"
    put(path, user("a"), said("b"), user("c"))
    put(path, user("other"), session_id="t")
    shutil.copy(path, folder / copy)
    imported("openai-agents", folder)
    asyncio.run(_after(path, change))

    imported("openai-agents", folder)
    head, now = ledger.log.head(), items(path)
    reports = imported("openai-agents", folder)

    assert shown(ledger) == now
    assert shown(ledger, name("t")) == [user("other")]
    assert (ledger.log.head(), sum(report.lost for report in reports)) == (head, 0)


def test_database_restored_from_a_backup_is_shown_unchanged(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"))
    shutil.copy(path, tmp_path / "backup.db")
    put(path, said("b"))
    imported("openai-agents", path, tmp_path / "backup.db")
    shutil.copy(tmp_path / "backup.db", path)

    imported("openai-agents", path)

    assert shown(ledger) == items(path) == [user("a")]
    assert everything(ledger) == [user("a"), said("b")]


def test_other_conversation_under_the_same_session_id_is_a_problem(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"))
    put(tmp_path / "other.db", user("b"))
    put(tmp_path / "third.db", user("c"), user("d"), session_id="t")
    imported("openai-agents", path, tmp_path / "third.db")
    [report] = imported("openai-agents", tmp_path / "other.db")

    assert notes(report) == [refusal(path)]
    assert (report.exit_code, shown(ledger)) == (2, [user("a")])


CHANGES = ["unchanged", "cleared", "popped", "cleared and refilled", "popped and refilled"]


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("second", ["unchanged", "cleared and refilled", "popped and refilled"])
@pytest.mark.parametrize("first", CHANGES)
def test_second_database_with_one_session_id_is_refused_in_every_order(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, first: str, second: str, *, unseen: bool
) -> None:
    other = tmp_path / "other.db"
    put(path, user("a"), said("b"))
    put(other, user("x"), said("y"), user("z"))
    imported("openai-agents", path)
    change(path, first)
    if not unseen:
        imported("openai-agents", path)
    change(other, second)
    before = everything(ledger)

    [refused] = imported("openai-agents", other)

    assert (refused.exit_code, notes(refused)) == (2, [refusal(path)])
    assert everything(ledger) == before
    put(path, user("later"))
    put(other, user("later elsewhere"))
    reports = imported("openai-agents", other, path)
    assert [report.exit_code for report in reports] == [2, 0]
    assert shown(ledger) == items(path)


@pytest.mark.parametrize("first", CHANGES)
def test_empty_session_of_a_second_database_does_not_admit_its_later_items(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, first: str
) -> None:
    other = tmp_path / "other.db"
    put(path, user("a"))
    put(other, user("x"))
    change(other, "popped")
    imported("openai-agents", path)
    change(path, first)
    imported("openai-agents", path)
    imported("openai-agents", other)
    put(other, user("y"))

    [refused] = imported("openai-agents", other)

    assert (refused.exit_code, notes(refused)) == (2, [refusal(path)])
    assert shown(ledger) == items(path)


def test_of_two_empty_sessions_only_the_first_one_filled_is_imported(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    for database in (path, other):
        put(database, user("x"))
        change(database, "popped")
        assert imported("openai-agents", database)[0].exit_code == 0
    put(other, user("y"))
    [filled] = imported("openai-agents", other)
    put(path, user("a"), user("b"))

    [refused] = imported("openai-agents", path)

    assert (filled.exit_code, refused.exit_code, notes(refused)) == (0, 2, [refusal(other)])
    assert shown(ledger) == [user("y")]


def test_new_database_at_the_path_of_a_moved_one_is_refused(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"), said("b"))
    imported("openai-agents", path)
    moved = path.rename(tmp_path / "moved.db")
    put(moved, user("c"))
    imported("openai-agents", moved)
    put(path, user("another app"))

    [refused] = imported("openai-agents", path)

    assert (refused.exit_code, notes(refused)) == (2, [refusal(moved)])
    assert shown(ledger) == items(moved)


@pytest.mark.parametrize("continued", ["popped", "cleared", "compacted"])
def test_second_database_is_refused_after_the_ledger_continued_the_first(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, continued: str
) -> None:
    put(path, user("a"), said("b"))
    put(tmp_path / "other.db", user("x"), said("y"), user("z"))
    imported("openai-agents", path)
    change(path, "cleared")
    imported("openai-agents", path)
    ledger.extend(name(), [user("in the ledger")])
    match continued:
        case "popped":
            ledger.pop(name())
        case "cleared":
            ledger.clear(name())
        case _:
            ledger.compact(ledger.history(name()).token, [user("summary")])
    before = shown(ledger)

    [refused] = imported("openai-agents", tmp_path / "other.db")

    assert (refused.exit_code, notes(refused)) == (2, [refusal(path)])
    assert shown(ledger) == before


def test_second_database_is_refused_after_rows_of_the_first_were_erased(path: Path, tmp_path: Path) -> None:
    recorder = MemoryRecorder()
    log = Log(recorder)
    put(path, user("secret"))
    put(tmp_path / "other.db", user("x"), said("y"))
    list(import_paths(log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
    recorder.erase(2)

    [refused] = import_paths(log, [OpenAIAgents()], [str(tmp_path / "other.db")], stdin=sys.stdin.buffer)
    shutil.copy(path, tmp_path / "copy.db")
    put(tmp_path / "copy.db", user("b"))
    [copy] = import_paths(log, [OpenAIAgents()], [str(tmp_path / "copy.db")], stdin=sys.stdin.buffer)

    assert (refused.exit_code, notes(refused)) == (2, [refusal(path)])
    assert (copy.exit_code, copy.kinds) == (0, {"session.started": 1, "history.appended": 1})


def test_branches_of_a_refused_session_are_not_imported(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"), said("b"), user("c"))
    imported("openai-agents", path)
    change(path, "cleared")
    imported("openai-agents", path)

    async def branched() -> None:
        session = advanced(tmp_path / "other.db")
        await session.add_items([user("x"), said("y"), user("z")])  # type: ignore[list-item]
        await session.create_branch_from_turn(2, "what-if")
        session.close()

    asyncio.run(branched())
    [refused] = imported("openai-agents", tmp_path / "other.db")

    assert (refused.exit_code, refused.appended, notes(refused)) == (2, 0, [refusal(path)])


def test_equal_row_of_another_session_does_not_make_a_database_a_copy(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    """Two scripts that start in one second write the same greeting as row 1, in sessions of their own."""
    other = tmp_path / "other.db"
    for database, greeted in ((path, "first"), (other, "second")):
        put(database, user("hi"), session_id=greeted)
        put(database, user(f"of {greeted}"))
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE agent_messages SET created_at = '2026-08-01 10:00:00'")
    imported("openai-agents", path)
    change(path, "cleared")
    imported("openai-agents", path)
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("UPDATE agent_messages SET id = id + 10 WHERE session_id = 's'")

    [report] = imported("openai-agents", other)

    assert report.lost == 1
    assert "--session-prefix" in notes(report)[0]
    assert shown(ledger) == []


@pytest.mark.parametrize("first", ["cleared", "popped"])
def test_moved_database_with_a_cleared_session_continues_by_other_sessions(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, first: str
) -> None:
    put(path, user("a"), said("b"))
    put(path, user("other"), session_id="t")
    imported("openai-agents", path)
    change(path, first)
    imported("openai-agents", path)
    moved = path.rename(tmp_path / "moved.db")
    put(moved, user("c"))

    [grown] = imported("openai-agents", moved)

    assert (grown.exit_code, shown(ledger)) == (0, [user("c")])
    change(moved, "cleared and refilled")
    assert imported("openai-agents", moved)[0].exit_code == 0
    assert shown(ledger) == items(moved)


@pytest.mark.parametrize("first", ["cleared", "popped"])
def test_database_made_from_a_copy_is_refused_for_its_own_conversation(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path, first: str
) -> None:
    put(path, user("same in both"), session_id="t")
    shutil.copy(path, tmp_path / "other.db")
    put(path, user("a"), said("b"))
    put(tmp_path / "other.db", user("x"), said("y"))
    imported("openai-agents", path)
    change(path, first)
    imported("openai-agents", path)

    [refused] = imported("openai-agents", tmp_path / "other.db")

    assert (refused.exit_code, notes(refused), shown(ledger)) == (2, [refusal(path)], [])


def test_prefix_imports_the_refused_database_next_to_the_first(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    put(path, user("a"))
    put(tmp_path / "other.db", user("x"))
    list(import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
    change(path, "cleared")
    list(import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))

    [second] = import_paths(ledger.log, [OpenAIAgents("app2/")], [str(tmp_path / "other.db")], stdin=sys.stdin.buffer)

    assert (second.exit_code, shown(ledger, name("app2/s")), shown(ledger)) == (0, [user("x")], [])
