"""What a compaction by the real Runner covers: what its model is proven to have seen, whatever made its input."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from agents import MaxTurnsExceeded, RunConfig, RunHooks, Runner
from agents.run import CallModelData, ModelInputData
from tests.integrations.openai_agents.apps import APPS
from tests.integrations.openai_agents.providers import (
    Provider,
    always,
    app,
    calls,
    kinds,
    never,
    run,
    says,
    shown,
    user,
)

from rightful.events import HistoryAppended
from rightful.integrations.openai_agents import LedgerSession
from rightful.integrations.openai_agents.compaction.model_input import sendable
from rightful.ledger import Ledger


def test_what_a_filter_hid_from_the_model_is_neither_sent_nor_covered(ledger: Ledger, hooked: bool) -> None:
    def hides(data: CallModelData[Any]) -> ModelInputData:
        kept = [item for item in data.model_data.input if item.get("content") != "a secret"]
        return ModelInputData(input=kept, instructions=None)

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        await session.add_items([user("old"), user("a secret"), user("older")])

        await run(app(says("done")), "go", session, hooked=hooked, run_config=RunConfig(call_model_input_filter=hides))

        assert shown(session) == ["cmp-1", "a secret"]
        assert provider.asked[0].keys() == {"model", "previous_response_id"}

    asyncio.run(play())


def test_hook_is_asked_again_about_the_rest_if_it_was_asked_about_more(ledger: Ledger) -> None:
    asked: list[list[str]] = []

    def hook(context: dict[str, Any]) -> bool:
        asked.append([context["compaction_mode"], *kinds(context["session_items"])])
        return len(context["session_items"]) > 3

    def hides(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input[1:], instructions=None)

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=hook)
        await session.add_items([user("old"), user("older")])
        await run(app(says("done")), "go", session, run_config=RunConfig(call_model_input_filter=hides))
        mode = "previous_response_id"
        assert asked == [[mode, "old", "older", "go", "done"], [mode, "older", "go", "done"]]
        assert provider.asked == []

    asyncio.run(play())


def test_a_response_that_saw_what_is_no_history_is_not_compacted_from(ledger: Ledger, hooked: bool) -> None:
    """A filter rewrote one item and added one: only the rest is proven, and sent as input."""

    def rewrites(data: CallModelData[Any]) -> ModelInputData:
        items = [user("OLD") if item.get("content") == "old" else item for item in data.model_data.input]
        return ModelInputData(input=[user("hint"), *items], instructions=None)

    async def play() -> None:
        provider = Provider()
        config = RunConfig(call_model_input_filter=rewrites)
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        await session.add_items([user("old"), user("kept")])
        await run(app(says("done")), "go", session, hooked=hooked, run_config=config)
        assert kinds(provider.asked[0]["input"]) == ["kept", "go", "done"]
        assert shown(session) == ["old", "cmp-1"]

        strict = LedgerSession(
            "other",
            ledger,
            client=provider,
            should_trigger_compaction=always,
            compaction_mode="previous_response_id",
        )
        await strict.add_items([user("old")])
        await run(app(says("done")), "go", strict, hooked=hooked, run_config=config)
        assert len(provider.asked) == 1
        assert shown(strict) == ["old", "go", "done"]

    asyncio.run(play())


def test_a_limited_read_covers_its_window_only(ledger: Ledger, hooked: bool) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession(
            "chat", ledger, client=provider, should_trigger_compaction=always, session_settings={"limit": 2}
        )
        await session.add_items([user(text) for text in ("1", "2", "3", "4")])

        await run(app(calls("a"), says("done")), "go", session, hooked=hooked)
        assert shown(session) == ["1", "2", "cmp-1"]

        await session.add_items([user("5")])
        await session.run_compaction({"force": True})
        assert kinds(provider.asked[-1]["input"]) == ["cmp-1", "5"]
        assert shown(session) == ["1", "2", "cmp-2"]

    asyncio.run(play())


def test_a_run_that_can_prove_nothing_compacts_nothing_and_says_so_once(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("agents.run_internal.items.digest_input_item")

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        for text in ("one", "two"):
            await run(app(says(text)), "go", session, hooked=False)
        assert provider.asked == []
        assert shown(session) == ["go", "one", "go", "two"]

        await run(app(says("three")), "go", session)
        assert shown(session) == ["cmp-1"]

    with caplog.at_level(logging.WARNING, "rightful.openai_agents"):
        asyncio.run(play())
    assert caplog.text.count("nothing is proven") == 1


def with_hers(ledger: Ledger) -> RunConfig:
    """Let another one append while the model works: words of her own, and the very words of the run."""

    async def hers(data: CallModelData[Any]) -> ModelInputData:
        await LedgerSession("chat", ledger).add_items([user("hers"), user("mine")])
        return data.model_data

    return RunConfig(call_model_input_filter=hers)


def test_session_without_its_runs_name_covers_what_is_proven(ledger: Ledger) -> None:
    """A class of the caller's own whose methods take no wrapper: the SDK then names the run to compaction only."""

    class Own(LedgerSession):
        async def get_items(self, limit: int | None = None) -> Any:  # type: ignore[override]
            return await super().get_items(limit)

    async def play() -> None:
        provider = Provider()
        session = Own("chat", ledger, client=provider, should_trigger_compaction=always)
        await session.add_items([user("old")])

        await run(app(says("done")), "mine", session, hooked=False, run_config=with_hers(ledger))

        assert kinds(provider.asked[0]["input"]) == ["old", "done"]
        assert shown(session) == ["cmp-1", "mine", "hers", "mine"]

    asyncio.run(play())


