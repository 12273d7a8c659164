"""A provider that compacts: it answers when it is let, and says in its answer what it was given."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.sidebyside.saying import names, summary


class Provider:
    """Stands where an `AsyncOpenAI` client stands.

    Args:
        server: What each response was made from, with its own output: names by response id.
        waits: Whether an answer waits for `answer`.

    Attributes:
        asked: Set when it is asked.
        answer: Set it to let it answer.
        given: What it was given, for each question.
    """

    def __init__(self, server: dict[str, list[str]], *, waits: bool = False) -> None:
        self.responses = self
        self.asked, self.answer = asyncio.Event(), asyncio.Event()
        self.given: list[list[str]] = []
        self._server = server
        if not waits:
            self.answer.set()

    async def compact(
        self,
        *,
        model: str,
        input: Any = None,  # noqa: A002 - the provider's own name
        previous_response_id: str | None = None,
        **_more: Any,
    ) -> Any:
        """Return one summary of the input, or of what the response was made from and said."""
        given = names(input) if input is not None else self._server[previous_response_id or ""]
        self.given.append(given)
        self.asked.set()
        await self.answer.wait()
        return SimpleNamespace(id="resp_compact", output=[summary(given)], usage=None)
