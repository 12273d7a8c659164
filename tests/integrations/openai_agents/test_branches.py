"""Branches of a session, all that it held, and its events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.openai_agents.providers import user

from rightful.errors import UsageError
from rightful.events import HistoryForked
from rightful.field_types import ItemId
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


async def shown(session: LedgerSession) -> list[Any]:
    items: list[Any] = [*await session.get_items()]
    return [item["content"] for item in items]


async def grown(session: LedgerSession, *batches: str) -> LedgerSession:
    for batch in batches:
        await session.add_items([user(text) for text in batch])
    return session


def test_a_branch_begins_with_what_is_shown_and_each_goes_on_alone(session: LedgerSession) -> None:
    async def play() -> None:
        await grown(session, "ab", "c")
        branch = await session.fork(session_id="other")
        await grown(branch, "x")
        await grown(session, "d")
        await session.clear_session()

        assert branch.session_id == "other"
        assert await shown(branch) == ["a", "b", "c", "x"]
        assert await shown(session) == []
        kinds = [type(row.event).__name__ for row in await branch.events()]
        assert kinds == ["HistoryForked", "HistoryAppended"]

    asyncio.run(play())


def test_a_branch_may_begin_at_a_position_or_behind_the_batch_of_an_item(session: LedgerSession) -> None:
    async def play() -> None:
        await grown(session, "ab", "c")
        await session.pop_item()
        await grown(session, "d")
        entries = {entry.item["content"]: entry for entry in (await session.full_history()).entries}

        assert await shown(await session.fork(0)) == []
        assert await shown(await session.fork(1)) == ["a", "b"]
        assert await shown(await session.fork(entries["c"].position)) == ["a", "b", "c"]
        assert await shown(await session.fork(3)) == ["a", "b"]
        assert await shown(await session.fork(entries["a"].id)) == ["a", "b"]
        assert await shown(await session.fork(entries["c"].id)) == ["a", "b", "c"]
        assert await shown(await session.fork()) == ["a", "b", "d"]

    asyncio.run(play())


def test_a_branch_of_a_branch_may_begin_before_that_began(session: LedgerSession) -> None:
    """What it inherited has its positions in the first history, and there is nothing of its own before its fork."""

    async def play() -> None:
        await grown(session, "a", "b", "c")
        branch = await grown(await session.fork(2, "branch"), "x", "y")  # forked at 4; x at 5
        inherited = (await branch.full_history()).entries[0].id

        assert await shown(await branch.fork(1)) == ["a"]
        assert await shown(await branch.fork(3)) == ["a", "b"]
        assert await shown(await branch.fork(4)) == ["a", "b"]
        assert await shown(await branch.fork(5)) == ["a", "b", "x"]
        assert await shown(await branch.fork(inherited)) == ["a"]

    asyncio.run(play())


def test_a_branch_has_an_id_that_says_whose_it_is_and_that_no_other_has(session: LedgerSession) -> None:
    async def play() -> None:
        ids = [(await LedgerSession("chat", session.ledger).fork()).session_id for _ in range(2)]
        ids.append((await session.fork()).session_id)

        assert all(one.startswith("chat/fork-") and len(one) == len("chat/fork-") + 12 for one in ids)
        assert len(set(ids)) == 3

    asyncio.run(play())


@pytest.mark.parametrize("start", ["x" * 1_010, "é" * 505, "x" + "é" * 504])
def test_a_branch_of_a_session_with_the_longest_id_has_an_id_that_fits(start: str, ledger: Ledger) -> None:
    """What does not fit is left out of the session's own id, by whole characters."""

    async def play() -> None:
        session = await grown(LedgerSession(start, ledger), "a")
        branch = await session.fork()

        own, _, end = branch.session_id.rpartition("/fork-")
        assert (start.startswith(own), len(end)) == (True, 12)
        assert 1_009 <= len(branch.session_id.encode()) <= 1_010
        assert await shown(branch) == ["a"]

    asyncio.run(play())


def test_a_branch_has_the_settings_of_its_session(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, session_settings={"limit": 1})
        branch = await (await grown(session, "ab")).fork()

        assert await shown(branch) == ["b"]

    asyncio.run(play())


@pytest.mark.parametrize(
    ("at", "session_id", "why"),
    [
        (9, None, "Position 9 is not in the ledger, which ends at 2"),
        (-1, None, "Position -1 is not in the ledger"),
        (("00000000-0000-0000-0000-000000000000", 0), None, "is not an item of openai-agents:chat"),
        (None, "chat", "cannot be forked into itself"),
        (None, "taken", "taken is not empty. Nothing was written. Give the branch another name"),
        (None, "a\nb", "is not a valid session id"),
    ],
)
def test_a_branch_from_nowhere_or_onto_something_is_refused(
    at: int | ItemId | None, session_id: str | None, why: str, session: LedgerSession
) -> None:
    async def play() -> None:
        await grown(LedgerSession("taken", session.ledger), "t")
        await grown(session, "a")
        with pytest.raises(UsageError, match=why):
            await session.fork(at, session_id)
        assert session.ledger.log.head() == 2

    asyncio.run(play())


def test_a_retried_run_finds_its_branch_again(ledger: Ledger) -> None:
    async def play() -> None:
        async def work() -> LedgerSession:
            session = await grown(LedgerSession("chat", ledger, run_key="job-7"), "a")
            return await grown(await session.fork(), "x")

        first = await work()
        head = ledger.log.head()
        await grown(LedgerSession("chat", ledger), "later")
        again = await work()

        assert again.session_id == first.session_id
        assert ledger.log.head() == head + 1
        assert await shown(LedgerSession(again.session_id, ledger)) == ["a", "x"]
        named = [row.event.through for row in ledger.read() if isinstance(row.event, HistoryForked)]
        assert named == [1]

    asyncio.run(play())


def test_a_branch_outlives_the_session_that_opened_the_ledger(tmp_path: Path) -> None:
    async def play() -> None:
        async with LedgerSession("chat", tmp_path / "ledger") as session:
            branch = await (await grown(session, "a")).fork()
        async with branch:
            assert await shown(await grown(branch, "b")) == ["a", "b"]

    asyncio.run(play())


def test_the_full_history_keeps_what_was_popped_and_cleared(session: LedgerSession) -> None:
    async def play() -> None:
        await grown(session, "ab")
        await session.pop_item()
        await session.clear_session()
        await grown(session, "c")

        full = await session.full_history()
        assert [(one.item["content"], one.fate, one.by) for one in full.entries] == [
            ("a", "cleared", 3), ("b", "popped", 2), ("c", "shown", None),
        ]  # fmt: skip
        assert [one.fate for one in (await session.full_history(at=1)).entries] == ["shown", "shown"]

    asyncio.run(play())


def test_a_class_that_cannot_be_made_like_this_one_leaves_no_branch_behind(tmp_path: Path) -> None:
    class Own(LedgerSession):
        def __init__(self, session_id: str) -> None:
            super().__init__(session_id, tmp_path / "ledger")

    async def play() -> None:
        async with Own("chat") as session:
            await grown(session, "a")
            with pytest.raises(TypeError, match="run_key"):
                await session.fork()
            assert session.ledger.log.head() == 1

    asyncio.run(play())
