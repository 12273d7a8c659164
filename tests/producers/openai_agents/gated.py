"""A ledger whose calls wait at a gate, so that a test decides what happens while they are on their way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rightful.app import Ledger


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
        real: Callable[..., Any] = getattr(ledger, method)

        def held(*args: Any, **kwargs: Any) -> Any:
            self.entered.set()
            assert self.open.wait(60)
            return real(*args, **kwargs)

        monkeypatch.setattr(ledger, method, held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, 60)
