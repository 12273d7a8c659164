"""A session for the OpenAI Agents SDK that deletes nothing (`openai-agents`, the extra of that name).

    from rightful.producers.openai_agents import LedgerSession

    session = LedgerSession("chat-1", "agents.rightful")
    result = await Runner.run(agent, "Hello", session=session)

Nothing else in Rightful imports the SDK.
"""

from __future__ import annotations

from rightful.producers.openai_agents.session import LedgerSession

__all__ = ["LedgerSession"]
