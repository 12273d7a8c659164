"""The state of the runs on a session: the number of calls, the items read, and the items appended.

The SDK passes the same `RunContextWrapper` to every call of a run, if all four methods of a session accept a
keyword `wrapper` (openai-agents-python#4209). The wrapper identifies the run here. Calls by hand, without a
wrapper, belong to a run of the session's own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from rightful.identity import composite_key
from rightful.tokens import Without

if TYPE_CHECKING:
    from agents import RunContextWrapper

    from rightful import Ledger
    from rightful.field_types import ItemId
    from rightful.integrations.openai_agents.call_queue import CallQueue
    from rightful.integrations.openai_agents.compaction.model_input import Exchange, Mark, Marker
    from rightful.tokens import Token

_MARKS = 50_000
"""The minimum limit of cached marks, or twice the view's length if that is more; about 300 bytes each."""


class Calls:
    """Counts a run's calls that change a history.

    Attributes:
        run: The run's key.
        given: Whether the caller passed that key, so that the same calls may have been made before.
        next: The number of calls so far, which is the ordinal of the next one.
        compactions: The number of compactions made, or found again, since the last call.
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
        """Return the key of the next call."""
        return composite_key(self.run, self.next)


class Marks:
    """A cache of the marks of a session's items. The item of an id never changes, so each mark is computed once."""

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
    """One run on a session. Only the session's queue changes it, so no lock is needed.

    Attributes:
        calls: Its calls that change the history.
        token: The token of its last read, including its appends since; None without either.
        usage: The token usage at the last check; None before the first one.
        known: The ids of the items that it has read and appended, and of those its own compactions left; None for
            calls by hand.
        pending_input: The input of the request in progress; set only by hooks.
        exchange: The last answered request, as recorded by hooks; None if it failed, or without hooks.
        noted: The SDK's record of the last request, and the exchange created from it.
        marks: The marks of the session's items, shared by all its runs.
    """

    __slots__ = ("__weakref__", "calls", "exchange", "known", "marks", "noted", "pending_input", "token", "usage")

    def __init__(self, calls: Calls, marks: Marks) -> None:
        self.calls = calls
        self.marks = marks
        self.token: Token | None = None
        self.usage: dict[str, Any] | None = None
        self.known: set[ItemId] | None = set()
        self.pending_input: list[Any] | None = None
        self.exchange: Exchange | None = None
        self.noted: tuple[object, Exchange | None] = (None, None)

    def knows(self, ids: Iterable[ItemId]) -> None:
        """Record items that the run has read or appended."""
        if self.known is not None:
            self.known.update(ids)

    def wrote(self, token: Token) -> None:
        """Record an appended batch. Ignored for calls by hand, since they may be many and prove nothing."""
        if self.known is None:
            return
        before = 0 if self.token is None else len(self.token.wrote)
        self.token = token
        self.knows((wrote.id, at) for wrote in token.wrote[before:] for at in range(wrote.count))

    def without(self) -> Without | None:
        """Return what the run's view omits: the calls of an earlier attempt after this point. None without a key."""
        calls = self.calls
        return Without(calls.run, calls.next, calls.compactions) if calls.given else None


class Runs:
    """The runs on one session, with one key that the caller passed, or each with a key of its own."""

    def __init__(self, key: str | None) -> None:
        self._shared = None if key is None else Calls(key)
        self._marks = Marks()
        self._by_hand = Run(self._shared or Calls(), self._marks)
        self._by_hand.known = None  # calls by hand prove nothing, because no model made them
        self._of: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, wrapper: RunContextWrapper[Any] | None) -> Run:
        """Return the run of a wrapper; without one, the run of the calls by hand."""
        if wrapper is None:
            return self._by_hand
        with self._lock:
            if wrapper not in self._of:
                self._of[wrapper] = Run(self._shared or Calls(), self._marks)
            return self._of[wrapper]


class SessionParts(NamedTuple):
    """The objects that a session shares with its compaction and with the operations of the SDK's wrapper."""

    ledger: Ledger
    name: str
    queue: CallQueue
    runs: Runs
