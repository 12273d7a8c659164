"""The SDK's own compaction wrapper around our store: what it cannot delete, and what it finds in another version."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Runner
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings
from agents.memory import session as sdk
from tests.integrations.openai_agents.providers import (
    Provider,
    always,
    app,
    calls,
    compacted,
    everything,
    kinds,
    says,
    shown,
    summary,
    user,
)

from rightful.errors import StaleTokenError
from rightful.integrations.openai_agents import LedgerSession, wrapper_compat
from rightful.ledger import Ledger

if wrapper_compat.snapshot_type(importlib.metadata.version("openai-agents"), sdk) is None:
    pytest.skip("this version of the SDK is offered none of these operations", allow_module_level=True)

FORCED: Any = {"force": True}
UNUSED: Any = None


def wrapped(session: LedgerSession, provider: Provider, mode: Any = "input") -> OpenAIResponsesCompactionSession:
    client: Any = provider
    return OpenAIResponsesCompactionSession(
        session.session_id, session, client=client, compaction_mode=mode, should_trigger_compaction=always
    )


async def during(provider: Provider, compaction: Awaitable[Any], then: Callable[[], Awaitable[Any]]) -> Any:
    """Do something else while the provider works on a compaction."""
    task = asyncio.ensure_future(compaction)
    begun = asyncio.ensure_future(provider.begun.wait())
    await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
    assert provider.begun.is_set()
    await then()
    provider.gate.set()
    return await task


@pytest.fixture(params=["shims", "none"])
def offered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the wrapper finds the private operations, or goes its own way."""
    if request.param == "none":
        for name in ("_get_compaction_snapshot", "_read_compaction_items", "_atomic_replace_items"):
            monkeypatch.delattr(LedgerSession, name)
    return bool(request.param == "shims")


def test_what_the_model_saw_gives_way_and_nothing_is_deleted(ledger: Ledger, offered: bool) -> None:
    async def play() -> None:
        session, provider = LedgerSession("chat", ledger), Provider()
        await Runner.run(app(calls("x"), says("done")), "go", session=wrapped(session, provider))

        assert shown(session) == ["cmp-1"]
        assert everything(session)[:4] == ["go", "function_call call-x", "function_call_output call-x", "done"]
        assert [event.mode for event in compacted(session)] == (["wrapper"] if offered else [])

    asyncio.run(play())


def test_an_append_while_the_wrapper_compacts_by_itself_is_kept(ledger: Ledger, offered: bool) -> None:
    async def play() -> None:
        session, other, provider = LedgerSession("chat", ledger), LedgerSession("chat", ledger), Provider(closed=True)
        first = Runner.run(app(says("answer")), "go", session=wrapped(session, provider))
        await during(provider, first, lambda: other.add_items([user("from B")]))

        assert everything(session)[:3] == ["go", "answer", "from B"]
        assert shown(session) == (["go", "answer", "from B"] if offered else ["cmp-1"])
        assert compacted(session) == []  # the wrapper asks for an unchanged end, and is told the truth

    asyncio.run(play())


def test_append_during_a_manual_compaction_is_kept_after_its_output(ledger: Ledger, offered: bool) -> None:
    async def play() -> None:
        session, other, provider = LedgerSession("chat", ledger), LedgerSession("chat", ledger), Provider(closed=True)
        wrapper = wrapped(session, provider)
        await wrapper.add_items([user("a"), user("b")])
        await during(provider, wrapper.run_compaction(FORCED), lambda: other.add_items([user("from B")]))

        assert everything(session)[:3] == ["a", "b", "from B"]
        assert shown(session) == (["cmp-1", "from B"] if offered else ["cmp-1"])

    asyncio.run(play())


def test_what_another_appended_before_the_wrapper_looked_is_sent_as_well(ledger: Ledger) -> None:
    """The wrapper remembers what it has read; without a read of its own, B would be covered and never summarised."""

    async def play() -> None:
        session, other, provider = LedgerSession("chat", ledger), LedgerSession("chat", ledger), Provider()
        wrapper = wrapped(session, provider)
        await wrapper.add_items([user("a")])
        await wrapper.run_compaction(FORCED)
        await other.add_items([user("from B")])
        await wrapper.run_compaction(FORCED)

        assert provider.asked[1]["input"] == [summary(1), user("from B")]
        assert shown(session) == ["cmp-2"]

    asyncio.run(play())


