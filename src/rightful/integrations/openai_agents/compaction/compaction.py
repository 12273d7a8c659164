"""Compaction of a session: check whether it is due, prove the coverage, call the provider, append the result.

The provider takes seconds. No lock is held meanwhile: other calls of this session, other sessions and other
processes continue. One append at the end names the replaced items. Items added in between stay. If the history was
cleared, popped or compacted in between, nothing is written.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rightful.errors import CompactionRefusedError, StaleTokenError, StorageError, UsageError
from rightful.integrations.openai_agents import run_facts, sdk_private
from rightful.integrations.openai_agents.call_queue import in_session_thread, wait_unless_cancelled, wait_until_done
from rightful.integrations.openai_agents.compaction import deferred, provider
from rightful.integrations.openai_agents.compaction.compaction_plan import (
    CompactionOptions,
    CompactionRequest,
    HistoryState,
    Plan,
    checked_mode,
    is_encrypted,
    plan_of,
    seen_by,
)
from rightful.integrations.openai_agents.compaction.model_input import Exchange, Proof, prove, ranges, sendable, whole

if TYPE_CHECKING:
    from agents import RunContextWrapper
    from agents.memory import OpenAIResponsesCompactionArgs

    from rightful.histories.history_model import History
    from rightful.integrations.openai_agents.compaction.model_input import Mark
    from rightful.integrations.openai_agents.session_parts import SessionParts
    from rightful.integrations.openai_agents.session_runs import Run
    from rightful.tokens import Batch

_OUTDATES = ("history.compacted", "history.popped", "history.cleared", "history.forked", "event.withdrawn")

_log = logging.getLogger("rightful.openai_agents")


class Compaction:
    """The compaction of one session.

    Args:
        parts: The objects shared with the session.
        options: The compaction settings.
    """

    def __init__(self, parts: SessionParts, options: CompactionOptions) -> None:
        self._ledger, self._name, self._queue, self._runs = parts
        self._options = options
        self._default_client: Any = None
        self._unstored: str | None = None
        self._warned: frozenset[str] = frozenset()

    async def run(
        self,
        args: OpenAIResponsesCompactionArgs | None,
        wrapper: RunContextWrapper[Any] | None,
        *,
        limit: int | None,
        ignore_ids: bool,
    ) -> None:
        """Compact if it is due; see `LedgerSession.run_compaction`.

        Args:
            args: The caller's arguments.
            wrapper: The run to compact for; None for a call by hand.
            limit: The number of last items that the session shows; None for all.
            ignore_ids: Whether the session compares items without their ids.
        """
        asked = self._asked(args)
        run = self._runs.of(wrapper)
        by_hand = wrapper is None or (asked.force and run.token is None)
        if not (by_hand or asked.force or self.is_automatic()):
            return
        if run.calls.given and await wait_unless_cancelled(self._queue.put(lambda: self._is_repeated(run))):
            return
        mode = self._mode(asked, by_hand=by_hand)
        window = await wait_unless_cancelled(self._queue.put(lambda: self._window(run, limit)))
        forced, shown = asked.force or window.owed is not None, window.items
        if not (forced or is_encrypted(shown) or self._due(asked, mode, shown)):
            return
        look = await wait_unless_cancelled(self._queue.put(lambda: self._look(run, limit)))
        if is_encrypted(look.view.items):
            self._refuse_encrypted(by_hand=by_hand)
            return
        if await self._is_paused(look, asked):
            return
        if by_hand:
            plan = await asyncio.to_thread(self._plan_by_hand, look, asked, mode)
        else:
            plan = await self._plan(look, asked, mode, run, self.last_exchange(run, wrapper, ignore_ids=ignore_ids))
        if plan is None:
            return
        other = (plan.mode, plan.items) != (mode, [sendable(item) for item in shown])
        if other and not forced and not self._due(asked, plan.mode, plan.items):
            return
        await self._carry_out(plan, look, asked, run, wrapper)

    # -- what is due -----------------------------------------------------------------------

    def is_automatic(self) -> bool:
        """Return whether the session compacts without a call by hand."""
        return self._options.client is not None or self._options.hook is not None

    def _asked(self, args: OpenAIResponsesCompactionArgs | None) -> CompactionRequest:
        said: dict[str, Any] = {**(args or {})}
        response_id, store = run_facts.valid_word(said.get("response_id")), said.get("store")
        if response_id is not None and store is False:
            self._unstored = response_id
        elif store and response_id == self._unstored:
            self._unstored = None
        mode = checked_mode(said.get("compaction_mode") or self._options.mode)
        if mode == "previous_response_id" and response_id is None:
            raise CompactionRefusedError(
                self._name, "mode `previous_response_id` needs a response id, but no response id was given"
            )
        return CompactionRequest(response_id, mode, bool(said.get("force")), store)

    def _mode(self, asked: CompactionRequest, *, by_hand: bool) -> str:
        if asked.mode != "auto":
            return asked.mode
        unstored = asked.store is False or (asked.store is None and asked.response_id == self._unstored)
        return "input" if by_hand or asked.response_id is None or unstored else "previous_response_id"

    def _due(self, asked: CompactionRequest, mode: str, items: list[Any]) -> bool:
        shown = [sendable(item) for item in items]
        context = {
            "response_id": asked.response_id,
            "compaction_mode": mode,
            "compaction_candidate_items": provider.candidates(shown),
            "session_items": shown,
        }
        said: Any = (self._options.hook or provider.due)(context)
        if inspect.isawaitable(said):
            if inspect.iscoroutine(said):
                said.close()
            raise UsageError(
                "should_trigger_compaction returned an awaitable, but it is called synchronously. "
                "Nothing was sent or written. Pass a function that returns True or False."
            )
        return bool(said)

    def _is_repeated(self, run: Run) -> bool:
        """Return whether an earlier attempt with the run key already got past this call.

        If that attempt compacted here, its compaction is reused, so the provider is not paid twice. If it continued
        without one, this attempt does too, so that both make the same calls in the same order.
        """
        calls, histories = run.calls, self._ledger.histories()
        made = histories.compactions(self._name, calls.run, calls.next)
        if calls.compactions < len(made):
            run.knows(made[calls.compactions])
            calls.compactions += 1
            return True
        return bool(histories.done(self._name, calls.run, calls.next))

    def _window(self, run: Run, limit: int | None) -> History:
        """Return the items for the hook. The rest of the history is not read before a compaction is due."""
        return self._ledger.history(self._name, limit, without=run.without())

    def _look(self, run: Run, limit: int | None, *, near: bool = False) -> HistoryState:
        """Return the state of the history; with `near`, only of the last items: those the run knows, and one more."""
        shown = len(run.known or ()) + 1 if near else None
        view = self._ledger.history(self._name, shown, without=run.without())
        read = run.token if run.known is not None else None
        since = view.token.position if read is None or read.void else read.position
        known = frozenset(at for at, one in enumerate(view.ids) if run.known is not None and one in run.known)
        count = len(view.items)
        window = range(0 if limit is None else max(0, count - limit), count)
        changes = self._ledger.read(session=self._name, types=_OUTDATES, after=since)
        return HistoryState(view, window, known, next(iter(changes), None) is not None)

    # -- proof and plan --------------------------------------------------------------------

    def last_exchange(self, run: Run, wrapper: RunContextWrapper[Any] | None, *, ignore_ids: bool) -> Exchange | None:
        """Return the last answered request of a run, as recorded by hooks, or else by the SDK."""
        if run.exchange is not None or wrapper is None:
            return run.exchange
        noted = sdk_private.noted_by(wrapper)
        if run.noted[0] is not noted:
            run.noted = (noted, sdk_private.exchange_of(noted, ignore_ids=ignore_ids))
        return run.noted[1]

    def _prove(self, look: HistoryState, run: Run, exchange: Exchange, coming: Sequence[Mark | None] = ()) -> Proof:
        view = look.view
        return prove(view.items, look.known, exchange, run.marks.of(view.ids, view.items, exchange.marker), coming)

    def describe_batch(self, run: Run, items: list[Any], batch: Batch, exchange: Exchange | None) -> Batch:
        """Return a batch's description, extended with the facts about the response that produced its items."""
        if exchange is None or all(isinstance(item, dict) and item.get("role") == "user" for item in items):
            return batch
        coming = [exchange.marker(item) for item in items]
        look = self._look(run, None, near=True)
        proof = self._prove(look, run, exchange, coming)
        if not (proof.explained and look.known.issuperset(range(1, len(look.view.ids)))):
            look = self._look(run, None)
            proof = self._prove(look, run, exchange, coming)
        return structs.replace(
            batch,
            response_id=exchange.response_id,
            agent=exchange.agent or batch.agent,
            covered=ranges(look.view.ids, proof.covered),
        )

    async def _plan(
        self, look: HistoryState, asked: CompactionRequest, mode: str, run: Run, exchange: Exchange | None
    ) -> Plan | None:
        if look.stale:
            _log.warning("%s was changed after this run read it. This run does not compact it.", self._name)
            return None
        proof = None
        if exchange is not None:
            proof = await asyncio.to_thread(self._prove, look, run, exchange)
        if exchange is None or proof is None or not proof.seen:
            self._warn_once("nothing is proven about the model's input; pass the session's hooks() to the run")
            return None
        if not proof.covered:
            await self._record_owed(run, asked, "a call has no output yet, or an approval no answer")
            return None
        is_same_response = exchange.response_id in (None, asked.response_id)
        if mode == "previous_response_id" and not (proof.entire and is_same_response):
            if asked.mode == mode:
                self._warn_once(
                    "the response used items outside the history, so a compaction of it would cover too much"
                )
                return None
            mode = "input"
        return plan_of(look, proof, mode)

    def _plan_by_hand(self, look: HistoryState, asked: CompactionRequest, mode: str) -> Plan | None:
        items = look.view.items
        if mode == "previous_response_id":
            covered = whole(items, seen_by(self._ledger, self._name, look.view, asked.response_id))
            if not covered:
                raise CompactionRefusedError(
                    self._name, f"the items that response {asked.response_id} used are not known"
                )
        else:
            covered = whole(items, set(look.window))
        places = tuple(sorted(covered))
        return plan_of(look, Proof(len(places), places, frozenset(), entire=True), mode) if places else None

    # -- execution -------------------------------------------------------------------------

    async def _carry_out(
        self, plan: Plan, look: HistoryState, asked: CompactionRequest, run: Run, wrapper: RunContextWrapper[Any] | None
    ) -> None:
        client = self._client_for(wrapper)
        if client is None:
            return
        response_id = asked.response_id if plan.mode == "previous_response_id" else None
        try:
            answer = await provider.ask(client, self._options.model, plan.items, response_id)
            usage = self._counted(answer, run, wrapper)
            items = provider.replayed(getattr(answer, "output", None) or [])
            if items:
                await wait_until_done(self._queue.put(lambda: self._write(plan, look, items, usage, response_id, run)))
        except StaleTokenError as error:
            _log.warning("The compaction of %s finished too late: %s", self._name, error)
        except StorageError:
            raise  # a deferral could not be written either
        except Exception as error:
            await self._record_owed(run, asked, f"{deferred.FAILED}: {type(error).__name__}")
            if not isinstance(error, UsageError):
                raise
            _log.warning("The compaction of %s was not written: %s", self._name, error)  # an output was added meanwhile
        else:
            if items:
                sdk_private.tell_completed(wrapper)
            else:
                await self._record_owed(run, asked, f"{deferred.FAILED}: its answer was empty")
                self._warn_once("the provider returned no items, so nothing was written")

    def _counted(self, answer: Any, run: Run, wrapper: RunContextWrapper[Any] | None) -> dict[str, int] | None:  # noqa: ANN401 - the provider's own class
        """Add a compaction's usage to its run, even if it fails later. Return the usage in its stored form."""
        usage = getattr(answer, "usage", None)
        if usage is None:
            return None
        used = sdk_private.usage_of(usage)
        if wrapper is not None:
            wrapper.usage.add(used)
            run_facts.usage_since(run, wrapper)
        return run_facts.usage_counts(used)

    def _client_for(self, wrapper: RunContextWrapper[Any] | None) -> Any:  # noqa: ANN401 - `openai.AsyncOpenAI`
        """Return the client. In a run, return None if no client can be created, because that must not end the run.

        Raises:
            UsageError: This is a call by hand, and no client can be created.
        """
        if self._options.client is None and self._default_client is None:
            try:
                self._default_client = sdk_private.default_client()
            except Exception as error:
                if wrapper is None:
                    raise UsageError(
                        f"The client that compacts could not be created: {error} Nothing was sent, and nothing was "
                        f"written. Set OPENAI_API_KEY, or pass `client` to the session."
                    ) from error
                self._warn_once(f"the client could not be created ({error})")
        return self._options.client or self._default_client

    def _write(
        self,
        plan: Plan,
        look: HistoryState,
        items: list[Any],
        usage: dict[str, int] | None,
        response_id: str | None,
        run: Run,
    ) -> None:
        receipt = self._ledger.histories().compact(
            look.view.token,
            items,
            ranges(look.view.ids, plan.covered),
            mode=plan.mode,
            response_id=response_id,
            run=run.calls.run,
            usage=usage,
            ordinal=run.calls.next,
            inline=in_session_thread(),
        )
        run.calls.compactions += 1
        if run.known is not None:
            run.known.difference_update(look.view.ids[at] for at in plan.covered)
            run.knows((str(receipt.id), at) for at in range(len(items)))
            run.token = structs.replace(
                look.view.token, position=receipt.position or 0, commitment="", wrote=(), limit=None
            )

    # -- deferral --------------------------------------------------------------------------

    async def _record_owed(self, run: Run, asked: CompactionRequest, reason: str) -> None:
        await wait_until_done(self._queue.put(lambda: self._record_owed_now(run, asked, reason)))

    def _record_owed_now(self, run: Run, asked: CompactionRequest, reason: str) -> None:
        deferred.record_owed(self._ledger, self._name, asked, run.calls.run, reason, inline=in_session_thread())

    async def _is_paused(self, look: HistoryState, asked: CompactionRequest) -> bool:
        """Return whether the deferred compaction failed too often to retry it in this call."""
        if asked.force or look.view.owed is None:
            return False
        is_paused = await wait_unless_cancelled(self._queue.put(lambda: deferred.is_paused(self._ledger, self._name)))
        if is_paused:
            self._warn_once("the provider failed repeatedly; the next attempt is after ten more items")
        return is_paused

    async def defer(
        self, response_id: str, *, store: bool | None, wrapper: RunContextWrapper[Any] | None, limit: int | None
    ) -> None:
        """Record a deferred compaction, if one is due after a turn with tool outputs."""
        args: OpenAIResponsesCompactionArgs = {"response_id": response_id}
        if store is not None:
            args["store"] = store
        asked = self._asked(args)
        run = self._runs.of(wrapper)
        window = await wait_unless_cancelled(self._queue.put(lambda: self._window(run, limit)))
        if window.owed is not None or is_encrypted(window.items):
            return
        if self._due(asked, self._mode(asked, by_hand=False), window.items):
            await self._record_owed(run, asked, "tool outputs came after the response")

    def _refuse_encrypted(self, *, by_hand: bool) -> None:
        why = "its items are encrypted, so a provider cannot read them"
        if not by_hand:
            self._warn_once(why)
            return
        raise UsageError(
            f"The history of {self._name} was not compacted: {why}. Nothing was sent or written. Put the SDK's "
            "compaction inside: EncryptedSession(…, OpenAIResponsesCompactionSession(…, LedgerSession(…)))."
        )

    def _warn_once(self, what: str) -> None:
        level = logging.DEBUG if what in self._warned else logging.WARNING
        self._warned |= {what}
        _log.log(level, "%s was not compacted: %s.", self._name, what)
