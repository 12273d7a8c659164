"""What-if trials: whether a remedy would change a verdict, tried on a copy of the facts of a case.

The events of a remedy are folded after the last position that counts, and the case is settled
again. Nothing is written. A remedy that changes nothing is not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from rightful.encoding import wire
from rightful.encoding.envelope import Envelope, body_kind, commitment, encode_body
from rightful.policies import Policy, policy_of
from rightful.projections.facts.columns import Column, Ints
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.fold import STEPS
from rightful.reports.explain.case import Case, case_of
from rightful.reports.explain.grade_outcomes import GradeOutcome, grade_outcome
from rightful.reports.explain.phrases import ARMS, DESK, OTHER_NAME, PRODUCER, REWARD, Remedy, Wire, exposure_event
from rightful.reports.explain.run_membership import run_of

_TRIED_ROWS = 10_000_000
"""Rows that one explanation settles again at most (a second or two); further remedies are returned untried."""

_ONE_TRY_ROWS = 10_000
"""Fixed cost of a trial, in rows; each name of the case costs `_NAME_ROWS` more."""

_NAME_ROWS = 8

_SOME_ARM, _SOME_NAME = "an arm", "what-if:other"
_NUMBERS = re.compile(r"seq \d+|#\d+")


def changes_outcome(case: Case, row: int, outcome: GradeOutcome, remedy: Remedy) -> bool:
    """Return whether recording a remedy changes why a grade does not count; True if it proposes no events."""
    if not remedy.events or not _affordable(case):
        return True
    after = _case_with(case, remedy.events, int(case.facts.grades["at"][row]))
    if after is None:
        return False
    position = int(case.facts.grades["pos"][row])
    table = after.facts.grades["pos"]
    given = [event for event in remedy.events if event["type"] == "grade.recorded"]
    rows = np.flatnonzero(table > case.through if given else table == position).tolist()
    linked = any(event["type"] == "session.linked" for event in remedy.events)
    return any(_changed(outcome, grade_outcome(after, tried), linked=linked) for tried in rows)


def _changed(before: GradeOutcome, after: GradeOutcome, *, linked: bool) -> bool:
    """Return whether a verdict differs; a link must change the state, since it rewords the reason in any case."""
    if before.state != after.state:
        return True
    return not linked and _NUMBERS.sub("", before.reason) != _NUMBERS.sub("", after.reason)


def resolves_run(case: Case, number: int, remedy: Remedy) -> bool:
    """Return whether recording a remedy changes why the run of a name is unknown, or pays a run of its own."""
    if not remedy.events or not _affordable(case):
        return True
    after = _case_with(case, remedy.events, case.latest_us())
    if after is None:
        return False
    if _credited(case, after):
        return True
    then = after.facts.names.texts.find(case.facts.names.texts[number])
    assert then is not None, "a copy has every name of its case"
    return run_of(after, then).reason != run_of(case, number).reason


def credits_new(case: Case, remedy: Remedy) -> bool:
    """Return whether a grade that a remedy proposes pays, or would if an arm had been shown in time."""
    if not _affordable(case):
        return True
    after = _case_with(case, remedy.events, case.latest_us())
    return after is not None and _credited(case, after)


def _credited(case: Case, after: Case) -> bool:
    rows = np.flatnonzero(after.facts.grades["pos"] > case.through).tolist()
    return any(grade_outcome(after, row).state == "credited" for row in rows)


def pays_under(case: Case, row: int, changed: Wire) -> bool:
    """Return whether a grade is credited under a policy with these changes."""
    if not _affordable(case):
        return True
    policy = policy_of({**case.policy.as_dict(), **changed})
    return grade_outcome(Case(case.facts, policy, case.through, case.names), row).state == "credited"


def _affordable(case: Case) -> bool:
    names = len(case.facts.names)
    case.tried_rows += _ONE_TRY_ROWS + len(case.inputs.shown.row) + len(case.inputs.grades.row) + names // 4
    case.tried_rows += _NAME_ROWS * (names if case.names is None else len(case.names))
    return case.tried_rows <= _TRIED_ROWS


def _case_with(case: Case, events: list[Wire], at_us: int) -> Case | None:
    """Return the case with events after its last position; None if two of them have one id."""
    facts = excerpt(case)
    named = [event for event in events if OTHER_NAME in event.values()]
    more = [exposure_event(_SOME_NAME, at_us, [_SOME_ARM])] if named else []
    checked = [wire.check(_filled(event, case.policy)) for event in [*events, *more]]
    if len({event.id for event in checked}) < len(checked):
        return None
    for position, checked_event in enumerate(checked, case.through + 1):
        body = encode_body(checked_event.event)
        envelope = _envelope(checked_event, body)
        STEPS[envelope.type](facts, envelope, body_kind(type(checked_event.event)).decode(body), position)
    facts.freeze()
    return case_of(facts, case.policy, case.through + len(checked), range(len(facts.names)))


def _envelope(checked_event: wire.Checked, body: bytes) -> Envelope:
    event: Any = checked_event.event
    return Envelope(
        id=checked_event.id, revision=1, type=str(event.__struct_config__.tag), schema=1, producer=event.producer,
        session=event.session, turn=None, at_us=checked_event.at_us, at_basis=None, recorded_at_us=checked_event.at_us,
        outcome="appended", first=0, body_bytes=len(body), commitment=commitment(b"", body),
    )  # fmt: skip


def _filled(value: Any, policy: Policy) -> Any:  # noqa: ANN401 - any part of a wire object
    """Replace placeholders by sample values."""
    if isinstance(value, dict):
        return {name: _filled(part, policy) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, policy) for part in value]
    if value == PRODUCER:
        return next((pattern.partition("/")[0].replace("*", DESK) for pattern in policy.graders), DESK)
    known = {REWARD: 0.5, ARMS: [{"arm": _SOME_ARM}], OTHER_NAME: _SOME_NAME}
    return known.get(value, value) if isinstance(value, str) else value


def excerpt(case: Case) -> Facts:
    """Return a copy of the facts of a case's names, up to its position, for a trial."""
    old, facts = case.facts, Facts()
    chosen = list(range(len(old.names))) if case.names is None else case.names
    number = _copy_names(old, facts, chosen, case.through)
    _copy_exposures(old, facts, _rows_through(old.shown, old.shown_of.rows(chosen), case.through), number)
    _copy_grades(old, facts, _rows_through(old.grades, old.grades_of.rows(chosen), case.through), number)
    links = old.links
    rows = _rows_through(links, np.flatnonzero(number[links["session"]] >= 0), case.through)
    facts.links.extend_columns(**_renumbered(links, rows, number, "session", "other"))
    for first, other in zip(facts.links["session"].tolist(), facts.links["other"].tolist(), strict=True):
        facts.names.connect(first, other)
    for name in ("arms", "contexts", "graders", "outcomes"):
        getattr(facts, name).load(list(getattr(old, name).values))
    mine = [start for start in old.starts if number[start.name] >= 0 and start.position <= case.through]
    facts.starts = [start._replace(name=int(number[start.name])) for start in mine]
    facts.balances = [balance for balance in old.balances if balance.position <= case.through]
    known = [
        correction
        for correction in old.corrected
        if number[correction.name] >= 0 and correction.position <= case.through
    ]
    facts.corrected = [correction._replace(name=int(number[correction.name])) for correction in known]
    facts.retired = [retirement for retirement in old.retired if retirement.position <= case.through]
    facts.published = [publication for publication in old.published if publication[0] <= case.through]
    facts.taken_back = [rollback for rollback in old.taken_back if rollback[0] <= case.through]
    facts.quarantine = {
        event_id: {revision: at for revision, at in rows.items() if at <= case.through}
        for event_id, rows in old.quarantine.items()
    }
    facts.withdrawn = {
        event_id: [withdrawal for withdrawal in rows if withdrawal[0] <= case.through]
        for event_id, rows in old.withdrawn.items()
    }
    facts.named = old.named
    facts.load_clock(old.clock.tobytes(), case.through)
    return facts


