"""Many rows at a time: what `Facts.exposure` and `Facts.grade` do, for a page of plain rows.

Replay is mostly exposures and grades that state something new and nothing unusual. For a page
of them the columns are made by comprehensions; a page with anything else (a conflict, an erased
payload, an alias, a newer version) is folded row by row, and a property test holds that both
give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rightful.envelope import SALT_BYTES, SCHEMAS, VERSION
from rightful.ledger.recorded import Stored
from rightful.projections.facts import FILE_TIME, GRADE, UNKNOWN, Aside, Facts

_ALIAS = b'"alias":true'
_APPENDED = frozenset({"appended"})
_NAN = float("nan")

Pairs = Sequence[tuple[Stored, int]]
"""Rows with the number of their session's name."""


def is_plain(rows: Sequence[Stored]) -> bool:
    """Say whether rows can be folded type by type."""
    forms = {(envelope.type, envelope.schema, envelope.v, envelope.outcome) for _, envelope, _ in rows}
    return all(
        outcome in _APPENDED and v == VERSION and schema == SCHEMAS.get(kind) for kind, schema, v, outcome in forms
    ) and not any(payload is None or _ALIAS in payload for _, _, payload in rows)


def add_exposures(facts: Facts, pairs: Pairs, decode: Callable[[bytes], Any]) -> None:
    """Add a page of exposures."""
    bodies = [decode(payload[SALT_BYTES:]) for (_, _, payload), _ in pairs]  # type: ignore[index]
    names = [name for _, name in pairs]
    number, context = facts.arms.number, facts.contexts.number
    size = [len(body.arms) for body in bodies]
    first = len(facts.shown)
    start = np.cumsum([len(facts.arms_shown), *size])[:-1]
    facts.arms_shown.extend_columns(arm=[number(one.arm) for body in bodies for one in body.arms])
    facts.shown.extend_columns(
        name=names,
        at=[row.envelope.at_us for row, _ in pairs],
        pos=[row.position for row, _ in pairs],
        ctx=[-1 if body.context is None else context(body.context) for body in bodies],
        flags=[FILE_TIME if row.envelope.at_basis else 0 for row, _ in pairs],
        start=start,
        count=size,
    )
    for row, body in enumerate(bodies, first):
        for held in body.withheld:
            facts.withheld.append(row, number(held.arm))
    facts.touch_all(names)


def add_grades(facts: Facts, pairs: Pairs, decode: Callable[[bytes], Any]) -> None:
    """Add a page of grades; `unknown` without a reward is none."""
    read = [(row, name, decode(row.payload[SALT_BYTES:])) for row, name in pairs]  # type: ignore[index]
    rows = [one for one in read if one[2].reward is not None or one[2].outcome != UNKNOWN]
    grader, outcome = facts.graders.number, facts.outcomes.number
    facts.grades.extend_columns(
        name=[name for _, name, _ in rows],
        grader=[grader((row.envelope.producer, body.rubric)) for row, _, body in rows],
        at=[row.envelope.at_us for row, _, _ in rows],
        pos=[row.position for row, _, _ in rows],
        seq=[body.seq for _, _, body in rows],
        reward=[_NAN if body.reward is None else body.reward for _, _, body in rows],
        outcome=[-1 if body.outcome is None else outcome(body.outcome) for _, _, body in rows],
        target=[-1 if body.exposure_session is None else _target(facts, name, body) for _, name, body in rows],
        aside=[_aside(facts, body) for _, _, body in rows],
        kind=np.full(len(rows), GRADE),
    )
    facts.touch_all([name for _, name in pairs])


def _target(facts: Facts, name: int, body: Any) -> int:  # noqa: ANN401 - the body's struct
    target = facts.names.target(body.exposure_session)
    facts.names.couple(name, target)
    return target


def _aside(facts: Facts, body: Any) -> int:  # noqa: ANN401 - the body's struct
    if body.per_arm is None and body.salience is None and body.decay_rate is None:
        return -1
    facts.asides.append(Aside(body.per_arm, body.salience, body.decay_rate))
    return len(facts.asides) - 1
