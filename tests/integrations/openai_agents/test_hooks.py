"""Hooks that note what a model was really sent; and what is borrowed from the SDK, where it is missing."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from types import SimpleNamespace
from typing import Any, get_origin

import pytest
from agents import Agent, RunContextWrapper, RunHooks, Runner
from agents.items import ModelResponse
from agents.testing import ScriptedModel, assistant_message
from agents.usage import Usage
from tests.integrations.openai_agents.providers import Provider, always, app, calls, never, run, says, shown, user

from rightful.events import HistoryAppended
from rightful.field_types import ItemRange
from rightful.integrations.openai_agents import LedgerSession, ledger_session, sdk_private
from rightful.integrations.openai_agents.compaction import model_input
from rightful.integrations.openai_agents.compaction.model_input import prove
from rightful.ledger import Ledger


def batches(session: LedgerSession) -> list[HistoryAppended]:
    rows = session.ledger.read(session=session.name, types=["history.appended"])
    return [row.event for row in rows if isinstance(row.event, HistoryAppended)]


def test_batch_is_stored_with_response_agent_usage_and_proof(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, should_trigger_compaction=never)
        await session.add_items([user("old")])
        await run(app(calls("a"), says("done", tokens=30), name="Ann"), "go", session)
        old, asked, tools, answer = batches(session)

        assert [one.response_id for one in (old, asked, tools, answer)] == [None, None, "resp-a", "resp-done"]
        assert [one.agent for one in (asked, tools, answer)] == [None, "Ann", "Ann"]
        assert answer.usage == {"requests": 1, "input_tokens": 30, "output_tokens": 1, "total_tokens": 31}
        ids = ledger.history(session.name).ids
        assert asked.read is not None
        assert asked.read.covered == ()
        assert tools.read is not None
        assert tools.read.covered == (ItemRange(ids[0], ids[1]),)
        assert answer.read is not None
        assert answer.read.covered == (ItemRange(ids[0], ids[3]),)

    asyncio.run(play())


class Every(RunHooks[Any]):
    """Writes down each call, of hooks that this version of the SDK has not too."""

    def __init__(self) -> None:
        self.called: list[str] = []


def _noting(name: str) -> Any:
    async def call(self: Every, *args: Any, **kwargs: Any) -> str:
        self.called.append(name)
        return name

    return call


NAMES = [name for name in dir(RunHooks) if name.startswith("on_")]
for _name in NAMES:
    setattr(Every, _name, _noting(_name))


def test_every_call_goes_on_to_the_hooks_within(ledger: Ledger) -> None:
    inner = Every()
    session = LedgerSession("chat", ledger, should_trigger_compaction=never)

    async def play() -> None:
        await Runner.run(app(calls("a"), says("done")), "go", session=session, hooks=session.hooks(inner))

    asyncio.run(play())
    once = ["on_llm_start", "on_llm_end"]
    assert inner.called == ["on_agent_start", *once, "on_tool_start", "on_tool_end", *once, "on_agent_end"]

    async def each() -> None:
        outer = session.hooks(inner)
        for name in set(NAMES) - {"on_llm_start", "on_llm_end"}:
            parameters = inspect.signature(getattr(RunHooks, name)).parameters
            assert await getattr(outer, name)(*[None] * (len(parameters) - 1)) == name
            assert await getattr(session.hooks(), name)(*[None] * (len(parameters) - 1)) is None

    asyncio.run(each())


def test_hooks_of_a_newer_sdk_are_passed_on_as_well(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_origin(RunHooks), "on_news", _noting("on_news"), raising=False)
    monkeypatch.setattr(Every, "on_news", _noting("on_news"), raising=False)
    monkeypatch.delitem(sys.modules, "rightful.integrations.openai_agents.run_hooks")
    newer = importlib.import_module("rightful.integrations.openai_agents.run_hooks")
    monkeypatch.setattr(ledger_session, "RecordingHooks", newer.RecordingHooks)
    inner = Every()

    hooks: Any = LedgerSession("chat", ledger).hooks(inner)

    assert asyncio.run(hooks.on_news()) == "on_news"
    assert inner.called == ["on_news"]


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What users said in the items that a digest was made of, in order."""
    found: list[str] = []
    digest = model_input._digest

    def noting(item: Any) -> str | None:
        if item["role"] == "user":
            found.append(item["content"])
        return digest(item)

    monkeypatch.setattr(model_input, "_digest", noting)
    return found


