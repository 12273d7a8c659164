"""Why the grades of each bin ended there: a sentence with the names, times, rows and grades that decided it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rightful import times
from rightful.projections.credit.inputs import (
    AMBIGUOUS,
    BINS,
    CONFLICTING,
    CREDITED,
    EMPTY,
    ERASED_BIN,
    IN_BALANCE,
    LATE_ONLY,
    NO_BIN,
    RETRACTED,
    UNMATCHED,
    balance_arms,
)
from rightful.projections.credit.joins import FOREIGN, OWN
from rightful.projections.facts.columns import Ints
from rightful.projections.facts.facts import ERASED, RETRACTION
from rightful.reports.explain.case import Case
from rightful.reports.explain.phrases import WHY, count, listed, span
from rightful.reports.explain.run_membership import run_of


def bin_reason(case: Case, unit: int, number: int) -> str:
    """Return why a unit ended in the bin of that number."""
    reasons = {
        CREDITED: _credited,
        UNMATCHED: _unmatched,
        EMPTY: _empty,
        AMBIGUOUS: _ambiguous,
        CONFLICTING: _conflicting,
        RETRACTED: _retracted,
        LATE_ONLY: _late_only,
        IN_BALANCE: _in_balance,
        ERASED_BIN: _erased,
    }
    return reasons.get(number, _unmapped)(case, unit)


def why(case: Case, unit: int, number: int) -> str:
    """Return why a unit ended in the bin of that number, in a clause with the cure where there is one."""
    if number == CONFLICTING:
        return _why_conflicting(case, unit)
    return _why_ambiguous(case, unit) if number == AMBIGUOUS else WHY[BINS[number]]


def _exposures(case: Case, shown: Ints) -> str:
    places = [f"#{at}" for at in case.inputs.shown.pos[shown].tolist()]
    return f"{'exposure' if len(places) == 1 else 'exposures'} {listed(places)}"


def _credited(case: Case, unit: int) -> str:
    reached = case.reached(unit)
    live = reached[case.timing(unit, reached)[0]]
    live = live[case.inputs.shown.size[live] > 0]
    arms = int((case.settlement.credit_unit == unit).sum())
    paid = f"It paid {count(arms, 'arm')} of {_exposures(case, live)}{_whose(case, unit, live)}."
    if not arms:
        paid = f"It is credited to {_exposures(case, live)}, but its salience gives every arm there a weight of 0."
    out = len(reached) - int(case.timing(unit, reached)[0].sum())
    if out:
        paid += f" {count(out, 'other exposure')} of the same target did not count."
    return paid


def _whose(case: Case, unit: int, live: Ints) -> str:
    session = case.text(int(case.inputs.shown.name[live[0]]))
    if case.sources is not None:
        kind = int(case.settlement.unit_kind[unit])
        word = {OWN: "its own run", FOREIGN: "another run"}.get(kind, "a run that may be its own or another's")
        return f", shown to {session} of {word}: the newest session at the time of the grade"
    row = int(case.settlement.unit_grade[unit])
    target, own = int(case.facts.grades["target"][row]), int(case.facts.grades["name"][row])
    if target >= 0:
        return f", shown to {case.text(target)}, which the grade names as its `exposure_session`"
    if case.inputs.runs.of[case.inputs.shown.name[live[0]]] != case.inputs.runs.of[own]:
        return f", shown to {session}: the only name that fits as a sanitised form, and no name fits exactly"
    return "" if session == case.text(own) else f", shown to {session} of the same run"


def target_name(case: Case, unit: int) -> int:
    """Return the name whose exposures the bound rule seeks first: the `exposure_session`, else the grade's own."""
    row = int(case.settlement.unit_grade[unit])
    target = int(case.facts.grades["target"][row])
    return target if target >= 0 else int(case.facts.grades["name"][row])


def _unmatched(case: Case, unit: int) -> str:
    grade_at = times.text_of(int(case.inputs.grades.at[case.effective_grades.grade[unit]]))
    if case.sources is not None:
        return f"No session had been shown an arm by {grade_at}, so there is no newest one to pay."
    number = target_name(case, unit)
    name = case.text(number)
    explicit = case.facts.grades["target"][case.settlement.unit_grade[unit]] >= 0
    who = f"the `exposure_session` that it names, {name}," if explicit else f"{name} or another name of its run"
    reason = f"No exposure is recorded for {who} up to #{case.through}"
    fitting = case.facts.names.fitting(number, case.through)
    if fitting:
        return f"{reason}, nor for {case.text(fitting[0])}, the only name that fits it as a sanitised form."
    if case.facts.names.alias[number]:
        return f"{reason}: it is a sanitised form, which matches no name exactly, and no name in the ledger fits it."
    return f"{reason}, and no sanitised form of it is known."


