"""`LedgerSession`: the history of a conversation of the OpenAI Agents SDK, kept in a ledger.

It stands on the SDK's public protocol alone: four methods, each with the documented keyword `wrapper`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Self

from agents.memory import SessionSettings
from msgspec import structs

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
from rightful.integrations.openai_agents.compaction.compaction_plan import (
    CompactionOptions,
    Hook,
    Mode,
    checked_hook,
    checked_mode,
    checked_model,
)
from rightful.integrations.openai_agents.json_items import as_json, count_of, settings_of
from rightful.integrations.openai_agents.session_parts import SessionParts
from rightful.integrations.openai_agents.session_runs import Calls, Run, Runs
from rightful.integrations.openai_agents.wrapper_compat import (
    IS_SUPPORTED,
    READS,
    WRITES,
    Prune,
    WrapperOperations,
)
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

_SHOWN = 64  # characters of what was given that an error repeats


class LedgerSession:
    """A session of the OpenAI Agents SDK in a ledger: nothing that was ever in it is deleted.

    Give it to `Runner.run(..., session=…)` as you would a `SQLiteSession`. `clear_session`, `pop_item` and
    compactions change what the model sees next, and never what is in the log.

    Every call is one append and so atomic. A call that is cancelled waits until its outcome is known, for as long as
    the disk takes. Calls of one session keep their order, from however many event loops and threads they come.

    With a `run_key`, work that was cut short can be done again from the start, in another process too: calls
    that were made before are found again, not made twice; the retried run does not see what its own earlier
    attempt left; and if it changes the history otherwise than that did, it is stopped by `RunDiffersError`. The key
    belongs to one piece of work from its first call to its last; the next one needs a key of its own, and so
    does a run that is resumed from a written `RunState`.

    Args:
        session_id: The conversation. Its name in the ledger is `openai-agents:` and this, exactly as given.
        ledger: An open ledger, which stays the caller's; or the path of one, which is made if there is none,
            as the SDK's own stores do, and is closed with the session.
        run_key: A key of your own for the work that is done with this object, so that it can be repeated.
        session_settings: Settings of the SDK, or the same as a dict: `limit` is the default of `get_items`.
        client: The `AsyncOpenAI` that compacts. **Nothing is compacted by itself, and nothing sent to a provider,
            unless this or `should_trigger_compaction` is given**; then it is the SDK's default one if None.
        model: The model that compacts.
        compaction_mode: How it compacts.
        should_trigger_compaction: Says at once whether it is time to compact; with ten candidates, if None.

    Raises:
        UsageError: The session id can name no session, the run key is empty, the model does not compact, there is no
            such mode, the hook is no function, or no ledger can be at that path.
        TypeError: The settings are no settings of the SDK.
        StorageError: The ledger cannot be opened; the error says why and what to do.
    """

    session_id: str
    session_settings: SessionSettings | None = None

    def __init__(  # noqa: PLR0913 - the SDK's stores are made with as many
        self,
        session_id: str,
        ledger: Ledger | str | os.PathLike[str],
        *,
        run_key: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        client: Any = None,  # noqa: ANN401 - `openai.AsyncOpenAI`, which is not imported for it
        model: str = "gpt-4.1",
        compaction_mode: Mode = "auto",
        should_trigger_compaction: Hook | None = None,
    ) -> None:
        self._name = name_of(session_id)
        run_key = _key(run_key)
        self.session_id = str.__str__(session_id)  # of a kind of text, what it says
        self.session_settings = settings_of(session_settings)
        self.run_key = run_key
        self._options = CompactionOptions(
            client, checked_model(model), checked_mode(compaction_mode), checked_hook(should_trigger_compaction)
        )
        self._runs = Runs(run_key)
        self._queue = CallQueue()
        self._closed = False
        self._owned = isinstance(ledger, str | os.PathLike)
        self._ledger = _opened(ledger)
        parts = SessionParts(self._ledger, self._name, self._queue, self._runs)
        self._compaction = Compaction(parts, self._options)
        self._wrapper_operations = WrapperOperations(parts)

    @property
    def name(self) -> str:
        """The session's name in the ledger, which every command and method of Rightful takes."""
        return self._name

    @property
    def ledger(self) -> Ledger:
        """The ledger that it is kept in."""
        return self._ledger

    # -- the protocol ----------------------------------------------------------------------

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """Return what the model would see next, oldest first.

        Args:
            limit: Only the last items, so many; by `session_settings.limit` if None, and all if that is None too.
            wrapper: The run that reads; the SDK gives it.
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
            items: What to append, in order: JSON values.
            wrapper: The run that appends; the SDK gives it.

        Raises:
            NotJsonError: An item is not a JSON value. It is a `TypeError` too. Nothing was written.
            InvalidEventError: An item is nested too deep, or too large. Nothing was written.
            RunDiffersError: An earlier attempt of this run key did something else here. Nothing was written.
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
        """Take the last item back and return it; None where there is none. It stays in the full history."""
        self._check_open()
        run = self._runs.of(wrapper)
        return await wait_until_done(self._queue.put(lambda: self._pop(run)))

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Take everything out of what the model sees; it stays in the full history."""
        self._check_open()
        run = self._runs.of(wrapper)
        await wait_until_done(self._queue.put(lambda: self._clear(run)))

    # -- beyond the protocol ---------------------------------------------------------------

    async def full_history(self, at: int | None = None) -> FullHistory:
        """Return everything that the history ever held, and what became of it; nothing is missing from it.

        Args:
            at: The position through which it is told; all of the ledger if None.
        """
        self._check_open()
        return await wait_unless_cancelled(self._queue.put(lambda: self._ledger.full_history(self._name, at=at)))

    async def events(self) -> list[Recorded]:
        """Return the events of the session as they were recorded, each with its position and time.

        A batch has what is known of it: run, ordinal, agent, response id, usage. A branch has its own events only.
        """
        self._check_open()
        return await wait_unless_cancelled(self._queue.put(lambda: list(self._ledger.read(session=self._name))))

    async def fork(self, at: int | ItemId | None = None, session_id: str | None = None) -> LedgerSession:
        """Branch off: return a session that begins with what this one shows, or showed. Nothing is copied.

        Both go on from there, each on its own; closing one does not close the other.

        Args:
            at: A position, as of `full_history` and `events`; or an item's id: then the branch begins when the
                batch with that item had been appended, whole, so that no call is parted from its output. Now if None.
            session_id: The branch's id; one that says what it was forked from, and that no other has, if None.

        Raises:
            UsageError: There is no such position or item, or the id can be none, or the branch holds
                something already. Nothing was forked.
        """
        self._check_open()
        run = self._runs.of(None)
        return await wait_until_done(self._queue.put(lambda: self._fork(run, at, session_id)))

    # -- compaction ------------------------------------------------------------------------

    def hooks(self, inner: RunHooks[Any] | None = None) -> RunHooks[Any]:
        """Return hooks for `Runner.run(…, hooks=…)` that record what the model is really sent.

        With them, by the SDK's public interface alone, it is proven what a compaction may cover, and each batch is
        stored with its response id, agent and usage. Without them that depends on what the SDK records for itself.

        Args:
            inner: Hooks of your own; every call is passed on to them.
        """
        from rightful.integrations.openai_agents.run_hooks import RecordingHooks

        return RecordingHooks(self._runs, inner)

    async def run_compaction(
        self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Replace items of the history with a provider's summary. All of them remain in the log.

        The SDK calls it after each response that ends a turn. That has an effect only if the session was given a
        client, or a hook that decides when to compact: a history is never sent to a provider by default. With a run,
        only items are covered that its model is proven to have seen; by hand, without one, all that the session
        shows. A group is covered as a whole: a call without its output, or an approval without its answer, stays.

        If another caller clears, pops or compacts the history while the provider works, nothing is written, and a
        warning is logged. No error is raised then, so that no run ends because of it.

        Args:
            args: `response_id`, `compaction_mode`, `store` and `force`, as the SDK has them.
            wrapper: The run that it is for; the SDK passes it. The usage of the compaction is added to its usage.

        Raises:
            UsageError: The items are encrypted, so that no provider can read them; or `should_trigger_compaction`
                returned an awaitable; or, by hand, no client was given and the SDK's default one cannot be created.
                Nothing was sent or written.
            CompactionRefusedError: `previous_response_id` was asked for by hand, and it is not known what that
                response has seen, or some of that may have been undone since. Nothing was sent or written.
            Exception: Whatever the client raises, and ValueError or InvalidEventError if its answer contains
                something that is not an item. Nothing was written; the compaction is owed, and the next call makes
                it without asking whether it is due. After a second failure it waits for ten more items.
        """
        self._check_open()
        limit = count_of(None, self.session_settings)
        await self._compaction.run(args, wrapper, limit=limit, ignore_ids=self._ignores_ids())

    def _ignores_ids(self) -> bool:
        return bool(getattr(self, "_ignore_ids_for_matching", False))

    @property
    def _defer_compaction(self) -> Callable[..., Awaitable[None]]:
        """The method that the SDK calls after a turn with tool outputs, which put a compaction off.

        Raises:
            AttributeError: The session does not compact automatically, so there is nothing to put off.
        """
        if not self._compaction.is_automatic():
            raise AttributeError("_defer_compaction")
        return self._defer

    async def _defer(
        self,
        response_id: str,
        store: bool | None = None,  # noqa: FBT001 - as the SDK calls it
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        limit = count_of(None, self.session_settings)
        await self._compaction.defer(response_id, store=store, wrapper=wrapper, limit=limit)

    if IS_SUPPORTED:  # the SDK's wrapper must not find them otherwise, also not on the class

        async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Prune | None = None) -> Any:  # noqa: ANN401 - the SDK's own class
            """Return the last items and a way to replace the end of them; None if that would not be safe."""
            if not _is_own(self, WRITES):
                return None
            return await self._wrapper_operations.snapshot(limit, prune_prefix)

        @property
        def _read_compaction_items(self) -> Callable[[int | None], Awaitable[tuple[list[Any], bool]]]:
            """The method that a compaction reads with, instead of what the wrapper remembers.

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

    # -- in the queue ----------------------------------------------------------------------

    def _read(self, run: Run, limit: int | None) -> list[Any]:
        return self._noted(run, self._ledger.history(self._name, limit, without=run.without()))

    def _read_ready(self, run: Run, limit: int | None) -> list[Any] | None:
        read = self._ledger.histories().ready(self._name, limit, without=run.without(), fold_recent=True)
        return None if read is None else self._noted(run, read)

    def _noted(self, run: Run, read: History) -> list[Any]:
        run.token = read.token
        run.knows(read.ids)
        return read.items

    def _append(self, run: Run, items: list[Any], batch: Batch, exchange: Exchange | None) -> None:
        calls = run.calls
        self._check_same(calls, "extend")
        described = self._compaction.describe_batch(run, items, batch, exchange)

        def write() -> None:
            said = structs.replace(described, run=calls.run, ordinal=calls.next)
            token = self._ledger.histories().extend(run.token or self._name, items, said, inline=in_session_thread())
            run.wrote(token)

        try:
            write()
        except RunDiffersError:
            if calls.given:
                raise
            calls.count()  # an append whose outcome stayed unknown was written after all: it keeps its place
            write()
        calls.count()

    def _pop(self, run: Run) -> Any:  # noqa: ANN401 - content
        calls = run.calls
        self._check_same(calls, "pop")
        if not calls.given and not self._ledger.history(self._name, 1).items:
            return None  # nothing to write down: nobody will ask again what this call did
        item = self._ledger.histories().pop(self._name, key=calls.key(), inline=in_session_thread())
        calls.count()
        return item

    def _clear(self, run: Run) -> None:
        self._check_same(run.calls, "clear")
        self._ledger.histories().clear(self._name, key=run.calls.key(), inline=in_session_thread())
        run.calls.count()

    def _fork(self, run: Run, at: int | ItemId | None, session_id: str | None) -> LedgerSession:
        calls = run.calls
        self._check_same(calls, "fork")
        into = fork_points.own_id(self.session_id, self.run_key, calls.next) if session_id is None else session_id
        name = name_of(into)
        of, through = fork_points.fork_point(self._ledger, self._name, at)
        branch = self._like(into)  # first: a class that cannot be made like this one leaves no branch behind
        if not (calls.given and fork_points.is_forked(self._ledger, name, of, None if at is None else through)):
            try:
                self._ledger.histories().fork(of, name, at=through, inline=in_session_thread())
            except BaseException:
                if self._owned:  # so the branch has a handle of its own
                    branch.ledger.close()
                raise
        calls.count()
        return branch

    def _check_same(self, calls: Calls, does: str) -> None:
        """Stop a run that is repeated and does something else than the first time; `extend` compares the items."""
        done = self._ledger.histories().done(self._name, calls.run, calls.next) if calls.given else {}
        for what, position in done.items():
            if what != does:
                raise RunDiffersError(self._name, calls.run, calls.next, position)

    def _like(self, session_id: str) -> LedgerSession:
        return type(self)(
            session_id,
            self._ledger.path if self._owned else self._ledger,
            run_key=self.run_key,
            session_settings=self.session_settings,
            client=self._options.client,
            model=self._options.model,
            compaction_mode=self._options.mode,
            should_trigger_compaction=self._options.hook,
        )

    # -- end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the calls that were made end, take no more, and close the ledger if the session opened it; once."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(lambda: None).result()
        if self._owned:
            self._ledger.close()

    async def aclose(self) -> None:
        """Close it without keeping the event loop waiting; see `close`."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosedError(self._name)


def _is_own(session: LedgerSession, called: frozenset[str]) -> bool:
    """Return whether a session reads and writes exactly as `LedgerSession` does.

    A subclass that overrides one of the four methods, or an object on which one of the called methods was replaced,
    must not be bypassed: it may keep an index, or transform what it stores.
    """
    own = all(getattr(type(session), name) is getattr(LedgerSession, name) for name in READS | WRITES)
    return own and not vars(session).keys() & called


def name_of(session_id: object) -> str:
    """Return the name in a ledger of a session of the SDK.

    Raises:
        UsageError: It can name no session.
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
    import rightful

    if isinstance(ledger, rightful.Ledger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        raise UsageError(f"{ledger!r} is not a ledger. Nothing was done. Pass an open `Ledger`, or its path.")
    return rightful.open(ledger, create=True)