async def turns(session: LedgerSession, count: int) -> None:
    await session.add_items([user(f"old {at}") for at in range(50)])
    for at in range(count):
        await run(app(says(f"one {at}")), f"go {at}", session)


def test_item_is_hashed_once_a_session_and_once_for_each_input(ledger: Ledger, digested: list[str]) -> None:
    session = LedgerSession("chat", ledger, should_trigger_compaction=never)

    asyncio.run(turns(session, 3))

    assert {text: digested.count(text) for text in ("old 0", "old 49", "go 0", "go 1", "go 2")} == {
        "old 0": 1 + 3,
        "old 49": 1 + 3,
        "go 0": 1 + 3,
        "go 1": 1 + 2,
        "go 2": 1 + 1,
    }


def test_limited_session_reads_its_window_and_proves_as_much(ledger: Ledger, digested: list[str]) -> None:
    session = LedgerSession("chat", ledger, session_settings={"limit": 4}, should_trigger_compaction=never)

    asyncio.run(turns(session, 1))

    assert {text for text in digested if text.startswith("old")} == {f"old {at}" for at in range(45, 50)}
    ids = ledger.history(session.name).ids
    read = batches(session)[-1].read
    assert read is not None
    assert read.covered == (ItemRange(ids[46], ids[50]),)


def test_items_cut_from_their_reasoning_by_the_window_are_not_proven(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, session_settings={"limit": 1}, should_trigger_compaction=never)
        thought: Any = {"type": "reasoning", "id": "rs", "summary": []}
        await session.add_items([user("old"), thought, {"role": "assistant", "content": "thought of"}])
        await run(app(says("one")), "go", session)
        read = batches(session)[-1].read
        assert read is not None
        assert read.covered == (ledger.history(session.name).ids[3],)

    asyncio.run(play())


def test_items_of_others_are_not_treated_as_the_coming_answer(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, should_trigger_compaction=never)
        hooks, wrapper, agent = session.hooks(), RunContextWrapper(None), app()
        await session.get_items(wrapper=wrapper)
        answer = assistant_message("one", item_id="msg")
        response = ModelResponse(output=[answer], usage=Usage(), response_id="resp")
        await session.add_items([user("go")], wrapper=wrapper)
        await hooks.on_llm_start(wrapper, agent, None, [user("go")])
        await hooks.on_llm_end(wrapper, agent, response)
        await session.add_items(response.to_input_items())
        await session.add_items(response.to_input_items(), wrapper=wrapper)
        read = batches(session)[-1].read
        assert read is not None
        assert read.covered == (ledger.history(session.name).ids[0],)

    asyncio.run(play())


def test_a_request_that_failed_proves_nothing_though_the_one_before_it_did(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        hooks = session.hooks()
        agent: Agent[Any] = app(says("one"))
        result = await Runner.run(agent, "go", session=session, hooks=hooks)
        wrapper = result.context_wrapper
        vars(wrapper).pop("_session_compaction_model_exchange", None)
        await session.add_items([{"role": "assistant", "content": "late"}], wrapper=wrapper)
        assert (batches(session)[-1].agent, batches(session)[-1].response_id) == ("Looker", "resp-one")

        await hooks.on_llm_start(wrapper, agent, None, [])
        await session.run_compaction({"response_id": "resp-one", "force": True}, wrapper=wrapper)

        assert provider.asked == []
        assert shown(session) == ["go", "one", "late"]

    asyncio.run(play())


def test_what_another_hook_takes_out_of_the_input_after_ours_is_not_proven(ledger: Ledger) -> None:
    class Censors(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: list[Any]) -> None:
            input_items[:] = [item for item in input_items if item.get("content") != "secret"]

    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=always)
        await session.add_items([user("secret")])
        agent = app(says("done"))
        await Runner.run(agent, "go", session=session, hooks=session.hooks(Censors()))
        assert [call.input for call in agent.model.calls] == [[user("go")]]  # type: ignore[union-attr]
        assert shown(session) == ["secret", "cmp-1"]

    asyncio.run(play())


def noted(wrapper: Any, value: Any) -> Any:
    wrapper._session_compaction_model_exchange = value
    return sdk_private.exchange_of(sdk_private.noted_by(wrapper))


