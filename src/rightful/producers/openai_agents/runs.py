"""What is known of the runs on a session: how far each is, what it has read, and what it appended itself.

The SDK gives one and the same `RunContextWrapper` to every call of a run, if all four methods of a session take
a keyword `wrapper` (openai-agents-python#4209). It is what a run is known by here; calls by hand, without one,
are a run of the session's own.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rightful.identity import composite_key

if TYPE_CHECKING:
    from agents import RunContextWrapper

    from rightful.parts import ItemId
    from rightful.tokens import Token


class Calls:
    """The calls that change a history, counted.

    Attributes:
        run: The key under which they are made.
        given: Whether the caller gave that key, so that the same calls may have been made before.
        next: How many there were.
    """

    __slots__ = ("given", "next", "run")

    def __init__(self, run: str | None = None) -> None:
        self.given = run is not None
        self.run = uuid.uuid4().hex if run is None else run
        self.next = 0

    def key(self) -> str:
        """Return the key of the call to come."""
        return composite_key(self.run, self.next)


class Run:
    """One run on a session. Only the session's line changes it, so no lock is needed.

    Attributes:
        calls: Its calls that change the history.
        token: What it read last and has appended since; None if it has done neither.
        ids: The ids of the items that it read last.
        items: Those items, as they were handed out.
        usage: What it had used when it was last looked at; None if it never was.
    """

    __slots__ = ("__weakref__", "calls", "ids", "items", "token", "usage")

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.token: Token | None = None
        self.ids: list[ItemId] = []
        self.items: list[Any] = []
        self.usage: dict[str, Any] | None = None

    def without(self) -> tuple[str, int] | None:
        """Return what the run's view leaves out: what an earlier attempt did after this point; None if nothing."""
        return (self.calls.run, self.calls.next) if self.calls.given else None


class Runs:
    """The runs on one session.

    Args:
        key: The key that all of them share, as the caller gave it; each gets one of its own if None.
    """

    def __init__(self, key: str | None) -> None:
        self._shared = None if key is None else Calls(key)
        self._by_hand = Run(self._shared or Calls())
        self._of: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, wrapper: RunContextWrapper[Any] | None) -> Run:
        """Return the run that a wrapper belongs to; without one, that of the calls made by hand."""
        if wrapper is None:
            return self._by_hand
        with self._lock:
            run = self._of.get(wrapper)
            if run is None:
                run = self._of[wrapper] = Run(self._shared or Calls())
        return run
