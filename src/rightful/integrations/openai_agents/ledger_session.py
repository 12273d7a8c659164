"""`LedgerSession`: the history of a conversation of the OpenAI Agents SDK, stored in a ledger.

It depends only on the SDK's public protocol: four methods, each with the documented keyword `wrapper`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Self

from agents.memory import SessionSettings
from msgspec import structs

# Loaded now, not in a call: an exception from outside, such as Ctrl-C, can leave a module's import lock acquired.
import rightful.histories.service
import rightful.ledger
import rightful.storage.environment.create_store
import rightful.storage.eventsourcing.subscription
import rightful.storage.recorder
from rightful import limits
from rightful.errors import RunDiffersError, SessionClosedError, UsageError
from rightful.identity import is_session
from rightful.integrations.openai_agents import fork_points, run_facts
from rightful.integrations.openai_agents.call_queue import (
    CallQueue,
    in_session_thread,
    wait_unless_cancelled,
    wait_until_done,
)
from rightful.integrations.openai_agents.compaction.compaction import Compaction
from rightful.integrations.openai_agents.compaction.compaction_plan import Hook, Mode, options_of
from rightful.integrations.openai_agents.json_items import as_json, count_of, settings_of
from rightful.integrations.openai_agents.run_hooks import RecordingHooks
from rightful.integrations.openai_agents.session_runs import Calls, Run, Runs, SessionParts
from rightful.integrations.openai_agents.wrapper_compat import IS_SUPPORTED, READS, WRITES, Prune, WrapperOperations
from rightful.tokens import Batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from agents import RunContextWrapper, RunHooks
    from agents.items import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs

    from rightful import Ledger, Recorded
    from rightful.field_types import ItemId
    from rightful.histories.history_model import FullHistory, History
    from rightful.integrations.openai_agents.compaction.model_input import Exchange

_SHOWN = 64  # the number of characters of an invalid value that an error shows


class LedgerSession:
    """A session of the OpenAI Agents SDK in a ledger. No item of it is ever deleted.

    Pass it to `Runner.run(..., session=…)` like a `SQLiteSession`. `clear_session`, `pop_item` and compactions
    change only what the model sees next, never what is in the log.

    Every call is one append and so atomic. A cancelled call waits until its outcome is known, for as long as the
    disk takes. The calls of one session keep their order, even from several event loops and threads.

    With a `run_key`, interrupted work can be repeated from the start, also in another process. Calls that were
    made before are recognised and not made twice. The repeated run does not see the items of its earlier attempt.
    If it changes the history in another way than that attempt, it is stopped by `RunDiffersError`. The key belongs
    to one piece of work, from its first call to its last. The next piece of work needs its own key, and so does a
    run that is resumed from a stored `RunState`.

    Args:
        session_id: The conversation. Its name in the ledger is `openai-agents:` followed by this id, unchanged.
        ledger: An open ledger, which the caller closes; or a path. A ledger at a path is created if it does not
            exist, as by the SDK's own stores, and is closed with the session.
        run_key: A key of your own for the work done with this object, so that it can be repeated.
        session_settings: Settings of the SDK, also as a dict: `limit` is the default of `get_items`.
        client: The `AsyncOpenAI` client for compactions. **Without this or `should_trigger_compaction`, nothing is
            compacted automatically and nothing is sent to a provider.** If only the latter is passed, the SDK's
            default client is used.
        model: The model that compacts.
        compaction_mode: How to compact.
        should_trigger_compaction: A synchronous function that returns whether to compact now. If None, a compaction
            is due at ten items that are neither user messages nor summaries.

    Attributes:
        name: The session's name in the ledger, which every command and method of Rightful accepts.
        ledger: The ledger that contains the session.

    Raises:
        UsageError: The session id, the run key, the model, the mode or the hook is not valid, or no ledger can be
            at that path.
        TypeError: The settings are not valid for the SDK.
        StorageError: The ledger cannot be opened. The message contains the reason and the fix.
    """

    session_id: str
    session_settings: SessionSettings | None = None

    def __init__(  # noqa: PLR0913 - the SDK's stores have as many
        self,
        session_id: str,
        ledger: Ledger | str | os.PathLike[str],
        *,
        run_key: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        client: Any = None,  # noqa: ANN401 - `openai.AsyncOpenAI`, which is not imported here
        model: str = "gpt-4.1",
        compaction_mode: Mode = "auto",
        should_trigger_compaction: Hook | None = None,
    ) -> None:
        self.name = name_of(session_id)
        run_key = _key(run_key)
        self.session_id = str.__str__(session_id)  # a plain `str`, also for a subclass
        self.session_settings = settings_of(session_settings)
        self.run_key = run_key
        self._options = options_of(client, model, compaction_mode, should_trigger_compaction)
        self._runs = Runs(run_key)
        self._queue = CallQueue()
        self._closed = False
        self._owned = isinstance(ledger, str | os.PathLike)
        self.ledger = _opened(ledger)
        parts = SessionParts(self.ledger, self.name, self._queue, self._runs)
        self._compaction = Compaction(parts, self._options)
        self._wrapper_operations = WrapperOperations(parts)

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """Return the items that the model would see next, oldest first.

        Args:
            limit: The maximum number of items, counted from the end. If None, `session_settings.limit`
                applies; without that, all items are returned.
            wrapper: The run that reads; the SDK passes it.
        """
        self._check_open()
        run = self._runs.of(wrapper)
        run_facts.usage_since(run, wrapper)
        shown = count_of(limit, self.session_settings)
        ready = self._queue.now(lambda: self._read_ready(run, shown))
        return await wait_unless_cancelled(self._queue.put(lambda: self._read(run, shown))) if ready is None else ready

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Append items, all of them or none.

        Args:
            items: The items to append, in order: JSON values.
            wrapper: The run that appends; the SDK passes it.

        Raises:
            NotJsonError: An item is not a JSON value. The error is a `TypeError` too. Nothing was written.
            InvalidEventError: An item is nested too deep, or is too large. Nothing was written.
            RunDiffersError: An earlier attempt with this run key made a different call here. Nothing was written.
        """
        self._check_open()
        put = as_json(items)
        if not put:
            return
        run = self._runs.of(wrapper)
        batch = Batch(agent=run_facts.speaker(put), usage=run_facts.usage_since(run, wrapper))
        exchange = run.exchange
        if self._compaction.is_automatic():
            exchange = self._compaction.last_exchange(run, wrapper, ignore_ids=self._ignores_ids())
        await wait_until_done(self._queue.put(lambda: self._append(run, put, batch, exchange)))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none. It remains in the full history."""
        self._check_open()
        run = self._runs.of(wrapper)
        return await wait_until_done(self._queue.put(lambda: self._pop(run)))

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Remove all items from the model's view. They remain in the full history."""
        self._check_open()
        run = self._runs.of(wrapper)
        await wait_until_done(self._queue.put(lambda: self._clear(run)))

    async def full_history(self, at: int | None = None) -> FullHistory:
        """Return all items that were ever in the history, with their current state.

        Args:
            at: The last position to read; all of the ledger if None.
        """
        self._check_open()
        return await wait_unless_cancelled(self._queue.put(lambda: self.ledger.full_history(self.name, at=at)))

    async def events(self) -> list[Recorded]:
        """Return the recorded events of the session, each with its position and time.

        A batch contains the known facts about it: run, ordinal, agent, response id, usage. A branch has only its own
        events.
        """
        self._check_open()
        return await wait_unless_cancelled(self._queue.put(lambda: list(self.ledger.read(session=self.name))))

    async def fork(self, at: int | ItemId | None = None, session_id: str | None = None) -> LedgerSession:
        """Return a new session, the branch, that begins with the current or an earlier history of this one.

        Nothing is copied. Both sessions continue independently, and closing one does not close the other.

        Args:
            at: A position, as in `full_history` and `events`; or an item's id. With an id, the branch begins after
                the whole batch with that item, so that no call is separated from its output. Now if None.
            session_id: The branch's id. If None, a unique id that begins with this session's id.

        Raises:
            UsageError: The position or item does not exist, the id is not valid, or the branch is not empty.
                Nothing was forked.
        """
        self._check_open()
        run = self._runs.of(None)
        return await wait_until_done(self._queue.put(lambda: self._fork(run, at, session_id)))

    def hooks(self, inner: RunHooks[Any] | None = None) -> RunHooks[Any]:
        """Return hooks for `Runner.run(…, hooks=…)` that record what the model is really sent.

        They use only the SDK's public interface. With them, the session can prove which items a compaction may
        cover, and stores each batch with its response id, agent and usage. Without them, that depends on private
        records of the SDK.

        Args:
            inner: Hooks of your own; every call is passed on to them.
        """
        return RecordingHooks(self._runs, inner)

    async def run_compaction(
        self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Replace items of the history with a provider's summary. All of them remain in the log.

        The SDK calls it after each response that ends a turn. That has an effect only if the session was given a
        client, or a hook that decides when to compact: a history is never sent to a provider by default. With a run,
        only items that its model is proven to have seen are covered. By hand, without a run, all visible items of the
        session are covered. A group is covered as a whole: a call without its output, or an approval without its
        answer, stays.

        If another caller clears, pops or compacts the history while the provider works, nothing is written, and a
        warning is logged. No error is raised then, so that no run ends because of it.

        Args:
            args: `response_id`, `compaction_mode`, `store` and `force`, as the SDK has them.
            wrapper: The run that it is for; the SDK passes it. The usage of the compaction is added to its usage.

        Raises:
            UsageError: The items are encrypted, so that no provider can read them; or `should_trigger_compaction`
                returned an awaitable; or, by hand, no client was given and the SDK's default one cannot be created.
                Nothing was sent or written.
            CompactionRefusedError: `previous_response_id` was requested by hand, but the items that the response has
                seen are not known, or may have been removed since. Nothing was sent or written.
            Exception: Any error of the client, and ValueError or InvalidEventError if its answer contains a value
                that is not an item. Nothing was written. The compaction is recorded as deferred, and the next call
                makes it without checking whether it is due. After a second failure it waits for ten more items.
        """
        self._check_open()
        limit = count_of(None, self.session_settings)
        await self._compaction.run(args, wrapper, limit=limit, ignore_ids=self._ignores_ids())

    def _ignores_ids(self) -> bool:
        return bool(getattr(self, "_ignore_ids_for_matching", False))

    @property
    def _defer_compaction(self) -> Callable[..., Awaitable[None]]:
        """The method that the SDK calls after a turn with tool outputs, because these defer a compaction.

        Raises:
            AttributeError: The session does not compact automatically, so there is nothing to defer.
        """
        if not self._compaction.is_automatic():
            raise AttributeError("_defer_compaction")
        return self._defer

    async def _defer(
        self,
        response_id: str,
        store: bool | None = None,  # noqa: FBT001 - the SDK's signature
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        limit = count_of(None, self.session_settings)
        await self._compaction.defer(response_id, store=store, wrapper=wrapper, limit=limit)

    if IS_SUPPORTED:  # otherwise the SDK's wrapper must not find these, not even on the class

        async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Prune | None = None) -> Any:  # noqa: ANN401 - the SDK's own class
            """Return the last items and a function that replaces the end of them; None if that would not be safe."""
            if not _is_own(self, WRITES):
                return None
            return await self._wrapper_operations.snapshot(limit, prune_prefix)

        @property
        def _read_compaction_items(self) -> Callable[[int | None], Awaitable[tuple[list[Any], bool]]]:
            """The method with which a compaction reads, instead of the wrapper's cached items.

            Raises:
                AttributeError: That would not be safe, so the wrapper must not find it.
            """
            if not _is_own(self, READS | WRITES):
                raise AttributeError("_read_compaction_items")
            return lambda limit: self._wrapper_operations.read(limit, count_of(limit, self.session_settings))

        async def _atomic_replace_items(self, items: list[Any]) -> bool:
            """Replace the items that the compaction has read with its output; False if that would not be safe.

            Raises:
                StaleTokenError: The history was popped, cleared or compacted since. Nothing was written.
            """
            if not _is_own(self, READS | WRITES):
                return False
            await self._wrapper_operations.replace(items)
            return True

    def _read(self, run: Run, limit: int | None) -> list[Any]:
        return self._record_read(run, self.ledger.history(self.name, limit, without=run.without()))

    def _read_ready(self, run: Run, limit: int | None) -> list[Any] | None:
        read = self.ledger.histories().ready(self.name, limit, without=run.without(), fold_recent=True)
        return None if read is None else self._record_read(run, read)

    def _record_read(self, run: Run, read: History) -> list[Any]:
        run.token = read.token
        run.knows(read.ids)
        return read.items

    def _append(self, run: Run, items: list[Any], batch: Batch, exchange: Exchange | None) -> None:
        calls = run.calls
        self._check_same(calls, "extend")
        described = self._compaction.describe_batch(run, items, batch, exchange)

        def write() -> None:
            facts = structs.replace(described, run=calls.run, ordinal=calls.next)
            run.wrote(self.ledger.histories().extend(run.token or self.name, items, facts, inline=in_session_thread()))

        try:
            write()
        except RunDiffersError:
            if calls.given:
                raise
            calls.count()  # an append with an unknown outcome was written after all and used this ordinal
            write()
        calls.count()

    def _pop(self, run: Run) -> Any:  # noqa: ANN401 - content
        calls = run.calls
        self._check_same(calls, "pop")
        if not calls.given and not self.ledger.history(self.name, 1).items:
            return None  # nothing to record: without a run key the call cannot be repeated
        item = self.ledger.histories().pop(self.name, key=calls.key(), inline=in_session_thread())
        calls.count()
        return item

    def _clear(self, run: Run) -> None:
        self._check_same(run.calls, "clear")
        self.ledger.histories().clear(self.name, key=run.calls.key(), inline=in_session_thread())
        run.calls.count()

    def _fork(self, run: Run, at: int | ItemId | None, session_id: str | None) -> LedgerSession:
        calls = run.calls
        self._check_same(calls, "fork")
        into = fork_points.own_id(self.session_id, self.run_key, calls.next) if session_id is None else session_id
        name = name_of(into)
        of, through = fork_points.fork_point(self.ledger, self.name, at)
        branch = self._like(into)  # first: if the subclass cannot be created like this, no branch is written
        if not (calls.given and fork_points.is_forked(self.ledger, name, of, None if at is None else through)):
            try:
                self.ledger.histories().fork(of, name, at=through, inline=in_session_thread())
            except BaseException:
                if self._owned:  # then the branch opened the ledger itself
                    branch.ledger.close()
                raise
        calls.count()
        return branch

    def _check_same(self, calls: Calls, does: str) -> None:
        """Stop a repeated run that makes a different call than the first time. `extend` compares the items."""
        done = self.ledger.histories().done(self.name, calls.run, calls.next) if calls.given else {}
        for what, position in done.items():
            if what != does:
                raise RunDiffersError(self.name, calls.run, calls.next, position)

    def _like(self, session_id: str) -> LedgerSession:
        return type(self)(
            session_id,
            self.ledger.path if self._owned else self.ledger,
            run_key=self.run_key,
            session_settings=self.session_settings,
            client=self._options.client,
            model=self._options.model,
            compaction_mode=self._options.mode,
            should_trigger_compaction=self._options.hook,
        )

    def close(self) -> None:
        """Refuse new calls, wait for the queued ones, and close the ledger if the session opened it."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(lambda: None).result()
        if self._owned:
            self.ledger.close()

    async def aclose(self) -> None:
        """Close the session without blocking the event loop; see `close`."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosedError(self.name)


def _is_own(session: LedgerSession, called: frozenset[str]) -> bool:
    """Return whether a session reads and writes exactly as `LedgerSession` does.

    A subclass that overrides one of the four methods, or an object on which one of the called methods was replaced,
    must not be bypassed: it may keep an index, or transform what it stores.
    """
    own = all(getattr(type(session), name) is getattr(LedgerSession, name) for name in READS | WRITES)
    return own and not vars(session).keys() & called


def name_of(session_id: object) -> str:
    """Return the ledger's name for a session of the SDK.

    Raises:
        UsageError: The session id is not valid.
    """
    if not isinstance(session_id, str) or not is_session(name := f"{fork_points.NAMESPACE}:{str.__str__(session_id)}"):
        raise UsageError(
            f"{_shown(session_id)} is not a valid session id. Nothing was done. Pass a string of 1 to "
            f"{fork_points.ID_BYTES:,} bytes without control characters or lone surrogates, other than 'unknown'."
        )
    return name


def _key(run_key: object) -> str | None:
    key = run_facts.valid_word(run_key)
    if key is None and run_key is not None:
        raise UsageError(
            f"{_shown(run_key)} is not a valid run key. Nothing was done. Pass a string of 1 to "
            f"{limits.WORD_CHARS:,} characters without lone surrogates, or None."
        )
    return key


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _opened(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    if isinstance(ledger, rightful.Ledger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        raise UsageError(f"{ledger!r} is not a ledger. Nothing was done. Pass an open `Ledger`, or its path.")
    return rightful.open(ledger, create=True)
