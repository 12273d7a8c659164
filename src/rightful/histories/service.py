"""Read and write the histories of one ledger."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from rightful import limits, times
from rightful.encoding.envelope import body_of
from rightful.errors import ConditionFailedError, RunDiffersError, StaleTokenError, UsageError, VoidTokenError
from rightful.events import HistoryCleared, HistoryCompacted, HistoryForked, HistoryPopped
from rightful.field_types import Covers, HistoryRead
from rightful.histories import full_history
from rightful.histories.answer import affects, history_from, is_small
from rightful.histories.append_batches import as_list, encoded_items, events_of, is_same
from rightful.histories.cached_views import CachedView, Views
from rightful.histories.covered_items import covers_of, known_items, stored_names
from rightful.histories.history_model import FullHistory, History
from rightful.histories.history_rows import folded
from rightful.histories.send import any_of, send
from rightful.identity import composite_key, event_id
from rightful.log.log import Clock, Log, now_us
from rightful.log.rows import Receipt, Stored
from rightful.projections.histories.from_transcript import ITEM_TYPES
from rightful.projections.histories.history_fold import CHANGES, HISTORY
from rightful.projections.histories.history_items import Item, ItemKey, objects
from rightful.storage.critical_sections import run_locked
from rightful.tokens import Batch, Token, Without, Wrote

PRODUCER = "history"
"""The producer of events that the API writes."""


class Histories:
    """Reads and writes histories. Threads may share it.

    Args:
        log: The ledger's log.
        ledger_id: The ledger's id, for tokens.
        clock: Returns the time of an event; microseconds since 1970, UTC.
        producer: The producer's name.
    """

    def __init__(self, log: Log, *, ledger_id: str = "", clock: Clock = now_us, producer: str = PRODUCER) -> None:
        self.log = log
        self._ledger_id = ledger_id
        self._clock = clock
        self._producer = producer
        self._views = Views(log)
        self._send = partial(send, log)

    def history(
        self, session: str, limit: int | None = None, *, without: tuple[str, int] | Without | None = None
    ) -> History:
        """Return the items that the model would see next.

        Args:
            session: The session's full name. A session without events has an empty history.
            limit: The maximum number of items, counted from the end; all if None.
            without: A run and an ordinal. The items that the run appended from that call on, and its compactions
                from there, are ignored. So a repeated run does not see its first attempt.

        Raises:
            UsageError: The limit is negative.
            UpgradeError: A row of the history is newer than this program.
        """
        ignored = None if without is None else Without(*without)
        cached = self._views.of(session)
        return run_locked(cached.lock, self._history, session, limit, ignored, cached)

    def _history(self, session: str, limit: int | None, ignored: Without | None, cached: CachedView) -> History:
        fold = self._views.catch_up(session, cached)
        head = cached.position
        token = Token(session, head, self._ledger_id, limit, commitment=self._views.commitment(head))
        if ignored is not None and affects(fold, ignored):
            fold = folded(self.log, session, head, without=ignored)
            token = structs.replace(token, without=ignored[:2], compactions=ignored.compactions)
        return history_from(fold, token)

    def ready(
        self,
        session: str,
        limit: int | None = None,
        *,
        without: tuple[str, int] | Without | None = None,
        fold_recent: bool = False,
    ) -> History | None:
        """Return the result of `history` if it is available without folding or waiting and is small; else None.

        An event loop can call it on its own thread. It raises the same errors as `history`.

        Args:
            session: As `history`.
            limit: As `history`.
            without: As `history`.
            fold_recent: First fold the rows added since the last read, if this process appended all of them and
                they are still cached.
        """
        cached = self._views.of(session)
        if cached.lock.locked():
            return None
        ignored = None if without is None else Without(*without)
        # another thread may still acquire the lock first; then this waits
        return run_locked(cached.lock, self._ready, session, limit, ignored, cached, fold_recent=fold_recent)

    def _ready(
        self, session: str, limit: int | None, ignored: Without | None, cached: CachedView, *, fold_recent: bool
    ) -> History | None:
        head = self.log.head()
        if fold_recent:
            self._views.catch_up_from_memory(session, cached, head)
        fold = cached.fold
        commitment = self._views.known_commitment(head)
        if fold is None or cached.position != head or commitment is None:
            return None
        if (ignored is not None and affects(fold, ignored)) or not is_small(fold, limit):
            return None
        return history_from(fold, Token(session, head, self._ledger_id, limit, commitment=commitment))

    def full(self, session: str, *, at: int | None = None) -> FullHistory:
        """Return all items that were ever in a history, with their current state.

        Args:
            session: The session's full name.
            at: The last position to read; all of the ledger if None.

        Raises:
            UsageError: The position is negative.
            UpgradeError: A row of the history is newer than this program.
        """
        head = self.log.head()
        if at is not None and at < 0:
            raise UsageError(f"Invalid position {at}. Nothing was read. Pass 0 or more.")
        until = head if at is None else min(at, head)
        return full_history.full_history(session, until, folded(self.log, session, until, whole=True))

    def extend(
        self, to: Token | str, items: Iterable[Any], batch: Batch | None = None, *, inline: bool = False
    ) -> Token:
        """Append items to a history, in one append.

        Args:
            to: The token of the read, or a session's name if nothing was read.
            items: The items to append, in order: JSON values.
            batch: Facts about the items. With a run and an ordinal the call can be repeated, in any process.
            inline: As `Log.append`.

        Returns:
            A token that also covers the appended items.

        Raises:
            RunDiffersError: The same call of that run appended other items before. Nothing was written.
            InvalidEventError: An item is not a JSON value, or is too large. Nothing was written.
            UsageError: The token belongs to another ledger, a run was passed without an ordinal, or `items` is a
                single item. Nothing was written.
        """
        token = to if isinstance(to, Token) else Token(to, 0, self._ledger_id, void="nothing was read")
        self._check_ledger(token)
        appended, facts = as_list(items), batch or Batch()
        if (facts.run is None) != (facts.ordinal is None):
            raise UsageError("`run` and `ordinal` must be given together. Nothing was written. Pass both, or neither.")
        if not appended:
            return token
        events = events_of(
            token.session,
            appended,
            facts.run or uuid.uuid4().hex,
            facts,
            None if token.void else HistoryRead(position=token.position, covered=facts.covered),
            producer=self._producer,
            at=times.at_of(self._clock()),
        )
        wrote: list[Stored] = []
        try:
            ids = [str(receipt.id) for receipt in self._send(events, all_new=True, wrote=wrote, inline=inline)]
            self._views.wrote(wrote)
        except ConditionFailedError:
            ids = [event_id(self._producer, event.key or "") for event in events]
            for id_, event in zip(ids, events, strict=True):
                rows = self.log.of_id(id_)
                if not rows or (rows[0].body is not None and not is_same(event, rows[0].body)):
                    at = next(row.position for own_id in ids for row in self.log.of_id(own_id))
                    raise RunDiffersError(token.session, facts.run or "", facts.ordinal or 0, at) from None
        own = [Wrote(id_, len(event.items)) for id_, event in zip(ids, events, strict=True) if event.items]
        return structs.replace(token, wrote=(*token.wrote, *own))

    def done(self, session: str, run: str, ordinal: int) -> dict[str, int]:
        """Return what one call of a run did before: `extend`, `pop` or `clear`, with the position of its event.

        Pops and clears belong to a run by their key, `composite_key(run, ordinal)`.
        """
        key = composite_key(run, ordinal)
        keys = {"extend": (run, ordinal, 0), "pop": (key,), "clear": (key,)}
        found = {
            what: self.log.of_id(event_id(self._producer, composite_key(session, what, *of)))
            for what, of in keys.items()
        }
        return {what: rows[0].position for what, rows in found.items() if rows}

    def compactions(self, session: str, run: str, ordinal: int) -> list[list[ItemKey]]:
        """Return the compactions that a run made after `ordinal` calls: for each, the ids of the remaining items."""
        cached = self._views.of(session)
        return run_locked(
            cached.lock, lambda: list(self._views.catch_up(session, cached).compactions.get(run, {}).get(ordinal, ()))
        )

    def pop(self, session: str, *, key: str | None = None, inline: bool = False) -> Any:  # noqa: ANN401 - content
        """Remove the last item from a history. It remains in the log.

        Args:
            session: The session of the history.
            key: A key of your own, so that the call can be repeated: it returns the same item again.
            inline: As `Log.append`.

        Returns:
            The item; None if the history is empty.

        Raises:
            UsageError: Other writers changed the history during each attempt. Nothing was written.
        """
        key_ = composite_key(session, "pop", key or uuid.uuid4().hex)
        id_ = event_id(self._producer, key_)
        for _ in range(limits.HISTORY_ATTEMPTS):
            cached = self._views.of(session)
            shown, head = run_locked(cached.lock, self._newest, session, cached)
            if key is not None and (rows := self.log.of_id(id_)):  # after the head it would fail the condition
                return self._popped(rows[0])
            if not shown and key is None:
                return None
            at = times.at_of(self._clock())
            covers = tuple(item.id for item in shown)
            event = HistoryPopped(producer=self._producer, key=key_, session=session, at=at, items=covers)
            try:
                self._send([event], unless=any_of(session, HISTORY | ITEM_TYPES | CHANGES), after=head, inline=inline)
            except ConditionFailedError:
                continue
            return objects(shown)[0] if shown else None
        raise UsageError(f"Other writers kept changing the history of {session}. Nothing was popped. Try again.")

    def _newest(self, session: str, cached: CachedView) -> tuple[list[Item], int]:
        """Return the last visible item of a history, if any, and the position through which it was folded."""
        return self._views.catch_up(session, cached).view.shown(1)[0], cached.position

    def _popped(self, row: Any) -> Any:  # noqa: ANN401 - content
        """Return the item that a pop removed, with its content at that time."""
        if row.body is None:
            return None
        names = body_of(row.envelope, row.body, row.position).items
        if not names:
            return None
        fold = folded(self.log, row.envelope.session, row.position - 1)
        found = objects([item for item in fold.view.shown()[0] if item.id == names[0]])
        return found[0] if found else None

    def clear(self, session: str, *, key: str | None = None, inline: bool = False) -> Receipt:
        """Remove all items from a history. They remain in the log.

        Args:
            session: The session of the history.
            key: A key of your own, so that the call can be repeated.
            inline: As `Log.append`.
        """
        event = HistoryCleared(
            producer=self._producer,
            key=composite_key(session, "clear", key or uuid.uuid4().hex),
            session=session,
            at=times.at_of(self._clock()),
        )
        return self._send([event], inline=inline)[0]

    def compact(  # noqa: PLR0913 - one argument for each field of the event
        self,
        token: Token,
        items: Iterable[Any],
        covers: Iterable[Any] | None = None,
        *,
        mode: str = "input",
        response_id: str | None = None,
        run: str | None = None,
        usage: Mapping[str, Any] | None = None,
        ordinal: int | None = None,
        inline: bool = False,
    ) -> Receipt:
        """Replace items with a summary of them, in one append. All items remain in the log.

        The call can be repeated: with the same token, items and covers it returns the first receipt again.

        Args:
            token: The token of the read.
            items: The items of the summary.
            covers: The items to replace, by id or range. None for all items that were read or appended with the
                token, except parts of groups that would be split.
            mode: How the compaction was made.
            response_id: The provider's response that the summary is based on.
            run: The key of the run that compacts.
            usage: The token usage of the compaction itself.
            ordinal: The number of earlier calls of that run, so that a repeated run sees the compaction from there on.
            inline: As `Log.append`.

        Raises:
            StaleTokenError: The history was cleared, popped or compacted since the read. Nothing was written.
            VoidTokenError: The token is not based on a read. Nothing was written.
            UsageError: The token belongs to another ledger, a named item was neither read nor appended with it, or
                a group would be split. Nothing was written.
        """
        if token.void:
            raise VoidTokenError(token.session, token.void)
        self._check_ledger(token)
        summary, named = as_list(items), None if covers is None else stored_names(covers)
        digest = hashlib.sha256(_deterministic([token.key(), named]) + encoded_items(summary)).hexdigest()
        key = composite_key(token.session, "compact", token.position, digest)
        if (before := self._receipt(key)) is not None:
            return before
        try:
            event = HistoryCompacted(
                producer=self._producer,
                key=key,
                session=token.session,
                at=times.at_of(self._clock()),
                covers=self._covers(token, named),
                after=token.position,
                response_id=response_id,
                mode=mode,
                items=summary,
                run=run,
                usage=dict(usage) if usage is not None else None,
                ordinal=ordinal,
            )
            unless = any_of(token.session, CHANGES)
            return self._send([event], unless=unless, after=token.position, inline=inline)[0]
        except (ConditionFailedError, StaleTokenError):
            if (before := self._receipt(key)) is not None:  # another process made the same call at the same time
                return before
            raise StaleTokenError(token.session, token.position, self._changed(token)) from None

    def _receipt(self, key: str) -> Receipt | None:
        """Return the receipt of an earlier event with this key; None if there is none."""
        rows = self.log.of_id(event_id(self._producer, key))
        return Receipt(rows[0].envelope.id, "duplicate", rows[0].position, rows[0].position) if rows else None

    def _covers(self, token: Token, named: Covers | None) -> Covers:
        cached = self._views.of(token.session)
        return run_locked(cached.lock, self._covers_in, cached, token, named)

    def _covers_in(self, cached: CachedView, token: Token, named: Covers | None) -> Covers:
        fold = self._views.catch_up(token.session, cached)
        head = cached.position
        if token.position > head:
            raise UsageError(
                f"The token was read at position {token.position}, but the ledger ends at {head}. Nothing was written. "
                "It belongs to another ledger, or the ledger was restored from a backup. Read the history again."
            )
        if token.commitment and token.commitment != self.log.commitment(token.position):
            raise StaleTokenError(token.session, token.position)
        if fold.changed_at > token.position:
            raise StaleTokenError(token.session, token.position, self._changed(token))
        if token.without is not None:
            ignored = Without(*token.without, token.compactions)
            fold = folded(self.log, token.session, head, without=ignored)
        self._check_wrote(token, {item.id[0] for item in known_items(token, fold)})
        return covers_of(token, fold, named)

    def _check_ledger(self, token: Token) -> None:
        if token.ledger and self._ledger_id and token.ledger != self._ledger_id:
            raise UsageError(
                f"This token belongs to ledger {token.ledger}, not to ledger {self._ledger_id}. Nothing was written. "
                "Read the history from this ledger."
            )

    def _check_wrote(self, token: Token, known: set[str]) -> None:
        for wrote in token.wrote:
            if wrote.id in known:
                continue
            rows = self.log.of_id(wrote.id)
            if not rows or rows[0].envelope.session != token.session:
                owner = rows[0].envelope.session if rows else "no session here"
                raise UsageError(
                    f"This token of {token.session} states that it appended event {wrote.id}, "
                    f"which belongs to {owner}. Nothing was written. Read the history again."
                )

    def _changed(self, token: Token) -> int | None:
        """Return the position of the first change after the token's position."""
        for page in self.log.of_session(token.session, CHANGES, token.position):
            return page[0].position
        return None

    def fork(self, session: str, into: str, *, at: int | None = None, inline: bool = False) -> Token:
        """Start a new history with the items of another one. Nothing is copied.

        Args:
            session: The session of the existing history.
            into: The session of the new history, which must be empty.
            at: The position whose items the new history starts with; the end of the ledger if None. With a position
                the call can be repeated.
            inline: As `Log.append`.

        Returns:
            A token for the start of the new history.

        Raises:
            UsageError: The new history is not empty, or the position is not in the ledger. Nothing was written.
        """
        head = self.log.head()
        if at is not None and not 0 <= at <= head:
            raise UsageError(f"Position {at} is not in the ledger, which ends at {head}. Nothing was written.")
        if session == into:
            raise UsageError(f"{session} cannot be forked into itself. Nothing was written. Pass another session name.")
        through = head if at is None else at
        event = HistoryForked(
            producer=self._producer,
            key=composite_key(into, "fork", session, through),
            session=into,
            at=times.at_of(self._clock()),
            of=session,
            through=through,
        )
        try:
            receipt = self._send([event], unless=any_of(into, HISTORY | ITEM_TYPES), inline=inline)[0]
        except ConditionFailedError:
            raise UsageError(
                f"The history of {into} is not empty. Nothing was written. Give the branch another name."
            ) from None
        position = receipt.position or 0
        return Token(into, position, self._ledger_id, commitment=self.log.commitment(position))


def _deterministic(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
