"""A provider that compacts when it is told to, and apps whose models answer with response ids."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from agents import Agent, Runner, RunResult, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails, ResponseUsage

from rightful.events import CompactionDeferred, HistoryCompacted
from rightful.integrations.openai_agents import LedgerSession

SUMMARY = {"type": "compaction", "id": "cmp", "encrypted_content": "secret"}


class Provider:
    """An `AsyncOpenAI` as far as compaction needs one.

    Attributes:
        asked: What each request said.
        begun: Set when a request has come.
        gate: What a request waits for before it is answered; open unless closed.
        fails: What a request raises.
        output: What a request is answered with; a summary of its own number if None.
    """

    def __init__(
        self, *, closed: bool = False, fails: Exception | None = None, output: list[Any] | None = None
    ) -> None:
        self.asked: list[dict[str, Any]] = []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.fails, self.output = fails, output
        self.responses = SimpleNamespace(compact=self._compact)
        if not closed:
            self.gate.set()

    async def _compact(self, **asked: Any) -> Any:
        self.asked.append(asked)
        self.begun.set()
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        usage = ResponseUsage(
            input_tokens=7,
            output_tokens=2,
            total_tokens=9,
            input_tokens_details=InputTokensDetails(cached_tokens=3, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=1),
        )
        output = [summary(len(self.asked))] if self.output is None else self.output
        return SimpleNamespace(output=output, usage=usage)


def summary(number: int) -> Any:
    return {**SUMMARY, "id": f"cmp-{number}"}


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@function_tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@function_tool(needs_approval=True)
def delete(what: str) -> str:
    """Delete something."""
    return f"deleted {what}"


def says(text: str, response_id: str | None = "auto", tokens: int = 10) -> ModelStep:
    usage = Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1)
    said = f"resp-{text}" if response_id == "auto" else response_id
    return ModelStep(output=[assistant_message(text, item_id=f"msg-{text}")], usage=usage, response_id=said)


def calls(*whats: str, tool: str = "look") -> ModelStep:
    made = [function_call(tool, {"what": what}, call_id=f"call-{what}") for what in whats]
    return ModelStep(output=made, response_id=f"resp-{'-'.join(whats)}")


def app(*steps: ModelStep, name: str = "Looker") -> Agent[Any]:
    return Agent(name=name, model=ScriptedModel(steps), tools=[look, delete])


def always(_: dict[str, Any]) -> bool:
    return True


def never(_: dict[str, Any]) -> bool:
    return False


def kinds(items: list[Any]) -> list[str]:
    """Return items in short: a text by its words, others by type and call."""
    return [_kind(item) for item in items]


def _kind(item: dict[str, Any]) -> str:
    if item.get("type") == "compaction":
        return str(item["id"])
    if "role" in item:
        content = item["content"]
        return content if isinstance(content, str) else str(content[0]["text"])
    return f"{item['type']} {item.get('call_id') or item.get('id')}"


def compacted(session: LedgerSession) -> list[HistoryCompacted]:
    rows = session.ledger.read(session=session.name, types=["history.compacted"])
    return [row.event for row in rows if isinstance(row.event, HistoryCompacted)]


def deferred(session: LedgerSession) -> list[CompactionDeferred]:
    rows = session.ledger.read(session=session.name, types=["compaction.deferred"])
    return [row.event for row in rows if isinstance(row.event, CompactionDeferred)]


def shown(session: LedgerSession) -> list[str]:
    return kinds(session.ledger.history(session.name).items)


def everything(session: LedgerSession) -> list[str]:
    return kinds([entry.item for entry in session.ledger.full_history(session.name).entries])


async def run(agent: Agent[Any], text: Any, session: LedgerSession, *, hooked: bool = True, **more: Any) -> RunResult:
    hooks = session.hooks() if hooked else None
    return await Runner.run(agent, text, session=session, hooks=hooks, **more)
