"""A thousand random interleavings of two users of one history, beside the rule of the design."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunContextWrapper, Usage
from agents.testing import assistant_message
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.sidebyside.provider import Provider
from tests.sidebyside.rule import Read, Rule
from tests.sidebyside.saying import item, names, summary, told

import rightful
from rightful.integrations.openai_agents import LedgerSession

SAYING = ("say", "call", "think", "answer", "read", "clear", "pop", "restart")
BY_HAND = st.sampled_from([*["begin"] * 3, *["end"] * 3, *SAYING, "say"])
BY_RUNS = st.sampled_from(["ask", "respond", *["compact"] * 3, *["end"] * 3, *SAYING])


def steps(verbs: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(st.sampled_from("AB"), verbs), min_size=6, max_size=20)


CASES = itertools.count()
FAST = "/dev/shm"
AGENT: Agent[None] = Agent(name="agent")


@pytest.fixture(scope="module")
def ledger() -> Iterator[rightful.Ledger]:
    """A ledger that is in memory where the machine has such a place."""
    place = FAST if Path(FAST).is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder, rightful.open(Path(folder) / "l", create=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@dataclass
class Turn:
    """A run that has asked its model: what it had read and appended, and what the model has seen."""

    known: set[str]
    asked: list[Any]
    changes: int
    wrapper: RunContextWrapper[None] = field(default_factory=lambda: RunContextWrapper(None))
    seen: list[str] = field(default_factory=list)


class Actor:
    """One user of the history: an object of its own, its run, and the compaction that it waits for."""

    def __init__(self, ledger: rightful.Ledger, session: str, limit: int | None) -> None:
        self._ledger, self._name, self.limit = ledger, session, limit
        self.working: asyncio.Task[None] | None = None
        self.read: Read | None = None
        self._open()

    def _open(self) -> None:
        self.turn: Turn | None = None
        self.provider = Provider({}, waits=True)
        self.session = LedgerSession(
            self._name,
            self._ledger,
            client=self.provider,
            compaction_mode="input",
            session_settings={"limit": self.limit},
        )
        self.hooks = self.session.hooks()

    async def begin(self, read: Read, wrapper: RunContextWrapper[None] | None = None) -> None:
        """Ask for a compaction, and let it wait for the provider; nothing is asked if nothing is covered."""
        self.provider.asked.clear()
        self.provider.answer.clear()
        self.working = asyncio.create_task(self.session.run_compaction({"force": True}, wrapper=wrapper))
        asked = asyncio.create_task(self.provider.asked.wait())
        await asyncio.wait([asked, self.working], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if read.covers:
            assert self.provider.given[-1:] == [list(read.covers)]
            self.read = read
        else:
            assert not self.provider.asked.is_set()
            await self.working
            self.working = None

    async def end(self, rule: Rule) -> None:
        """Let the provider answer."""
        if self.working is None or self.read is None:
            return
        rule.replace(self.read, names([summary(self.read.covers)])[0])
        self.provider.answer.set()
        await self.working
        self.working = self.read = None

    async def restart(self) -> None:
        """Lose everything but the ledger."""
        if self.working is not None:
            self.working.cancel()
            await asyncio.gather(self.working, return_exceptions=True)
        self.working = self.read = None
        self.session.close()
        self._open()


class Play:
    """Two users, and the rule beside them; a method for each step."""

    def __init__(self, ledger: rightful.Ledger, limit: int | None) -> None:
        session = f"case-{next(CASES)}"
        self.rule = Rule()
        self.actors = {one: Actor(ledger, session, limit if one == "B" else None) for one in "AB"}
        self._numbers = itertools.count()

    async def _add(self, actor: Actor, *items: Any) -> None:
        await actor.session.add_items(list(items))
        self.rule.append(*names(items))

    async def say(self, actor: Actor) -> None:
        await self._add(actor, item(f"u{next(self._numbers)}"), item(f"a{next(self._numbers)}"))

    async def call(self, actor: Actor) -> None:
        await self._add(actor, called(f"c{next(self._numbers)}"))

    async def think(self, actor: Actor) -> None:
        await self._add(actor, thinking(f"t{next(self._numbers)}"), called(f"c{next(self._numbers)}"))

    async def answer(self, actor: Actor) -> None:
        calls = [one for one in self.rule.record if one.startswith("c") and not one.endswith("=")]
        for name in [one for one in calls if f"{one}=" not in self.rule.record][:1]:
            await self._add(actor, answered(name))

    async def read(self, actor: Actor) -> None:
        assert names(await actor.session.get_items(limit=1000)) == self.rule.visible()

    async def begin(self, actor: Actor) -> None:
        if actor.working is None:
            await actor.begin(self.rule.read(actor.limit))

    async def ask(self, actor: Actor) -> None:
        """Begin a run: it reads, saves the user's message, and asks its model, from whom a filter hides the oldest."""
        wrapper: RunContextWrapper[None] = RunContextWrapper(None)
        changes = self.rule.changes
        read = await actor.session.get_items(wrapper=wrapper)
        said = item(f"u{next(self._numbers)}")
        await actor.session.add_items([said], wrapper=wrapper)
        self.rule.append(*names([said]))
        actor.turn = Turn({*names(read), *names([said])}, [*read[len(read) % 2 :], said], changes, wrapper)
        await actor.hooks.on_llm_start(wrapper, AGENT, None, actor.turn.asked)

    async def respond(self, actor: Actor) -> None:
        """Let the model of a run answer, and save that; of a new run if none waits for its model."""
        if actor.turn is None or actor.turn.seen:
            await self.ask(actor)
        turn = actor.turn
        assert turn is not None
        name = f"a{next(self._numbers)}"
        response = ModelResponse([assistant_message(name, item_id=f"msg_{name}")], Usage(requests=1), f"r-{name}")
        await actor.hooks.on_llm_end(turn.wrapper, AGENT, response)
        await actor.session.add_items(response.to_input_items(), wrapper=turn.wrapper)
        self.rule.append(name)
        turn.known.add(name)
        turn.seen = [*names(turn.asked), name]

    async def compact(self, actor: Actor) -> None:
        """Ask for the compaction of a run that has its answer, as the SDK does; of a new run if there is none."""
        if actor.working is not None:
            return
        if actor.turn is None or not actor.turn.seen:
            await self.respond(actor)
        turn, actor.turn = actor.turn, None
        assert turn is not None
        await actor.begin(self.rule.read_by(turn.known, turn.seen, turn.changes), turn.wrapper)

    async def end(self, actor: Actor) -> None:
        """Let a provider answer: this one's, or the other's if this one was not asked."""
        waiting = [one for one in (actor, *self.actors.values()) if one.working is not None]
        for one in waiting[:1]:
            await one.end(self.rule)

    async def clear(self, actor: Actor) -> None:
        await actor.session.clear_session()
        self.rule.clear()

    async def pop(self, actor: Actor) -> None:
        popped = await actor.session.pop_item()
        assert (names([popped]) if popped else [None]) == [self.rule.pop()]

    async def restart(self, actor: Actor) -> None:
        await actor.restart()

    async def ended(self) -> None:
        """Let all work end, and look at what is left."""
        for actor in self.actors.values():
            await actor.end(self.rule)
        session = self.actors["A"].session
        shown = names(await session.get_items())
        full = names([one.item for one in (await session.full_history()).entries])

        assert shown == self.rule.visible()
        assert [one for one in full if not one.startswith("S(")] == self.rule.record
        assert told(shown) & self.rule.taken == set()
        for actor in self.actors.values():
            actor.session.close()

    async def whole(self, steps: list[tuple[str, str]]) -> None:
        """Take the steps, and look at the end."""
        for who, verb in steps:
            await getattr(self, verb)(self.actors[who])
        await self.ended()


def called(name: str) -> Any:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "look", "arguments": "{}"}


def thinking(name: str) -> Any:
    return {"type": "reasoning", "id": name, "summary": []}


def answered(name: str) -> Any:
    return {"type": "function_call_output", "call_id": name, "output": "seen"}


@settings(max_examples=examples(1000), deadline=None, database=None)
@given(steps=steps(BY_HAND), limit=st.sampled_from([None, 1, 3]))
def test_any_interleaving_keeps_everything_and_shows_what_the_rule_says(
    ledger: rightful.Ledger, loop: asyncio.Runner, steps: list[tuple[str, str]], limit: int | None
) -> None:
    loop.run(Play(ledger, limit).whole(steps))


@settings(max_examples=examples(500), deadline=None, database=None)
@given(steps=steps(BY_RUNS), limit=st.sampled_from([None, 2, 4]))
def test_interleaved_runs_cover_exactly_what_their_models_saw(
    ledger: rightful.Ledger, loop: asyncio.Runner, steps: list[tuple[str, str]], limit: int | None
) -> None:
    loop.run(Play(ledger, limit).whole(steps))
