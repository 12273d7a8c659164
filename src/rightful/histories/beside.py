"""What the rows of a history say beside its items: when, by whom, of which run and response, and what was deferred."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from rightful import content
from rightful.histories.reading import chain
from rightful.ledger.classify import ACCEPTED
from rightful.ledger.log import Log
from rightful.ledger.recorded import Stored

_DEFERRED = "compaction.deferred"


class _Said(msgspec.Struct, gc=False):
    agent: Any = None
    run: Any = None
    ordinal: Any = None
    response_id: Any = None
    reason: Any = None
    usage: Any = None


_said = msgspec.json.Decoder(_Said).decode


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What one row says beside items.

    Attributes:
        id: The event id.
        type: The event type.
        session: Whose row it is: that of another session, where the history was begun with that one's.
        position: Where it stands.
        at_us: When it happened; microseconds since 1970, UTC.
        is_bound: That is a file's time, an upper bound.
        producer: Who wrote it.
        erased: Its content was erased.
        agent: Which agent spoke.
        run: Which run did it.
        ordinal: Which batch of that run it is.
        response_id: The provider's response.
        reason: Why a compaction could not be done.
        usage: What was used.
    """

    id: str
    type: str
    session: str
    position: int
    at_us: int
    is_bound: bool
    producer: str
    erased: bool
    agent: str | None = None
    run: str | None = None
    ordinal: int | None = None
    response_id: str | None = None
    reason: str | None = None
    usage: dict[str, Any] | None = None


class Fork(NamedTuple):
    """With whose history one begins, and the position through which that was taken."""

    of: str
    through: int
    position: int


class Rows(NamedTuple):
    """The rows of a history.

    Attributes:
        at: What each says beside its items, by position; of the sessions too whose history it begins with.
        forks: With whose it begins, the nearest first.
        deferred: The last compaction that was due and could not be done yet, be it that it was done since.
        session: Whose history it is.
    """

    at: dict[int, Beside]
    forks: list[Fork]
    deferred: Beside | None
    session: str


def rows_of(log: Log, session: str, until: int | None = None) -> Rows:
    """Return what the rows of a history say beside its items.

    Args:
        log: The ledger's log.
        session: Whose history; its name in full.
        until: The last position that counts; all if None.
    """
    at: dict[int, Beside] = {}
    deferred: Beside | None = None
    chained = chain(log, session, log.head() if until is None else until)
    for name, end, shown in chained:
        for page in log.of_session(name, until=end):
            for row in page:
                counts = shown.counts(row)
                if counts or row.envelope.outcome in ACCEPTED:
                    at[row.position] = one = _beside(row)
                    if counts and name == session and one.type == _DEFERRED:
                        deferred = one
    forks = [Fork(of, end, shown.forked_at) for (of, end, _), (_, _, shown) in pairwise(chained)]
    return Rows(at, forks[::-1], deferred, session)


def _beside(row: Stored) -> Beside:
    envelope, said = row.envelope, _Said() if row.body is None else _said(row.body)
    agent, usage = content.restore([said.agent, said.usage]) if envelope.escaped else (said.agent, said.usage)
    return Beside(
        id=envelope.id,
        type=envelope.type,
        session=envelope.session or "",
        position=row.position,
        at_us=envelope.at_us,
        is_bound=envelope.at_basis is not None,
        producer=envelope.producer,
        erased=row.payload is None,
        agent=_text(agent),
        run=_text(said.run),
        ordinal=said.ordinal if isinstance(said.ordinal, int) else None,
        response_id=_text(said.response_id),
        reason=_text(said.reason),
        usage=usage if isinstance(usage, dict) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
