"""A session for the OpenAI Agents SDK that deletes nothing (`openai-agents`, the extra of that name).

    from rightful.producers.openai_agents import LedgerSession

    session = LedgerSession("chat-1", "agents.rightful")
    result = await Runner.run(agent, "Hello", session=session)

Nothing else in Rightful imports the SDK.
"""

from __future__ import annotations

try:
    from rightful.producers.openai_agents.session import LedgerSession
except ImportError as error:
    if str(error.name).partition(".")[0] != "agents":
        raise
    raise ImportError(
        "LedgerSession needs the OpenAI Agents SDK, the package openai-agents from 0.24 on, and it is not installed, "
        f"is older, or another module `agents` is in its place ({error}). "
        "Install it with: pip install '/path/to/the/clone[openai-agents]'",
        name=error.name,
    ) from error

__all__ = ["LedgerSession"]
