"""The outcome of an append for one event, whose id may be in the ledger already.

Nothing is overwritten and nothing is lost. The outcomes are those of the table in docs/reference/words.md. These
rules are tried in order, and the first that applies decides:

1. The id is new: `appended`.
2. A row of the id has the same content, or its payload is erased: `duplicate`, or `stale` or `conflict` if that row
   has this outcome.
3. The type or the session differs from the newest accepted revision: `conflict`.
4. That revision refines the event, or the event is of a growing type and has a lower index in the same turn: `stale`.
5. The event refines that revision (`refined`, under another turn `reemitted`), or equals it under another turn
   (`reemitted`).
6. Otherwise: `conflict`.

The outcome depends on the rows of that id alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rightful.encoding.envelope import commitment
from rightful.log.refine import GROWING, refines
from rightful.log.rows import Stored

ACCEPTED = frozenset({"appended", "refined", "reemitted"})
"""The outcomes of rows whose content is shown; the newest such row of an id is its current content."""

REPEATED = frozenset({"stale", "conflict"})
"""The outcomes that a repeat of such a row gets again."""


STORED_AT = "it stands at position"
"""The start of the reason for a stale or conflicting event that was sent again and is not stored twice."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An incoming event, reduced to the fields that are compared.

    Attributes:
        id: Its event id.
        type: Its type.
        session: The session's name, if the type has one.
        turn: The turn, if it has one.
        index: Its place in the turn, if it has one.
        body: The canonical body.
    """

    id: str
    type: str
    session: str | None
    turn: str | None
    index: int | None
    body: bytes


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The decision about a candidate.

    Attributes:
        outcome: `appended`, `refined`, `reemitted`, `stale`, `conflict` or `duplicate`.
        position: The position of the stored row with the same content; 0 if the candidate is to be stored.
        first: The position of the id's first row; 0 if the candidate will be the first.
        revision: The number of its row among those of the id, from 1; that of the repeated row if nothing is stored.
        reason: Why it is stale or a conflict; None otherwise.
    """

    outcome: str
    position: int = 0
    first: int = 0
    revision: int = 1
    reason: str | None = None


NEW = Verdict("appended")
"""The verdict for an id that is not in the ledger."""


def classify(candidate: Candidate, rows: Sequence[Stored]) -> Verdict:
    """Return the verdict for a candidate.

    Args:
        candidate: The incoming event.
        rows: All rows of its id, by ascending position, including those of the same append.
    """
    if not rows:
        return NEW
    first = rows[0].position
    if (row := _repeated(candidate, rows)) is not None:
        outcome = row.envelope.outcome if row.envelope.outcome in REPEATED else "duplicate"
        why = f"{STORED_AT} {row.position} as {outcome}" if outcome in REPEATED else None
        return Verdict(outcome, row.position, first, row.envelope.revision, why)
    outcome, reason = _judged(candidate, _newest(rows))
    return Verdict(outcome, 0, first, rows[-1].envelope.revision + 1, reason)


def _repeated(candidate: Candidate, rows: Sequence[Stored]) -> Stored | None:
    """Return the row with the same content. If a payload was erased, the id alone decides."""
    for row in rows:
        if row.payload is not None and _alike(candidate, row) and _same_body(candidate, row):
            return row
    erased = [row for row in rows if row.payload is None]
    return next((row for row in erased if row.envelope.outcome in ACCEPTED), erased[0] if erased else None)


def _alike(candidate: Candidate, row: Stored) -> bool:
    envelope = row.envelope
    return (candidate.type, candidate.session, candidate.turn) == (envelope.type, envelope.session, envelope.turn)


def _same_body(candidate: Candidate, row: Stored) -> bool:
    if row.payload is None or row.envelope.body_bytes != len(candidate.body):
        return False
    return commitment(row.payload[:32], candidate.body) == row.envelope.commitment


def _newest(rows: Sequence[Stored]) -> Stored:
    """Return the newest accepted revision; the first row of an id is always accepted."""
    return next(row for row in reversed(rows) if row.envelope.outcome in ACCEPTED)


def _judged(candidate: Candidate, newest: Stored) -> tuple[str, str | None]:
    """Return the outcome and its reason by rules 3 to 6. The payload of the newest accepted revision is not erased."""
    against = newest.envelope
    where = f"revision {against.revision} at position {newest.position}"
    if candidate.type != against.type:
        return "conflict", f"Expected type {against.type!r}, that of {where}"
    if candidate.session != against.session:
        return "conflict", f"Expected session {against.session!r}, that of {where}"
    body = newest.body or b""
    same_turn = candidate.turn == against.turn
    if refines(candidate.type, body, candidate.body):
        return "stale", f"{where} says all of it and more"
    if same_turn and _is_lower(candidate, newest):
        return "stale", f"Expected index {against.index} or higher, that of {where}"
    if refines(candidate.type, candidate.body, body):
        return ("refined" if same_turn else "reemitted"), None
    if candidate.body == body and not same_turn:
        return "reemitted", None
    return "conflict", f"Expected the content of {where}, or more of it"


def _is_lower(candidate: Candidate, newest: Stored) -> bool:
    index = newest.envelope.index
    return candidate.type in GROWING and candidate.index is not None and index is not None and candidate.index < index