@pytest.mark.parametrize("change", ["clear_session", "pop_item"])
def test_what_was_taken_out_meanwhile_does_not_return(ledger: Ledger, change: str) -> None:
    async def play() -> None:
        session, other, provider = LedgerSession("chat", ledger), LedgerSession("chat", ledger), Provider(closed=True)
        wrapper = wrapped(session, provider)
        await wrapper.add_items([user("a"), user("b")])
        with pytest.raises(StaleTokenError):
            await during(provider, wrapper.run_compaction(FORCED), getattr(other, change))

        assert shown(session) == ([] if change == "clear_session" else ["a"])
        assert everything(session) == ["a", "b"]

    asyncio.run(play())


def test_a_clear_while_the_wrapper_compacts_by_itself_stands(ledger: Ledger) -> None:
    async def play() -> None:
        session, other, provider = LedgerSession("chat", ledger), LedgerSession("chat", ledger), Provider(closed=True)
        first = Runner.run(app(says("answer")), "go", session=wrapped(session, provider))
        await during(provider, first, other.clear_session)

        assert shown(session) == []
        assert everything(session) == ["go", "answer"]

    asyncio.run(play())


def test_a_compaction_by_hand_is_one_append(ledger: Ledger) -> None:
    """Between a clear and an add, a process that dies would leave an empty view (measured: 0 of 20 items)."""

    async def play() -> None:
        session, wrapper = LedgerSession("chat", ledger), wrapped(LedgerSession("chat", ledger), Provider())
        await wrapper.add_items([user("a")])
        await wrapper.run_compaction(FORCED)

        rows = [type(row.event).__name__ for row in ledger.read(session=session.name)]
        assert rows == ["HistoryAppended", "HistoryCompacted"]

    asyncio.run(play())


def test_two_wrappers_of_one_session_each_cover_what_they_read_themselves(ledger: Ledger) -> None:
    async def play() -> None:
        session, slow, quick = LedgerSession("chat", ledger), Provider(closed=True), Provider(closed=True)
        await session.add_items([user("a")])
        first, second = wrapped(session, slow), wrapped(session, quick)

        async def meanwhile() -> None:
            await session.add_items([user("later")])
            read = asyncio.ensure_future(second.run_compaction(FORCED))
            await quick.begun.wait()
            held.append(read)

        held: list[asyncio.Future[None]] = []
        await during(slow, first.run_compaction(FORCED), meanwhile)
        quick.gate.set()
        with pytest.raises(StaleTokenError):
            await held[0]

        assert slow.asked[0]["input"] == [user("a")]
        assert shown(session) == ["cmp-1", "later"]

    asyncio.run(play())


def test_a_limited_store_gives_up_no_more_than_its_window(ledger: Ledger, offered: bool) -> None:
    """The wrapper alone deletes what it never sent (openai-agents-python#5010)."""

    async def play() -> None:
        session, provider = LedgerSession("chat", ledger, session_settings=SessionSettings(limit=1)), Provider()
        wrapper = wrapped(session, provider)
        await wrapper.add_items([user("old"), user("new")])
        await wrapper.run_compaction(FORCED)

        assert provider.asked[0]["input"] == [user("new")]
        assert shown(session) == (["old", "cmp-1"] if offered else ["cmp-1"])
        assert everything(session)[:2] == ["old", "new"]

    asyncio.run(play())


def test_an_open_call_stays_and_its_output_finds_it(ledger: Ledger) -> None:
    async def play() -> None:
        session, provider = LedgerSession("chat", ledger), Provider()
        wrapper = wrapped(session, provider)
        call: Any = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
        await wrapper.add_items([user("a"), call])
        await wrapper.run_compaction(FORCED)
        await wrapper.add_items([{"type": "function_call_output", "call_id": "1", "output": "2"}])

        assert shown(session) == ["cmp-1", "function_call 1", "function_call_output 1"]

    asyncio.run(play())


async def snapshot(session: LedgerSession, limit: int, prune: Any = None) -> Any:
    return await session._get_compaction_snapshot(limit, prune_prefix=prune)


