"""The fold: rows of the log into `Facts`, one step a row.

Each type is decided in one of two tables, and a test holds that together they name every type:
`STEPS` for what attribution reads, `MENTIONS` for what only shows that a session exists. The
runner dispatches by type, because a `match` over nineteen classes costs more than the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rightful.envelope import SALT_BYTES, VERSION, Envelope, body_kind, body_of
from rightful.errors import UpgradeError
from rightful.events import TYPES
from rightful.ledger.recorded import Stored
from rightful.projections.facts import Facts

Step = Callable[[Facts, Envelope, Any, int], None]

STEPS: dict[str, Step] = {
    "session.started": Facts.start,
    "session.linked": Facts.link,
    "session.unlinked": Facts.link,
    "exposure.recorded": Facts.exposure,
    "grade.recorded": Facts.grade,
    "grade.retracted": Facts.retraction,
    "bandit.decayed": Facts.decay,
    "bandit.pruned": Facts.prune,
    "balance.opened": Facts.balance,
    "posterior.published": Facts.publish,
    "event.withdrawn": Facts.withdraw,
}
"""What attribution reads: each takes the facts, the envelope, the body (None when erased) and the position."""

MENTIONS = frozenset(
    {
        "session.ended",
        "message.recorded",
        "thought.recorded",
        "usage.recorded",
        "error.recorded",
        "tool_call.snapshotted",
        "tool_result.snapshotted",
        "turn.ended",
    }
)
"""What only shows that a session exists."""

FOLDED = frozenset({"appended", "conflict"})
"""Outcomes that state something new: the others repeat or refine what a row already says."""


def fold(facts: Facts, rows: Iterable[Stored]) -> None:
    """Add rows to the facts, in order of position; each row once.

    Raises:
        UpgradeError: A row is of a newer type or version. The facts stand before that row.
    """
    for row in rows:
        envelope, position = row.envelope, row.position
        step = STEPS.get(envelope.type)
        if step is not None and envelope.outcome in FOLDED:
            body = None if row.payload is None else _body(envelope, row.payload, position)
            step(facts, envelope, body, position)
            if envelope.outcome == "conflict":
                facts.conflict(envelope, position)
        else:
            _mention(facts, envelope, row.payload, position)
        facts.tick(envelope.at_us, position)
        facts.watermark = position


_decoders: dict[str, Callable[[bytes], Any]] = {}


def _body(envelope: Envelope, payload: bytes, position: int) -> Any:  # noqa: ANN401 - one struct a type
    if envelope.schema == 1 and envelope.v == VERSION:
        decode = _decoders.get(envelope.type)
        if decode is None:
            decode = _decoders[envelope.type] = body_kind(TYPES[envelope.type]).decode
        return decode(payload[SALT_BYTES:])
    return body_of(envelope, payload[SALT_BYTES:], position)


def _mention(facts: Facts, envelope: Envelope, payload: bytes | None, position: int) -> None:
    if envelope.type not in MENTIONS and envelope.type not in STEPS:
        raise UpgradeError(position, envelope.type, envelope.schema)
    if envelope.session is None:
        return
    alias = payload is not None and b'"alias":true' in payload and _body(envelope, payload, position).alias
    facts.touch(facts.names.number(envelope.session, position, alias=alias))
