"""Explain a session: whose run it is, what it was shown, how it was graded, and what became of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from rightful.errors import UsageError
from rightful.ledger.log import Log
from rightful.policies import Policy
from rightful.projections.facts import Facts
from rightful.projections.names import NOT_MENTIONED
from rightful.projections.projected import Projected
from rightful.reports.explain.case import Case, case_of, envelopes_at
from rightful.reports.explain.remedies import waiting
from rightful.reports.explain.rows import ExposureRow, GradeRow, exposure_row, grade_row, in_words, rows_through
from rightful.reports.explain.runs import Link, Run, links_of, run_of
from rightful.reports.explain.words import Remedy, count

_READ = frozenset({"exposure.recorded", "grade.recorded", "grade.retracted", "session.linked", "session.unlinked"})


class Name(msgspec.Struct, frozen=True):
    """A name that has to do with a session.

    Attributes:
        session: The name.
        alias: Whether it was read from a sanitised form.
        first: The position of the first row that names it; None where only a grade's target does.
        started: The position of its first `session.started`; None without one.
        role: `run` for a name of the run, `fits` for one that only a sanitised form joins.
    """

    session: str
    alias: bool
    first: int | None
    started: int | None
    role: str


class Aside(msgspec.Struct, frozen=True):
    """A row that attribution does not read, though it is of a type that it reads.

    Attributes:
        position: Where it stands.
        id: Its event id.
        type: Its type.
        session: Its session.
        reason: Why it changes nothing, in a sentence.
    """

    position: int
    id: str
    type: str
    session: str
    reason: str


class SessionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that attribution knows of a session.

    Attributes:
        session: The session asked for.
        policy: The policy's hash.
        through: The position it holds for.
        verdict: The whole in a sentence or two.
        run: The name that stands for its run; None where nobody can tell.
        run_reason: Why it is that run, or why nobody can tell.
        pending: Whether its run was shown arms and waits for a grade.
        names: The names of the run, and those that fit them as sanitised forms.
        links: The links that name one of them, each with what it came to.
        exposures: What they were shown, each with what became of it.
        grades: Every grade of theirs or that names them, of every grader, each with what became of it.
        asides: Rows that change nothing: repeats, `unknown` outcomes, links of an alias.
        remedies: What would settle the run, or end the waiting.
    """

    session: str
    policy: str
    through: int
    verdict: str
    run: str | None
    run_reason: str
    pending: bool
    names: list[Name]
    links: list[Link]
    exposures: list[ExposureRow]
    grades: list[GradeRow]
    asides: list[Aside]
    remedies: list[Remedy]


def explain_session(
    projected: Projected, policy: Policy, session: str, *, as_of: int | str | datetime | None = None
) -> SessionExplained:
    """Return everything that attribution knows of a session under a policy.

    Args:
        projected: The projections, with their log.
        policy: The rule.
        session: The session's full name.
        as_of: A position, or a time of recording. All of the log if None.

    Raises:
        UsageError: No row up to the position names it.
    """
    through = projected.prefix(as_of)
    facts, log = projected.facts, projected.log
    numbers = [number for key in (session, f"\0{session}") if (number := facts.names.texts.find(key)) is not None]
    known = [number for number in numbers if facts.names.first[number] <= through]
    if not known:
        raise UsageError(f"no row up to position {through} names the session {session!r}; nothing can be explained.")
    case = case_of(facts, policy, through, known)
    return _explained(case, log, session, known)