def _copy_names(old: Facts, facts: Facts, chosen: Iterable[int], through: int) -> Ints:
    """Copy names; return the new number of each, -1 for omitted ones and, at the end, for no name."""
    number = np.full(len(old.names) + 1, -1, np.int64)
    for name in chosen:
        text, alias = old.names.text(name), bool(old.names.alias[name])
        number[name] = facts.names.number(text, old.first_left(name, through, is_start=False), alias=alias)
        start = old.first_left(name, through, is_start=True)
        if start <= through:
            facts.names.start(int(number[name]), start, old.names.started_us[name])
    return number


def _rows_through(table: Any, rows: Ints, through: int) -> Ints:  # noqa: ANN401 - a table of facts
    rows_in_range: Ints = rows[table["pos"][rows] <= through]
    return rows_in_range


def _renumbered(table: Any, rows: Ints, number: Ints, *names: str) -> dict[str, Column]:  # noqa: ANN401 - a table of facts
    """Return rows of a table as columns, those of names with their new numbers."""
    columns = {name: table[name][rows] for name in table.names}
    return columns | {name: number[columns[name]] for name in names}


def _copy_exposures(old: Facts, facts: Facts, rows: Ints, number: Ints) -> None:
    columns = _renumbered(old.shown, rows, number, "name")
    start, size = columns["start"].astype(np.int64), columns["count"].astype(np.int64)
    columns["start"] = np.cumsum(size) - size
    within = np.arange(int(size.sum())) - np.repeat(columns["start"], size)
    facts.shown.extend_columns(**columns)
    facts.arms_shown.extend_columns(arm=old.arms_shown["arm"][np.repeat(start, size) + within])
    held = old.withheld["row"]
    place = np.searchsorted(rows, held)
    mine = np.flatnonzero(np.append(rows, -1)[place] == held)
    facts.withheld.extend_columns(row=place[mine], arm=old.withheld["arm"][mine])


def _copy_grades(old: Facts, facts: Facts, rows: Ints, number: Ints) -> None:
    columns = _renumbered(old.grades, rows, number, "name", "target")
    aside = columns["aside"].astype(np.int64)
    has = aside >= 0
    facts.asides = [old.asides[aside_row] for aside_row in aside[has].tolist()]
    aside[has] = np.arange(len(facts.asides))
    columns["aside"] = aside
    facts.grades.extend_columns(**columns)
    for graded, target in zip(columns["name"].tolist(), columns["target"].tolist(), strict=True):
        if target >= 0:
            facts.names.connect(graded, target)
