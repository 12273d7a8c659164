"""Reading and writing the histories of one ledger."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from msgspec import structs

from rightful import content, times
from rightful.errors import ConditionFailedError, InvalidEventError, UsageError
from rightful.events import HistoryAppended, HistoryCleared, HistoryCompacted, HistoryForked, HistoryPopped
from rightful.histories.history import FullHistory, History
from rightful.identity import composite_key, event_id
from rightful.ledger.log import Clock, Log, now_us
from rightful.ledger.recorded import Receipt
from rightful.parts import Covers, HistoryRead
from rightful.projections.histories.fold import CHANGES, Fold, Item
from rightful.session_errors import RunDiffersError, StaleTokenError, VoidTokenError
from rightful.tokens import Batch, Token, Wrote

PRODUCER = "history"
"""Who writes what a caller of the API does."""

TYPES = ("history.appended", "history.compacted", "history.popped", "history.cleared", "history.forked")
"""The event types that a history is made of."""

_ATTEMPTS = 100
"""How often a pop is decided anew because others were faster; each time one of them got through."""


class Histories:
    """Reads and writes histories.

    Args:
        log: The ledger's log.
        ledger_id: The ledger's id, for tokens.
        clock: Tells when something is done; microseconds since 1970, UTC.
        producer: Who writes.
    """

    def __init__(self, log: Log, *, ledger_id: str = "", clock: Clock = now_us, producer: str = PRODUCER) -> None:
        self.log = log
        self._ledger_id = ledger_id
        self._clock = clock
        self._producer = producer
        self._lock = threading.Lock()

    def history(self, session: str, limit: int | None = None) -> History:
        """Return what the model would see next.

        Args:
            session: Its name in full. A session of which nothing stands has an empty history.
            limit: Only its last items, so many; all if None.
        """
        head, fold = self._folded(session)
        shown = fold.items if limit is None else fold.items[max(len(fold.items) - limit, 0) :]
        token = Token(session=session, position=head, ledger=self._ledger_id, limit=limit)
        return History(items=[_item(one) for one in shown], token=token, ids=[one.id for one in shown])

    def full(self, session: str, *, at: int | None = None) -> FullHistory:
        """Return everything that a history ever held, and what became of it.

        Args:
            session: Its name in full.
            at: The position through which it is told; all of the ledger if None.
        """
        raise NotImplementedError

    def _folded(self, session: str, at: int | None = None) -> tuple[int, Fold]:
        head = self.log.head() if at is None else at
        fold = Fold()
        for name, until in self._sources(session, head):
            for page in self.log.of_session(name, [*TYPES, "event.withdrawn"], until=until):
                for row in page:
                    fold.step(row)
        return head, fold

    def _sources(self, session: str, until: int) -> list[tuple[str, int]]:
        """Return whose rows make a history, and up to where: those that it was forked from first."""
        for recorded in self.log.read(session=session, types=["history.forked"], until=until):
            if isinstance(recorded.event, HistoryForked):
                return [*self._sources(recorded.event.of, recorded.event.through), (session, until)]
        return [(session, until)]

    def extend(self, to: Token | str, items: Iterable[Any], batch: Batch | None = None) -> Token:
        """Append items to a history, in one append.

        Args:
            to: The token of what was read; or a session's name, where nothing was read.
            items: What to append, in order: JSON values.
            batch: What is known of them. With a run and an ordinal the call can be repeated, in any process.

        Returns:
            A token that also covers what was appended.

        Raises:
            RunDiffersError: That call of that run appended something else before. Nothing was written.
            InvalidEventError: An item is no content. Nothing was written.
        """
        token = to if isinstance(to, Token) else Token(session=to, position=0, void="nothing was read")
        put, said = list(items), batch or Batch()
        if not put:
            return token
        key = composite_key(token.session, "extend", said.run or uuid.uuid4().hex, said.ordinal or 0)
        event = HistoryAppended(
            producer=self._producer,
            key=key,
            session=token.session,
            at=times.at_of(self._clock()),
            items=put,
            run=said.run,
            ordinal=said.ordinal,
            response_id=said.response_id,
            agent=said.agent,
            usage=said.usage,
            read=None if token.void else HistoryRead(position=token.position, covered=said.covered),
        )
        id_ = event_id(self._producer, key)
        try:
            _valid(self.log.append([event], unless=DCBQuery(items=[DCBQueryItem(tags=[f"id:{id_}"])])))
        except ConditionFailedError:
            stands = self.log.of_id(id_)[0]
            before = msgspec.json.decode(stands.body or b"{}").get("items")
            if before != msgspec.json.decode(msgspec.json.encode(content.escape(put)[0])):
                raise RunDiffersError(token.session, said.run or "", said.ordinal or 0, stands.position) from None
        return structs.replace(token, wrote=(*token.wrote, Wrote(id_, len(put))))

    def pop(self, session: str, *, key: str | None = None) -> Any:  # noqa: ANN401 - content
        """Take the last item of a history back; it remains in the log.

        Args:
            session: Whose.
            key: A key of your own, so that the call can be repeated.

        Returns:
            The item; None where the history shows nothing.
        """
        for _ in range(_ATTEMPTS):
            head, fold = self._folded(session)
            if not fold.items:
                return None
            last = fold.items[-1]
            event = HistoryPopped(
                producer=self._producer,
                key=composite_key(session, "pop", key or uuid.uuid4().hex),
                session=session,
                at=times.at_of(self._clock()),
                items=(last.id,),
            )
            try:
                _valid(self.log.append([event], unless=_any_of(session, TYPES), after=head))
            except ConditionFailedError:
                continue
            return _item(last)
        raise UsageError(f"the history of {session} changes too fast to pop from; nothing was written. Try again.")

    def clear(self, session: str, *, key: str | None = None) -> Receipt:
        """Take all that a history shows out of it; it remains in the log."""
        event = HistoryCleared(
            producer=self._producer,
            key=composite_key(session, "clear", key or uuid.uuid4().hex),
            session=session,
            at=times.at_of(self._clock()),
        )
        return _valid(self.log.append([event]))

    def compact(
        self,
        token: Token,
        items: Iterable[Any],
        covers: Iterable[Any] | None = None,
        *,
        mode: str = "input",
        response_id: str | None = None,
        run: str | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Let items give way to others that stand for them, in one append. All remain in the log.

        Args:
            token: What was read.
            items: What stands for them.
            covers: Which items give way, by id or range; all that the token showed and its holder appended, if None.
            mode: How it was done.
            response_id: The provider's response that it was made from.
            run: The key of the run that does it.
            usage: What the compaction itself used.

        Raises:
            StaleTokenError: The history was cleared, popped or compacted since. Nothing was written.
            VoidTokenError: The token proves nothing. Nothing was written.
        """
        if token.void:
            raise VoidTokenError(token.session, token.void)
        covered = self._covered(token) if covers is None else tuple(covers)
        put = list(items)
        digest = hashlib.sha256(msgspec.json.encode([covered, content.escape(put)[0]], order="deterministic"))
        event = HistoryCompacted(
            producer=self._producer,
            key=composite_key(token.session, "compact", token.position, digest.hexdigest()),
            session=token.session,
            at=times.at_of(self._clock()),
            covers=covered,
            after=token.position,
            response_id=response_id,
            mode=mode,
            items=put,
            run=run,
            usage=dict(usage) if usage is not None else None,
        )
        try:
            return _valid(self.log.append([event], unless=_any_of(token.session, CHANGES), after=token.position))
        except ConditionFailedError:
            raise StaleTokenError(token.session, token.position) from None

    def _covered(self, token: Token) -> Covers:
        _, fold = self._folded(token.session, token.position)
        window = fold.items if token.limit is None else fold.items[max(len(fold.items) - token.limit, 0) :]
        own = [(one.id, at) for one in token.wrote for at in range(one.count)]
        return (*[one.id for one in window], *own)

    def fork(self, session: str, into: str, *, at: int | None = None) -> Token:
        """Let a new history begin with what another one showed. Nothing is copied.

        Args:
            session: Whose history.
            into: The session of the new one; nothing may stand in its history yet.
            at: The position at which it begins; the end of the ledger if None.

        Returns:
            A token of the new history, as it begins.

        Raises:
            UsageError: The new history holds something already. Nothing was written.
        """
        head = self.log.head() if at is None else at
        event = HistoryForked(
            producer=self._producer,
            key=composite_key(into, "fork", session, head),
            session=into,
            at=times.at_of(self._clock()),
            of=session,
            through=head,
        )
        try:
            receipt = _valid(self.log.append([event], unless=_any_of(into, TYPES)))
        except ConditionFailedError:
            raise UsageError(f"the history of {into} holds something already; nothing was written.") from None
        return Token(session=into, position=receipt.position or 0, ledger=self._ledger_id)


def _any_of(session: str, types: Iterable[str]) -> DCBQuery:
    return DCBQuery(items=[DCBQueryItem(types=sorted(types), tags=[f"session:{session}"])])


def _valid(receipts: list[Receipt]) -> Receipt:
    receipt = receipts[0]
    if receipt.outcome == "invalid":
        raise InvalidEventError(receipt.reason or "")
    return receipt


def _item(one: Item) -> Any:  # noqa: ANN401 - content
    item = msgspec.json.decode(one.raw)
    return content.restore(item) if one.escaped else item
