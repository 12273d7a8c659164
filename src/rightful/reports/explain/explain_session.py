"""Explain a session: whose run it is, what it was shown, how it was graded, and what became of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from rightful.errors import UsageError
from rightful.log.log import Log
from rightful.policies import Policy
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.session_names import NOT_MENTIONED
from rightful.projections.projected import Projected
from rightful.reports.explain.case import Case, case_of, envelopes_at
from rightful.reports.explain.explained_rows import (
    ExposureRow,
    GradeRow,
    count_states,
    exposure_row,
    grade_row,
    rows_through,
)
from rightful.reports.explain.phrases import Remedy, count
from rightful.reports.explain.remedies import remedy_of_waiting_run
from rightful.reports.explain.remedy_trial import resolves_run
from rightful.reports.explain.run_membership import Link, Run, links_of, run_of

_READ = frozenset({"exposure.recorded", "grade.recorded", "grade.retracted", "session.linked", "session.unlinked"})


class Name(msgspec.Struct, frozen=True):
    """A name that has to do with a session.

    Attributes:
        alias: Whether it was read from a sanitised form.
        first: The position of the first row that names it; None where only a grade's target does.
        started: The position of its first `session.started`; None without one.
        role: `run` for a name of the run, `fits` for another session's that only a sanitised form joins.
    """

    session: str
    alias: bool
    first: int | None
    started: int | None
    role: str


class Aside(msgspec.Struct, frozen=True):
    """A row that attribution does not read, though it is of a type that it reads.

    Attributes:
        reason: Why it changes nothing, in a sentence.
    """

    position: int
    id: str
    type: str
    session: str
    reason: str


class SessionExplained(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="session"):
    """Everything that attribution knows of a session.

    Attributes:
        verdict: The whole in a sentence or two, of the session's own run.
        run: The own name of its run; None if it is not known.
        run_reason: Why it is that run, or why it is not known.
        pending: Whether its run was shown arms and waits for a grade.
        names: The names of the run, and those that fit them as sanitised forms.
        links: The links that name one of them, each with what it came to.
        exposures: What they were shown, each with what became of it.
        grades: Every grade of theirs or that names them, of every grader, each with what became of it.
        elsewhere: Which of the exposures and grades are another session's, by position: of a name that
            fits as a sanitised form, or that only a grade of the one names as that of the other.
        asides: Rows that change nothing: repeats, `unknown` outcomes, links of an alias.
        remedies: What would settle the run, or end the waiting.
    """

    session: str
    policy: dict[str, Any]
    through: int
    verdict: str
    run: str | None
    run_reason: str
    pending: bool
    names: list[Name]
    links: list[Link]
    exposures: list[ExposureRow]
    grades: list[GradeRow]
    elsewhere: list[int]
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
    members = sorted({name for number in known for name in case.component(number)})
    fits = sorted({fit for name in members for fit in facts.names.fitting(name, through)} - set(members))
    own = _run_names(case, known[0])
    near = [*members, *sorted({*fits, *own} - set(members))]
    graded = facts.grades_of.rows(near).tolist()
    aimed = np.flatnonzero(np.isin(facts.grades["target"], near)).tolist()
    grades = rows_through(facts.grades, [*graded, *aimed], through)
    targets = {int(facts.grades["target"][row]) for row in graded} - {-1}
    shown = rows_through(facts.shown, facts.shown_of.rows(sorted({*near, *targets})).tolist(), through)
    links = links_of(case, set(near))
    positions = [*facts.grades["pos"][grades].tolist(), *facts.shown["pos"][shown].tolist()]
    envelopes = envelopes_at(log, [*positions, *(link.position for link in links)])
    exposure_rows = [exposure_row(case, row, envelopes) for row in shown]
    grade_rows = [grade_row(case, row, envelopes) for row in grades]
    number = _run_number(case, known[0])
    run = run_of(case, number)
    elsewhere = _elsewhere(facts.shown, shown, own) | _elsewhere(facts.grades, grades, own)
    pending = any(row.state == "pending" and row.arms and row.position not in elsewhere for row in exposure_rows)
    named = [
        msgspec.structs.replace(link, id=envelopes[link.position].id, producer=envelopes[link.position].producer)
        for link in links
    ]
    remedies = [remedy for remedy in run.remedies if resolves_run(case, number, remedy)]
    if run.name is not None and pending:
        remedies.append(remedy_of_waiting_run(case, number))
    asides = _asides(log, [case.text(name) for name in members], {*envelopes}, through)
    return SessionExplained(
        session=session,
        policy={**case.policy.as_dict(), "hash": case.policy.hash},
        through=through,
        verdict=_verdict(session, exposure_rows, grade_rows, elsewhere, run),
        run=run.name,
        run_reason=run.reason,
        pending=pending,
        names=[_name(facts, name, through, "run" if name in {*members, *own} else "fits") for name in near],
        links=named,
        exposures=exposure_rows,
        grades=grade_rows,
        elsewhere=sorted(elsewhere),
        asides=asides,
        remedies=remedies,
    )


def _run_names(case: Case, asked: int) -> set[int]:
    """Return the names of the session's own run: those that links join, and sanitised forms that fit it alone.

    A name that merely fits is another session's. Two names of one text, one of them read from a
    sanitised form, are one session only where that form fits no other.
    """
    alias, first = case.facts.names.alias, case.facts.names.first
    own = set(case.component(_run_number(case, asked)))
    forms = [name for name in case.facts.names.closure([asked]) if alias[name] and first[name] <= case.through]
    return {asked, *own, *(name for name in forms if _run_number(case, name) in own)}


def _elsewhere(table: Any, rows: list[int], own: set[int]) -> set[int]:  # noqa: ANN401 - a table of facts
    """Return the positions of the rows that are of none of the names."""
    return {int(table["pos"][row]) for row in rows if int(table["name"][row]) not in own}


def _run_number(case: Case, number: int) -> int:
    """Return the name whose run is explained: a sanitised form that fits one session is that session."""
    alias = case.facts.names.alias
    fitting = case.facts.names.fitting(number, case.through) if alias[number] else []
    return fitting[0] if len(fitting) == 1 and not alias[fitting[0]] else number


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


def _asides(log: Log, sessions: list[str], explained: set[int], through: int) -> list[Aside]:
    """Return the rows of the sessions that the fold skipped, with the reason."""
    found = []
    for session in dict.fromkeys(sessions):
        for row in log.read(session=session, types=_READ, until=through):
            if row.position in explained:
                continue
            found.append(Aside(row.position, row.id, row.type, session, aside_reason(row)))
    return sorted(found, key=lambda row: row.position)


def aside_reason(row: Any) -> str:  # noqa: ANN401 - a Recorded
    """Return why a row of a type that attribution reads changes nothing."""
    if row.outcome in {"stale", "refined", "reemitted"}:
        return f"It repeats #{row.first} ({row.outcome}), so the two rows count once."
    if row.event is None:
        return "Its content was erased, so it changes nothing."
    if getattr(row.event, "outcome", None) == "unknown":
        return "The outcome `unknown` is not a grade: the run still waits for one."
    if getattr(row.event, "alias", False):
        return "Its session was read from a sanitised form, and links do not apply to such a name."
    return "It changes nothing."


def _verdict(session: str, exposures: list[ExposureRow], grades: list[GradeRow], elsewhere: set[int], run: Run) -> str:
    """Return the whole in a sentence, of the run's own names; a grade of another session only if it pays them."""
    mine = [row for row in exposures if row.position not in elsewhere]
    own = [row for row in grades if row.position not in elsewhere]
    arms = len({arm for row in mine for arm in row.arms})
    shown = f"{session} was shown {count(arms, 'arm')} in {count(len(mine), 'exposure')}" if mine else ""
    start = f"{shown}. " if shown else f"No exposure of {session} is recorded. "
    credited = [row for row in own if row.state == "credited"]
    if credited:
        last = credited[-1]
        paid = f"{last.grader} seq {last.seq} (#{last.position}) paid {count(len(last.arms), 'arm')}"
        return f"{start}{count(len(credited), 'grade')} of it {'is' if len(credited) == 1 else 'are'} credited: {paid}."
    paid_by = {row.grade for row in mine if row.state in {"paid", "repeated", "unweighted"}}
    payers = [row for row in grades if row.position in paid_by]
    if payers:
        last = payers[-1]
        by = f"{last.grader} seq {last.seq} (#{last.position}) of {last.session}"
        return f"{start}{by} pays {count(len(last.arms), 'arm')} of it."
    ended = [row for row in own if row.bin is not None] or [row for row in grades if _names(row, mine)]
    if ended:
        row = ended[-1]
        whose = "Its grade" if row.position not in elsewhere else f"The grade of {row.session},"
        return f"{start}{whose} {row.grader} seq {row.seq} (#{row.position}) credits no arm ({row.state}): {row.reason}"
    if run.name is None:
        return f"{start}{run.reason}"
    if own:
        states = ", ".join(f"{n} {state}" for state, n in count_states(row.state for row in own).items())
        return f"{start}None of its grades pays under this policy ({states})."
    return f"{start}It waits for a grade." if mine and arms else f"{start}No grade of it is recorded either."


def _names(row: GradeRow, mine: list[ExposureRow]) -> bool:
    """Return whether a grade in a bin reaches one of some exposures, or names their session."""
    return row.bin is not None and any(
        exposure.grade == row.position or exposure.session == row.exposure_session for exposure in mine
    )
