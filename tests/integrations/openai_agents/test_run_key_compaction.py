"""Compactions under a run key: they take effect for that key, and a repeated run finds them instead of paying again."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.integrations.openai_agents.providers import (
    Provider,
    always,
    app,
    compacted,
    kinds,
    run,
    says,
    shown,
    summary,
    user,
)

import rightful
from rightful.histories import cached_views, service
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


def attempt(ledger: Ledger, provider: Provider, key: str | None = "k") -> LedgerSession:
    return LedgerSession("s", ledger, run_key=key, client=provider, should_trigger_compaction=always)


def test_compaction_under_a_run_key_is_seen_by_that_key(ledger: Ledger) -> None:
    """Row D1: `[u1, a1]` was returned for ever, and every later compaction paid for the same items again."""

    async def play() -> None:
        provider = Provider()
        session = attempt(ledger, provider)
        await session.add_items([user("u1")])
        await session.add_items([user("a1")])
        await session.run_compaction({"force": True})
        assert await session.get_items() == [summary(1)]

        await session.add_items([user("u2")])
        await session.run_compaction({"force": True})

        assert kinds(await session.get_items()) == ["cmp-2"]
        assert [kinds(asked["input"]) for asked in provider.asked] == [["u1", "a1"], ["cmp-1", "u2"]]

    asyncio.run(play())


def test_read_after_a_compaction_under_a_run_key_folds_nothing_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        session = attempt(ledger, Provider())
        await session.add_items([user("u1"), user("a1")])
        await session.run_compaction({"force": True})
        await session.get_items()

        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("folded again from the start")

        monkeypatch.setattr(service, "folded", refuse)
        monkeypatch.setattr(cached_views, "folded", refuse)
        assert await session.get_items() == [summary(1)]

    asyncio.run(play())


def test_repeated_run_finds_its_compaction_and_pays_nothing(ledger: Ledger) -> None:
    async def play() -> None:
        async def work(session: LedgerSession) -> list[list[str]]:
            reads = [kinds(await session.get_items())]
            await session.add_items([user("u1"), user("a1")])
            await session.run_compaction({"force": True})
            reads.append(kinds(await session.get_items()))
            await session.run_compaction({"force": True})
            await session.add_items([user("u2")])
            reads.append(kinds(await session.get_items()))
            return reads

        provider = Provider()
        first = await work(attempt(ledger, provider))
        head = ledger.log.head()

        assert await work(attempt(ledger, provider)) == first == [[], ["cmp-1"], ["cmp-2", "u2"]]
        assert (len(provider.asked), ledger.log.head()) == (2, head)

    asyncio.run(play())


def test_repeated_run_that_gets_further_compacts_with_its_summary(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        first = attempt(ledger, provider)
        await first.add_items([user("u1")])
        await first.run_compaction({"force": True})

        again = attempt(ledger, provider)
        await again.add_items([user("u1")])
        await again.run_compaction({"force": True})
        await again.add_items([user("u2")])
        await again.run_compaction({"force": True})

        assert [kinds(asked["input"]) for asked in provider.asked] == [["u1"], ["cmp-1", "u2"]]
        assert kinds(await again.get_items()) == ["cmp-2"]
        assert [event.ordinal for event in compacted(again)] == [1, 2]

    asyncio.run(play())


def test_repeated_run_skips_the_compaction_that_its_first_attempt_skipped(ledger: Ledger) -> None:
    """The provider failed the first attempt, which then appended more."""

    async def play() -> None:
        failing = attempt(ledger, Provider(fails=RuntimeError("overloaded")))
        await failing.add_items([user("u1")])
        with pytest.raises(RuntimeError, match="overloaded"):
            await failing.run_compaction({"force": True})
        await failing.add_items([user("u2")])

        provider = Provider()
        again = attempt(ledger, provider)
        await again.add_items([user("u1")])
        await again.run_compaction({"force": True})
        assert (provider.asked, kinds(await again.get_items())) == ([], ["u1"])
        await again.add_items([user("u2")])
        await again.run_compaction({"force": True})

        assert kinds(await again.get_items()) == ["cmp-1"]

    asyncio.run(play())


def test_run_key_of_another_piece_of_work_sees_the_summary(ledger: Ledger) -> None:
    async def play() -> None:
        session = attempt(ledger, Provider())
        await session.add_items([user("u1")])
        await session.run_compaction({"force": True})

        assert kinds(await attempt(ledger, Provider(), "other").get_items()) == ["cmp-1"]
        assert kinds(await attempt(ledger, Provider(), None).get_items()) == ["cmp-1"]
        assert kinds(await attempt(ledger, Provider()).get_items()) == []  # not there yet

    asyncio.run(play())


def test_runs_of_the_sdk_under_a_run_key_send_the_summary(ledger: Ledger) -> None:
    """In the Runner: the second turn of a key sends what the first one's compaction left."""

    async def play() -> None:
        provider = Provider()
        session = attempt(ledger, provider)
        await run(app(says("one")), "first", session)
        assert shown(session) == ["cmp-1"]
        await run(app(says("two")), "second", session)

        assert [kinds(asked["input"]) for asked in provider.asked if "input" in asked][1:] == []
        assert shown(session) == ["cmp-2"]

        again = attempt(ledger, provider)
        await run(app(says("one")), "first", again)
        await run(app(says("two")), "second", again)
        assert len(provider.asked) == 2
        assert kinds(await again.get_items()) == ["cmp-2"]

    asyncio.run(play())


CALLS = st.lists(st.sampled_from(["add", "compact", "fail", "pop", "clear"]), max_size=8)


@settings(max_examples=examples(30), deadline=None)
@given(calls=CALLS, dies_at=st.integers(0, 8))
def test_killed_attempt_and_its_repeat_leave_what_one_attempt_leaves(calls: list[str], dies_at: int) -> None:
    """Whatever the calls and wherever the first attempt ended, both end with one view; no compaction is paid twice."""

    async def play(session: LedgerSession, provider: Provider, some: list[str]) -> list[str]:
        for at, call in enumerate(some):
            match call:
                case "add":
                    await session.add_items([user(f"i{at}")])
                case "pop":
                    await session.pop_item()
                case "clear":
                    await session.clear_session()
                case _:
                    provider.fails = RuntimeError("down") if call == "fail" else None
                    provider.output = [summary(at)]
                    try:
                        await session.run_compaction({"force": True})
                    except RuntimeError:
                        continue
        return kinds(await session.get_items())

    async def both() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            rightful.open(Path(folder) / "retried", create=True) as ledger,
            rightful.open(Path(folder) / "whole", create=True) as other,
        ):
            provider, whole = Provider(), Provider()
            await play(attempt(ledger, provider), provider, calls[:dies_at])
            asked = len(provider.asked)
            left = await play(attempt(ledger, provider), provider, calls)
            assert left == await play(attempt(other, whole), whole, calls)
            assert asked <= len(whole.asked)

    asyncio.run(both())
