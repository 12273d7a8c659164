"""Compactions that cannot be made yet: open calls, approvals, a failing provider, a cancelled run, a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from agents import Runner, RunState
from tests.integrations.openai_agents.gated import lose_answers
from tests.integrations.openai_agents.providers import (
    Provider,
    always,
    app,
    calls,
    compacted,
    deferred,
    everything,
    kinds,
    never,
    run,
    says,
    shown,
    summary,
    user,
)

from rightful import ledger as ledgers
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


def test_an_approval_that_is_asked_for_stays_and_the_rest_is_compacted(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        await session.add_items([user("old")])
        result = await run(app(calls("x", tool="delete")), "go", session)
        assert result.interruptions
        assert kinds(provider.asked[0]["input"]) == ["old", "go"]
        assert shown(session) == ["cmp-1", "function_call call-x"]

    asyncio.run(play())


@pytest.mark.parametrize("hooked", [True, False])
def test_run_resumed_in_another_process_compacts_the_items_of_both(tmp_path: Path, hooked: bool) -> None:
    """Another run comes in between with the same words: those are its own, and stay."""

    async def pause() -> str:
        with ledgers.open(tmp_path / "ledger", create=True) as ledger:
            session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=never)
            await run(app(says("hello")), "first", session, hooked=hooked)
            result = await run(app(calls("x", tool="delete")), "go", session, hooked=hooked)
            other = LedgerSession("chat", ledger, should_trigger_compaction=never)
            await run(app(says("hers")), "go", other)
            return json.dumps(result.to_state().to_json())

    async def resume(state: str) -> None:
        provider = Provider()
        with ledgers.open(tmp_path / "ledger") as ledger:
            session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
            agent = app(says("done"))
            resumed = await RunState.from_json(agent, json.loads(state))
            for one in resumed.get_interruptions():
                resumed.approve(one)
            result = await Runner.run(agent, resumed, session=session, hooks=session.hooks() if hooked else None)
            assert result.final_output == "done"
            assert shown(session) == ["cmp-1", "go", "go", "hers"]
            sent = ["first", "hello", "function_call call-x", "function_call_output call-x", "done"]
            assert kinds(provider.asked[0]["input"]) == sent
            told = ["first", "hello", "go", "function_call call-x", "go", "hers", "function_call_output call-x", "done"]
            assert everything(session)[:-1] == told

    asyncio.run(resume(asyncio.run(pause())))


def test_pending_compaction_survives_a_restart_and_forces_the_next(tmp_path: Path) -> None:
    async def owe() -> None:
        with ledgers.open(tmp_path / "ledger", create=True) as ledger:
            provider = Provider(fails=RuntimeError("overloaded"))
            session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
            with pytest.raises(RuntimeError, match="overloaded"):
                await run(app(says("one")), "go", session)
            assert shown(session) == ["go", "one"]
            with pytest.raises(RuntimeError, match="overloaded"):
                await session.run_compaction({"force": True})
            [event] = deferred(session)
            assert (event.response_id, event.reason) == ("resp-one", "the provider's compaction failed: RuntimeError")
            assert ledger.history(session.name).owed == "resp-one"

    async def settle() -> None:
        with ledgers.open(tmp_path / "ledger") as ledger:
            session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=never)
            await run(app(says("two")), "on", session)
            assert shown(session) == ["cmp-1"]
            assert ledger.history(session.name).owed is None
            await run(app(says("three")), "on", session)
            assert shown(session) == ["cmp-1", "on", "three"]

    asyncio.run(owe())
    asyncio.run(settle())


def test_where_nothing_is_left_but_open_calls_the_compaction_is_owed_once(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)

        result = await run(app(calls("x", tool="delete")), [], session)
        assert result.interruptions
        wrapper = result.context_wrapper
        for _ in range(2):
            await session.run_compaction({"response_id": "resp-x"}, wrapper=wrapper)
        assert provider.asked == []
        [event] = deferred(session)
        assert event.reason == "a call has no output yet, or an approval no answer"
        await session.clear_session()
        assert ledger.history(session.name).owed is None

    asyncio.run(play())


def test_tool_turns_owe_a_compaction_that_is_made_when_the_turn_ends(ledger: Ledger) -> None:
    """The hook says yes at the tools' turn only."""
    answers = iter([True, False, False])

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=lambda _: next(answers))
        await run(app(calls("a"), calls("b"), says("done")), "go", session)
        assert [(one.response_id, one.reason) for one in deferred(session)] == [
            ("resp-a", "tool outputs came after the response")
        ]
        assert shown(session) == ["cmp-1"]
        assert list(answers) == [False, False]

    asyncio.run(play())


