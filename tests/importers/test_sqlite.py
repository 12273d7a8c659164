"""Databases of others are read whatever state they are in, and nothing is written to them or beside them."""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from tests.importers.conftest import Importer
from tests.importers.sdk_databases import execute, items, put, shown, user

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import NotYetError
from rightful.importers.sources import sqlite_databases
from rightful.ledger import Ledger

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("done", flush=True)
sys.stdin.read()
"""


class Other:
    """Another process that has a database open."""

    def __init__(self, script: str, *words: str | Path) -> None:
        command = [sys.executable, "-c", script, *map(str, words)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def add_items(pipe: Connection, path: Path) -> None:
    async def add() -> None:
        session = SQLiteSession("s", str(path))
        while True:
            await session.add_items([pipe.recv()])
            pipe.send("done")

    asyncio.run(add())


class Writer:
    """Another process that keeps a session of the SDK open; forked, since importing the SDK takes a second."""

    def __init__(self, path: Path) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=add_items, args=(theirs, path), daemon=True)
        self.process.start()

    def write(self, item: dict[str, str]) -> None:
        self.pipe.send(item)
        assert self.pipe.recv() == "done"

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    return tmp_path / "app" / "sessions.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    yield writer
    writer.kill()


def state(path: Path) -> dict[str, tuple[str, int]]:
    """What stands beside a database, but for the index in shared memory, which every reader marks."""
    files = (one for one in path.parent.iterdir() if not one.name.endswith("-shm"))
    return {one.name: (hashlib.sha256(one.read_bytes()).hexdigest(), one.stat().st_mtime_ns) for one in files}


def names_beside(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def test_what_another_process_writes_right_now_is_read_and_it_goes_on(
    imported: Importer, ledger: Ledger, path: Path, writer: Writer
) -> None:
    writer.write({"role": "user", "content": "a"})
    before = state(path)
    assert before["sessions.db-wal"][0] != hashlib.sha256(b"").hexdigest()

    [report] = imported("openai-agents", path)

    assert (shown(ledger), report.problems, state(path)) == ([user("a")], [], before)
    writer.write({"role": "user", "content": "b"})
    imported("openai-agents", path)
    assert shown(ledger) == [user("a"), user("b")]


@pytest.mark.parametrize("index", ["with", "without"])
def test_committed_rows_of_a_killed_process_are_read_and_stay(
    imported: Importer, ledger: Ledger, path: Path, writer: Writer, index: str
) -> None:
    put(path, user("old"))
    writer.write({"role": "user", "content": "committed"})
    writer.kill()
    if index == "without":
        Path(f"{path}-shm").unlink()
    before, names = state(path), names_beside(path)

    [report] = imported("openai-agents", path)

    assert (shown(ledger), report.problems) == ([user("old"), user("committed")], [])
    assert (state(path), names_beside(path)) == (before, names)
    assert items(path) == shown(ledger)


def test_a_closed_database_is_read_without_anything_made_beside_it(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"))
    path.chmod(0o444)
    path.parent.chmod(0o555)
    before = state(path)
    assert list(before) == ["sessions.db"]
    try:
        imported("openai-agents", path)
        assert (shown(ledger), state(path)) == ([user("a")], before)
        assert names_beside(path) == ["sessions.db"]
    finally:
        path.parent.chmod(0o755)


def test_a_link_is_read_with_what_is_next_to_its_target(
    imported: Importer, ledger: Ledger, path: Path, writer: Writer, tmp_path: Path
) -> None:
    writer.write({"role": "user", "content": "a"})
    (tmp_path / "link").symlink_to(path)

    imported("openai-agents", tmp_path / "link")

    assert shown(ledger) == [user("a")]


def test_open_transaction_of_a_killed_process_is_undone_only_in_the_copy(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, *(user("x" * 3_000) for _ in range(40)))
    execute(path, "PRAGMA journal_mode = DELETE")
    spill = ("PRAGMA cache_size = 1", "BEGIN IMMEDIATE", "UPDATE agent_messages SET message_data = '{}'")
    killed = Other(HOLDER, path, *spill)
    killed.wait()
    killed.kill()
    before = state(path)
    assert "sessions.db-journal" in before

    [report] = imported("openai-agents", path)

    assert (shown(ledger), report.problems, state(path)) == ([user("x" * 3_000)] * 40, [], before)


def test_locked_database_is_a_problem_and_is_tried_again(
    imported: Importer, ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, user("a"))
    execute(path, "PRAGMA journal_mode = DELETE")
    holder = Other(HOLDER, path, "BEGIN EXCLUSIVE")
    holder.wait()
    with pytest.raises(NotYetError), sqlite_databases.copied(str(path), timeout_s=0):
        raise AssertionError
    copied = sqlite_databases.copied
    monkeypatch.setattr("rightful.importers.sources.sqlite_databases.copied", lambda one: copied(one, timeout_s=0))

    [locked] = imported("openai-agents", path)
    holder.kill()
    [report] = imported("openai-agents", path)

    assert [one.what for one in locked.problems] == [
        "another program has locked it; nothing was imported from it. Import it again"
    ]
    assert (locked.waits, locked.exit_code, locked.is_read) == (True, 2, False)
    assert (report.appended, shown(ledger), limits.DATABASE_WAIT_S) == (2, [user("a")], 5.0)


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_database_that_changes_while_it_is_copied_is_copied_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_torn: bool
) -> None:
    """Pages of two moments may look like damage, which is told only where nothing changed."""
    put(path, user("a"))
    back_up, left = sqlite_databases._back_up, [1]

    def changing(*words: Any) -> None:
        back_up(*words)
        if left and left.pop():
            put(path, user("b"))
            if is_torn:
                raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(sqlite_databases, "_back_up", changing)
    with sqlite_databases.copied(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM agent_messages").fetchone() == (2,)


def test_a_database_that_changes_all_the_time_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, user("a"))
    back_up = sqlite_databases._back_up

    def changing(*words: Any) -> None:
        back_up(*words)
        put(path, user("b"))

    monkeypatch.setattr(sqlite_databases, "_back_up", changing)
    with pytest.raises(NotYetError, match="kept changing"), sqlite_databases.copied(str(path)):
        raise AssertionError


def test_a_reader_that_is_killed_leaves_no_copy_behind(
    path: Path, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has no name: it is larger than what SQLite keeps in memory, and yet nothing stands in the folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    writer.write(user("x" * 4_000_000))
    writer.kill()
    shutil.copytree(path.parent, tmp_path / "left")
    (tmp_path / "left" / "sessions.db-shm").unlink()
    put(tmp_path / "closed.db", user("x" * 4_000_000))

    for one in (path, tmp_path / "left" / "sessions.db", tmp_path / "closed.db"):
        with sqlite_databases.copied(str(one)) as copy:
            assert list(folder.iterdir()) == []
            assert copy.execute("SELECT count(*), sum(length(message_data)) > 4000000 FROM agent_messages").fetchone()


def test_a_full_disk_of_temporary_files_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, user("a"))

    def full(*words: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite_databases, "_back_up", full)
    with pytest.raises(InvalidEventError, match="no space for a copy"), sqlite_databases.copied(str(path)):
        raise AssertionError


@pytest.mark.parametrize("part", ["-wal", "-shm", "-journal"])
def test_a_pipe_beside_a_database_is_not_waited_for(imported: Importer, path: Path, part: str) -> None:
    put(path, user("a"))
    os.mkfifo(f"{path}{part}")

    [report] = imported("openai-agents", path)

    assert [one.what for one in report.problems] == [
        f"sessions.db{part} is not a regular file; nothing was imported from the database"
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:4096] + b"\xff" * (len(data) - 4096),
        lambda data: data[:5000],
        lambda data: data[:100],
    ],
    ids=["overwritten", "cut short", "cut to its header"],
)
def test_a_damaged_database_is_a_problem_and_takes_nothing_back(
    imported: Importer, ledger: Ledger, path: Path, damage: Callable[[bytes], bytes]
) -> None:
    put(path, *(user(str(at) * 500) for at in range(20)))
    imported("openai-agents", path)
    path.write_bytes(damage(path.read_bytes()))

    [report] = imported("openai-agents", path)

    assert len(shown(ledger)) == 20
    assert report.exit_code == 2
    assert report.problems[-1].what == (
        "SQLite cannot read it (database disk image is malformed); rows missing from the ledger were not imported"
    )


def test_a_database_in_which_another_has_begun_to_write_is_read_as_it_was(path: Path) -> None:
    put(path, user("a"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with sqlite_databases.copied(str(path), timeout_s=0) as copy:
            assert copy.execute("SELECT count(*) FROM agent_messages").fetchone() == (1,)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(sqlite_databases.HEADER + b"nonsense" * 100)
    with (
        pytest.raises(InvalidEventError, match="SQLite cannot read it"),
        sqlite_databases.copied(str(path)) as connection,
    ):
        connection.execute("SELECT * FROM sqlite_master")
