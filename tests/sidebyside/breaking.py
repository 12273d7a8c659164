"""Orderings in which something breaks: a process, a task, a read, an acknowledgement."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sidebyside.kinds import OURS
from tests.sidebyside.orderings import ordering
from tests.sidebyside.saying import names
from tests.sidebyside.world import FORCED, Outcome, World

from rightful.errors import StorageError

FEWEST = 2
"""Fewer repetitions than any store's; fewer would mean that its writes are not seen."""

WRITES = 400
"""More writes than a compaction makes; the last one shows that it ends by itself."""


@ordering("A compaction by hand is killed, at each of its writes", "#3116", ours="`u1 a1` or `S(u1 a1)`")
async def killed(world: World) -> Outcome:
    return await _killed(world, "compact")


@ordering("The compaction of a run is killed, at each of its writes", "#3116", ours="`u1 a1` or `S(u1 a1)`")
async def killed_in_a_run(world: World) -> Outcome:
    return await _killed(world, "turn_and_compact")


async def _killed(world: World, task: str) -> Outcome:
    """Return the worst of what is kept, and under `visible` all that was ever seen."""
    found: list[Outcome] = []
    for at in range(1, WRITES):
        folder = world.folder / str(at)
        folder.mkdir()
        there = World(world.kind, folder, world.far, appended=["u1", "a1"])
        ended = await there.elsewhere(task, at)
        found.append(await there.outcome())
        there.close()
        if ended.code == 0:
            break
    assert len(found) > FEWEST, "it was not killed at its writes"
    seen = " or ".join(sorted({_shown(one) for one in found}, reverse=True))
    worst = max(found, key=lambda one: (len(one.lost), len(one.gone)))
    return dataclasses.replace(worst, seen=seen)


def _shown(one: Outcome) -> str:
    return f"`{' '.join(one.visible)}`" if one.visible else "nothing"


@ordering(
    "A compaction by hand is cancelled twice while the provider works; then B appends", "#4680", ours="`u1 a1 b1`"
)
async def cancelled_twice(world: World) -> None:
    provider = world.provider(waits=True)
    a = world.session(provider)
    await world.add(a, "u1", "a1")
    working = asyncio.ensure_future(a.run_compaction(FORCED))
    await provider.asked.wait()
    await _cancel_twice(working)
    await world.add(world.session(), "b1")


@ordering("A compaction is cancelled twice while it writes; then B appends", "#4680", ours="`S(u1 a1) b1`")
async def cancelled_writing(world: World) -> None:
    provider = world.provider()
    a = world.session(provider)
    await world.add(a, "u1", "a1")
    working = asyncio.ensure_future(a.run_compaction(FORCED))
    await _entered(world, a, working)
    await _cancel_twice(working)
    await world.add(world.session(), "b1")


async def _entered(world: World, session: Any, working: asyncio.Future[Any]) -> None:
    """Wait until the first write of the replacement has begun."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    owner, verb = (world.ledger(), "compact") if world.kind == OURS else (session.underlying_session, "clear_session")
    before = getattr(owner, verb)

    def entering(*arguments: Any, **more: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        return before(*arguments, **more)

    setattr(owner, verb, entering)
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait([waiting, working], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@ordering("An append is cancelled twice", "#1658", ours="`u1`")
async def append_cancelled(world: World) -> None:
    a = world.session()
    appending = asyncio.ensure_future(world.add(a, "u1"))
    await asyncio.sleep(0)
    await _cancel_twice(appending)
    world.appended += names(await a.get_items())


async def _cancel_twice(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@ordering(
    "A run appends, and the read for its compaction fails; then B appends, and a next run compacts",
    "#4680",
    ours="`S(u1 a1 b1 u2 a2)`; the run fails",
)
async def failed_read(world: World) -> None:
    a = world.session()
    compacting = a.run_compaction

    async def failing(args: Any = None, *, wrapper: Any = None) -> None:
        a.run_compaction = compacting
        with_failing_reads = _failing_reads(world, a)
        try:
            await compacting(args, wrapper=wrapper)
        finally:
            with_failing_reads()

    a.run_compaction = failing
    try:
        await world.turn(a, "u1", "a1")
    except (OSError, StorageError):
        world.appended += ["u1", "a1"]
        world.notes.append("the run fails")
    await world.add(world.session(), "b1")
    await world.turn(world.session(), "u2", "a2", response="r2")


def _failing_reads(world: World, session: Any) -> Callable[[], None]:
    """Let all reads of the store fail; return what ends it."""
    owner: Any = world.ledger() if world.kind == OURS else session.underlying_session
    verb = "history" if world.kind == OURS else "get_items"

    def broken(*_arguments: Any, **_more: Any) -> Any:
        raise OSError(5, "Input/output error")

    setattr(owner, verb, broken)
    return lambda: delattr(owner, verb)


@ordering(
    "A run's last append is made and its acknowledgement lost; the caller repeats the whole turn",
    "#1699, #4685",
    ours="`u1 a1`",
)
async def lost_acknowledgement(world: World) -> None:
    await _unacknowledged(world, "a1")
    await world.turn(world.session(trigger=False, run_key="turn-1"), "u1", "a1")


@ordering(
    "The same, and the second time the model answers something else",
    "#4646, #4690",
    ours="`u1 a1`; the run gets RunDiffersError",
)
async def another_answer(world: World) -> None:
    await _unacknowledged(world, "a1")
    try:
        await world.turn(world.session(trigger=False, run_key="turn-1"), "u1", "a2")
    except Exception as error:  # noqa: BLE001 - whatever it is, is told
        world.notes.append(f"the run gets {type(error).__name__}")


async def _unacknowledged(world: World, answer: str) -> None:
    a = world.session(trigger=False, run_key="turn-1")
    append: Callable[..., Coroutine[Any, Any, None]] = a.add_items

    async def unanswered(items: list[Any], **more: Any) -> None:
        await append(items, **more)
        if answer in names(items):
            raise ConnectionError("the connection was lost")

    wrapped = _with_signature(unanswered, world.kind == OURS)
    a.add_items = wrapped
    try:
        await world.turn(a, "u1", answer)
    except ConnectionError:
        world.appended += ["u1", answer]


def _with_signature(call: Any, wrapper: bool) -> Any:
    """Return the call as one that takes what the SDK looks for: a parameter named `wrapper`, or none."""
    if not wrapper:
        return call

    async def add_items(items: list[Any], *, wrapper: Any = None) -> None:
        await call(items, wrapper=wrapper)

    return add_items
