"""Real `Runner` apps on a ledger, beside the SDK's own store."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession
from agents.memory import Session
from agents.testing import ScriptedModel
from tests.integrations.openai_agents.apps import APPS, add, adds, says, shared, streamed, tools

from rightful.events import HistoryAppended
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


def batches(ledger: Ledger, session: str = "openai-agents:chat") -> list[HistoryAppended]:
    return [row.event for row in ledger.read(session=session) if isinstance(row.event, HistoryAppended)]


def kinds(items: list[Any]) -> list[str]:
    return [item.get("type") or item["role"] for item in items]


@pytest.mark.parametrize("app", list(APPS))
def test_an_app_shows_its_models_what_it_would_on_the_sdks_own_store(app: str, ledger: Ledger, tracing: bool) -> None:
    async def both() -> None:
        async def play(session: Session) -> tuple[list[Any], list[Any]]:
            return await APPS[app](session), await session.get_items()

        own = SQLiteSession("chat")
        sent, left = await play(LedgerSession("chat", ledger))

        assert (sent, left) == await play(own)
        assert left
        own.close()

    asyncio.run(both())


def test_a_tool_turn_is_one_batch_with_its_agent_and_what_it_used(session: LedgerSession, tracing: bool) -> None:
    asyncio.run(tools(session))

    first, turn, answer, second, last = batches(session.ledger)

    assert kinds(turn.items) == ["function_call"] * 2 + ["function_call_output"] * 2
    assert [one.agent for one in (first, turn, answer, second, last)] == [None, "Adder", "Adder", None, "Adder"]
    used = {"requests": 1, "input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    assert [one.usage for one in (first, turn, answer, second, last)] == [None, used, used, None, used]
    assert [one.ordinal for one in (first, turn, answer)] == [0, 1, 2]
    assert [one.ordinal for one in (second, last)] == [0, 1]
    assert first.run == answer.run != last.run


def test_a_streamed_turn_has_its_agent_and_what_it_used_too(session: LedgerSession) -> None:
    asyncio.run(streamed(session))

    assert [one.agent for one in batches(session.ledger)] == [None, "Adder", "Adder"]
    assert [(one.usage or {}).get("requests") for one in batches(session.ledger)] == [None, 1, 1]


@pytest.mark.parametrize(
    ("app", "handing"),
    [("hand-off", ["front"]), ("nested hand-off history", ["front"]), ("hand-off with an input filter", [])],
)
def test_handoff_ends_one_agents_batches_and_the_answer_starts_the_next(
    app: str, handing: list[str], session: LedgerSession, tracing: bool
) -> None:
    """openai-agents-python#2072 asks which agent spoke when a hand-off is saved. A filter that drops it saves none."""
    asyncio.run(APPS[app](session))

    agents = [one.agent for one in batches(session.ledger)]
    assert agents == [None, "front", *handing, "expert", None, "expert"]


def test_a_batch_says_how_far_its_run_had_read(session: LedgerSession) -> None:
    asyncio.run(shared(session))

    assert [one.read.position if one.read else None for one in batches(session.ledger)] == [0, 0, 2, 2, 4, 4]


def test_a_run_within_a_tool_is_a_run_of_its_own(ledger: Ledger) -> None:
    """An inner run on the same ledger does not take its agent from the outer one's span."""
    inner, outer = LedgerSession("inner", ledger), LedgerSession("chat", ledger)
    model = ScriptedModel([adds((1, 2)), says("done")])
    within = Agent(name="within", model=ScriptedModel([says("deep")]))

    async def asked(*_: Any) -> None:
        await Runner.run(within, "deeper", session=inner)

    from agents import AgentHooks

    hooks: Any = AgentHooks()
    hooks.on_tool_start = asked
    asyncio.run(Runner.run(Agent(name="outer", model=model, tools=[add], hooks=hooks), "go", session=outer))

    assert [one.agent for one in batches(ledger, inner.name)] == [None, "within"]
    assert [one.agent for one in batches(ledger)] == [None, "outer", "outer"]


def test_two_runs_at_once_on_one_session_both_keep_all_they_said(session: LedgerSession) -> None:
    async def play() -> None:
        async def run(name: str) -> None:
            model = ScriptedModel([adds((1, 2), of=name), says(name)])
            await Runner.run(Agent(name=name, model=model, tools=[add]), name, session=session)

        await asyncio.gather(run("one"), run("two"))

    asyncio.run(play())

    of: dict[str | None, list[str]] = {}
    for batch in batches(session.ledger):
        of.setdefault(batch.run, []).extend(kinds(batch.items))
    assert list(of.values()) == [["user", "function_call", "function_call_output", "message"]] * 2


def test_nothing_is_kept_of_a_run_that_is_over(session: LedgerSession) -> None:
    asyncio.run(tools(session))
    gc.collect()

    assert len(session._runs._of) == 0
