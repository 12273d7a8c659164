"""What is known of the runs on a session: how far each is, what it has read, and what it appended itself.

The SDK gives one and the same `RunContextWrapper` to every call of a run, if all four methods of a session take
a keyword `wrapper` (openai-agents-python#4209). It is what a run is known by here; calls by hand, without one,
are a run of the session's own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rightful.identity import composite_key
from rightful.tokens import Without

if TYPE_CHECKING:
    from agents import RunContextWrapper

    from rightful.field_types import ItemId
    from rightful.integrations.openai_agents.compaction.model_input import Exchange, Mark, Marker
    from rightful.tokens import Token

_MARKS = 50_000
"""How many marks are kept, of a view that has fewer than half as many; about 300 bytes each."""


class Calls:
    """The calls that change a history, counted.

    Attributes:
        run: The key under which they are made.
        given: Whether the caller gave that key, so that the same calls may have been made before.
        next: How many there were.
        compactions: How many compactions were made, or found again, since the last of them.
    """

    __slots__ = ("compactions", "given", "next", "run")

    def __init__(self, run: str | None = None) -> None:
        self.given = run is not None
        self.run = uuid.uuid4().hex if run is None else run
        self.next = 0
        self.compactions = 0

    def count(self) -> None:
        """Count a call that changed the history."""
        self.next += 1
        self.compactions = 0

    def key(self) -> str:
        """Return the key of the call to come."""
        return composite_key(self.run, self.next)


class Marks:
    """The marks of the items of one session: what an id names never changes, so each is made once a session."""

    def __init__(self) -> None:
        self._by: WeakKeyDictionary[Marker, dict[ItemId, Mark | None]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, ids: Sequence[ItemId], items: Sequence[Any], marker: Marker) -> list[Mark | None]:
        """Return the mark of each item of a view."""
        with self._lock:
            made = self._by.setdefault(marker, {})
            for item_id, item in zip(ids, items, strict=True):
                if item_id not in made:
                    made[item_id] = marker(item)
            if len(made) > max(_MARKS, 2 * len(ids)):
                made = self._by[marker] = {item_id: made[item_id] for item_id in ids}
            return [made[item_id] for item_id in ids]


class Run:
    """One run on a session. Only the session's line changes it, so no lock is needed.

    Attributes:
        calls: Its calls that change the history.
        token: What it read last and has appended since; None if it has done neither.
        usage: What it had used when it was last looked at; None if it never was.
        known: The ids of all that it has read and appended, and of what its own compactions left; None by hand.
        asked: What its model was sent last, while the response is awaited; only hooks tell it.
        exchange: Its last request that was answered, as hooks told it; None if it failed, or there are no hooks.
        noted: What the SDK noted of its last request, and the exchange that was made of that.
        marks: The marks of the session's items, which all its runs share.
    """

    __slots__ = (
        "__weakref__",
        "asked",
        "calls",
        "exchange",
        "known",
        "marks",
        "noted",
        "token",
        "usage",
    )

    def __init__(self, calls: Calls, marks: Marks) -> None:
        self.calls = calls
        self.marks = marks
        self.token: Token | None = None
        self.usage: dict[str, Any] | None = None
        self.known: set[ItemId] | None = set()
        self.asked: list[Any] | None = None
        self.exchange: Exchange | None = None
        self.noted: tuple[object, Exchange | None] = (None, None)

    def knows(self, ids: Iterable[ItemId]) -> None:
        """Note items that it has read or appended."""
        if self.known is not None:
            self.known.update(ids)

    def wrote(self, token: Token) -> None:
        """Note a batch that it appended. Calls by hand keep what they read: they may be many, and prove nothing."""
        if self.known is None:
            return
        before = 0 if self.token is None else len(self.token.wrote)
        self.token = token
        self.knows((wrote.id, at) for wrote in token.wrote[before:] for at in range(wrote.count))

    def without(self) -> Without | None:
        """Return what the run's view omits: what an earlier attempt did after this point; None if nothing."""
        calls = self.calls
        return Without(calls.run, calls.next, calls.compactions) if calls.given else None


class Runs:
    """The runs on one session.

    Args:
        key: The key that all of them share, as the caller gave it; each gets one of its own if None.
    """

    def __init__(self, key: str | None) -> None:
        self._shared = None if key is None else Calls(key)
        self._marks = Marks()
        self._by_hand = Run(self._shared or Calls(), self._marks)
        self._by_hand.known = None  # calls by hand prove nothing: no model is behind them
        self._of: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, wrapper: RunContextWrapper[Any] | None) -> Run:
        """Return the run that a wrapper belongs to; without one, that of the calls made by hand."""
        if wrapper is None:
            return self._by_hand
        with self._lock:
            run = self._of.get(wrapper)
            if run is None:
                run = self._of[wrapper] = Run(self._shared or Calls(), self._marks)
        return run
