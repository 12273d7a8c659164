"""The private operations that the SDK's own compaction wrapper looks for on the store that it wraps.

`LedgerSession.run_compaction` is the supported way to compact. A program that already wraps its store in the SDK's
`OpenAIResponsesCompactionSession` can wrap this one as well. That class asks the store for three private
operations; if they are missing, it reads all items, clears the store and adds the new items. The operations exist
only for versions of the SDK that they were tested with. Without them nothing is lost either, since clearing
deletes nothing, but items that other callers append meanwhile leave the view.

Nothing is deleted here. A replacement by the wrapper is one conditional compaction. It covers the items that the
wrapper has read, and none that were added later.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rightful.errors import StaleTokenError, UsageError
from rightful.integrations.openai_agents.call_queue import in_session_thread, wait_unless_cancelled, wait_until_done
from rightful.integrations.openai_agents.json_items import as_json, count_of

if TYPE_CHECKING:
    from rightful.field_types import ItemId
    from rightful.histories.history_model import History
    from rightful.integrations.openai_agents.session_runs import SessionParts
    from rightful.tokens import Token

Prune = Callable[[Any], bool]
"""Returns whether an item has expired."""

MODE = "wrapper"
"""The mode of a compaction by the SDK's wrapper, which does not report its own mode."""

_TESTED = "0.24."
_FIELDS = ("items", "complete", "replace_suffix")
READS = frozenset({"get_items"})
"""The methods of a session that read."""

WRITES = frozenset({"add_items", "pop_item", "clear_session"})
"""The methods of a session that write."""

_READ: ContextVar[tuple[int, Token] | None] = ContextVar("rightful_compaction_read", default=None)


def snapshot_type(version: str, module: object) -> Callable[..., Any] | None:
    """Return the SDK's snapshot class in `agents.memory.session`, if the version's private operations are known."""
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


IS_SUPPORTED = _SNAPSHOT is not None
"""Whether the installed SDK is a version whose private operations are known."""


class WrapperOperations:
    """The operations that the SDK's compaction wrapper calls on a store."""

    def __init__(self, parts: SessionParts) -> None:
        self._ledger, self._name, self._queue, self._runs = parts

    async def snapshot(self, limit: int, prune_prefix: Prune | None) -> Any:  # noqa: ANN401 - the SDK's own class
        """Return the last items, whatever the session's own limit, and a function that replaces the end of them.

        Expired items at the start leave the view as well.
        """
        assert _SNAPSHOT is not None
        read = await wait_unless_cancelled(self._queue.put(lambda: self._view(count_of(limit + 1, None))))
        first = max(len(read.ids) - limit, 0)
        ids = read.ids[first:]

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            expected, items = ids[start:], as_json(output)
            return bool(expected) and await wait_until_done(
                self._queue.put(lambda: self._replace_end(expected, items, prune_prefix))
            )

        return _SNAPSHOT(read.items[first:], not first, replace_suffix)

    async def read(self, limit: int | None, shown: int | None) -> tuple[list[Any], bool]:
        """Return the items that a compaction reads, and whether these are all. A replacement covers only these.

        `limit` is the wrapper's limit, and `shown` the number of last items, including the session's own limit.
        """
        read = await wait_unless_cancelled(self._queue.put(lambda: self._view(shown)))
        _READ.set((id(self), read.token))
        return read.items, limit is not None and len(read.items) < limit

    async def replace(self, items: list[Any]) -> None:
        """Replace the items that the compaction has read with its output.

        Raises:
            StaleTokenError: The history was popped, cleared or compacted since. Nothing was written.
        """
        output, read = as_json(items), _READ.get()
        token = read[1] if read is not None and read[0] == id(self) else None
        await wait_until_done(self._queue.put(lambda: self._compact(token or self._view(None).token, output, None)))

    def _view(self, limit: int | None) -> History:
        return self._ledger.history(self._name, limit, without=self._runs.of(None).without())

    def _compact(self, token: Token, items: list[Any], covers: list[ItemId] | None) -> None:
        calls = self._runs.of(None).calls
        self._ledger.histories().compact(
            token, items, covers, mode=MODE, run=calls.run, ordinal=calls.next, inline=in_session_thread()
        )
        calls.compactions += 1

    def _replace_end(self, expected: list[ItemId], items: list[Any], expired: Prune | None) -> bool:
        """Replace items if they are still the last ones, and return whether they were replaced."""
        token = self._view(len(expected)).token  # if the last items changed, it does not contain `expected`
        try:
            self._compact(token, items, expected)
        except (StaleTokenError, UsageError):  # not the last any more, or a call would lose its output
            return False
        if expired is not None:
            self._remove_expired(expired)
        return True

    def _remove_expired(self, expired: Prune) -> None:
        """Remove expired items from the start of the view. Readers that check expiry do not see them anyway."""
        view = self._view(None)
        kept = next((at for at, item in enumerate(view.items) if not expired(item)), len(view.ids))
        if kept:
            try:
                self._ledger.histories().compact(
                    view.token, [], view.ids[:kept], mode="expired", inline=in_session_thread()
                )
            except (StaleTokenError, UsageError):
                return
