"""Orderings in which two use one history at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.sidebyside.orderings import ordering
from tests.sidebyside.world import FORCED, World, while_it_works, whole


@ordering("A reads, B saves, A saves", "#1953, #4680", ours="`b1 u1 a1`")
async def reads_saves_saves(world: World) -> None:
    a, b = world.session(), world.session()
    await a.get_items()
    await world.add(b, "b1")
    await world.add(a, "u1", "a1")


@ordering(
    "A's response, B's append, A's late snapshot, A's replacement; compaction asked for by hand, by response id",
    "#4679, #4680",
    ours="`S(u1 a1 b1)`",
)
async def late_snapshot(world: World) -> None:
    a, b = world.session(trigger=False), world.session()
    await world.turn(a, "u1", "a1")
    await world.add(b, "b1")
    await a.run_compaction({"force": True, "response_id": "r1"})


@ordering(
    "The same within a run: B appends while the model works, then A saves and compacts",
    "#4680, #4736",
    ours="`S(u1 a1) b1`",
)
async def during_the_model(world: World) -> None:
    a, b = world.session(), world.session()
    await world.turn(a, "u1", "a1", meanwhile=lambda: world.add(b, "b1"))


@ordering("B appends while A's compaction, asked for by hand, waits for the provider", "#4679", ours="`S(u1 a1) b1`")
async def append_during(world: World) -> None:
    await _during(world, lambda b: world.add(b, "b1"))


async def _during(world: World, act: Callable[[Any], Awaitable[Any]]) -> None:
    provider = world.provider(waits=True)
    a, b = world.session(provider), world.session()
    await world.add(a, "u1", "a1")
    await _stale(world, a, provider, lambda: act(b))


@ordering("The same, and B is another process", "#4680", ours="`S(u1 a1) b1`")
async def append_elsewhere(world: World) -> None:
    provider = world.provider(waits=True)
    a = world.session(provider)
    await world.add(a, "u1", "a1")

    async def elsewhere() -> None:
        await world.elsewhere("append", ["b1"])
        world.appended.append("b1")

    await while_it_works(a.run_compaction(FORCED), provider, elsewhere)


@ordering("The same, and the compaction is the run's own", "#4679, #5103", ours="`S(u1 a1) b1`")
async def append_during_a_runs(world: World) -> None:
    provider = world.provider(waits=True)
    a, b = world.session(provider), world.session()
    await whole(world.turn(a, "u1", "a1"), provider, lambda: world.add(b, "b1"))


@ordering("The same, and B uses A's own object", "#4736", ours="`S(u1 a1) b1`")
async def append_on_the_same_object(world: World) -> None:
    provider = world.provider(waits=True)
    a = world.session(provider)
    await world.add(a, "u1", "a1")
    appending: list[asyncio.Task[None]] = []

    async def append() -> None:
        task = asyncio.ensure_future(world.add(a, "b1"))
        appending.append(task)
        while not task.done() and not _queued(a):  # noqa: ASYNC110 - a lock of the SDK's tells nobody who waits
            await asyncio.sleep(0)
        if not task.done():
            world.notes.append("B waits as long as the provider works")

    await while_it_works(a.run_compaction(FORCED), provider, append)
    await appending[0]


def _queued(session: Any) -> bool:
    """Tell whether somebody waits for the lock of the SDK's wrapper."""
    return bool(getattr(getattr(session, "_mutation_lock", None), "_waiters", None))


@ordering("B clears while A's compaction, asked for by hand, waits for the provider", "#4679", ours="nothing")
async def clear_during(world: World) -> None:
    await _during(world, world.clear)


@ordering("B clears, and appends again, while the compaction of A's run waits", "#4679", ours="`b1`")
async def clear_during_a_runs(world: World) -> None:
    provider = world.provider(waits=True)
    a, b = world.session(provider), world.session()

    async def anew() -> None:
        world.appended += ["u1", "a1"]
        await world.clear(b)
        await world.add(b, "b1")

    await whole(world.turn(a, "u1", "a1"), provider, anew)


@ordering("B pops while A's compaction, asked for by hand, waits for the provider", "#4680", ours="`u1`")
async def pop_during(world: World) -> None:
    await _during(world, world.pop)


@ordering("A and B compact an empty history, by hand, at once", "#4680", ours="nothing")
async def two_on_empty(world: World) -> None:
    await _two_at_once(world, between=None)


@ordering("A compacts an empty history; B appends and clears meanwhile", "#4680", ours="nothing")
async def empty_and_cleared(world: World) -> None:
    provider = world.provider(waits=True)
    a, b = world.session(provider), world.session()

    async def act() -> None:
        await world.add(b, "b1")
        await world.clear(b)

    await _stale(world, a, provider, act)


@ordering("A and B compact by hand at once; B's provider answers first", "#4680", ours="`S(u1 a1)`")
async def two_at_once(world: World) -> None:
    await world.add(world.session(), "u1", "a1")
    await _two_at_once(world, between=None)


@ordering("The same, and B appended after A had read", "#4680", ours="`S(u1 a1 b1)`")
async def two_at_once_and_an_append(world: World) -> None:
    await world.add(world.session(), "u1", "a1")
    await _two_at_once(world, between="b1")


async def _two_at_once(world: World, between: str | None) -> None:
    late = world.provider(waits=True)
    a, b = world.session(late), world.session()

    async def second() -> None:
        if between:
            await world.add(b, between)
        await b.run_compaction(FORCED)

    await _stale(world, a, late, second)


async def _stale(world: World, session: Any, provider: Any, act: Any) -> None:
    raised = await while_it_works(session.run_compaction(FORCED), provider, act)
    if raised is not None:
        world.notes.append(f"A gets {type(raised).__name__}")


@ordering(
    "B clears and appends again; A compacts by hand with what its object remembers of its last response",
    "#4864",
    ours="`S(b1)`",
)
async def remembered_response(world: World) -> None:
    a, b = world.session(trigger=False), world.session()
    await world.turn(a, "u1", "a1")
    await world.clear(b)
    await world.add(b, "b1")
    await a.run_compaction(FORCED)


@ordering(
    "A's response, B pops it; A compacts by hand from that response",
    "#4864, #4680",
    ours="`u1`; A gets CompactionRefusedError",
)
async def response_popped(world: World) -> None:
    a, b = world.session(trigger=False), world.session()
    await world.turn(a, "u1", "a1")
    await world.pop(b)
    try:
        await a.run_compaction({"force": True, "response_id": "r1", "compaction_mode": "previous_response_id"})
    except ValueError as error:
        world.notes.append(f"A gets {type(error).__name__}")
