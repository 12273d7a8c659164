"""Orderings in which a run goes on later: in another object, in another process."""

from __future__ import annotations

from tests.sidebyside.orderings import ordering
from tests.sidebyside.world import World


@ordering(
    "A compaction is owed after a tool's turn; the process is killed; a next run in another process",
    "#4827",
    ours="`S(u1 c1 c1= u2 a2)`",
)
async def owed(world: World) -> None:
    await world.elsewhere("owe")
    world.appended += ["u1", "c1", "c1="]
    await world.elsewhere("next_turn")
    world.appended += ["u2", "a2"]


@ordering("A run pauses for an approval, and a compaction is asked for at the pause", "#4827", ours="`S(u1) c1`")
async def compaction_at_a_pause(world: World) -> None:
    await world.elsewhere("pause", 1)
    world.appended += ["u1", "c1"]


@ordering(
    "A run pauses for an approval; its state is written down; another process resumes and ends it",
    "#4827, js#1842",
    ours="`S(u1 c1 c1= a1)`",
)
async def approval(world: World) -> None:
    state = (await world.elsewhere("pause")).value
    await world.elsewhere("resume", state)
    world.appended += ["u1", "c1", "c1=", "a1"]


@ordering("The same, and B appends during the pause", "#4736, js#1842", ours="`S(u1 c1 c1= a1) b1`")
async def approval_and_an_append(world: World) -> None:
    state = (await world.elsewhere("pause")).value
    await world.add(world.session(), "b1")
    world.close()
    await world.elsewhere("resume", state)
    world.appended += ["u1", "c1", "c1=", "a1"]