def _explained(case: Case, log: Log, session: str, known: list[int]) -> SessionExplained:
    facts, through = case.facts, case.through
    members = sorted({one for number in known for one in case.component(number)})
    fits = sorted({fit for one in members for fit in facts.names.fitting(one, through)} - set(members))
    near = [*members, *fits]
    own = facts.grades_of.rows(near).tolist()
    aimed = np.flatnonzero(np.isin(facts.grades["target"], near)).tolist()
    grades = rows_through(facts.grades, [*own, *aimed], through)
    targets = {int(facts.grades["target"][row]) for row in own} - {-1}
    shown = rows_through(facts.shown, facts.shown_of.rows(sorted({*near, *targets})).tolist(), through)
    links = links_of(case, set(near))
    envelopes = envelopes_at(
        log,
        [
            *facts.grades["pos"][grades].tolist(),
            *facts.shown["pos"][shown].tolist(),
            *(link.position for link in links),
        ],
    )
    exposure_rows = [exposure_row(case, row, envelopes) for row in shown]
    grade_rows = [grade_row(case, row, envelopes) for row in grades]
    run = run_of(case, _run_number(case, known[0]))
    pending = any(row.state == "pending" and row.arms for row in exposure_rows)
    named = [
        msgspec.structs.replace(link, id=envelopes[link.position].id, producer=envelopes[link.position].producer)
        for link in links
    ]
    asides = _asides(log, [case.text(one) for one in members], {*envelopes}, through)
    return SessionExplained(
        session=session,
        policy=case.policy.hash,
        through=through,
        verdict=_verdict(session, exposure_rows, grade_rows, {case.text(one) for one in members}, run),
        run=run.name,
        run_reason=run.reason,
        pending=pending,
        names=[_name(facts, one, through, "run" if one in members else "fits") for one in near],
        links=named,
        exposures=exposure_rows,
        grades=grade_rows,
        asides=asides,
        remedies=[*run.remedies, *([waiting(case, known[0])] if pending and run.name is not None else [])],
    )


def _run_number(case: Case, number: int) -> int:
    """Return the name whose run is told: a sanitised form that fits one session is that session."""
    fitting = case.facts.names.fitting(number, case.through) if case.facts.names.alias[number] else []
    return fitting[0] if len(fitting) == 1 else number


def _name(facts: Facts, number: int, through: int, role: str) -> Name:
    names = facts.names
    first, started = names.first[number], names.started[number]
    return Name(
        names.text(number),
        bool(names.alias[number]),
        None if first == NOT_MENTIONED or first > through else first,
        None if started > through else started,
        role,
    )


def _asides(log: Log, sessions: list[str], told: set[int], through: int) -> list[Aside]:
    """Return the rows of the sessions that the fold passed over, with the reason."""
    found = []
    for session in dict.fromkeys(sessions):
        for row in log.read(session=session, types=_READ, until=through):
            if row.position in told:
                continue
            found.append(Aside(row.position, row.id, row.type, session, aside_reason(row)))
    return sorted(found, key=lambda one: one.position)


def aside_reason(row: Any) -> str:  # noqa: ANN401 - a Recorded
    """Return why a row of a type that attribution reads changes nothing."""
    if row.outcome in {"stale", "refined", "reemitted"}:
        return f"It says again what #{row.first} says ({row.outcome}), so it counts with that row, once."
    if row.event is None:
        return "Its content was erased, so it says nothing."
    if getattr(row.event, "outcome", None) == "unknown":
        return "The outcome `unknown` is no grade: the run goes on waiting for one."
    if getattr(row.event, "alias", False):
        return "Its session was read from a sanitised form, and no alias goes through a link."
    return "It changes nothing."


def _verdict(session: str, exposures: list[ExposureRow], grades: list[GradeRow], own: set[str], run: Run) -> str:
    """Return the whole in a sentence; a grade of the run's own names is told before one that only names it."""
    arms = len({arm for row in exposures for arm in row.arms})
    shown = f"{session} was shown {count(arms, 'arm')} in {count(len(exposures), 'exposure')}" if exposures else ""
    start = f"{shown}. " if shown else f"No exposure of {session} is recorded. "
    credited = [row for row in grades if row.state == "credited"]
    if credited:
        last = credited[-1]
        paid = f"{last.grader} seq {last.seq} (#{last.position}) paid {count(len(last.arms), 'arm')}"
        return f"{start}{count(len(credited), 'grade')} of it {'is' if len(credited) == 1 else 'are'} credited: {paid}."
    ended = sorted((row for row in grades if row.bin is not None), key=lambda row: row.session in own)
    if ended:
        row = ended[-1]
        return (
            f"{start}Its grade {row.grader} seq {row.seq} (#{row.position}) credits nobody ({row.state}): {row.reason}"
        )
    if run.name is None:
        return f"{start}{run.reason}"
    if grades:
        states = ", ".join(f"{n} {state}" for state, n in in_words(row.state for row in grades).items())
        return f"{start}None of its grades pays under this policy ({states})."
    return f"{start}It waits for a grade." if exposures and arms else f"{start}No grade of it is recorded either."
