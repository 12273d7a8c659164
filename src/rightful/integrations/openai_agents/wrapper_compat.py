"""What the SDK's own compaction wrapper looks for on the store that it wraps, so that it can use ours safely.

`LedgerSession.run_compaction` is the supported way to compact. Who has wrapped a store in the SDK's
`OpenAIResponsesCompactionSession` already can wrap this one as well: that class asks the store for three private
operations and falls back to reading all, clearing and adding where it finds none. They are offered only to the
versions of the SDK that they were tested with; without them the wrapper's own way loses nothing either, since
clearing deletes nothing, but what others append meanwhile leaves the view.

Nothing is deleted here. What the wrapper calls a replacement is one conditional compaction, which covers what the
wrapper has read and nothing that came after.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rightful.errors import StaleTokenError, UsageError
from rightful.integrations.openai_agents.call_queue import Line, answered, settled
from rightful.integrations.openai_agents.json_items import as_json, count_of

if TYPE_CHECKING:
    from agents.memory import SessionSettings

    from rightful import Ledger
    from rightful.field_types import ItemId
    from rightful.histories.history_model import History
    from rightful.integrations.openai_agents.session_runs import Runs
    from rightful.tokens import Token

Prune = Callable[[Any], bool]
"""Says of an item whether it has expired."""

MODE = "wrapper"
"""How the compaction was done: by the SDK's wrapper, which does not say in which mode of its own."""

_TESTED = "0.24."
_FIELDS = ("items", "complete", "replace_suffix")
_READS = frozenset({"get_items"})
_WRITES = frozenset({"add_items", "pop_item", "clear_session"})
_READ: ContextVar[tuple[int, Token] | None] = ContextVar("rightful_compaction_read", default=None)


def snapshot_type(version: str, module: object) -> Callable[..., Any] | None:
    """Return the SDK's class of snapshots, if this is a version whose private operations are known.

    Args:
        version: The version of the SDK.
        module: Its module `agents.memory.session`.
    """
    found = getattr(module, "_CompactionSnapshot", None)
    if not version.startswith(_TESTED) or not isinstance(found, type) or not dataclasses.is_dataclass(found):
        return None
    return found if tuple(field.name for field in dataclasses.fields(found)) == _FIELDS else None


def _installed() -> Callable[..., Any] | None:
    try:
        version = importlib.metadata.version("openai-agents")
        return snapshot_type(version, importlib.import_module("agents.memory.session"))
    except ImportError:
        return None


_SNAPSHOT = _installed()


class _Shims:
    """The operations, for a session that keeps its items as `LedgerSession` does."""

    _ledger: Ledger
    _name: str
    _line: Line
    _runs: Runs
    session_settings: SessionSettings | None

    async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Prune | None = None) -> Any:  # noqa: ANN401 - the SDK's own class
        """Return the last items and a way to replace the end of them; None where that would not be safe.

        Args:
            limit: How many items, whatever the session's own limit is.
            prune_prefix: Says which items at the very beginning have expired; they leave the view as well.
        """
        if _SNAPSHOT is None or not _is_own(self, _WRITES):
            return None
        read = await answered(self._line.put(lambda: self._view(count_of(limit + 1, None))))
        first = max(len(read.ids) - limit, 0)
        ids = read.ids[first:]

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            expected, put = ids[start:], as_json(output)
            return bool(expected) and await settled(
                self._line.put(lambda: self._replace_end(expected, put, prune_prefix))
            )

        return _SNAPSHOT(read.items[first:], not first, replace_suffix)

    @property
    def _read_compaction_items(self) -> Callable[[int | None], Awaitable[tuple[list[Any], bool]]]:
        """What a compaction reads with, instead of what the wrapper remembers.

        Raises:
            AttributeError: That would not be safe, so the wrapper is to find nothing here.
        """
        if not _is_own(self, _READS | _WRITES):
            raise AttributeError("_read_compaction_items")
        return self._read_to_compact

    async def _read_to_compact(self, limit: int | None) -> tuple[list[Any], bool]:
        """Return what a compaction reads and whether that is all; a replacement after it covers just this."""
        wanted = count_of(limit, self.session_settings)
        read = await answered(self._line.put(lambda: self._view(wanted)))
        _READ.set((id(self), read.token))
        return read.items, limit is not None and len(read.items) < limit

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """Let what the compaction has read give way to its output; False where that is not ours to do.

        Raises:
            StaleTokenError: The history was popped, cleared or compacted since. Nothing was written.
        """
        if not _is_own(self, _READS | _WRITES):
            return False
        put, read = as_json(items), _READ.get()
        token = read[1] if read is not None and read[0] == id(self) else None
        await settled(self._line.put(lambda: self._replace_read(token, put)))
        return True

    # -- in the line -----------------------------------------------------------------------

    def _view(self, limit: int | None) -> History:
        return self._ledger.history(self._name, limit, without=self._runs.of(None).without())

    def _replace_read(self, token: Token | None, put: list[Any]) -> None:
        self._compact_read(token or self._view(None).token, put, None)

    def _compact_read(self, token: Token, put: list[Any], covers: list[ItemId] | None) -> None:
        calls = self._runs.of(None).calls
        self._ledger.compact(token, put, covers, mode=MODE, run=calls.run, ordinal=calls.next)
        calls.compactions += 1

    def _replace_end(self, expected: list[ItemId], put: list[Any], expired: Prune | None) -> bool:
        """Replace items if they still are the last ones: the wrapper asks for nothing less."""
        token = self._view(len(expected)).token  # of as many items: whatever else is last now, one of them is not in it
        try:
            self._compact_read(token, put, expected)
        except (StaleTokenError, UsageError):  # not the last any more, or a call would part from its output
            return False
        if expired is not None:
            self._take_out(expired)
        return True

    def _take_out(self, expired: Prune) -> None:
        """Let the view begin after what has expired. Readers that know of it do not see it anyway."""
        view = self._view(None)
        kept = next((at for at, item in enumerate(view.items) if not expired(item)), len(view.ids))
        if kept:
            try:
                self._ledger.compact(view.token, [], view.ids[:kept], mode="expired")
            except (StaleTokenError, UsageError):
                return


def _is_own(session: object, called: frozenset[str]) -> bool:
    """Whether a session does all four things as `LedgerSession` does.

    A subclass that changes one of them, or an object of which a method that would be called was replaced, must not be
    passed by: it may keep an index, or transform what it stores.
    """
    from rightful.integrations.openai_agents.ledger_session import LedgerSession

    own = all(getattr(type(session), name) is getattr(LedgerSession, name) for name in _READS | _WRITES)
    return own and not vars(session).keys() & called


class _NoShims:
    """What another version of the SDK finds: nothing, so that it goes its own way."""


if TYPE_CHECKING:
    Shims = _Shims
else:
    Shims = _Shims if _SNAPSHOT else _NoShims
