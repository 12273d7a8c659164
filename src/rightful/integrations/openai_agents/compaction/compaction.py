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
    from rightful.integrations.openai_agents.session_runs import Run, SessionParts
    from rightful.tokens import Batch

_VIEW_CHANGES = ("history.compacted", "history.popped", "history.cleared", "history.forked", "event.withdrawn")

_log = logging.getLogger("rightful.openai_agents")


class Compaction:
    """The compaction of one session."""

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
        """Compact if it is due; see `LedgerSession.run_compaction`. `limit` is the number of items that it shows."""
        request = self._request(args, wrapper)
        run = request.run
        by_hand = wrapper is None or (request.force and run.token is None)
        if not (by_hand or request.force or self.is_automatic()):
            return
        if run.calls.given and await wait_unless_cancelled(self._queue.put(lambda: self._is_repeated(run))):
            return
        mode = self._mode(request, by_hand=by_hand)
        window = await wait_unless_cancelled(self._queue.put(lambda: self._read_window(run, limit)))
        forced, shown = request.force or window.owed is not None, window.items
        if not (forced or is_encrypted(shown) or self._is_due(request, mode, shown)):
            return
        state = await wait_unless_cancelled(self._queue.put(lambda: self._read_state(run, limit)))
        if is_encrypted(state.view.items):
            self._refuse_encrypted(by_hand=by_hand)
            return
        if await self._is_paused(state, request):
            return
        if by_hand:
            plan = await asyncio.to_thread(self._plan_by_hand, state, request, mode)
        else:
            plan = await self._plan(state, request, mode, self.last_exchange(run, wrapper, ignore_ids=ignore_ids))
        if plan is None:
            return
        differs = (plan.mode, plan.items) != (mode, [sendable(item) for item in shown])
        if differs and not forced and not self._is_due(request, plan.mode, plan.items):
            return
        await self._execute(plan, state, request)

    def is_automatic(self) -> bool:
        """Return whether the session compacts without a call by hand."""
        return self._options.client is not None or self._options.hook is not None

    def _request(
        self, args: OpenAIResponsesCompactionArgs | None, wrapper: RunContextWrapper[Any] | None
    ) -> CompactionRequest:
        given: dict[str, Any] = {**(args or {})}
        response_id, store = run_facts.valid_word(given.get("response_id")), given.get("store")
        if response_id is not None and store is False:
            self._unstored = response_id
        elif store and response_id == self._unstored:
            self._unstored = None
        mode = checked_mode(given.get("compaction_mode") or self._options.mode)
        if mode == "previous_response_id" and response_id is None:
            raise CompactionRefusedError(
                self._name, "mode `previous_response_id` needs a response id, but no response id was given"
            )
        return CompactionRequest(response_id, mode, bool(given.get("force")), store, self._runs.of(wrapper), wrapper)

    def _mode(self, request: CompactionRequest, *, by_hand: bool) -> str:
        if request.mode != "auto":
            return request.mode
        unstored = request.store is False or (request.store is None and request.response_id == self._unstored)
        return "input" if by_hand or request.response_id is None or unstored else "previous_response_id"

    def _is_due(self, request: CompactionRequest, mode: str, items: list[Any]) -> bool:
        shown = [sendable(item) for item in items]
        context = {
            "response_id": request.response_id,
            "compaction_mode": mode,
            "compaction_candidate_items": provider.candidates(shown),
            "session_items": shown,
        }
        decision: Any = (self._options.hook or provider.due)(context)
        if inspect.isawaitable(decision):
            if inspect.iscoroutine(decision):
                decision.close()
            raise UsageError(
                "should_trigger_compaction returned an awaitable, but it is called synchronously. "
                "Nothing was sent or written. Pass a function that returns True or False."
            )
        return bool(decision)

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

    def _read_window(self, run: Run, limit: int | None) -> History:
        """Return the items for the hook. The rest of the history is not read before a compaction is due."""
        return self._ledger.history(self._name, limit, without=run.without())

    def _read_state(self, run: Run, limit: int | None, *, only_last: bool = False) -> HistoryState:
        """Return the state of the history, or only of the last items: as many as the run knows, and one more."""
        shown = len(run.known or ()) + 1 if only_last else None
        view = self._ledger.history(self._name, shown, without=run.without())
        read = run.token if run.known is not None else None
        since = view.token.position if read is None or read.void else read.position
        known = frozenset(at for at, item_id in enumerate(view.ids) if item_id in (run.known or ()))
        count = len(view.items)
        window = range(0 if limit is None else max(0, count - limit), count)
        changes = self._ledger.read(session=self._name, types=_VIEW_CHANGES, after=since)
        return HistoryState(view, window, known, next(iter(changes), None) is not None)

    def last_exchange(self, run: Run, wrapper: RunContextWrapper[Any] | None, *, ignore_ids: bool) -> Exchange | None:
        """Return the last answered request of a run, as recorded by hooks, or else by the SDK."""
        if run.exchange is not None or wrapper is None:
            return run.exchange
        noted = sdk_private.noted_by(wrapper)
        if run.noted[0] is not noted:
            run.noted = (noted, sdk_private.exchange_of(noted, ignore_ids=ignore_ids))
        return run.noted[1]

    def _prove(self, state: HistoryState, run: Run, exchange: Exchange, new: Sequence[Mark | None] = ()) -> Proof:
        view = state.view
        return prove(view.items, state.known, exchange, run.marks.of(view.ids, view.items, exchange.marker), new)

    def describe_batch(self, run: Run, items: list[Any], batch: Batch, exchange: Exchange | None) -> Batch:
        """Return a batch's description, extended with the facts about the response that produced its items."""
        if exchange is None or all(isinstance(item, dict) and item.get("role") == "user" for item in items):
            return batch
        new = [exchange.marker(item) for item in items]
        state = self._read_state(run, None, only_last=True)
        proof = self._prove(state, run, exchange, new)
        if not (proof.explained and state.known.issuperset(range(1, len(state.view.ids)))):
            state = self._read_state(run, None)
            proof = self._prove(state, run, exchange, new)
        return structs.replace(
            batch,
            response_id=exchange.response_id,
            agent=exchange.agent or batch.agent,
            covered=ranges(state.view.ids, proof.covered),
        )

    async def _plan(
        self, state: HistoryState, request: CompactionRequest, mode: str, exchange: Exchange | None
    ) -> Plan | None:
        if state.stale:
            _log.warning("%s was changed after this run read it. This run does not compact it.", self._name)
            return None
        proof = None if exchange is None else await asyncio.to_thread(self._prove, state, request.run, exchange)
        if exchange is None or proof is None or not proof.seen:
            self._warn_once("nothing is proven about the model's input; pass the session's hooks() to the run")
            return None
        if not proof.covered:
            await self._record_owed(request, "a call has no output yet, or an approval no answer")
            return None
        is_same_response = exchange.response_id in (None, request.response_id)
        if mode == "previous_response_id" and not (proof.entire and is_same_response):
            if request.mode == mode:
                self._warn_once(
                    "the response used items outside the history, so a compaction of it would cover too much"
                )
                return None
            mode = "input"
        return plan_of(state, proof, mode)

    def _plan_by_hand(self, state: HistoryState, request: CompactionRequest, mode: str) -> Plan | None:
        by_response, response_id = mode == "previous_response_id", request.response_id
        chosen = seen_by(self._ledger, self._name, state.view, response_id) if by_response else set(state.window)
        covered = tuple(sorted(whole(state.view.items, chosen)))
        if by_response and not covered:
            raise CompactionRefusedError(self._name, f"the items that response {response_id} used are not known")
        return plan_of(state, Proof(len(covered), covered, frozenset(), entire=True), mode) if covered else None

    async def _execute(self, plan: Plan, state: HistoryState, request: CompactionRequest) -> None:
        client = self._client_for(request.wrapper)
        if client is None:
            return
        response_id = request.response_id if plan.mode == "previous_response_id" else None
        try:
            source = {"input": plan.items} if response_id is None else {"previous_response_id": response_id}
            answer = await client.responses.compact(model=self._options.model, **source)
            facts = {"mode": plan.mode, "response_id": response_id, "usage": self._count_usage(answer, request)}
            items = provider.replayed(getattr(answer, "output", None) or [])
            if items:
                await wait_until_done(self._queue.put(lambda: self._append(plan, state, items, facts, request.run)))
        except StaleTokenError as error:
            _log.warning("The compaction of %s finished too late: %s", self._name, error)
        except StorageError:
            raise  # a deferral could not be written either
        except Exception as error:
            await self._record_owed(request, f"{deferred.FAILED}: {type(error).__name__}")
            if not isinstance(error, UsageError):
                raise
            _log.warning("The compaction of %s was not written: %s", self._name, error)  # an output was added meanwhile
        else:
            if items:
                sdk_private.report_completed(request.wrapper)
            else:
                await self._record_owed(request, f"{deferred.FAILED}: its answer was empty")
                self._warn_once("the provider returned no items, so nothing was written")

    def _count_usage(self, answer: Any, request: CompactionRequest) -> dict[str, int] | None:  # noqa: ANN401 - the provider's own class
        """Add a compaction's usage to its run, even if it fails later. Return the usage in its stored form."""
        usage = getattr(answer, "usage", None)
        if usage is None:
            return None
        used = sdk_private.usage_of(usage)
        if request.wrapper is not None:
            request.wrapper.usage.add(used)
            run_facts.usage_since(request.run, request.wrapper)
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

    def _append(self, plan: Plan, state: HistoryState, items: list[Any], facts: dict[str, Any], run: Run) -> None:
        view, calls = state.view, run.calls
        receipt = self._ledger.histories().compact(
            view.token,
            items,
            ranges(view.ids, plan.covered),
            run=calls.run,
            ordinal=calls.next,
            inline=in_session_thread(),
            **facts,
        )
        calls.compactions += 1
        if run.known is not None:
            run.known.difference_update(view.ids[at] for at in plan.covered)
            run.knows((str(receipt.id), at) for at in range(len(items)))
            run.token = structs.replace(view.token, position=receipt.position or 0, commitment="", wrote=(), limit=None)

    async def _record_owed(self, request: CompactionRequest, reason: str) -> None:
        def record() -> None:
            deferred.record_owed(self._ledger, self._name, request, reason, inline=in_session_thread())

        await wait_until_done(self._queue.put(record))

    async def _is_paused(self, state: HistoryState, request: CompactionRequest) -> bool:
        """Return whether the deferred compaction failed too often to retry it in this call."""
        if request.force or state.view.owed is None:
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
        request = self._request(args, wrapper)
        window = await wait_unless_cancelled(self._queue.put(lambda: self._read_window(request.run, limit)))
        if window.owed is not None or is_encrypted(window.items):
            return
        if self._is_due(request, self._mode(request, by_hand=False), window.items):
            await self._record_owed(request, "tool outputs came after the response")

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