def test_run_cancelled_during_the_provider_call_keeps_the_history(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider(closed=True)
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        running = asyncio.create_task(run(app(says("one")), "go", session))
        await provider.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert shown(session) == ["go", "one"]
        assert [compacted(session), deferred(session)] == [[], []]

    asyncio.run(play())


def test_run_cancelled_while_the_compaction_is_written_ends_after_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=always)
        loop, written = asyncio.get_running_loop(), ledger.histories().compact

        def cancelled_in_between(*args: Any, **kwargs: Any) -> Any:
            loop.call_soon_threadsafe(running.cancel)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            return written(*args, **kwargs)

        monkeypatch.setattr(ledger.histories(), "compact", cancelled_in_between)
        running = asyncio.create_task(run(app(says("one")), "go", session))
        with pytest.raises(asyncio.CancelledError):
            await running
        assert shown(session) == ["cmp-1"]

    asyncio.run(play())


def test_a_retried_run_compacts_nothing_that_its_first_attempt_compacted(ledger: Ledger) -> None:
    async def attempt(number: int) -> list[Any]:
        provider = Provider(output=[summary(number)])
        session = LedgerSession("chat", ledger, run_key="job", client=provider, should_trigger_compaction=always)
        await run(app(calls("a"), says("done")), "go", session)
        return provider.asked

    assert len(asyncio.run(attempt(1))) == 1
    assert asyncio.run(attempt(2)) == []
    session = LedgerSession("chat", ledger)
    assert shown(session) == ["cmp-1"]
    assert [event.run for event in compacted(session)] == ["job"]
    assert ledger.history(session.name).owed is None


@pytest.mark.parametrize("fails", [RuntimeError("no such model"), None])
def test_compaction_that_failed_twice_is_retried_after_ten_more_items(tmp_path: Path, fails: Exception | None) -> None:
    """An error, or an answer of nothing; each turn has a session object of its own, as on a server."""
    provider = Provider(fails=fails, output=[])

    async def turn(number: int) -> None:
        with ledgers.open(tmp_path / "ledger", create=True) as ledger:
            session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
            with contextlib.suppress(RuntimeError):
                await run(app(says(str(number))), "go", session)

    for number in range(12):
        asyncio.run(turn(number))
    assert len(provider.asked) == 3

    provider.fails, provider.output = None, None
    with ledgers.open(tmp_path / "ledger") as ledger:
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        assert len(deferred(session)) == 3
        asyncio.run(session.run_compaction())
        assert len(provider.asked) == 3
        asyncio.run(session.run_compaction({"force": True}))
        assert shown(session) == ["cmp-4"]


def test_what_one_fails_for_good_does_not_hold_up_what_is_owed_later(ledger: Ledger) -> None:
    """A clear ends what was owed, and its failures with it."""

    async def play() -> None:
        provider = Provider(output=[])
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        for text in ("one", "two", "three"):
            await run(app(says(text)), "go", session)
        assert len(provider.asked) == 2
        await session.clear_session()
        provider.output = None
        await run(app(says("four")), "go", session)
        assert shown(session) == ["cmp-3"]

    asyncio.run(play())


def test_nothing_is_put_off_where_nothing_is_compacted_by_itself(ledger: Ledger) -> None:
    assert not hasattr(LedgerSession("chat", ledger), "_defer_compaction")
    assert hasattr(LedgerSession("chat", ledger, client=Provider()), "_defer_compaction")


def test_compaction_and_its_debt_are_written_once_if_answers_are_lost(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        provider = Provider(output=[])
        session = LedgerSession("chat", ledger, client=provider)
        await session.add_items([user("a")])
        lose_answers(monkeypatch, ledger, times=2)
        await session.run_compaction({"force": True})
        assert len(deferred(session)) == 1

        provider.output = None
        lose_answers(monkeypatch, ledger, times=2)
        await session.run_compaction({"force": True})
        assert len(compacted(session)) == 1
        assert shown(session) == ["cmp-2"]

    asyncio.run(play())
