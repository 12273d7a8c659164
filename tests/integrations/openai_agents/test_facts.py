"""What is known of a batch beside its items, and what is not said because nobody told it."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import RunContextWrapper
from agents.usage import Usage

from rightful.events import HistoryAppended
from rightful.integrations.openai_agents import LedgerSession


def usages(session: LedgerSession, *, read_first: bool) -> list[dict[str, Any] | None]:
    """What the batches of a run say that they used; it has used two requests before it is first seen."""
    wrapper = RunContextWrapper[Any](None, usage=Usage(requests=2, input_tokens=20, output_tokens=4, total_tokens=24))

    async def play() -> None:
        if read_first:
            await session.get_items(wrapper=wrapper)
        for tokens in (0, 7):
            if tokens:
                wrapper.usage.add(Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1))
            await session.add_items([{"role": "assistant", "content": "x"}], wrapper=wrapper)

    asyncio.run(play())
    return [row.event.usage for row in session.ledger.read() if isinstance(row.event, HistoryAppended)]


def test_what_a_run_had_used_before_it_was_first_seen_is_no_batchs(session: LedgerSession) -> None:
    assert usages(session, read_first=False)[0] is None


def test_a_batch_has_used_what_came_since_the_one_before(session: LedgerSession) -> None:
    used = {"requests": 1, "input_tokens": 7, "output_tokens": 1, "total_tokens": 8}

    assert usages(session, read_first=True) == [None, used]


def test_calls_by_hand_have_no_agent_and_no_usage(session: LedgerSession) -> None:
    asyncio.run(session.add_items([{"role": "assistant", "content": "x"}]))

    batch = next(session.ledger.read()).event
    assert isinstance(batch, HistoryAppended)
    assert (batch.agent, batch.usage) == (None, None)
