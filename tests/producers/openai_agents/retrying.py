"""An app that is killed and tried again: `retrying.py LEDGER KEY DIES_AT TEXT`, in a process of its own.

It dies by SIGKILL in the call `DIES_AT` (from 0) that adds to the session: the ledger has written it, the run has
not been told. Otherwise it prints what its model was sent and what is left.
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
from tests.producers.openai_agents.apps import add, adds, says

from rightful.producers.openai_agents import LedgerSession


class Mortal(LedgerSession):
    """Dies between the answer of the ledger and its own."""

    left = -1

    def _append(self, *args: Any) -> None:
        super()._append(*args)
        self.left -= 1
        if self.left == -1:
            os.kill(os.getpid(), signal.SIGKILL)


async def play(ledger: str, key: str, dies_at: int, text: str) -> None:
    model = ScriptedModel([adds((1, 2), (3, 4)), says("3 and 7"), says("bye")])
    agent = Agent(name="Adder", model=model, tools=[add])
    async with Mortal("chat", ledger, run_key=key or None) as session:
        session.left = dies_at if dies_at >= 0 else 1_000
        await Runner.run(agent, "Add", session=session)
        await Runner.run(agent, text, session=session)
        left = await session.get_items()
    print(json.dumps({"sent": [call.input for call in model.calls], "left": left}))  # noqa: T201


if __name__ == "__main__":
    set_trace_processors([])
    asyncio.run(play(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