def _empty(case: Case, unit: int) -> str:
    reached = case.reached(unit)
    live = reached[case.timing(unit, reached)[0]]
    withheld = sum(len(case.withheld_of(int(case.inputs.shown.row[row]))) for row in live)
    held = f" ({count(withheld, 'arm')} withheld)" if withheld else ""
    nothing = f"{_exposures(case, live).capitalize()} showed no arm{held}, so there is no arm to pay."
    return f"{nothing} Such a session can serve as a control."


def _ambiguous(case: Case, unit: int) -> str:
    if case.sources is not None:
        at = times.text_of(int(case.inputs.grades.at[case.effective_grades.grade[unit]]))
        return (
            f"Two sessions share the newest exposure time at or before {at}, so it is not known which the updater read."
        )
    number = target_name(case, unit)
    if case.targets.unclear[unit]:
        row = int(case.settlement.unit_grade[unit])
        own = int(case.facts.grades["name"][row])
        doubtful = number if number != own else own
        if case.inputs.runs.ambiguous[doubtful] and not _fits_many(case, unit):
            return run_of(case, doubtful).reason
        fits = [case.distinct_name(name) for name in case.facts.names.fitting(number, case.through)]
        exactly = f"No exposure fits {case.text(number)} exactly"
        return f"{exactly}, and more than one name fits as a sanitised form: {listed(fits)}."
    return _shared(case, unit) if case.effective_grades.shared[unit] else _contested(case, unit)


def sharers_of(case: Case, unit: int) -> list[int]:
    """Return the other units by which the grader of a unit grades the same run."""
    others = np.flatnonzero(case.effective_grades.place == case.effective_grades.place[unit])
    return [other for other in others.tolist() if other != unit]


def _shared(case: Case, unit: int) -> str:
    rows = [int(case.settlement.unit_grade[sharer]) for sharer in sharers_of(case, unit)]
    grades = listed([f"{case.grade_label(row)} of {case.text(int(case.facts.grades['name'][row]))}" for row in rows])
    return f"Its grader also graded the same run under another name: {grades}. Nothing records which one counts."


def _fits_many(case: Case, unit: int) -> bool:
    number = target_name(case, unit)
    row = int(case.settlement.unit_grade[unit])
    explicit = case.facts.grades["target"][row] >= 0
    clear = not case.inputs.runs.reused[number] if explicit else not case.inputs.runs.ambiguous[number]
    return clear and len(case.facts.names.fitting(number, case.through)) > 1


def _contested(case: Case, unit: int) -> str:
    rivals = list(rivals_of(case, unit))
    shown, other = rivals[0]
    position = int(case.inputs.shown.pos[shown])
    more = (
        f" (and {count(len({rival for _, rival in rivals}) - 1, 'other run')})"
        if len({rival for _, rival in rivals}) > 1
        else ""
    )
    name = _unambiguous_name(case, int(case.settlement.unit_run[other]), int(case.settlement.unit_run[unit]))
    grade = case.grade_label(int(case.settlement.unit_grade[other]))
    return (
        f"The grade of another run also reaches exposure #{position}: {grade} of {name}{more}. "
        f"Only one run may pay for an exposure, and nothing records which."
    )


def _unambiguous_name(case: Case, number: int, other: int) -> str:
    """Return a name, marked as exact if the other name has the same text."""
    name = case.distinct_name(number)
    return f"{name} (exact name)" if number != other and name == case.text(other) else name


def rivals_of(case: Case, unit: int) -> Iterator[tuple[int, int]]:
    """Yield (row of `CreditInputs.shown`, unit) of other runs' grades that reach an exposure that counts for a unit."""
    reached = case.reached(unit)
    own = int(case.effective_grades.place[unit])
    seen: set[int] = set()
    for shown in reached[case.timing(unit, reached)[0]].tolist():
        units = case.reaching(shown)
        units = units[(case.effective_grades.bin[units] == NO_BIN) & (case.effective_grades.place[units] != own)]
        for other in units[case.counts_for(units, shown)[0]].tolist():
            if other not in seen:
                seen.add(other)
                yield shown, other


