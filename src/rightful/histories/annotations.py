"""Annotations of a history's rows: the time, the producer, the run and response, and deferred compactions.

For sessions imported from a tool's files, they also contain facts that an item has no field for (a failed result, a
text known only by its hash), and the session that is continued.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from rightful import content
from rightful.histories.history_rows import chain
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.histories.from_transcript import ITEM_TYPES

_DEFERRED, _STARTED = "compaction.deferred", "session.started"
CONTINUES = ("resumes", "forked_from")
"""The keys of a start's `extra` that name the continued session. The earlier messages are only in that session."""


class _AnnotatedBody(msgspec.Struct, gc=False):
    agent: Any = None
    run: Any = None
    ordinal: Any = None
    response_id: Any = None
    reason: Any = None
    usage: Any = None
    is_error: Any = None
    extra: Any = None


_decode_body = msgspec.json.Decoder(_AnnotatedBody).decode


class RowAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """The annotations of one row.

    Attributes:
        id: The event id.
        type: The event type.
        session: The session of the row; another one if the history was forked from it.
        position: Its position.
        at_us: When it happened; microseconds since 1970, UTC.
        is_bound: Whether that time is a file's, and so only an upper bound.
        producer: The producer that wrote it.
        erased: Whether its content was erased.
        agent: The agent that produced the items.
        run: The key of the run.
        ordinal: The number of the batch in that run.
        response_id: The provider's id of the response.
        reason: Why a compaction was not possible.
        usage: The token counts.
        is_error: Whether a tool failed.
        extra: The producer's `extra` of a transcript row.
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
    is_error: bool = False
    extra: dict[str, Any] | None = None


class Continued(NamedTuple):
    """A session that continues another one: its name, how (`resumes`, `forked_from`), and the other session."""

    session: str
    how: str
    of: str


class Fork(NamedTuple):
    """A forked history, the last position of it that the fork includes, and the position of the fork's event."""

    of: str
    through: int
    position: int


class Rows(NamedTuple):
    """The rows of a history.

    Attributes:
        at: The annotations by position, including those of the histories that it was forked from.
        forks: The histories that it was forked from, the nearest first.
        continued: Sessions that continue others, as stated by their tools.
        deferred: The last deferred compaction, even if it was made later.
        session: The session of the history.
    """

    at: dict[int, RowAnnotations]
    forks: list[Fork]
    continued: list[Continued]
    deferred: RowAnnotations | None
    session: str


class _ImportedRows:
    """The rows of imported sessions: an item has the position of its first row and the content of its last one.

    Attributes:
        continued: As in `Rows`.
    """

    def __init__(self, at: dict[int, RowAnnotations]) -> None:
        self.continued: dict[Continued, None] = {}
        self._at = at
        self._first: dict[str, int] = {}

    def add(self, row: RowAnnotations) -> None:
        """Add a row that is part of the history."""
        if row.type in ITEM_TYPES:
            first = self._first.setdefault(row.id, row.position)
            self._at[first] = msgspec.structs.replace(self._at[first], is_error=row.is_error, extra=row.extra)
        elif row.type == _STARTED and (extra := row.extra) is not None:
            named = (Continued(row.session, how, extra[how]) for how in CONTINUES if isinstance(extra.get(how), str))
            self.continued |= dict.fromkeys(named)


def rows_of(log: Log, session: str, until: int | None = None) -> Rows:
    """Return the annotations of a history's rows.

    Args:
        log: The ledger's log.
        session: The full name of the history's session.
        until: The last position to read; all if None.
    """
    at: dict[int, RowAnnotations] = {}
    imported = _ImportedRows(at)
    deferred: RowAnnotations | None = None
    chained = chain(log, session, log.head() if until is None else until)
    for name, end, shown in chained:
        for page in log.of_session(name, until=end):
            for row in page:
                counts = shown.counts(row)
                if counts or row.envelope.outcome in ACCEPTED:
                    at[row.position] = annotations = _annotations_of(row)
                    if counts:
                        imported.add(annotations)
                    if counts and name == session and annotations.type == _DEFERRED:
                        deferred = annotations
    forks = [Fork(of, end, shown.forked_at) for (of, end, _), (_, _, shown) in pairwise(chained)]
    return Rows(at, forks[::-1], list(imported.continued), deferred, session)


def _annotations_of(row: Stored) -> RowAnnotations:
    envelope, body = row.envelope, _AnnotatedBody() if row.body is None else _decode_body(row.body)
    is_told = envelope.type in ITEM_TYPES or envelope.type == _STARTED
    found = [body.agent, body.usage, body.extra if is_told else None]
    agent, usage, extra = content.restore(found) if envelope.escaped else found
    return RowAnnotations(
        id=envelope.id,
        type=envelope.type,
        session=envelope.session or "",
        position=row.position,
        at_us=envelope.at_us,
        is_bound=envelope.at_basis is not None,
        producer=envelope.producer,
        erased=row.payload is None,
        agent=_text(agent),
        run=_text(body.run),
        ordinal=body.ordinal if isinstance(body.ordinal, int) else None,
        response_id=_text(body.response_id),
        reason=_text(body.reason),
        usage=usage if isinstance(usage, dict) else None,
        is_error=body.is_error is True,
        extra=extra if isinstance(extra, dict) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
