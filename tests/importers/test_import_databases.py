"""Databases in the common loop of imports: told by how they begin and by their tables, in folders, and watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers.conftest import KINDS, Importer
from tests.importers.sdk_databases import execute, put, shown, user
from tests.importers.test_sqlite import HOLDER, Other, Writer
from tests.importers.test_watching import Script

from rightful.importers.engine.loop import Import
from rightful.importers.sources import sqlite_databases
from rightful.importers.sources.sqlite_databases import PIPED
from rightful.importers.sources.watch import Watch
from rightful.ledger import Ledger

JSON = '{"type": "session_meta"}\n'


def words(reports: list[object]) -> list[str]:
    return [one.what for report in reports for one in report.problems]  # type: ignore[attr-defined]


def test_a_database_is_recognised_by_its_content_in_a_folder_and_by_name(
    imported: Importer, ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    put(folder / "a.sqlite3", user("a"))
    (folder / "no.db").write_text("no database")
    execute(folder / "other.db", "CREATE TABLE cookies (id)")
    put(folder / "unseen.data", user("b"), session_id="t")

    found = imported("auto", folder)
    named = imported("auto", folder / "unseen.data")

    assert (shown(ledger), shown(ledger, "openai-agents:t")) == ([user("a")], [user("b")])
    assert [Path(one.path).name for one in found if one.is_read] == ["a.sqlite3"]
    assert "skipped: a SQLite database with `cookies` is not of a known kind" in " ".join(words(list(found)))
    assert words(list(named)) == []


@pytest.mark.parametrize("kind", ["auto", "openai-agents"])
@pytest.mark.parametrize("content", [b"", b"\xd0\xcf\x11\xe0\n7\n\x00{", b'{"type": "session_meta"}\n'])
def test_a_file_of_a_folder_with_a_databases_name_alone_is_skipped(
    imported: Importer, tmp_path: Path, kind: str, content: bytes
) -> None:
    """Nobody asked for it: what Windows calls `Thumbs.db` is of no tool, and is not read as if it were JSON."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "Thumbs.db").write_bytes(content)

    [report] = imported(kind, tmp_path / "app")

    assert words([report]) == ["skipped: not a SQLite database"]
    assert (report.exit_code, report.passed) == (0, 1)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("held", [False, True])
def test_a_database_of_another_program_is_neither_copied_nor_waited_for(
    imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, held: bool
) -> None:
    """It may be a browser's, of many gigabytes, and locked for days."""
    path = tmp_path / "History.db"
    execute(path, f"PRAGMA journal_mode={mode}", "CREATE TABLE urls (id)")
    statements = ["BEGIN EXCLUSIVE", "INSERT INTO urls VALUES (1)"] if mode == "DELETE" else ["BEGIN"]
    other = Other(HOLDER, path, "INSERT INTO urls VALUES (2)", *statements) if held else None

    def copied(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(sqlite_databases, "copied", copied)
    [report] = imported("auto", path)
    if other is not None:
        other.kill()

    assert report.problems[0].what.startswith("a SQLite database with `urls` is not of ")


def test_a_folder_is_searched_for_databases_only_by_kinds_that_read_them(imported: Importer, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    put(tmp_path / "app" / "a.db", user("a"))

    assert words(list(imported("codex", tmp_path / "app"))) == ["skipped: 1 file with another suffix: 1 .db"]


def test_a_file_that_was_named_as_the_wrong_kind_is_called_by_its_own(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    put(tmp_path / "a.db", user("a"))
    execute(tmp_path / "other.db", "CREATE TABLE cookies (id)")
    (tmp_path / "x.jsonl").write_text(JSON)
    importing = Import(ledger.log, KINDS["codex"], 0, None, None, False, lambda: KINDS["auto"])

    assert words([importing.file(str(tmp_path / "a.db"), named=True)]) == [
        (
            "this looks like a database of kind openai-agents; nothing was imported from it. "
            "Import it as openai-agents, or as auto"
        )
    ]
    assert words(list(imported("openai-agents", tmp_path / "other.db"))) == [
        "a SQLite database with `cookies` is not of kind openai-agents"
    ]
    assert words(list(imported("openai-agents", tmp_path / "x.jsonl"))) == [
        "Expected a SQLite database of the OpenAI Agents SDK, got another file"
    ]
    assert ledger.log.head() == 0


def test_a_database_on_stdin_is_refused_with_the_reason(imported: Importer, tmp_path: Path) -> None:
    put(tmp_path / "a.db", user("a"))

    [report] = imported("auto", "-", stdin=(tmp_path / "a.db").read_bytes())

    assert (words([report]), report.exit_code) == ([PIPED], 2)


def test_a_watch_sees_rows_that_stand_in_the_log_beside_a_database(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "app" / "a.db"
    path.parent.mkdir()
    writer = Writer(path)

    def write(text: str) -> set[str]:
        writer.write({"role": "user", "content": text})
        return {f"{path}-wal"}

    write("a")
    steps = Script(lambda: write("b"), set[str], lambda: write("c"))
    importing = Import(ledger.log, KINDS["openai-agents"], ledger.log.head(), None, None)
    reports = list(Watch(importing, [str(path.parent)], steps).follow(steps.clock))
    writer.kill()

    assert shown(ledger) == [user("a"), user("b"), user("c")]
    assert [one.appended for one in reports if one.is_read] == [2, 1, 1]


def test_how_far_a_database_is_read_is_reported(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    put(path, user("a"))
    put(path, user("b"), session_id="t")
    size, told = path.stat().st_size, list[tuple[str, int, int]]()
    importing = Import(ledger.log, KINDS["openai-agents"], 0, lambda *step: told.append(step), None)
    importing.file(str(path), named=True)

    assert told[0] == (str(path), 0, size)
    assert told[-1] == (str(path), size // 2, size)
