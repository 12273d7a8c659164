"""An app that is killed and tried again: `retrying.py ATTEMPT…`, each in a process of its own.

An attempt is a JSON array: the ledger, the call that adds to the session in which it dies (from 0; null if in
none), and what it says at last. It dies by SIGKILL: the ledger has written it, the run has not been told. Of each
attempt a line is printed: what it told, and how it ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from agents import Agent, Runner
from agents.testing import ScriptedModel
from agents.tracing import set_trace_processors
from tests.integrations.openai_agents.apps import add, adds, says

from rightful.errors import RightfulError
from rightful.integrations.openai_agents import LedgerSession


class Mortal(LedgerSession):
    """Dies between the answer of the ledger and its own."""

    left = 0

    def _append(self, *args: Any) -> None:
        super()._append(*args)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def play(ledger: str, dies_at: int | None, text: str) -> str:
    model = ScriptedModel([adds((1, 2), (3, 4)), says("3 and 7"), says("bye")])
    agent = Agent(name="Adder", model=model, tools=[add])
    async with Mortal("chat", ledger, run_key="job-7") as session:
        session.left = 0 if dies_at is None else dies_at + 1
        try:
            await Runner.run(agent, "Add", session=session)
            await Runner.run(agent, text, session=session)
        except RightfulError as error:
            return json.dumps(type(error).__name__)
        left = await session.get_items()
    return json.dumps({"sent": [call.input for call in model.calls], "left": left})


def attempt(ledger: str, dies_at: int | None, text: str) -> None:
    """Play in a child, which has a memory of its own; nothing was opened here before."""
    if child := os.fork():
        print("", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201
    else:
        print(asyncio.run(play(ledger, dies_at, text)), end="", flush=True)  # noqa: T201
        os._exit(0)


if __name__ == "__main__":
    set_trace_processors([])
    for one in sys.argv[1:]:
        attempt(*json.loads(one))
