"""Calls of a session load no module: an exception thrown into a thread during an import can block later imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CALLS = """
import asyncio, sys
from types import SimpleNamespace
from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message
from rightful.integrations.openai_agents import LedgerSession

class Summariser:
    def __init__(self):
        self.responses = SimpleNamespace(compact=self.compact)

    async def compact(self, **request):
        return SimpleNamespace(output=[{"type": "compaction", "encrypted_content": "x"}], usage=None)

async def calls():
    async with LedgerSession("s", sys.argv[1], client=Summariser()) as session:
        await session.get_items()
        await session.add_items([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        await session.run_compaction({"force": True})
        model = ScriptedModel([[assistant_message("c")]])
        quiet = RunConfig(tracing_disabled=True)
        await Runner.run(Agent(name="A", model=model), "d", session=session, hooks=session.hooks(), run_config=quiet)
        await session.full_history()
        await session.events()
        await session.fork()
        await session.pop_item()
        await session.clear_session()

loaded = set(sys.modules)
asyncio.run(calls())
print(*sorted(name for name in set(sys.modules) - loaded if name.startswith("rightful")))
"""


def test_first_calls_of_a_session_load_no_module_of_rightful(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CALLS, str(tmp_path / "ledger")]

    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stdout.split() == []
