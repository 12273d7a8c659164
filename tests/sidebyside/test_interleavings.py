"""A thousand random interleavings of two users of one history, beside the rule of the design."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidebyside.provider import Provider
from tests.sidebyside.rule import Read, Rule
from tests.sidebyside.saying import item, names, summary, told

import rightful
from rightful.producers.openai_agents import LedgerSession
from rightful.session_errors import StaleTokenError

VERBS = ("say", "say", "call", "think", "answer", "read", "begin", "end", "clear", "pop", "restart")
STEPS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(VERBS)), min_size=4, max_size=16)
CASES = itertools.count()
FAST = "/dev/shm"


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


class Actor:
    """One user of the history: an object of its own, and the compaction that it waits for."""

    def __init__(self, ledger: rightful.Ledger, session: str, limit: int | None) -> None:
        self._ledger, self._name, self._limit = ledger, session, limit
        self.working: asyncio.Task[None] | None = None
        self.read: Read | None = None
        self._open()

    def _open(self) -> None:
        self.provider = Provider({}, waits=True)
        self.session = LedgerSession(
            self._name,
            self._ledger,
            client=self.provider,
            compaction_mode="input",
            session_settings={"limit": self._limit},
        )

    async def begin(self, rule: Rule) -> None:
        """Ask for a compaction by hand, and let it wait for the provider; nothing is asked if nothing is covered."""
        if self.working:
            return
        read = rule.read(self._limit)
        self.provider.asked.clear()
        self.provider.answer.clear()
        self.working = asyncio.create_task(self.session.run_compaction({"force": True}))
        asked = asyncio.create_task(self.provider.asked.wait())
        await asyncio.wait([asked, self.working], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if read.covers:
            assert self.provider.given[-1] == list(read.covers)
            self.read = read
        else:
            assert not self.provider.asked.is_set()
            await self.working
            self.working = None

    async def end(self, rule: Rule) -> None:
        """Let the provider answer."""
        if self.working is None or self.read is None:
            return
        put = names([summary(self.read.covers)])[0]
        done = rule.replace(self.read, put)
        self.provider.answer.set()
        try:
            await self.working
        except StaleTokenError:
            assert not done
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
    """Two users, and the rule beside them."""

    def __init__(self, ledger: rightful.Ledger, session: str, limit: int | None) -> None:
        self.rule = Rule()
        self.actors = {one: Actor(ledger, session, limit if one == "B" else None) for one in "AB"}
        self._number = itertools.count()

    async def step(self, who: str, verb: str) -> None:
        actor, rule = self.actors[who], self.rule
        match verb:
            case "say":
                said = [f"{'ua'[number % 2]}{number}" for number in itertools.islice(self._number, 2)]
                await actor.session.add_items([item(one) for one in said])
                rule.append(*said)
            case "call":
                name = f"c{next(self._number)}"
                await actor.session.add_items([called(name)])
                rule.append(name)
            case "think":
                thought, name = f"t{next(self._number)}", f"c{next(self._number)}"
                await actor.session.add_items([thinking(thought), called(name)])
                rule.append(thought, name)
            case "answer":
                open_ = [one for one in rule.record if one.startswith("c") and f"{one}=" not in rule.record]
                for name in [one for one in open_ if not one.endswith("=")][:1]:
                    await actor.session.add_items([answered(name)])
                    rule.append(f"{name}=")
            case "read":
                assert names(await actor.session.get_items(limit=1000)) == rule.visible()
            case "begin":
                await actor.begin(rule)
            case "end":
                await actor.end(rule)
            case "clear":
                await actor.session.clear_session()
                rule.clear()
            case "pop":
                popped = await actor.session.pop_item()
                assert (names([popped]) if popped else [None]) == [rule.pop()]
            case _:
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


def called(name: str) -> Any:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "look", "arguments": "{}"}


def thinking(name: str) -> Any:
    return {"type": "reasoning", "id": name, "summary": []}


def answered(name: str) -> Any:
    return {"type": "function_call_output", "call_id": name, "output": "seen"}


@settings(max_examples=1000, deadline=None, database=None)
@given(steps=STEPS, limit=st.sampled_from([None, 1, 3]))
def test_any_interleaving_keeps_everything_and_shows_what_the_rule_says(
    ledger: rightful.Ledger, loop: asyncio.Runner, steps: list[tuple[str, str]], limit: int | None
) -> None:
    async def play() -> None:
        all_of_it = Play(ledger, f"case-{next(CASES)}", limit)
        for who, verb in steps:
            await all_of_it.step(who, verb)
        await all_of_it.ended()

    loop.run(play())
