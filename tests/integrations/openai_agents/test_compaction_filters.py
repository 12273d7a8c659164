"""Whatever a filter makes of a run's input, and whoever writes the same words meanwhile: nothing unseen is covered."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agents import RunConfig
from agents.run import CallModelData, ModelInputData
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.integrations.openai_agents.providers import Provider, always, app, calls, compacted, run, says, user

from rightful import ledger as ledgers
from rightful.integrations.openai_agents import LedgerSession
from rightful.integrations.openai_agents.compaction.model_input import mark
from rightful.ledger import Ledger


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    """One for all examples; each has a history of its own."""
    with tempfile.TemporaryDirectory() as folder, ledgers.open(Path(folder) / "l", create=True) as opened:
        yield opened


Filter = Callable[[Random, list[Any]], list[Any]]


def hides(random: Random, items: list[Any]) -> list[Any]:
    return [item for item in items if random.random() < 0.6] or items[-1:]


def doubles(random: Random, items: list[Any]) -> list[Any]:
    return [one for item in items for one in [item] * random.choice([1, 2])]


def shuffles(random: Random, items: list[Any]) -> list[Any]:
    return random.sample(items, len(items))


def rewrites(random: Random, items: list[Any]) -> list[Any]:
    return [{**item, "content": "?"} if "content" in item and random.random() < 0.5 else item for item in items]


def strips(_: Random, items: list[Any]) -> list[Any]:
    return [{key: value for key, value in item.items() if key != "id"} for item in items]


def adds(random: Random, items: list[Any]) -> list[Any]:
    return [*items, user(random.choice(WORDS))]


FILTERS: list[Filter] = [hides, doubles, shuffles, rewrites, strips, adds]
WORDS = ["yes", "no"]


async def a_turn(session: LedgerSession, made: Filter, random: Random, *, hooked: bool) -> Counter[Any]:
    """Take a turn, while another one says the same words or takes some back; return what the model saw and said."""
    other = LedgerSession(session.session_id, session.ledger)

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        for _ in range(random.choice([0, 0, 1, 2])):
            if random.random() < 0.2:
                await other.pop_item()
            else:
                await other.add_items([user(random.choice(WORDS))])
        return ModelInputData(made(random, data.model_data.input), data.model_data.instructions)

    steps = [calls(f"x{random.random()}")] if random.random() < 0.4 else []
    agent: Any = app(*steps, says(random.choice(WORDS)))
    config = RunConfig(tracing_disabled=True, call_model_input_filter=filtered)
    result = await run(agent, random.choice(WORDS), session, hooked=hooked, run_config=config)
    return Counter(map(mark, [*agent.model.calls[-1].input, *result.raw_responses[-1].to_input_items()]))


@settings(max_examples=examples(60), deadline=None, database=None)
@given(
    random=st.randoms(use_true_random=False),
    filters=st.lists(st.sampled_from(FILTERS), min_size=2, max_size=4),
    limit=st.sampled_from([None, 1, 3]),
    hooked=st.booleans(),
)
def test_compaction_never_covers_unseen_items_despite_filters_and_writers(
    ledger: Ledger, random: Random, filters: list[Filter], limit: int | None, hooked: bool
) -> None:
    async def play() -> None:
        provider = Provider()
        options: Any = {"client": provider, "should_trigger_compaction": always, "session_settings": {"limit": limit}}
        chat = uuid.uuid4().hex
        for made in filters:
            session = LedgerSession(chat, ledger, **options)
            before = len(compacted(session))
            seen = await a_turn(session, made, random, hooked=hooked)
            whole = ledger.full_history(session.name)
            entries = {entry.id: entry for entry in whole.entries}
            for one in whole.compactions[before:]:
                covered = Counter(mark(entries[id_].item) for id_ in one.covered)
                assert covered <= seen
                sent = provider.asked[-1].get("input")
                assert covered == (seen if sent is None else Counter(map(mark, sent)))

    asyncio.run(play())
