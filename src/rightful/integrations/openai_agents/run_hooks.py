"""Run hooks that record the actual input and output of a run's models. They forward every call to your hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agents import RunHooks

from rightful.integrations.openai_agents import run_facts
from rightful.integrations.openai_agents.compaction.model_input import Exchange, mark

if TYPE_CHECKING:
    from agents import Agent, ModelResponse, RunContextWrapper
    from agents.items import TResponseInputItem

    from rightful.integrations.openai_agents.session_runs import Runs


class RecordingHooks(RunHooks[Any]):
    """Hooks that record each exchange of a run with a model. Get them from `LedgerSession.hooks`.

    They see the input after every filter. It is digested only after the response, since other hooks may change it
    until the request is sent. A request that fails proves nothing. Every call is forwarded to the inner hooks.
    """

    def __init__(self, runs: Runs, inner: RunHooks[Any] | None = None) -> None:
        self.inner = inner
        self._runs = runs

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Remember the input that is about to be sent."""
        run = self._runs.of(context)
        run.exchange, run.pending_input = None, input_items
        if self.inner is not None:
            await self.inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Record the exchange."""
        run = self._runs.of(context)
        sent, run.pending_input = run.pending_input, None
        if sent is not None:
            run.exchange = Exchange(
                seen=tuple(mark(item) for item in [*sent, *response.to_input_items()]),
                response_id=run_facts.valid_word(response.response_id),
                agent=str.__str__(agent.name),
            )
        if self.inner is not None:
            await self.inner.on_llm_end(context, agent, response)


def _forwarding(name: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: RecordingHooks, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any hook's
        if self.inner is None:
            return await getattr(super(RecordingHooks, self), name)(*args, **kwargs)
        return await getattr(self.inner, name)(*args, **kwargs)

    call.__name__ = name
    call.__doc__ = f"Forward `{name}`."
    return call


# By name, so that hooks of newer SDK versions are forwarded too.
for _name in [name for name in dir(RecordingHooks) if name.startswith("on_") and name not in vars(RecordingHooks)]:
    setattr(RecordingHooks, _name, _forwarding(_name))
