"""An app of the SDK in a process of its own: it takes turns on one session, and does as it is told through its pipes.

A line `turn FOLDER SAID ANSWER compacts` is a turn on the store in that folder, which may compact; any other last word
forbids it. It writes `asked` when its provider is asked to compact, and then waits for a line before that answers; and
`done`. `hammer FOLDER NAME COUNT` is so many turns one after the other, without a wait.
"""

from __future__ import annotations

import asyncio
import sys

from tests.sidebyside.kinds import OURS
from tests.sidebyside.provider import Provider
from tests.sidebyside.tasks import world_of
from tests.sidebyside.world import World


class _Piped(Provider):
    """Answers when a line is read."""

    async def compact(self, **asked: object) -> object:
        """Say that it was asked, and wait for a line."""
        _say("asked")
        await asyncio.to_thread(sys.stdin.readline)
        return await super().compact(**asked)  # type: ignore[arg-type]


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def _turn(world: World, said: str, answer: str, compacts: str) -> None:
    session = world.session(_Piped(world.server), trigger=compacts == "compacts")
    await world.turn(session, said, answer, response=f"r-{answer}")


async def _hammer(world: World, name: str, count: str) -> None:
    for number in range(int(count)):
        await world.turn(world.session(), f"u{name}{number}", f"a{name}{number}", response=f"r-{name}{number}")


def main() -> None:
    """Do what the lines say, until there is none."""
    for line in iter(sys.stdin.readline, ""):
        verb, folder, *arguments = line.split()
        world = world_of(OURS, folder)
        asyncio.run(_turn(world, *arguments) if verb == "turn" else _hammer(world, *arguments))
        world.close()
        _say("done")


if __name__ == "__main__":
    main()
