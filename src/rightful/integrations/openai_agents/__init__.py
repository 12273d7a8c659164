"""A session for the OpenAI Agents SDK that deletes nothing (`openai-agents`, the extra of that name).

    from rightful.integrations.openai_agents import LedgerSession

    session = LedgerSession("chat-1", "agents.rightful")
    result = await Runner.run(agent, "Hello", session=session)

Nothing else in Rightful imports the SDK.
"""

from __future__ import annotations

import contextlib
import importlib.metadata

FLOOR = (0, 22, 3)
"""The oldest version of the SDK that is accepted.

An older runner does not pass its run to a session's methods. Its calls could not be distinguished from calls
by hand, and would send a history to a provider unasked.
"""


def check_version(version: str) -> None:
    """Refuse a version of the SDK below the floor.

    Raises:
        ImportError: It is older.
    """
    parts = tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
    if parts and parts < FLOOR:
        raise ImportError(
            f"LedgerSession needs openai-agents {'.'.join(map(str, FLOOR))} or newer, but {version} is installed. "
            "No session was created. Upgrade with: pip install --upgrade openai-agents",
            name="agents",
        )


with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # then the import below decides
    check_version(importlib.metadata.version("openai-agents"))

try:
    from rightful.integrations.openai_agents.ledger_session import LedgerSession
except ImportError as error:
    if str(error.name).partition(".")[0] != "agents":
        raise
    raise ImportError(
        "LedgerSession needs the OpenAI Agents SDK (package openai-agents, 0.22.3 or newer). It is not installed, "
        f"is older, or another module named `agents` hides it ({error}). "
        "Install it with: pip install '/path/to/the/clone[openai-agents]'",
        name=error.name,
    ) from error

__all__ = ["LedgerSession"]
