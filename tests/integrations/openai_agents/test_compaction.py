"""Compaction by the real Runner: what is covered, what stays, and what the provider is asked."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from agents import ModelSettings, RunConfig, Runner
from agents.run import CallModelData, ModelInputData
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

from rightful.errors import UsageError
from rightful.events import HistoryAppended
from rightful.integrations.openai_agents import LedgerSession, sdk_private
from rightful.ledger import Ledger


def test_run_compacts_from_its_response_if_that_saw_all_covered_items(ledger: Ledger, hooked: bool) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)

        result = await run(app(calls("a", "b"), says("done")), "go", session, hooked=hooked)

        assert provider.asked == [{"model": "gpt-4.1", "previous_response_id": "resp-done"}]
        assert shown(session) == ["cmp-1"]
        assert everything(session)[:2] == ["go", "function_call call-a"]
        [event] = compacted(session)
        assert (event.mode, event.response_id) == ("previous_response_id", "resp-done")
        assert event.usage is not None
        assert event.usage["total_tokens"] == 9
        assert result.context_wrapper.usage.total_tokens == 11 + 9
        assert result.context_wrapper.usage.requests == 3
        assert deferred(session)[0].response_id == "resp-a-b"  # due at the tool turn, and no more
        assert ledger.history(session.name).owed is None

        await run(app(says("next")), "more", session, hooked=hooked)

        assert shown(session) == ["cmp-2"]

    asyncio.run(play())


def test_default_hook_asks_for_ten_candidates_as_the_sdks_own_does(ledger: Ledger) -> None:
    asked: list[dict[str, Any]] = []

    def hook(context: dict[str, Any]) -> bool:
        asked.append(context)
        return False

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider)
        await session.add_items([item for n in range(4) for item in (user(f"q{n}"), reply(f"a{n}"))])
        await run(app(calls("a", "b"), says("done")), "go", session)
        assert provider.asked == []  # 4 + 4 + 1 candidates
        await run(app(says("ten")), "go on", session)
        assert len(provider.asked) == 1

        other = LedgerSession("other", ledger, client=provider, should_trigger_compaction=hook)
        await run(app(says("one")), "go", other)
        assert asked[-1]["response_id"] == "resp-one"
        assert asked[-1]["compaction_mode"] == "previous_response_id"
        assert kinds(asked[-1]["session_items"]) == ["go", "one"]
        assert kinds(asked[-1]["compaction_candidate_items"]) == ["one"]
        await run(app(says("two")), "go", other, run_config=unstored())
        assert asked[-1]["compaction_mode"] == "input"

    asyncio.run(play())


def reply(text: str) -> Any:
    return {"role": "assistant", "content": [{"type": "output_text", "text": text}], "type": "message"}


def unstored() -> RunConfig:
    return RunConfig(model_settings=ModelSettings(store=False))


def test_appends_during_compaction_are_kept_and_nothing_waits(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider(closed=True)
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        other = LedgerSession("chat", ledger)
        running = asyncio.create_task(run(app(says("mine")), "first", session))
        await provider.begun.wait()

        await session.add_items([user("by hand")])
        await run(app(says("hers"), name="Other"), "second", other, hooked=False)
        assert kinds(await session.get_items()) == ["first", "mine", "by hand", "second", "hers"]
        assert not running.done()
        provider.gate.set()
        await running

        assert shown(session) == ["cmp-1", "by hand", "second", "hers"]

    asyncio.run(play())


@pytest.mark.parametrize("change", ["clear", "pop", "compaction"])
def test_what_was_cleared_popped_or_compacted_meanwhile_does_not_return(
    ledger: Ledger, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> list[str]:
        provider, second = Provider(closed=True), Provider(output=[summary(9)])
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        other = LedgerSession("chat", ledger, client=second)
        running = asyncio.create_task(run(app(says("mine")), "first", session))
        await provider.begun.wait()
        match change:
            case "clear":
                await other.clear_session()
            case "pop":
                await other.pop_item()
            case _:
                await other.run_compaction({"force": True})
        provider.gate.set()
        assert (await running).final_output == "mine"
        return shown(session)

    with caplog.at_level(logging.WARNING, "rightful.openai_agents"):
        left = asyncio.run(play())

    assert left == {"clear": [], "pop": ["first"], "compaction": ["cmp-9"]}[change]
    assert "finished too late" in caplog.text
    assert ledger.history("openai-agents:chat").owed is None


def test_a_run_whose_history_was_changed_after_it_read_asks_no_provider(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        await session.add_items([user("old")])

        async def clears(data: CallModelData[Any]) -> ModelInputData:
            await LedgerSession("chat", ledger).clear_session()
            return data.model_data

        await run(app(says("mine")), "first", session, run_config=RunConfig(call_model_input_filter=clears))

        assert provider.asked == []
        assert shown(session) == ["mine"]

    asyncio.run(play())


def test_a_run_goes_on_after_its_compaction_and_can_compact_again(ledger: Ledger) -> None:
    """Streamed, and in one run: the second compaction covers the first one's summary by what the run knows."""

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        result = Runner.run_streamed(app(says("one")), "go", session=session, hooks=session.hooks())
        async for _ in result.stream_events():
            pass
        assert shown(session) == ["cmp-1"]
        wrapper = result.context_wrapper

        await session.add_items([user("later")], wrapper=wrapper)
        assert shown(session) == ["cmp-1", "later"]
        appended = list(ledger.read(session=session.name, types=["history.appended"]))[-1].event
        assert isinstance(appended, HistoryAppended)
        assert appended.read is not None
        assert appended.read.position == 3
        assert appended.response_id is None  # only the user spoke
        assert appended.usage is None  # what the compaction used is not the batch's
        await LedgerSession("chat", ledger).add_items([summary(1)])

        hooks = session.hooks()
        model_input: list[Any] = [summary(1), user("later")]
        agent = app()
        await hooks.on_llm_start(wrapper, agent, None, model_input)
        response = result.raw_responses[0]
        await hooks.on_llm_end(wrapper, agent, response)
        await session.run_compaction({"response_id": "resp-one", "force": True}, wrapper=wrapper)
        assert shown(session) == ["cmp-2", "cmp-1"]  # hers looks the same, and stays
        assert kinds(provider.asked[-1]["input"]) == ["cmp-1", "later"]

    asyncio.run(play())


