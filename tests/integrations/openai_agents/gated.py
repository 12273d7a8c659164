"""A ledger whose calls wait at a gate, or are made and not answered, as a test decides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rightful.errors import OutcomeUnknownError
from rightful.ledger import Ledger

_WRITES = ("extend", "pop", "clear", "compact", "fork")  # a session calls them on the ledger's histories


class Gate:
    """Holds a method of a ledger back: before it does anything, and after it is done.

    Args:
        monkeypatch: Puts the method back at the end.
        ledger: Whose.
        method: Its name.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, method: str) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        owner: Any = ledger.histories() if method in _WRITES else ledger
        real: Callable[..., Any] = getattr(owner, method)

        def held(*args: Any, **kwargs: Any) -> Any:
            self.entered.set()
            assert self.open.wait(60)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, method, held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, 60)


def lose_answers(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, times: int) -> None:
    """Let the next appends be written and their answers be lost."""
    left, real = iter(range(times)), ledger.log.append

    def lost(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        if next(left, None) is not None:
            raise OutcomeUnknownError(str(ledger.path), (), "the answer was lost")
        return done

    monkeypatch.setattr(ledger.log, "append", lost)
