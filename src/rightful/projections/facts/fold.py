"""The fold: rows of the log into `Facts`, one step a row.

Each type is decided in one of two tables, and a test holds that together they name every type:
`STEPS` for what attribution reads, `MENTIONS` for what only shows that a session exists. The
runner dispatches by type, because a `match` over thirty classes costs more than the step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, NamedTuple

from rightful.encoding.envelope import SALT_BYTES, SCHEMAS, VERSION, Envelope, body_kind, body_of
from rightful.errors import UpgradeError
from rightful.events import TYPES
from rightful.log.rows import Page
from rightful.log.withdrawals import WITHDRAWAL
from rightful.projections.facts import identity_claims
from rightful.projections.facts.batch_fold import add_exposures, add_grades, batch_of, is_plain
from rightful.projections.facts.facts import LINKS, Facts
from rightful.projections.facts.turn_rows import collect, concerns

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
    WITHDRAWAL: Facts.withdraw,
}
"""What attribution reads: each takes the facts, the envelope, the body (None when erased) and the position."""

WITHDRAWABLE = frozenset(STEPS) - {WITHDRAWAL}
"""What attribution leaves out where its producer withdrew it; a withdrawal of a withdrawal is a rule of its own."""

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
        "interaction.requested",
        "interaction.answered",
        "data.recorded",
        "transcript.bound",
        "transcript.unbound",
        "history.appended",
        "history.compacted",
        "history.popped",
        "history.cleared",
        "history.forked",
        "compaction.deferred",
        "handoff.written",
        "handoff.taken",
    }
)
"""What only shows that a session exists."""

FOLDED = frozenset({"appended", "conflict"})
"""Outcomes that state something new: the others repeat or refine what a row already says."""


_GRADES = {"grade.recorded", "grade.retracted"}
"""Types whose rows stand in one table, which is in the order of the log: type by type would disorder it."""


def fold(facts: Facts, page: Page) -> None:
    """Add a page of rows to the facts; each row once, in order of position.

    Raises:
        UpgradeError: A row is of a newer type or version. The facts stand before that row.
    """
    kinds: Collection[str] | None = None
    names: list[int] | None = None
    try:
        if is_plain(page):
            names = facts.names.numbers(page)
            kinds = _fold_plain(facts, page, names)
        else:
            _fold_each(facts, page)
    finally:
        facts.names.note_first_rows(page, facts.producers.number)
        folded = page if facts.watermark >= page.last else page.until(facts.watermark)
        names = facts.names.known_numbers(folded) if names is None else names[: len(folded.envelopes)]
        facts.names.note_times(folded, names)
        identity_claims.collect(facts, folded)
        if facts.awaited:
            for position, envelope in enumerate(folded.envelopes, folded.after + 1):
                if envelope.id in facts.awaited and envelope.type != WITHDRAWAL:
                    facts.note_withdrawn_row(envelope, position, is_read=envelope.type in WITHDRAWABLE)
        if concerns(page, kinds):
            collect(facts.turns, folded, facts.names.of, facts.producers.number)
        facts.freeze()


def _fold_plain(facts: Facts, page: Page, names: list[int]) -> Collection[str]:
    """Fold rows that state something new and nothing unusual, type by type; return their types."""
    places: dict[str, list[int]] = {}
    for place, envelope in enumerate(page.envelopes):
        places.setdefault(envelope.type, []).append(place)
    links, grades = len(facts.links), len(facts.grades)
    for kind, mine in places.items():
        step = _known_steps.get(kind)
        if step is None:
            facts.touch_all(names)
        elif step.take is Facts.exposure:
            add_exposures(facts, batch_of(page, names, mine, step.decode))
        elif step.take is Facts.grade:
            add_grades(facts, batch_of(page, names, mine, step.decode))
        else:
            batch = batch_of(page, names, mine, step.decode)
            for position, envelope, body in zip(batch.positions.tolist(), batch.envelopes, batch.bodies, strict=True):
                step.take(facts, envelope, body, position)
    if places.keys() >= LINKS:
        facts.links.order_from(links, "pos")
    if places.keys() >= _GRADES:
        facts.grades.order_from(grades, "pos")
    time_us = event_time_us if "posterior.published" in places else attrgetter("at_us")
    facts.tick_all(list(map(time_us, page.envelopes)), page.after + 1)
    return places.keys()


def _fold_each(facts: Facts, page: Page) -> None:
    for position, envelope, payload in page.rows():
        step = _known_steps.get(envelope.type)
        if step is not None and envelope.outcome in FOLDED:
            if payload is None:
                body = None
            elif envelope.schema == step.schema and envelope.v == VERSION:
                body = step.decode(payload[SALT_BYTES:])
            else:
                body = body_of(envelope, payload[SALT_BYTES:], position)
            step.take(facts, envelope, body, position)
        else:
            _mention(facts, envelope, payload, position)
        if envelope.outcome == "conflict":
            facts.conflict(envelope, position)
        facts.tick(event_time_us(envelope), position)


def event_time_us(envelope: Envelope) -> int:
    """Return what a row says of the time that has come: its `at`, but for our own publications.

    A publication is of now and tells of nothing new; it must not age what it has published.
    """
    return 0 if envelope.type == "posterior.published" else envelope.at_us


class _Known(NamedTuple):
    """A step with what it needs to read a body of the newest version."""

    take: Step
    decode: Callable[[bytes], Any]
    schema: int


_known_steps = {name: _Known(step, body_kind(TYPES[name]).decode, SCHEMAS[name]) for name, step in STEPS.items()}


def _mention(facts: Facts, envelope: Envelope, payload: bytes | None, position: int) -> None:
    if envelope.type not in MENTIONS and envelope.type not in STEPS:
        raise UpgradeError(position, envelope.type, envelope.schema)
    if envelope.session is None:
        return
    alias = False
    if payload is not None and b'"alias":true' in payload:
        alias = body_of(envelope, payload[SALT_BYTES:], position).alias
    facts.touch(facts.names.number(envelope.session, position, alias=alias))
