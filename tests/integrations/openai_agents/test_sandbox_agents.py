"""Sandbox agents: a capability changes the input after the session was read; only what was sent is covered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Capability
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.testing import ScriptedModel
from tests.integrations.openai_agents.providers import Provider, always, compacted, kinds, says, shown, user

from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


class Dropping(Capability):
    """Drops all but the last item of the input; or, with `rewrites`, changes the first one's words."""

    type: str = "dropping"
    rewrites: bool = False

    def process_context(self, context: list[Any]) -> list[Any]:
        if self.rewrites:
            return [{**context[0], "content": "rewritten"}, *context[1:]]
        return context[-1:]


async def ask(session: LedgerSession, capability: Capability, *, streamed: bool, hooked: bool) -> None:
    agent = SandboxAgent(name="S", model=ScriptedModel([says("answer")]), capabilities=[capability])
    config = RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))
    hooks = session.hooks() if hooked else None
    if streamed:
        result = Runner.run_streamed(agent, "question", session=session, run_config=config, hooks=hooks)
        async for _ in result.stream_events():
            pass
    else:
        await Runner.run(agent, "question", session=session, run_config=config, hooks=hooks)


def compacting(ledger: Ledger, provider: Provider) -> LedgerSession:
    return LedgerSession(
        "chat", ledger, client=provider, compaction_mode="previous_response_id", should_trigger_compaction=always
    )


@pytest.mark.parametrize("hooked", [True, False], ids=["hooks", "without hooks"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_items_that_a_capability_dropped_are_not_covered(ledger: Ledger, streamed: bool, hooked: bool) -> None:
    """Row D6: the provider compacts what the response was sent, so the dropped items stay in the view."""

    async def play() -> None:
        await LedgerSession("chat", ledger).add_items([user("old"), user("older")])
        provider = Provider()
        session = compacting(ledger, provider)
        await ask(session, Dropping(), streamed=streamed, hooked=hooked)

        assert shown(session) == ["old", "older", "cmp-1"]
        [event] = compacted(session)
        entries = ledger.full_history(session.name).entries
        assert [kinds([entry.item])[0] for entry in entries if entry.fate == "compacted"] == ["question", "answer"]
        assert event.mode == "previous_response_id"

    asyncio.run(play())


@pytest.mark.parametrize("hooked", [True, False], ids=["hooks", "without hooks"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_request_that_a_capability_rewrote_is_not_compacted(ledger: Ledger, streamed: bool, hooked: bool) -> None:
    """The response stands for words that are not in the history: skipped before the provider is paid."""

    async def play() -> None:
        await LedgerSession("chat", ledger).add_items([user("old"), user("older")])
        provider = Provider()
        session = compacting(ledger, provider)
        await ask(session, Dropping(rewrites=True), streamed=streamed, hooked=hooked)

        assert (provider.asked, compacted(session)) == ([], [])
        assert shown(session) == ["old", "older", "question", "answer"]

        await session.run_compaction({"force": True, "compaction_mode": "input"})  # by hand, it sends what it covers
        assert kinds(provider.asked[0]["input"]) == ["old", "older", "question", "answer"]

    asyncio.run(play())


def test_capability_that_leaves_the_input_alone_is_compacted_by_response(ledger: Ledger) -> None:
    async def play() -> None:
        await LedgerSession("chat", ledger).add_items([user("old")])
        provider = Provider()
        session = compacting(ledger, provider)
        await ask(session, Capability(type="none"), streamed=False, hooked=True)

        assert [asked.get("previous_response_id") for asked in provider.asked] == ["resp-answer"]
        assert shown(session) == ["cmp-1"]

    asyncio.run(play())
