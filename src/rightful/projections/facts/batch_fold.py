"""Many rows at a time: what `Facts.exposure` and `Facts.grade` do, for a page of plain rows.

Replay is mostly exposures and grades that state something new and nothing unusual. For a page
of them the columns are made by comprehensions; a page with anything else (a conflict, an erased
payload, an alias, a newer version) is folded row by row, and a property test holds that both
give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rightful.encoding.envelope import SALT_BYTES, SCHEMAS, VERSION, Envelope
from rightful.log.rows import Page
from rightful.projections.facts.columns import Ints
from rightful.projections.facts.facts import FILE_TIME, GRADE, UNKNOWN, Facts, flags_of

_ALIAS = b'"alias":true'
_APPENDED = frozenset({"appended"})
_NAN = float("nan")


class Batch(NamedTuple):
    """Rows of one type, by ascending position, with the number of each session's name."""

    positions: Ints
    names: list[int]
    envelopes: list[Envelope]
    bodies: list[Any]


def is_plain(page: Page) -> bool:
    """Return whether rows can be folded type by type."""
    forms = {(envelope.type, envelope.schema, envelope.v, envelope.outcome) for envelope in page.envelopes}
    return all(
        outcome in _APPENDED and v == VERSION and schema == SCHEMAS.get(kind) for kind, schema, v, outcome in forms
    ) and not (None in page.payloads or _ALIAS in b"".join(page.payloads))  # type: ignore[arg-type] # no payload is None


def batch_of(page: Page, names: list[int], places: list[int], decode: Callable[[bytes], Any]) -> Batch:
    """Return the rows at some places of a plain page."""
    payloads, envelopes = page.payloads, page.envelopes
    return Batch(
        np.array(places, np.int64) + (page.after + 1),
        [names[place] for place in places],
        [envelopes[place] for place in places],
        [decode(payloads[place][SALT_BYTES:]) for place in places],  # type: ignore[index] # none is erased
    )


def add_exposures(facts: Facts, batch: Batch) -> None:
    """Add exposures of a page."""
    positions, names, envelopes, bodies = batch
    number, context = facts.arms.number, facts.contexts.number
    size = [len(body.arms) for body in bodies]
    first = len(facts.shown)
    flags = [FILE_TIME if envelope.at_basis else 0 for envelope in envelopes]
    for place in (place for place, count in enumerate(size) if not count):
        flags[place] = flags_of(envelopes[place], bodies[place])
    start = np.cumsum([len(facts.arms_shown), *size])[:-1]
    facts.arms_shown.extend_columns(arm=[number(arm.arm) for body in bodies for arm in body.arms])
    facts.shown.extend_columns(
        name=names,
        at=[envelope.at_us for envelope in envelopes],
        pos=positions,
        ctx=[-1 if body.context is None else context(body.context) for body in bodies],
        flags=flags,
        start=start,
        count=size,
    )
    for row, body in enumerate(bodies, first):
        for held in body.withheld:
            facts.withheld.append(row, number(held.arm))
    facts.touch_all(names)


def add_grades(facts: Facts, batch: Batch) -> None:
    """Add grades of a page; `unknown` without a reward is none."""
    positions, names, envelopes, bodies = batch
    grader, outcome = facts.graders.number, facts.outcomes.number
    given = [body.reward is not None or body.outcome != UNKNOWN for body in bodies]
    if not all(given):
        kept = [place for place, is_grade in enumerate(given) if is_grade]
        positions = positions[kept]
        names = [names[place] for place in kept]
        envelopes, bodies = [envelopes[place] for place in kept], [bodies[place] for place in kept]
    graders = [grader((envelope.producer, body.rubric)) for envelope, body in zip(envelopes, bodies, strict=True)]
    for place in (place for place, body in enumerate(bodies) if body.extra is not None):
        facts.correct(names[place], graders[place], bodies[place], int(positions[place]))
    facts.grades.extend_columns(
        name=names,
        grader=graders,
        at=[envelope.at_us for envelope in envelopes],
        pos=positions,
        seq=[body.seq for body in bodies],
        reward=[_NAN if body.reward is None else body.reward for body in bodies],
        outcome=[-1 if body.outcome is None else outcome(body.outcome) for body in bodies],
        target=[
            -1 if body.exposure_session is None else _target(facts, name, body)
            for name, body in zip(names, bodies, strict=True)
        ],
        aside=[facts.aside(body) for body in bodies],
        kind=np.full(len(bodies), GRADE),
        flags=[FILE_TIME if envelope.at_basis else 0 for envelope in envelopes],
    )
    facts.touch_all(batch.names)


def _target(facts: Facts, name: int, body: Any) -> int:  # noqa: ANN401 - the body's struct
    target = facts.names.target(body.exposure_session)
    facts.names.connect(name, target)
    return target