@pytest.mark.parametrize(("limit", "whole"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_snapshot_is_the_end_of_the_history_whatever_the_sessions_limit(
    ledger: Ledger, limit: int, whole: bool
) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, session_settings=SessionSettings(limit=1))
        items = [user("a"), user("b"), user("c")]
        await session.add_items(items)
        read = await snapshot(session, limit)

        assert (read.items, read.complete) == (items[-limit:], whole)
        assert await read.replace_suffix(len(read.items), [user("sum")]) is False
        assert await read.replace_suffix(len(read.items) - 1, [user("sum")]) is True
        assert shown(session) == ["a", "b", "sum"]

    asyncio.run(play())


def test_a_suffix_that_would_part_a_call_from_its_output_is_not_replaced(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger)
        call: Any = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
        output: Any = {"type": "function_call_output", "call_id": "1", "output": "2"}
        await session.add_items([call, output])

        assert await (await snapshot(session, 2)).replace_suffix(1, [user("sum")]) is False
        assert shown(session) == ["function_call 1", "function_call_output 1"]

    asyncio.run(play())


def test_only_what_had_expired_at_the_start_leaves_the_view(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger)
        await session.add_items([user("old 1"), user("old 2"), user("live"), user("old 3"), user("seen")])
        read = await snapshot(session, 1, lambda item: item["content"].startswith("old"))

        assert await read.replace_suffix(0, [user("sum")]) is True
        assert shown(session) == ["live", "old 3", "sum"]
        assert everything(session)[:5] == ["old 1", "old 2", "live", "old 3", "seen"]

    asyncio.run(play())


def test_who_changes_what_is_stored_is_not_passed_by(ledger: Ledger) -> None:
    class Shouting(LedgerSession):
        async def add_items(self, items: list[Any], **kwargs: Any) -> None:
            loud: list[Any] = [{**item, "content": item["content"].upper()} for item in items]
            await super().add_items(loud, **kwargs)

    async def play() -> None:
        session = Shouting("chat", ledger)
        wrapper = wrapped(session, Provider(output=[user("sum")]))
        await wrapper.add_items([user("a")])
        assert await snapshot(session, 1) is None
        await wrapper.run_compaction(FORCED)

        assert shown(session) == ["SUM"]
        assert everything(session) == ["A", "SUM"]

    asyncio.run(play())


def test_a_method_that_was_replaced_on_the_object_is_called(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        session, cleared = LedgerSession("chat", ledger), []
        real = session.clear_session

        async def clear() -> None:
            cleared.append(True)
            await real()

        monkeypatch.setattr(session, "clear_session", clear)
        wrapper = wrapped(session, Provider())
        await wrapper.add_items([user("a")])
        await wrapper.run_compaction(FORCED)

        assert await snapshot(session, 1) is None
        assert (cleared, shown(session), everything(session)) == ([True], ["cmp-1"], ["a", "cmp-1"])

    asyncio.run(play())


@pytest.mark.parametrize(
    ("version", "module", "known"),
    [
        ("0.24.0", sdk, True),
        ("0.24.3", sdk, True),
        ("0.25.0", sdk, False),
        ("0.240", sdk, False),
        ("0.24.0", SimpleNamespace(), False),
        ("0.24.0", SimpleNamespace(_CompactionSnapshot=dict), False),
        ("0.24.0", SimpleNamespace(_CompactionSnapshot=sdk._CompactionSnapshot([], True, UNUSED)), False),
        ("0.24.0", SimpleNamespace(_CompactionSnapshot=lambda *_: None), False),
    ],
)
def test_only_what_was_tested_is_offered(version: str, module: object, known: bool) -> None:
    assert (wrapper_compat.snapshot_type(version, module) is not None) is known


def test_a_snapshot_of_another_shape_is_not_made() -> None:
    changed = dataclasses.make_dataclass("_CompactionSnapshot", ["items", "complete", "replace_suffix", "revision"])

    assert wrapper_compat.snapshot_type("0.24.0", SimpleNamespace(_CompactionSnapshot=changed)) is None


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_retry_of_a_run_does_not_see_its_own_compaction(ledger: Ledger, by_hand: bool) -> None:
    async def play() -> None:
        await LedgerSession("chat", ledger).add_items([user("before")])
        session = LedgerSession("chat", ledger, run_key="job-1")
        if by_hand:
            await wrapped(session, Provider()).run_compaction(FORCED)
        else:
            await (await snapshot(session, 1)).replace_suffix(0, [summary(1)])
        again = LedgerSession("chat", ledger, run_key="job-1")

        assert shown(session) == ["cmp-1"]
        assert (await snapshot(again, 5)).items == [user("before")]

    asyncio.run(play())


def test_compaction_by_the_sdks_wrapper_is_seen_under_a_run_key(ledger: Ledger, offered: bool) -> None:
    """The neighbour of row D1: the wrapper's own compaction left `[u1, a1]` in the view of the key, too."""

    async def play() -> None:
        session = LedgerSession("chat", ledger, run_key="k")
        wrapper = wrapped(session, Provider())
        await wrapper.add_items([user("u1"), user("a1")])
        await wrapper.run_compaction(FORCED)

        assert kinds(await session.get_items()) == ["cmp-1"]

    asyncio.run(play())