def conflict_of(case: Case, position: int) -> list[tuple[int, int]]:
    """Return (revision, position) of the rows of an id in conflict; withdrawn ones left out."""
    event_id = case.in_conflict[position]
    gone = set(case.quarantine.void.tolist())
    rows = case.facts.quarantine[event_id]
    return [(revision, at) for revision, at in sorted(rows.items()) if at <= case.through and at not in gone]


def conflict_text(case: Case, position: int) -> str:
    """Return which rows of an id contradict each other."""
    rows = listed([f"#{at} (revision {revision})" for revision, at in conflict_of(case, position)])
    return f"the rows {rows} of id {case.in_conflict[position]} contradict each other"


class Clash(NamedTuple):
    """What a conflicting unit conflicts with.

    Attributes:
        cause: `id`: its own is in conflict; `exposures`: those of all its exposures are; `other-id`: that of
            the grade that contradicts it is; `seq`: two grades have one; `rank`: two graders have one.
        positions: The rows whose ids are in conflict; none for `seq` and `rank`.
        other: The grade that it contradicts, as a row of `CreditInputs.grades`; None for `id` and `exposures`.
    """

    cause: str
    positions: list[int]
    other: int | None = None


def clash_of(case: Case, unit: int) -> Clash:
    """Return what a conflicting unit conflicts with."""
    at, grades = int(case.effective_grades.grade[unit]), case.inputs.grades
    if grades.conflicting[at]:
        return Clash("id", [int(grades.pos[at])])
    if case.effective_grades.bin[unit] == NO_BIN:
        shown = case.reached(unit)
        return Clash("exposures", case.inputs.shown.pos[shown[~case.inputs.shown.erased[shown]]].tolist())
    other = rival_of(case, unit)
    if grades.conflicting[other]:
        return Clash("other-id", [int(grades.pos[other])], other)
    return Clash("seq" if grades.grader[other] == grades.grader[at] else "rank", [], other)


def _conflicting(case: Case, unit: int) -> str:
    clash = clash_of(case, unit)
    what = conflict_text(case, clash.positions[0]) if clash.positions else ""
    name = "" if clash.other is None else case.grade_label(int(case.inputs.grades.row[clash.other]))
    match clash.cause:
        case "id":
            return f"Its id is in conflict: {what}. It pays no arm until an `event.withdrawn` leaves only one of them."
        case "exposures":
            every = f"Every exposure of its target is in conflict: {what}"
            return f"{every}. It pays no arm until the conflict is settled."
        case "other-id":
            return (
                f"The id of {name}, which grades the same run, is in conflict: {what}. It is not known which one "
                "counts."
            )
        case "seq":
            return f"{name} has the same `seq` but different content, so it is not known which of the two counts."
        case _:
            same = f"{name} is from a grader of the same rank under this policy"
            return f"{same}, so it is not known which of the two counts."


def _why_conflicting(case: Case, unit: int) -> str:
    clash = clash_of(case, unit)
    name = "" if clash.other is None else case.grade_label(int(case.inputs.grades.row[clash.other]))
    return {
        "id": "its id is in conflict; `event.withdrawn` settles it",
        "exposures": "every exposure of its target has an id in conflict; `event.withdrawn` settles it",
        "other-id": f"the id of {name} of the same run is in conflict; `event.withdrawn` settles it",
        "seq": f"{name} has the same `seq` but different content; a grade with the next `seq` settles it",
        "rank": f"{name} is from a grader of the same rank; the policy's `graders` can rank one of them first",
    }[clash.cause]


def _why_ambiguous(case: Case, unit: int) -> str:
    if case.sources is not None:
        return "two sessions share the newest exposure time"
    if case.effective_grades.shared[unit]:
        return "its grader also graded the same run under another name"
    if not case.targets.unclear[unit]:
        return "the grade of another session reaches the same exposure"
    if case.inputs.runs.ambiguous[target_name(case, unit)] and not _fits_many(case, unit):
        return "it is not known which run its session belongs to"
    return "more than one session fits its name"


