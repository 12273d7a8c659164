"""Orderings of one user: what a compaction may cover, and what of the rest remains."""

from __future__ import annotations

from typing import Any

from agents import Agent, RunConfig, handoff
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ScriptedModel, function_call
from tests.sidebyside.kinds import OURS
from tests.sidebyside.orderings import ordering
from tests.sidebyside.saying import names
from tests.sidebyside.world import FORCED, World

OLD = ("u1", "a1")


@ordering("One turn, and the compaction of its run", "js#1653, js#1668", ours="`S(u1 a1)`")
async def one_turn(world: World) -> None:
    await world.turn(world.session(), "u1", "a1")


@ordering(
    "A compaction by hand through a store that reads only its last two items", "#5010, #3827", ours="`u1 a1 S(u2 a2)`"
)
async def limit_by_hand(world: World) -> None:
    limited = world.session(limit=2)
    await world.add(limited, *OLD, "u2", "a2")
    await limited.run_compaction(FORCED)


@ordering("The compaction of a run that read only the last item", "#4293, #4628", ours="`u1 S(a1 u2 a2)`")
async def limit_in_a_run(world: World) -> None:
    limited = world.session(limit=1)
    await world.add(limited, *OLD)
    await world.turn(limited, "u2", "a2")


@ordering("The compaction of a run whose `call_model_input_filter` hides what is old", "#5103", ours="`u1 a1 S(u2 a2)`")
async def input_filter(world: World) -> None:
    def newest(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input[-1:], instructions=data.model_data.instructions)

    config = RunConfig(tracing_disabled=True, call_model_input_filter=newest)
    await _after_old(world, config=config)


@ordering(
    "The compaction of a run whose `session_input_callback` leaves out what is old", "#5103", ours="`u1 a1 S(u2 a2)`"
)
async def input_callback(world: World) -> None:
    config = RunConfig(tracing_disabled=True, session_input_callback=lambda _history, new: new)
    await _after_old(world, config=config)


@ordering("The compaction of a run whose filter says the old items in other words", "#4736", ours="`u1 a1 S(u2 a2)`")
async def rewriting_filter(world: World) -> None:
    def rewritten(data: CallModelData[Any]) -> ModelInputData:
        told: Any = [{"role": "user", "content": f"then: {' '.join(names(data.model_data.input[:-1]))}"}]
        return ModelInputData(input=[*told, data.model_data.input[-1]], instructions=data.model_data.instructions)

    config = RunConfig(tracing_disabled=True, call_model_input_filter=rewritten)
    await _after_old(world, config=config)


async def _after_old(world: World, **run: Any) -> None:
    session = world.session(mode="input")
    await world.add(session, *OLD)
    await world.turn(session, "u2", "a2", response="r2", **run)


@ordering(
    "The compaction of a run that hands off with a filter; the second agent sees only the hand-off",
    "#2072, #4736",
    ours="`u1 a1 u2 S(h1 h1= a2)`",
)
async def handoff_filter(world: World) -> None:
    session = world.session(mode="input")
    await world.add(session, *OLD)
    second = Agent(name="second", model=ScriptedModel([world.answering("a2", "r2")]))
    passed = handoff(
        second, input_filter=lambda data: data.clone(input_history=(), pre_handoff_items=(), input_items=None)
    )
    called = function_call("transfer_to_second", {}, call_id="h1")
    first = Agent(name="first", model=ScriptedModel([world.answering([called], "r1")]), handoffs=[passed])
    await world.run(first, "u2", session)
    world.appended += ["u2", "h1", "h1=", "a2"]


@ordering("A compaction of one branch, where another one stands", "#4729, #5081", ours="`S(u1 a1)`; the branch: `u1`")
async def branches(world: World) -> None:
    session = world.session()
    await world.add(session, "u1")
    branched = await _branch(world, session)
    await session.run_compaction(FORCED)
    world.notes.append(await branched())


async def _branch(world: World, session: Any) -> Any:
    """Branch, say more on the main branch, and return what tells of the branch."""
    if world.kind == OURS:
        branch = await session.fork(session_id="branch")
        await world.add(session, "a1")

        async def shown() -> str:
            return f"the branch: `{' '.join(names(await branch.get_items()))}`"

        return shown
    store: Any = getattr(session, "underlying_session", None)
    if not hasattr(store, "create_branch_from_turn"):
        await world.add(session, "a1")
        return _none
    await world.add(session, "a1", "u2")
    await store.create_branch_from_turn(2, "branch")
    await store.switch_to_branch("main")

    async def found() -> str:
        left = [one["branch_id"] for one in await store.list_branches()]
        if "branch" not in left:
            return "**the branch is gone**"
        return f"the branch: `{' '.join(names(await store.get_items(branch_id='branch')))}`"

    return found


async def _none() -> str:
    return "has no branches"
