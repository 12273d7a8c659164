"""Several databases with one session: an original, its backups and copies, and what only has the same id."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from tests.importers.conftest import Importer
from tests.importers.sdk_databases import everything, items, name, put, said, shown, user

from rightful.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def notes(report: Any) -> list[str]:
    return [one.what for one in report.problems]


def test_an_older_copy_elsewhere_takes_nothing_back_and_a_moved_database_goes_on(
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
    if change == "cleared and begun anew":
        await session.add_items([{"role": "user", "content": "anew"}])
    session.close()


@pytest.mark.parametrize("change", ["popped", "cleared", "compacted", "cleared and begun anew"])
@pytest.mark.parametrize("copy", ["before.db", "z.db"])
def test_a_copy_beside_a_database_neither_brings_back_what_is_gone_nor_keeps_what_comes(
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


def test_a_database_that_is_restored_from_a_backup_is_shown_as_it_is_then(
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


def test_another_conversation_under_the_same_id_elsewhere_is_a_problem(
    imported: Importer, ledger: Ledger, path: Path, tmp_path: Path
) -> None:
    put(path, user("a"))
    put(tmp_path / "other.db", user("b"))
    put(tmp_path / "third.db", user("c"), user("d"), session_id="t")
    imported("openai-agents", path, tmp_path / "third.db")
    [report] = imported("openai-agents", tmp_path / "other.db")

    assert notes(report) == [
        (
            f"openai-agents:s was imported from {path}, and this database has a different conversation under that id; "
            "nothing was imported from it. Import this database with --session-prefix, such as --session-prefix app2/"
        )
    ]
    assert (report.exit_code, shown(ledger)) == (2, [user("a")])
