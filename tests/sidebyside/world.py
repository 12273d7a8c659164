"""The world of one ordering: one store, the objects and processes that use it, and what was said to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner
from agents.testing import ModelStep, ScriptedModel, assistant_message
from tests.sidebyside.elsewhere import Elsewhere, Ended
from tests.sidebyside.kinds import OURS, SESSION, THEIRS, Options, close, ours
from tests.sidebyside.provider import Provider
from tests.sidebyside.saying import item, names, told

import rightful

Act = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Outcome:
    """What a store kept.

    Attributes:
        visible: What the model would see next.
        lost: What was appended, never taken back, and is told by nothing visible.
        risen: What was cleared or popped, and is told by something visible again.
        gone: What was appended and can no longer be read word by word from anywhere.
        twice: What is visible more than once.
        notes: What else is to be said: what failed, what waited.
        seen: What was visible in one repetition or another, where the ordering is repeated.
    """

    visible: list[str]
    lost: list[str] = field(default_factory=list)
    risen: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: str = ""

    def words(self) -> str:
        """Return it as the cell of a table."""
        said = [self.seen or (f"`{' '.join(self.visible)}`" if self.visible else "nothing")]
        for label, found in (("**lost**", self.lost), ("**risen**", self.risen), ("**twice**", self.twice)):
            said += [f"{label} {' '.join(found)}"] if found else []
        said += self.notes
        gone = [one for one in self.gone if one not in self.lost]
        said += [f"no longer on record: {' '.join(gone)}"] if gone else []
        return "; ".join(said)


@dataclass
class World:
    """One store under one ordering.

    Attributes:
        kind: Which store.
        folder: Where it is.
        far: The other processes.
        hooked: Whether runs on our session tell it of the model's calls through its public hooks.
        appended: What was appended and acknowledged.
        taken: What was cleared or popped.
        notes: What else is to be said of the outcome.
        server: What the provider knows of each response.
    """

    kind: str
    folder: Path
    far: Elsewhere
    hooked: bool = True
    appended: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    server: dict[str, list[str]] = field(default_factory=dict)
    _opened: list[Any] = field(default_factory=list)
    _ledger: rightful.Ledger | None = None

    def ledger(self) -> rightful.Ledger:
        """Return our ledger, open in this process."""
        if self._ledger is None:
            self._ledger = rightful.open(self.folder / "ledger", create=True)
        return self._ledger

    def session(self, provider: Provider | None = None, **options: Any) -> Any:
        """Return another object on the store."""
        chosen = Options(provider or self.provider(), **options)
        made = ours(self.ledger(), chosen) if self.kind == OURS else THEIRS[self.kind](self.folder, chosen)
        self._opened.append(made)
        return made

    def provider(self, *, waits: bool = False) -> Provider:
        """Return a provider; it knows the responses of every run in this world."""
        return Provider(self.server, waits=waits)

    def close(self) -> None:
        """Close what was opened here."""
        for made in self._opened:
            close(made)
        self._opened.clear()
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    async def elsewhere(self, task: str, *arguments: Any) -> Ended:
        """Let another process do a task on the store, and return how it ended."""
        return await asyncio.to_thread(self.far.do, task, self.kind, self.folder, *arguments)

    async def add(self, session: Any, *said: str) -> None:
        """Let an actor append messages of these names, in one call."""
        await session.add_items([item(one) for one in said])
        self.appended += said

    async def clear(self, session: Any) -> None:
        """Let an actor clear the history."""
        self._take(names(await session.get_items()))
        await session.clear_session()

    async def pop(self, session: Any) -> None:
        """Let an actor pop the last item."""
        popped = await session.pop_item()
        self._take(names([popped]) if popped else [])

    def _take(self, shown: list[str]) -> None:
        tells = told(shown)
        self.taken += [one for one in self.appended if one in tells]

    async def turn(
        self,
        session: Any,
        said: str,
        answer: str,
        *,
        response: str = "r1",
        meanwhile: Act | None = None,
        agent: Agent[Any] | None = None,
        **run: Any,
    ) -> Any:
        """Let a `Runner` take one turn: the user's message, the model's answer."""
        answered = self.answering(answer, response, meanwhile)
        of = agent or Agent(name="agent", model=ScriptedModel([answered]))
        result = await self.run(of, said, session, **run)
        self.appended += [said, answer]
        return result

    async def run(self, agent: Agent[Any], given: Any, session: Any, **run: Any) -> Any:
        """Run an agent on the session."""
        config = run.pop("config", None) or RunConfig(tracing_disabled=True)
        if self.kind == OURS and self.hooked:
            run["hooks"] = session.hooks(run.get("hooks"))
        return await Runner.run(agent, given, session=session, run_config=config, **run)

    def answering(self, answer: str | list[Any], response: str, meanwhile: Act | None = None) -> ModelStep:
        """Return a model's step: it is remembered by the server, and something may happen before it ends."""

        async def respond(call: Any) -> ModelStep:
            output = [assistant_message(answer, item_id=f"msg_{answer}")] if isinstance(answer, str) else answer
            spoken = names([one.model_dump(exclude_unset=True) for one in output])
            given = [item(call.input)] if isinstance(call.input, str) else call.input
            self.server[response] = [*names(given), *spoken]
            if meanwhile is not None:
                await meanwhile()
            return ModelStep(output=output, response_id=response)

        return ModelStep.respond(respond)

    async def outcome(self) -> Outcome:
        """Return what the store kept, as a new object on it sees it."""
        visible = names(await self.session().get_items())
        tells = told(visible)
        record = await self.record()
        return Outcome(
            visible=visible,
            lost=[one for one in self.appended if one not in self.taken and one not in tells],
            risen=[one for one in self.taken if one in tells],
            gone=[one for one in dict.fromkeys(self.appended) if one not in record],
            twice=[one for one in dict.fromkeys(visible) if visible.count(one) > 1],
            notes=self.notes,
        )

    async def record(self) -> list[str]:
        """Return everything that can still be read word by word."""
        if self.kind != OURS:
            return names(await self.session().get_items())
        full = self.ledger().full_history(f"openai-agents:{SESSION}")
        return names([one.item for one in full.entries if one.item is not None])


async def while_it_works(compaction: Coroutine[Any, Any, Any], provider: Provider, act: Act) -> BaseException | None:
    """Let something happen after the provider was asked and before it answers; return what the compaction raised."""
    working = asyncio.ensure_future(compaction)
    asked = asyncio.ensure_future(provider.asked.wait())
    await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    await act()
    provider.answer.set()
    await asyncio.wait([working])
    return working.exception()


async def whole(run: Coroutine[Any, Any, Any], provider: Provider, act: Act) -> None:
    """Do the same while a run's compaction waits, and let nothing that the run raised pass."""
    raised = await while_it_works(run, provider, act)
    if raised is not None:
        raise raised


FORCED: Any = {"force": True}
"""A compaction that is asked for by hand."""