def test_no_history_is_sent_to_a_provider_for_want_of_an_argument(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a client nor a hook was given: only who asks by hand gets a compaction, by the SDK's own client."""
    provider = Provider()
    monkeypatch.setattr(sdk_private, "default_client", lambda: provider)

    async def play() -> None:
        session = LedgerSession("chat", ledger)
        await session.add_items([reply(str(n)) for n in range(12)])
        wrapper = (await run(app(calls("a"), says("one")), "go", session)).context_wrapper
        assert provider.asked == []
        assert deferred(session) == []

        await session.run_compaction({"response_id": "resp-one", "force": True}, wrapper=wrapper)
        assert shown(session) == ["cmp-1"]
        await run(app(says("two")), "go", session)
        await session.add_items([reply(str(n)) for n in range(12)])
        await run(app(says("three")), "go", session)
        assert len(provider.asked) == 1
        await session.run_compaction()
        assert shown(session) == ["cmp-2"]

    asyncio.run(play())


def test_nothing_is_compacted_without_a_client_or_when_nobody_finds_it_due(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def play() -> None:
        session = LedgerSession("chat", ledger, should_trigger_compaction=always)
        assert (await run(app(says("one")), "go", session)).final_output == "one"
        assert shown(session) == ["go", "one"]
        head = ledger.log.head()
        with pytest.raises(
            UsageError, match=r"client that compacts .*`api_key`.* nothing was written\. Set OPENAI_API_KEY"
        ):
            await session.run_compaction({"force": True})
        assert ledger.log.head() == head
        provider = Provider()
        await run(app(says("two")), "go", LedgerSession("b", ledger, client=provider, should_trigger_compaction=never))
        assert provider.asked == []

    asyncio.run(play())
    assert "the client could not be created" in caplog.text
