"""Apps of the OpenAI Agents SDK, played by its own test model: each returns what its models were sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    function_tool,
    handoff,
)
from agents.memory import Session
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage

App = Callable[[Session], Coroutine[Any, Any, list[Any]]]


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def step(*output: Any, requests: int = 1, tokens: int = 10) -> ModelStep:
    usage = Usage(requests=requests, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1)
    return ModelStep(output=list(output), usage=usage)


def says(text: str) -> ModelStep:
    return step(assistant_message(text, item_id=f"msg-{text}"))


def adds(*pairs: tuple[int, int], of: str = "call") -> ModelStep:
    calls = [function_call("add", {"a": a, "b": b}, call_id=f"{of}-{at}") for at, (a, b) in enumerate(pairs)]
    return step(*calls)


def sent(*models: ScriptedModel) -> list[Any]:
    return [call.input for model in models for call in model.calls]


async def tools(session: Session) -> list[Any]:
    """Two tools at once, an answer, and a second question."""
    model = ScriptedModel([adds((1, 2), (3, 4)), says("3 and 7"), says("bye")])
    agent = Agent(name="Adder", model=model, tools=[add])
    await Runner.run(agent, "Add 1 and 2, 3 and 4", session=session)
    await Runner.run(agent, "Bye", session=session)
    return sent(model)


async def streamed(session: Session) -> list[Any]:
    model = ScriptedModel([adds((1, 2)), says("3")])
    result = Runner.run_streamed(Agent(name="Adder", model=model, tools=[add]), "Add", session=session)
    async for _ in result.stream_events():
        pass
    return sent(model)


def _handing(config: dict[str, Any], **options: Any) -> App:
    async def app(session: Session) -> list[Any]:
        expert = ScriptedModel([says("hola"), says("otra vez")])
        front = ScriptedModel([adds((1, 2)), step(function_call("transfer_to_expert", {}, call_id="handed"))])
        second = Agent(name="expert", model=expert)
        first = Agent(name="front", model=front, tools=[add], handoffs=[handoff(second, **options)])
        await Runner.run(first, "Hello", session=session, run_config=RunConfig(**config))
        await Runner.run(second, "Again", session=session)
        return sent(front, expert)

    return app


def _without_tools(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=data.input_history, pre_handoff_items=(), new_items=())


async def input_guardrail(session: Session) -> list[Any]:
    trips = InputGuardrail(lambda *_: GuardrailFunctionOutput(output_info=None, tripwire_triggered=True))
    model = ScriptedModel([says("never")])
    with contextlib.suppress(InputGuardrailTripwireTriggered):
        await Runner.run(Agent(name="A", model=model, input_guardrails=[trips]), "Bad", session=session)
    return []


async def output_guardrail(session: Session) -> list[Any]:
    trips = OutputGuardrail(lambda *_: GuardrailFunctionOutput(output_info=None, tripwire_triggered=True))
    model = ScriptedModel([adds((1, 2)), says("bad")])
    with contextlib.suppress(OutputGuardrailTripwireTriggered):
        agent = Agent(name="A", model=model, tools=[add], output_guardrails=[trips])
        await Runner.run(agent, "Hello", session=session)
    return sent(model)


async def max_turns(session: Session) -> list[Any]:
    model = ScriptedModel([adds((1, 2), of="one"), adds((3, 4), of="two"), says("never")])
    with contextlib.suppress(MaxTurnsExceeded):
        await Runner.run(Agent(name="A", model=model, tools=[add]), "Hello", session=session, max_turns=2)
    return sent(model)


async def callback(session: Session) -> list[Any]:
    """Some of the history is hidden from the second run, which must save its own input all the same."""
    model = ScriptedModel([says("one"), says("two"), says("three")])
    agent = Agent(name="A", model=model)
    await Runner.run(agent, "First", session=session)
    only_last = RunConfig(session_input_callback=lambda history, new: [*history[-1:], *new])
    await Runner.run(agent, [{"role": "user", "content": "Second"}], session=session, run_config=only_last)
    await Runner.run(agent, "Third", session=session, run_config=RunConfig(session_settings={"limit": 1}))
    return sent(model)


async def shared(session: Session) -> list[Any]:
    """Two agents take turns on one session."""
    one, two = ScriptedModel([says("a"), says("c")]), ScriptedModel([says("b")])
    await Runner.run(Agent(name="one", model=one), "1", session=session)
    await Runner.run(Agent(name="two", model=two), "2", session=session)
    await Runner.run(Agent(name="one", model=one), "3", session=session)
    return sent(one, two)


async def failing(session: Session) -> list[Any]:
    """The model fails after a tool turn; the next run goes on from there."""
    model = ScriptedModel([adds((1, 2)), ModelStep.raise_error(RuntimeError("overloaded")), says("3")])
    agent = Agent(name="Adder", model=model, tools=[add])
    with contextlib.suppress(RuntimeError):
        await Runner.run(agent, "Add", session=session)
    await Runner.run(agent, "Go on", session=session)
    return sent(model)


async def stopped(session: Session) -> list[Any]:
    """A streamed run is stopped after its first turn."""
    model = ScriptedModel([adds((1, 2)), says("never")])
    result = Runner.run_streamed(Agent(name="Adder", model=model, tools=[add]), "Add", session=session)
    async for event in result.stream_events():
        if event.type == "run_item_stream_event":
            result.cancel(mode="after_turn")
    return sent(model)


async def within(session: Session) -> list[Any]:
    """An agent is the tool of another one, on a history of its own."""
    expert, front = ScriptedModel([says("deep")]), ScriptedModel([])
    tool = Agent(name="expert", model=expert).as_tool("ask", "Ask the expert.")
    front.extend([step(function_call("ask", {"input": "why"}, call_id="asked")), says("because")])
    await Runner.run(Agent(name="front", model=front, tools=[tool]), "Why?", session=session)
    return sent(front, expert)


APPS: dict[str, App] = {
    "tools": tools,
    "streamed": streamed,
    "hand-off": _handing({}),
    "hand-off with an input filter": _handing({}, input_filter=_without_tools),
    "nested hand-off history": _handing({"nest_handoff_history": True}),
    "input guardrail": input_guardrail,
    "output guardrail": output_guardrail,
    "max turns": max_turns,
    "input callback and limit": callback,
    "two agents": shared,
    "failing model": failing,
    "stopped stream": stopped,
    "agent as a tool": within,
}