def test_private_notes_of_the_sdk_are_read_only_in_todays_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from agents.run_internal.items import digest_input_item

    wrapper: RunContextWrapper[Any] = RunContextWrapper(None)
    items: list[Any] = [{"type": "reasoning", "id": "r", "summary": []}, {**user("a"), "id": "u"}]
    digests = tuple(str(digest_input_item(item)) for item in items)

    assert sdk_private.exchange_of(sdk_private.noted_by(wrapper)) is None
    assert prove(items, {0, 1}, noted(wrapper, (digests, None))).covered == (0, 1)
    assert noted(wrapper, ((), None)) is None
    assert noted(wrapper, digests) is None
    assert noted(wrapper, ([*digests], None)) is None
    assert noted(wrapper, ((1, 2), None)) is None

    without = tuple(str(digest_input_item(item, ignore_ids_for_matching=True)) for item in items)
    ignoring = sdk_private.exchange_of((without, None), ignore_ids=True)
    assert ignoring is not None
    assert prove(items, {0, 1}, ignoring).covered == (0, 1)

    def other(item: Any) -> str:
        return "x"

    monkeypatch.setattr("agents.run_internal.items.digest_input_item", other)
    assert prove(items, {0, 1}, noted(wrapper, (digests, None))).covered == ()
    monkeypatch.delattr("agents.run_internal.items.digest_input_item")
    assert noted(wrapper, (digests, None)) is None


def test_usage_and_client_are_found_without_the_sdks_private_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = SimpleNamespace(input_tokens=5, output_tokens=None, total_tokens=5)
    expected = Usage(requests=1, input_tokens=5, output_tokens=0, total_tokens=5)
    assert sdk_private.usage_of(told) == expected  # a shape that the SDK's own function refuses

    import agents
    from openai import AsyncOpenAI

    default = AsyncOpenAI(api_key="a", base_url="http://localhost:1")
    monkeypatch.setattr("agents.models._openai_shared._default_openai_client", default)
    assert sdk_private.default_client() is default
    monkeypatch.delattr("agents.models._openai_shared.get_default_openai_client")
    monkeypatch.delattr("agents.usage._response_usage_to_usage")
    monkeypatch.setenv("OPENAI_API_KEY", "b")
    found = sdk_private.default_client()
    assert found is not default
    assert found.api_key == "b"
    assert sdk_private.usage_of(told) == expected
    assert agents.Usage is Usage


def test_two_runs_at_once_on_one_session_object_have_each_their_own_proof(ledger: Ledger) -> None:
    """One of them is written, and covers what its own model saw."""

    async def play() -> None:
        provider = Provider(closed=True)
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        hooks = session.hooks()
        started = [
            asyncio.create_task(Runner.run(app(says(text)), f"go {text}", session=session, hooks=hooks))
            for text in ("one", "two")
        ]
        while len(provider.asked) < 2:  # noqa: ASYNC110 - the provider's own event is set by the first
            await asyncio.sleep(0)
        provider.gate.set()
        await asyncio.gather(*started)
        left = shown(session)
        assert len([item for item in left if item.startswith("cmp")]) == 1
        assert {"go one", "one"} <= {*left} or {"go two", "two"} <= {*left}
        assert len(left) == 3

    asyncio.run(play())


@pytest.mark.parametrize("told", ["", "r" * 513, "\ud800", 7], ids=["empty", "long", "surrogate", "number"])
def test_a_response_id_that_is_none_is_not_kept_and_ends_no_run(told: Any, ledger: Ledger) -> None:
    class Odd(ScriptedModel):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            response = await super().get_response(*args, **kwargs)
            response.response_id = told
            return response

    async def play() -> None:
        session = LedgerSession("chat", ledger)
        await Runner.run(
            Agent(name="A", model=Odd([[assistant_message("x")]])), "Hi", session=session, hooks=session.hooks()
        )

        assert [row.event.response_id for row in await session.events()] == [None, None]  # type: ignore[union-attr]

    asyncio.run(play())


@pytest.mark.parametrize("hooked", [True, False])
def test_an_agents_name_may_be_a_kind_of_text(hooked: bool, ledger: Ledger) -> None:
    class Name(str):
        __slots__ = ()

    async def play() -> None:
        session = LedgerSession("chat", ledger)
        agent = Agent(name=Name("A"), model=ScriptedModel([[assistant_message("x")]]))
        await Runner.run(agent, "Hi", session=session, hooks=session.hooks() if hooked else None)

        assert [row.event.agent for row in await session.events()] == [None, "A"]  # type: ignore[union-attr]

    asyncio.run(play())