@pytest.mark.parametrize("name", APPS)
def test_compaction_covers_only_what_a_model_saw_in_every_app(
    ledger: Ledger, name: str, hooked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hand-offs with and without filters, nested history, callbacks, guardrails, streams: no list of them is kept."""
    original = Runner.run

    async def with_hooks(*args: Any, **kwargs: Any) -> Any:
        return await original(*args, **kwargs, hooks=kwargs["session"].hooks())

    if hooked:
        monkeypatch.setattr(Runner, "run", with_hooks)

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        saw = {json.dumps(sendable(item), sort_keys=True) for asked in await APPS[name](session) for item in asked}
        full = ledger.full_history(session.name)
        told = {entry.id: entry.item for entry in full.entries}
        appended = [row.event for row in ledger.read(session=session.name, types=["history.appended"])]
        assert sum(len(event.items) for event in appended if isinstance(event, HistoryAppended)) == len(
            [entry for entry in full.entries if not entry.summary]
        )
        for one in full.compactions:
            users = [told[id_] for id_ in one.covered if told[id_].get("role") == "user"]
            assert all(json.dumps(item, sort_keys=True) in saw for item in users)
        inputs = [asked["input"] for asked in provider.asked if "input" in asked]
        by_input = [one.covered for one in full.compactions if one.mode == "input"]
        assert inputs == [[sendable(told[id_]) for id_ in ids] for ids in by_input]
        assert len(full.compactions) == len(provider.asked)
        assert provider.asked or name in {"input guardrail", "output guardrail", "max turns", "stopped stream"}

    asyncio.run(play())


def test_the_same_words_of_another_run_stay_and_a_runs_own_are_covered(ledger: Ledger, hooked: bool) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=always)

        await run(app(says("done")), "mine", session, hooked=hooked, run_config=with_hers(ledger))

        assert shown(session) == ["cmp-1", "hers", "mine"]

    asyncio.run(play())


def test_tool_outputs_saved_after_the_response_are_not_covered_by_it(ledger: Ledger) -> None:
    class Keeps(RunHooks[Any]):
        run: Any = None

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            self.run = context

    async def play() -> None:
        provider, kept = Provider(), Keeps()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        with pytest.raises(MaxTurnsExceeded):
            await Runner.run(app(calls("a")), "go", session=session, hooks=session.hooks(kept), max_turns=1)

        await session.run_compaction({"response_id": "resp-a", "force": True}, wrapper=kept.run)

        assert kinds(provider.asked[0]["input"]) == ["go"]
        assert shown(session) == ["cmp-1", "function_call call-a", "function_call_output call-a"]

    asyncio.run(play())


def test_reasoning_is_compacted_without_id_if_the_model_got_it_so(ledger: Ledger, hooked: bool) -> None:
    """An id that a provider no longer knows would be refused."""
    thought: Any = {"type": "reasoning", "id": "rs-gone", "summary": []}
    answer: Any = {"type": "message", "role": "assistant", "id": "msg-a", "status": "completed", "content": []}

    async def play() -> None:
        provider = Provider()
        session = LedgerSession(
            "chat", ledger, client=provider, should_trigger_compaction=always, compaction_mode="input"
        )
        await session.add_items([user("old"), thought, answer])
        config = RunConfig(reasoning_item_id_policy="omit")

        await run(app(says("done")), "go", session, hooked=hooked, run_config=config)

        assert provider.asked[0]["input"][:3] == [user("old"), {"type": "reasoning", "summary": []}, answer]
        assert shown(session) == ["cmp-1"]

    asyncio.run(play())
