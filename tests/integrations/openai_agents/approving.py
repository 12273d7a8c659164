"""A run that pauses for an approval in one process and goes on in another, with its written state on stdin."""

from __future__ import annotations

import asyncio
import json
import sys

from agents import Agent, Runner, RunState, function_tool
from agents.testing import ScriptedModel, function_call
from agents.tracing import set_trace_processors
from tests.integrations.openai_agents.apps import add, says, step

from rightful.integrations.openai_agents import LedgerSession


@function_tool(needs_approval=True)
def delete(name: str) -> str:
    """Delete something."""
    return f"{name} is gone"


def agent(model: ScriptedModel) -> Agent[None]:
    return Agent(name="Careful", model=model, tools=[add, delete])


async def pause(ledger: str, state: str) -> str:
    """Ask for one call that needs no approval and one that does; return the state, written down."""
    calls = [
        function_call("add", {"a": 1, "b": 2}, call_id="call-add"),
        function_call("delete", {"name": "x"}, call_id="call-delete"),
    ]
    model = ScriptedModel([step(*calls)])
    async with LedgerSession("chat", ledger) as session:
        result = await Runner.run(agent(model), "Delete x", session=session)
        assert [one.raw_item.call_id for one in result.interruptions] == ["call-delete"]  # type: ignore[union-attr]
        return result.to_state().to_string()


async def resume(ledger: str, state: str) -> str:
    """Approve, go on with a session object of this process, and return what the model was then sent."""
    model = ScriptedModel([says("gone")])
    async with LedgerSession("chat", ledger) as session:
        going_on = await RunState.from_string(agent(model), state)
        for interruption in going_on.get_interruptions():
            going_on.approve(interruption)
        result = await Runner.run(agent(model), going_on, session=session)
        left = await session.get_items()
    return json.dumps({"answer": result.final_output, "sent": model.calls[0].input, "left": left})


if __name__ == "__main__":
    set_trace_processors([])
    sys.stdout.write(asyncio.run({"pause": pause, "resume": resume}[sys.argv[1]](sys.argv[2], sys.stdin.read())))