def rival_of(case: Case, unit: int) -> int:
    """Return the grade that a conflicting unit conflicts with, as a row of `CreditInputs.grades`."""
    grades, at = case.inputs.grades, int(case.effective_grades.grade[unit])
    run = int(case.effective_grades.run[unit])
    stream = case.stream(run, int(grades.grader[at]))
    same = [int(grade) for grade in stream if grade != at and grades.seq[grade] == grades.seq[at]]
    for grade in same:
        if grades.conflicting[grade] or not _equal(case, grade, at):
            return grade
    claims = [int(case.claims.grade[claim]) for claim in case.competing_claims(case.claim_of[at])]
    others = [grade for grade in claims if grades.grader[grade] != grades.grader[at]]
    return next((grade for grade in others if grades.rank[grade] == grades.rank[at]), others[0] if others else at)


def _equal(case: Case, first: int, two: int) -> bool:
    grades = case.inputs.grades
    return all(
        repr(column[first]) == repr(column[two])
        for column in (grades.kind, grades.reward, grades.outcome, grades.target)
    ) and _aside(case, first) == _aside(case, two)


def _aside(case: Case, at: int) -> object:
    aside = int(case.inputs.grades.aside[at])
    return case.facts.asides[aside] if aside >= 0 else None


def _retracted(case: Case, unit: int) -> str:
    at = int(case.effective_grades.grade[unit])
    stream = case.stream(int(case.effective_grades.run[unit]), int(case.inputs.grades.grader[at]))
    before = [int(case.inputs.grades.row[grade]) for grade in stream if case.inputs.grades.kind[grade] != RETRACTION]
    grade = case.grade_label(before[-1]) if before else "The grade"
    return f"{grade} was retracted by {case.grade_label(int(case.inputs.grades.row[at]))}."


def _late_only(case: Case, unit: int) -> str:
    reached = case.reached(unit)
    late = reached[case.timing(unit, reached)[1]]
    grade_at = int(case.inputs.grades.at[case.effective_grades.grade[unit]])
    first = int(case.inputs.shown.late_from[late].min())
    skew = f" (allowing for skew_s {case.policy.skew_s:g})" if case.policy.skew_s else ""
    return (
        f"Every exposure of its target came after it: the first, {_exposures(case, late[:1])}, "
        f"is stamped {span(first - grade_at)} later{skew}. An arm shown after a grade cannot have earned it."
    )


def _unmapped(case: Case, unit: int) -> str:
    word = case.facts.outcomes.values[int(case.inputs.grades.outcome[case.effective_grades.grade[unit]])]
    words = listed(list(case.policy.outcomes))
    return f"It has no reward, only the outcome {word!r}, and the policy does not map that word: only {words}."


def _in_balance(case: Case, unit: int) -> str:
    at_us, since_us = (
        int(case.inputs.grades.at[case.effective_grades.grade[unit]]),
        int(case.effective_grades.since[unit]),
    )
    arms = case.payable(unit)
    containing = [balance for balance in case.inputs.balances if since_us <= balance.through_us]
    found = max(containing, key=lambda balance: (len(arms & balance_arms(balance, case.policy)), balance.through_us))
    holds = f"the opening balance of {found.source} (#{found.position}) covers everything through"
    outside = outside_balance(case, unit)
    more = (
        (f" A grade counts as a whole, so {listed(outside)} is not paid either, though no balance covers it.")
        if outside
        else ""
    )
    if at_us > found.through_us:
        return (
            f"Its run was graded before, at {times.text_of(since_us)}, and {holds} {times.text_of(found.through_us)}; "
            f"a later grade cannot be separated from that sum, and paying it too would count the run twice.{more}"
        )
    again = "paying it again would count it twice"
    return f"It is of {times.text_of(at_us)}, and {holds} {times.text_of(found.through_us)}; {again}.{more}"


def outside_balance(case: Case, unit: int) -> list[str]:
    """Return the arms that an in-balance unit would pay and that no balance of its time holds; sorted."""
    since_us = int(case.effective_grades.since[unit])
    held: set[str] = set()
    for balance in case.inputs.balances:
        if since_us <= balance.through_us:
            held |= balance_arms(balance, case.policy)
    return sorted(case.payable(unit) - held)


def _erased(case: Case, unit: int) -> str:
    if case.inputs.grades.kind[case.effective_grades.grade[unit]] == ERASED:
        return "Its content was erased, so its rubric and its reward are unknown."
    shown = case.reached(unit)
    erased = _exposures(case, shown[case.inputs.shown.erased[shown]])
    return f"What its target was shown ({erased}) was erased, so the arms to pay are unknown."
