"""Branches of AdvancedSQLiteSession become forks, each with the view that the SDK shows of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.extensions.memory import AdvancedSQLiteSession
from agents.usage import Usage
from tests.importers.conftest import Importer
from tests.importers.sdk_databases import advanced, everything, execute, name, put, said, shown, types, user

from rightful.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "advanced.db"


@pytest.fixture
def session(path: Path) -> Iterator[AdvancedSQLiteSession]:
    opened = advanced(path)
    yield opened
    opened.close()


def add(session: AdvancedSQLiteSession, *items: Any) -> None:
    asyncio.run(session.add_items(list(items)))


def views(session: AdvancedSQLiteSession) -> dict[str, list[Any]]:
    """What the SDK shows of each branch, by the session that it becomes."""

    async def read() -> dict[str, list[Any]]:
        branches = [one["branch_id"] for one in await session.list_branches()]
        return {branch: await session.get_items(branch_id=branch) for branch in branches}

    return {of(branch): items for branch, items in asyncio.run(read()).items()}


def of(branch: str) -> str:
    return name() if branch == "main" else name(f"s/branch/{branch}")


def test_a_branch_begins_where_it_left_and_nothing_is_copied(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), said("1"), user("two"), said("2"), user("three"))
    asyncio.run(session.create_branch_from_turn(2, "other"))
    add(session, user("zwei"), said("II"))
    asyncio.run(session.create_branch_from_turn(2, "third"))
    add(session, user("deux"))
    asyncio.run(session.switch_to_branch("other"))
    asyncio.run(session.create_branch_from_content("zwei", "fourth"))

    [report] = imported("openai-agents", path)

    assert {one: shown(ledger, one) for one in views(session)} == views(session)
    assert everything(ledger, of("other")) == [user("zwei"), said("II")]
    assert types(ledger, of("other"))[:2] == ["session.started", "history.forked"]
    started, forked = list(ledger.read(session=of("other")))[:2]
    assert (started.event.extra["branch"], started.event.extra["of"]) == ("other", name())  # type: ignore[union-attr, index]
    assert (forked.event.of, forked.event.through) == (name(), 3)  # type: ignore[union-attr]
    assert ledger.history(of("other")).ids[:2] == ledger.history(name()).ids[:2]
    assert (report.problems, report.duplicate, report.kinds["history.forked"]) == ([], 0, 3)
    assert [(one.appended, one.duplicate) for one in imported("openai-agents", path)] == [(0, 4 + 5 + 3)]


def test_a_branch_of_a_branch_begins_with_that(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), said("1"), user("two"))
    asyncio.run(session.create_branch_from_turn(2, "b"))
    add(session, user("zwei"), user("drei"))
    asyncio.run(session.create_branch_from_turn(3, "c"))
    add(session, user("trois"))

    imported("openai-agents", path)

    assert shown(ledger, of("c")) == [user("one"), said("1"), user("zwei"), user("trois")] == views(session)[of("c")]
    assert everything(ledger, of("c")) == [user("trois")]


def test_branch_begins_with_the_items_shown_after_a_removal(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), user("two"))
    imported("openai-agents", path)
    asyncio.run(session.pop_item())
    add(session, user("zwei"), user("drei"))
    asyncio.run(session.create_branch_from_turn(3, "b"))
    add(session, user("trois"))
    imported("openai-agents", path)

    assert shown(ledger, of("b")) == [user("one"), user("zwei"), user("trois")] == views(session)[of("b")]
    assert everything(ledger, of("b")) == [user("trois")]


def test_what_goes_on_in_branches_is_seen_by_the_next_import(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), said("1"), user("two"))
    asyncio.run(session.create_branch_from_turn(2, "b"))
    add(session, user("zwei"))
    imported("openai-agents", path)
    for _ in range(2):
        asyncio.run(session.pop_item())
    add(session, user("drei"))
    imported("openai-agents", path)
    assert shown(ledger, of("b")) == [user("one"), user("drei")] == views(session)[of("b")]
    assert shown(ledger) == [user("one"), said("1"), user("two")]

    asyncio.run(session.delete_branch("b", force=True))
    imported("openai-agents", path)
    assert (shown(ledger, of("b")), shown(ledger)) == ([], [user("one"), said("1"), user("two")])
    assert everything(ledger, of("b")) == [user("zwei"), user("drei")]

    asyncio.run(session.clear_session())
    imported("openai-agents", path)
    assert shown(ledger) == []


def test_a_branch_whose_beginning_is_not_to_be_had_has_items_of_its_own(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), said("1"))
    imported("openai-agents", path)
    ledger.clear(name())
    add(session, user("two"), said("2"), user("three"))
    asyncio.run(session.create_branch_from_turn(3, "b"))
    add(session, user("drei"))

    imported("openai-agents", path)

    assert shown(ledger, of("b")) == views(session)[of("b")]
    assert everything(ledger, of("b")) == [user("two"), said("2"), user("drei")]


@pytest.mark.parametrize("seed", range(3))
def test_after_each_import_every_branch_is_what_the_sdk_shows(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession, seed: int
) -> None:
    choose, ever = random.Random(seed), set[str]()
    for number in range(12):
        match choose.choice(["add", "add", "branch", "pop", "switch"]):
            case "add":
                add(session, user(f"{number}"), said(f"{number}"))
            case "branch" if turns := asyncio.run(session.get_conversation_turns()):
                asyncio.run(session.create_branch_from_turn(choose.choice(turns)["turn"], f"b{number}"))
            case "pop":
                asyncio.run(session.pop_item())
            case _:
                branches = asyncio.run(session.list_branches())
                if branches:
                    asyncio.run(session.switch_to_branch(choose.choice(branches)["branch_id"]))
        imported("openai-agents", path)
        now = views(session)
        ever |= now.keys()
        assert {one: shown(ledger, one) for one in ever} == {one: now.get(one, []) for one in ever}


def test_the_usage_of_each_turn_is_recorded_once_and_as_it_grew(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), said("1"))
    usage = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
    asyncio.run(session._update_turn_usage_internal(1, usage, turn_anchor=1))
    imported("openai-agents", path)
    imported("openai-agents", path)
    usage.add(Usage(requests=1, input_tokens=5, output_tokens=1, total_tokens=6))
    asyncio.run(session._update_turn_usage_internal(1, usage, turn_anchor=1))
    imported("openai-agents", path)

    rerun = Usage(requests=1, input_tokens=1, output_tokens=1, total_tokens=2)
    asyncio.run(session._update_turn_usage_internal(1, rerun, turn_anchor=1))
    assert [one.conflicts for one in imported("openai-agents", path)] == [0]

    found = [row.event for row in ledger.read(session=name(), types=["usage.recorded"])][:2]
    assert [(one.turn, one.counts["total_tokens"], one.of) for one in found] == [("1", 12, None), ("1", 18, None)]  # type: ignore[union-attr]
    assert found[0].counts["input_tokens_details"]["cached_tokens"] == 0  # type: ignore[union-attr]


def test_a_session_that_is_called_as_a_branch_would_be_is_a_problem(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), user("two"))
    asyncio.run(session.create_branch_from_turn(2, "b"))
    add(session, user("zwei"))
    put(path, user("plain"), session_id="s/branch/b")

    [report] = imported("openai-agents", path)

    assert shown(ledger, of("b")) == [user("one"), user("zwei")]
    assert [one.what for one in report.problems] == [
        "openai-agents:s/branch/b is in this database twice; the one in `agent_messages` was not imported"
    ]


def test_rows_in_no_branch_are_named(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"))
    put(path, user("plain"))
    put(path, user("alone"), session_id="t")

    [report] = imported("openai-agents", path)

    assert (shown(ledger), shown(ledger, name("t"))) == ([user("one")], [user("alone")])
    assert [(one.line, one.what) for one in report.problems] == [
        (
            2,
            (
                "openai-agents:s: 1 row of `agent_messages` in no branch (first: 2); "
                "AdvancedSQLiteSession does not show them, and they were not imported"
            ),
        )
    ]


def test_a_message_that_occurs_twice_in_a_branch_is_shown_twice(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), user("two"))
    again = "SELECT session_id, message_id, branch_id, message_type, 9 FROM message_structure WHERE message_id = 1"
    columns = "session_id, message_id, branch_id, message_type, sequence_number"
    execute(path, f"INSERT INTO message_structure ({columns}) {again}")
    imported("openai-agents", path)
    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("one"), user("two"), user("one")] == views(session)[name()]
    assert (report.appended, report.duplicate) == (0, 4)


def test_branch_with_an_invalid_name_is_a_problem_and_others_are_read(
    imported: Importer, ledger: Ledger, path: Path, session: AdvancedSQLiteSession
) -> None:
    add(session, user("one"), user("two"))
    asyncio.run(session.create_branch_from_turn(2, "b\n"))

    [report] = imported("openai-agents", path)

    assert shown(ledger) == [user("one"), user("two")]
    assert [one.what for one in report.problems] == [
        "a branch of openai-agents:s has the id 'b\\n', which is not valid in a name; it was not imported"
    ]
    execute(path, "UPDATE message_structure SET branch_id = x'ff' WHERE branch_id <> 'main'")
    [report] = imported("openai-agents", path)
    assert [one.what for one in report.problems] == [
        "a branch of openai-agents:s has an id that is not text; it was not imported"
    ]
