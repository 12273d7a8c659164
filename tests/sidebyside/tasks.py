"""What other processes do; each runs in one of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from agents import Agent, RunState, function_tool
from agents.testing import ScriptedModel, function_call
from tests.sidebyside.dying import Dying
from tests.sidebyside.elsewhere import Elsewhere
from tests.sidebyside.world import FORCED, World


class _Nowhere(Elsewhere):
    """A process that starts no other ones."""

    def __init__(self) -> None:
        pass


def world_of(kind: str, folder: str, server: dict[str, list[str]] | None = None) -> World:
    """Return the world as this process sees it: nothing of it but the store."""
    return World(kind, Path(folder), _Nowhere(), server=server or {})


def append(kind: str, folder: str, said: list[str]) -> None:
    """Append messages, in one call."""
    world = world_of(kind, folder)
    asyncio.run(world.add(world.session(), *said))
    world.close()


def compact(kind: str, folder: str, at: int) -> int:
    """Append, compact by hand, and die at one of the writes of that; return how many there were."""
    dying = Dying(at)
    dying.watch()
    world = world_of(kind, folder)

    async def work() -> None:
        session = world.session(world.provider())
        await world.add(session, "u1", "a1")
        dying.armed = True
        await session.run_compaction(FORCED)

    asyncio.run(work())
    dying.armed = False
    world.close()
    return dying.done


def turn_and_compact(kind: str, folder: str, at: int) -> int:
    """Take a turn, and die at one of the writes of its compaction; return how many there were."""
    dying = Dying(at)
    dying.watch()
    world = world_of(kind, folder)

    async def work() -> None:
        session = world.session()
        compacting = session.run_compaction

        async def armed(args: Any = None, *, wrapper: Any = None) -> None:
            dying.armed = True
            await compacting(args, wrapper=wrapper)

        session.run_compaction = armed
        await world.turn(session, "u1", "a1")

    asyncio.run(work())
    dying.armed = False
    world.close()
    return dying.done


@function_tool(name_override="look")
def _look() -> str:
    return "seen"


@function_tool(name_override="look", needs_approval=True)
def _look_if_approved() -> str:
    return "seen"


def _looking(world: World, tool: Any, *answers: Any) -> Agent[Any]:
    steps = [world.answering(answer, f"r{place}") for place, answer in enumerate(answers, 1)]
    return Agent(name="agent", model=ScriptedModel(steps), tools=[tool])


def owe(kind: str, folder: str) -> None:
    """Take a tool's turn, after which a compaction is owed, and die while the model is asked again."""
    world = world_of(kind, folder)

    async def work() -> None:
        async def die() -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        agent = _looking(world, _look, [function_call("look", {}, call_id="c1")])
        agent.model.enqueue(world.answering("never", "r9", die))  # type: ignore[union-attr]
        await world.run(agent, "u1", world.session())

    asyncio.run(work())


def next_turn(kind: str, folder: str) -> None:
    """Take a turn of which the decision hook wants no compaction, so that only one that is owed is done."""
    world = world_of(kind, folder)
    asyncio.run(world.turn(world.session(trigger=False, mode="input"), "u2", "a2", response="r2"))
    world.close()


def pause(kind: str, folder: str, compacts: int = 0) -> Any:
    """Take a turn up to a tool that needs an approval; return the run's state, written down."""
    world = world_of(kind, folder)
    agent = _looking(world, _look_if_approved, [function_call("look", {}, call_id="c1")])
    result = asyncio.run(world.run(agent, "u1", world.session(mode="input", trigger=bool(compacts))))
    state = result.to_state().to_json()
    world.close()
    return json.dumps(state)


def resume(kind: str, folder: str, text: str) -> None:
    """Approve what a run waits for, and end it."""
    world = world_of(kind, folder)

    async def work() -> None:
        agent = _looking(world, _look_if_approved, "a1")
        state = await RunState.from_json(agent, json.loads(text))
        for asked in state.get_interruptions():
            state.approve(asked)
        await world.run(agent, state, world.session(mode="input"))

    asyncio.run(work())
    world.close()
