"""What becomes of a database of the SDK, and of another import of it after the SDK went on writing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.importers.conftest import Importer
from tests.importers.import_files import import_paths
from tests.importers.sdk_databases import PRODUCER, everything, execute, items, name, put, said, shown, types, user
from tests.log.memory import MemoryRecorder

from rightful import ledger as app
from rightful.importers.openai_agents.sdk_databases import OpenAIAgents
from rightful.ledger import Ledger
from rightful.log.log import Log

CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42 😀 \u2028 \u0000"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def notes(report: Any) -> list[str]:
    return [one.what for one in report.problems]


def test_a_session_becomes_a_history_of_one_event_a_row(imported: Importer, ledger: Ledger, path: Path) -> None:
    put(path, user("hello"), CALL, OUTPUT, said("42"))
    execute(path, "UPDATE agent_messages SET created_at = '2026-08-01 10:15:00' WHERE id = 2")

    [report] = imported("openai-agents", path)

    rows = list(ledger.read(session=name()))
    assert [row.type for row in rows] == ["session.started", *["history.appended"] * 4]
    assert {row.event.producer for row in rows} == {PRODUCER}  # type: ignore[union-attr]
    assert shown(ledger) == items(path) == [user("hello"), CALL, OUTPUT, said("42")]
    second = rows[2].event
    assert (second.at.isoformat(), second.at_basis) == ("2026-08-01T10:15:00+00:00", None)  # type: ignore[union-attr]
    assert {key: second.extra[key] for key in ("table", "row")} == {"table": "agent_messages", "row": 2}  # type: ignore[union-attr, index]
    assert rows[0].event.extra == {"source": str(path), "table": "agent_messages"}  # type: ignore[union-attr]
    assert (report.appended, report.duplicate, report.problems, report.exit_code) == (5, 0, [], 0)


def test_importing_again_adds_nothing_and_a_grown_database_its_growth(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), said("b"))
    [first], [again] = imported("openai-agents", path), imported("openai-agents", path)
    put(path, user("c"))
    [grown] = imported("openai-agents", path)

    assert [(one.appended, one.duplicate) for one in (first, again, grown)] == [(3, 0), (0, 3), (1, 3)]
    assert again.is_old
    assert shown(ledger) == [user("a"), said("b"), user("c")]


def test_items_deleted_by_the_sdk_leave_the_view_and_stay_in_the_history(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), said("b"), user("c"))
    imported("openai-agents", path)
    session = SQLiteSession("s", path)
    asyncio.run(session.pop_item())
    [popped] = imported("openai-agents", path)
    assert shown(ledger) == [user("a"), said("b")]
    asyncio.run(session.clear_session())
    session.close()
    [cleared], [again] = imported("openai-agents", path), imported("openai-agents", path)

    assert shown(ledger) == []
    assert everything(ledger) == [user("a"), said("b"), user("c")]
    assert notes(popped) == [
        (
            "note: openai-agents:s: 1 item of an earlier import deleted from the database; "
            "removed from its view, kept in its full history"
        )
    ]
    assert [one.what.split(":")[3][:8] for one in cleared.problems] == [" 2 items"]
    assert (again.appended, again.problems) == (0, [])


def test_a_row_that_comes_and_goes_is_shown_whenever_it_is_there(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), user("b"))
    imported("openai-agents", path)
    for _ in range(3):
        execute(
            path,
            "CREATE TABLE kept AS SELECT * FROM agent_messages WHERE id = 2",
            "DELETE FROM agent_messages WHERE id = 2",
        )
        imported("openai-agents", path)
        assert shown(ledger) == [user("a")]
        execute(path, "INSERT INTO agent_messages SELECT * FROM kept", "DROP TABLE kept")
        imported("openai-agents", path)
        assert shown(ledger) == [user("a"), user("b")]


def test_what_others_say_of_a_session_is_no_source_of_it(imported: Importer, ledger: Ledger, path: Path) -> None:
    put(path, user("a"))
    imported("openai-agents", path)
    start = {"type": "session.started", "producer": "app", "key": "1", "session": name(), "at": "2026-08-01T10:15:00Z"}
    ledger.append([start | {"extra": {"source": "elsewhere"}}])
    path.unlink()
    put(path, user("anew"))
    imported("openai-agents", path)

    assert shown(ledger) == [user("anew")]


Operation = tuple[str, int]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "pop", "clear", "compact", "replace"]), st.integers(1, 3)), max_size=6
)


@example([("replace", 1), ("clear", 1)])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_view_after_each_import_is_the_sdks_and_nothing_is_missing(
    tmp_path_factory: pytest.TempPathFactory, operations: list[Operation]
) -> None:
    folder = tmp_path_factory.mktemp("random")
    path = folder / "s.db"
    ever: list[Any] = []
    with app.open(folder / "ledger", create=True) as ledger:
        for operation, count in [("add", 2), *operations]:
            if operation == "replace":
                for stale in folder.glob("s.db*"):
                    stale.unlink()
            asyncio.run(_operate(path, operation, count))
            list(import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
            now = items(path)
            ever += [one for one in now if one not in ever]

            assert shown(ledger) == now
            assert [one for one in ever if one not in everything(ledger)] == []


async def _operate(path: Path, operation: str, count: int) -> None:
    session = SQLiteSession("s", path)
    match operation:
        case "pop":
            for _ in range(count):
                await session.pop_item()
        case "clear":
            await session.clear_session()
        case "compact":
            kept = await session.get_items()
            await session.clear_session()
            await session.add_items([{"type": "compaction", "encrypted_content": "x"}, *kept[-1:]])
        case _:
            added: list[Any] = [user(f"{operation} {at}") for at in range(count)]
            await session.add_items(added)
    session.close()


def test_a_new_database_at_the_same_path_is_not_treated_as_the_old_one(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), said("b"))
    put(path, user("other"), session_id="t")
    imported("openai-agents", path)
    path.unlink()
    put(path, user("a"), said("not b"))
    execute(path, "UPDATE agent_messages SET created_at = '2031-01-01 00:00:00'")

    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("a"), said("not b")]
    assert everything(ledger) == [user("a"), said("b"), user("a"), said("not b")]
    assert shown(ledger, name("t")) == [user("other")]
    assert notes(report)[-1] == (
        "note: openai-agents:t is not in this database, which is not the one it was imported from; nothing was undone"
    )


def test_erased_items_are_not_imported_again_and_later_ones_stay(path: Path) -> None:
    recorder = MemoryRecorder()
    log = Log(recorder)
    put(path, user("a"), user("secret"), user("b"))
    list(import_paths(log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
    recorder.erase(3)
    put(path, user("c"))

    [report] = import_paths(log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer)

    assert [row.type for row in log.read()] == ["session.started", *["history.appended"] * 4]
    assert notes(report) == ["note: openai-agents:s: 1 row erased from the ledger; not imported again"]


def test_what_went_on_in_the_ledger_is_never_removed_or_moved(imported: Importer, ledger: Ledger, path: Path) -> None:
    put(path, user("a"), said("b"))
    imported("openai-agents", path)
    ledger.extend(ledger.history(name()).token, [user("in the ledger")])
    put(path, user("late"))
    [late] = imported("openai-agents", path)
    session = SQLiteSession("s", path)
    asyncio.run(session.clear_session())
    session.close()
    [cleared] = imported("openai-agents", path)

    assert shown(ledger) == [user("a"), said("b"), user("in the ledger"), user("late")]
    assert "history.popped" not in types(ledger)
    assert notes(late) == [
        (
            "note: openai-agents:s: 1 row written to the database after the session continued in the ledger; "
            "imported after the newer items"
        )
    ]
    assert notes(cleared) == [
        "note: openai-agents:s is no longer in the database; it continued in the ledger, so its history is unchanged"
    ]


def test_what_was_popped_or_compacted_in_the_ledger_does_not_come_back(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    put(path, user("a"), said("b"), user("c"))
    imported("openai-agents", path)
    ledger.pop(name())
    ledger.compact(ledger.history(name()).token, [user("summary")])
    [report] = imported("openai-agents", path)

    assert (report.appended, shown(ledger)) == (0, [user("summary")])


def test_rows_are_not_put_behind_a_history_that_was_begun_in_the_ledger(
    imported: Importer, ledger: Ledger, path: Path
) -> None:
    ledger.extend(name(), [user("new")])
    put(path, user("old"))
    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("new")]
    assert notes(report) == [
        (
            "openai-agents:s has a history in the ledger that was not started by an import; its rows would follow "
            "newer items, so nothing was imported from it. Import a database before you continue its sessions in the "
            "ledger"
        )
    ]


def test_a_database_that_others_import_meanwhile_is_read_again(
    imported: Importer, ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, user("a"))
    imported("openai-agents", path)
    put(path, user("mistaken"))
    put(path, user("other"), session_id="before s")
    append: Callable[..., Any] = ledger.log.append

    def overtaken(events: Any, **options: Any) -> Any:
        if "mistaken" in str(events):
            monkeypatch.setattr(ledger.log, "append", append)
            session = SQLiteSession("s", path)
            asyncio.run(session.pop_item())
            asyncio.run(session.add_items([user("b")]))  # type: ignore[list-item]
            session.close()
            imported("openai-agents", path)
        return append(events, **options)

    monkeypatch.setattr(ledger.log, "append", overtaken)
    [report] = imported("openai-agents", path)

    assert shown(ledger) == everything(ledger) == [user("a"), user("b")]
    assert (report.problems, report.kinds) == ([], {"session.started": 1, "history.appended": 1})


def test_a_database_whose_path_is_no_utf8_is_known_again(imported: Importer, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.db")
    put(path, user("a"))
    imported("openai-agents", path)
    assert shown(ledger) == [user("a")]
    session = SQLiteSession("s", path)
    asyncio.run(session.clear_session())
    session.close()
    imported("openai-agents", path)

    assert shown(ledger) == []


WITHOUT = """
import sys
sys.modules["agents"] = sys.modules["openai"] = None
from rightful.cli import main
code = main(["--ledger", sys.argv[1], "init"])
sys.exit(code or main(["--ledger", sys.argv[1], "import", "openai-agents", sys.argv[2]]))
"""


def test_the_sdk_is_not_needed(path: Path, tmp_path: Path) -> None:
    put(path, user("a"))
    command = [sys.executable, "-c", WITHOUT, str(tmp_path / "other-ledger"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 appended (1 start, 1 history item)" in done.stdout


KILLED = """
import os, signal, sys
from rightful import ledger as app, limits
from tests.importers.import_files import import_paths
from rightful.importers.openai_agents.sdk_databases import OpenAIAgents

limits.IMPORT_EVENTS = 2
with app.open(sys.argv[1]) as ledger:
    append, left = ledger.log.append, [int(sys.argv[3])]

    def counted(events, **options):
        left[0] -= 1
        receipts = append(events, **options)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return receipts

    ledger.log.append = counted
    list(import_paths(ledger.log, [OpenAIAgents()], [sys.argv[2]], stdin=sys.stdin.buffer))
"""


@pytest.mark.parametrize("appends", [1, 2, 3])
def test_a_killed_import_is_simply_run_again(path: Path, tmp_path: Path, appends: int) -> None:
    put(path, *(user(str(at)) for at in range(4)))
    with app.open(tmp_path / "own", create=True) as ledger:
        list(import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
        session = SQLiteSession("s", path)
        asyncio.run(session.pop_item())
        session.close()
    put(path, *(user(f"new {at}") for at in range(5)))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "own"), str(path), str(appends)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL

    with app.open(tmp_path / "own") as ledger:
        list(import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=sys.stdin.buffer))
        assert shown(ledger) == items(path)
        assert len(everything(ledger)) == 9
