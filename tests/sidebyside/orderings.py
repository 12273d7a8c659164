"""The list of orderings: each is played on every store, and says what our session must keep."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.sidebyside.world import Outcome, World

Play = Callable[[World], Awaitable[Outcome | None]]

ROOMS = ("together", "alone", "breaking", "resuming")
"""The modules that hold them, in the order of the table."""


class Ordering(NamedTuple):
    """One ordering.

    Attributes:
        name: The name of its function.
        title: What happens, in order.
        upstream: Where it was reported or discussed: numbers of issues and pull requests of the SDK.
        ours: What our session keeps, in the words of the table.
        play: Plays it; returns what was kept, or None if that is what the store shows at the end.
    """

    name: str
    title: str
    upstream: str
    ours: str
    play: Play


FOUND: list[Ordering] = []


def ordering(title: str, upstream: str, *, ours: str) -> Callable[[Play], Play]:
    """Enter a function in the list."""

    def enter(play: Play) -> Play:
        FOUND.append(Ordering(getattr(play, "__name__", ""), title, upstream, ours, play))
        return play

    return enter


def all_orderings() -> list[Ordering]:
    """Return the whole list."""
    for room in ROOMS:
        importlib.import_module(f"tests.sidebyside.{room}")
    return FOUND


async def played(one: Ordering, world: World) -> Outcome:
    """Play an ordering in a world of its own, and return what was kept."""
    try:
        return await one.play(world) or await world.outcome()
    finally:
        world.close()
