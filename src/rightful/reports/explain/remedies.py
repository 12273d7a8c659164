"""What would have to be recorded for a grade to count: sentences, and the events themselves."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rightful.policies import PRESETS
from rightful.projections.facts.facts import ERASED, GRADE, RETRACTION
from rightful.reports.explain.bin_reasons import Clash, clash_of, conflict_of, rivals_of, sharers_of, target_name
from rightful.reports.explain.case import Case
from rightful.reports.explain.grade_outcomes import GradeOutcome
from rightful.reports.explain.phrases import (
    OTHER_NAME,
    PRODUCER,
    REWARD,
    Remedy,
    exposure_event,
    grade_event,
    link_event,
    withdrawal_event,
)
from rightful.reports.explain.remedy_trial import changes_outcome, credits_new, pays_under
from rightful.reports.explain.run_membership import run_of


def remedies_of(case: Case, row: int, outcome: GradeOutcome) -> list[Remedy]:
    """Return what would make a grade count; nothing where it counts, or where it rightly does not.

    What is to be recorded is tried first (`whatif`): what would change nothing is not proposed.
    """
    if outcome.unit is None:
        proposed = _BY_STATE[outcome.state](case, row, outcome) if outcome.state in _BY_STATE else []
    elif outcome.state in _BY_BIN:
        proposed = _BY_BIN[outcome.state](case, row, outcome.unit)
    else:
        return []
    found = [remedy for remedy in proposed if changes_outcome(case, row, outcome, remedy)]
    return found if found or outcome.unit is None else [_by_policy(case, row, outcome.unit)]


def _by_policy(case: Case, row: int, unit: int) -> Remedy:
    """Return what is left where nothing that is recorded settles it: another policy, if one that is near does."""
    why = "Under this policy no new event settles it"
    what, policy = "", dict[str, Any]()
    if case.sources is not None:
        what, policy = "the policy can restrict a grade to the exposures of its own session", {"join": "bound"}
    elif not case.targets.unclear[unit] and (rivals := list(rivals_of(case, unit))):
        names = case.facts.grades["name"][case.settlement.unit_grade[[other for _, other in rivals]]].tolist()
        gone = [*case.policy.without_sessions, *sorted({case.text(name) for name in names})]
        what, policy = "the policy can exclude the other run", {"without_sessions": gone}
    if policy and pays_under(case, row, policy):
        return Remedy(f"{why}; {what}.", [], policy)
    return Remedy(f"{why}, and no similar policy would.")


def _regrade(case: Case, row: int, what: str, **said: object) -> Remedy:
    """A new grade of the same grader and session, with the next `seq`."""
    table = case.facts.grades
    name, at = int(table["name"][row]), case.grade_at(row)
    seq = int(table["seq"][row])
    if at is not None:
        run = int(case.inputs.runs.of[name])
        seq = int(case.inputs.grades.seq[case.stream(run, int(table["grader"][row]))].max(initial=seq))
    more: dict[str, object] = {"alias": True} if case.facts.names.alias[name] else {}
    target = int(table["target"][row])
    if target >= 0 and "exposure_session" not in said:
        more["exposure_session"] = case.text(target)
    at_us = int(said.pop("at_us", table["at"][row]))  # type: ignore[call-overload]
    if "kind" not in said and "reward" not in said:
        reward = float(table["reward"][row])
        more["reward"] = REWARD if np.isnan(reward) else reward
    grade = grade_event(case.text(name), case.grader(row), seq + 1, at_us, **more, **said)
    return Remedy(what, [grade])


def _policy_remedy(case: Case, what: str, **said: object) -> Remedy:
    """The policy that was asked with some fields changed; each stands whole, as it replaces the default whole."""
    own, default = case.policy.as_dict(), PRESETS["bound"].as_dict()
    changed_fields = {name: value for name, value in own.items() if name not in default or default[name] != value}
    return Remedy(what, [], {**changed_fields, **said})


def _ranked_first(case: Case, grader: str) -> list[str]:
    return [grader, *(pattern for pattern in case.policy.graders if pattern != grader)]


def _retraction(case: Case, row: int, what: str) -> Remedy:
    found = _regrade(case, row, what, kind="grade.retracted")
    for event in found.events:
        event.pop("exposure_session", None)
    return found


def _for_unmatched(case: Case, row: int, unit: int) -> list[Remedy]:
    grade_at = int(case.facts.grades["at"][row])
    number = target_name(case, unit)
    fitting = case.facts.names.fitting(number, case.through)
    if case.facts.names.alias[number] and fitting:
        number = fitting[0]
    if case.sources is not None:
        number = int(case.facts.grades["name"][row])
    name = case.text(number)
    shown = Remedy(f"Record what {name} was shown by the time of the grade.", [exposure_event(name, grade_at, [])])
    if case.sources is not None or int(case.facts.grades["target"][row]) >= 0 or case.facts.names.alias[number]:
        return [shown]
    link = link_event("session.linked", name, OTHER_NAME, grade_at)
    return [shown, Remedy(f"Or, if {name} was shown something under another name, link the two.", [link])]


def _for_empty(case: Case, row: int, unit: int) -> list[Remedy]:
    name = _session_shown(case, unit)
    event = exposure_event(name, int(case.facts.grades["at"][row]), [])
    return [Remedy(f"If {name} was shown an arm by then, record it. If not, nothing is missing.", [event])]


def _session_shown(case: Case, unit: int) -> str:
    return case.text(int(case.inputs.shown.name[case.reached(unit)[0]]))


def _for_late_only(case: Case, row: int, unit: int) -> list[Remedy]:
    reached = case.reached(unit)
    late = reached[case.timing(unit, reached)[1]]
    arms = case.arms_of(int(case.inputs.shown.row[late[0]]))
    name, grade_at = _session_shown(case, unit), int(case.facts.grades["at"][row])
    first = exposure_event(name, grade_at, arms)
    skew_s = (int(case.inputs.shown.late_from[late].min()) - grade_at) / 1_000_000
    found = [Remedy(f"If {name} was shown an arm before the grade too, record that.", [first])]
    if case.policy.revision == "last_wins":
        after = int(case.inputs.shown.late_from[late].max())
        found.append(_regrade(case, row, "Or grade the session again, at a time after its exposures.", at_us=after))
    clocks = "Or, if the two clocks differ by that much, allow for it in the policy."
    return [*found, _policy_remedy(case, clocks, skew_s=skew_s)]


def _for_ambiguous(case: Case, row: int, unit: int) -> list[Remedy]:
    if case.sources is not None:
        name = case.text(int(case.facts.grades["name"][row]))
        event = exposure_event(name, int(case.facts.grades["at"][row]), [])
        return [Remedy(f"An exposure of {name} nearer to the grade would be the newest.", [event])]
    if not case.targets.unclear[unit]:
        return _uncontested(case, row, unit)
    number = target_name(case, unit)
    explicit = int(case.facts.grades["target"][row]) >= 0
    doubtful = case.inputs.runs.reused[number] if explicit else case.inputs.runs.ambiguous[number]
    if doubtful:
        return run_of(case, number).remedies
    fitting = case.facts.names.fitting(number, case.through)
    return [_of_the_fitting(case, row, fitting)]


def _of_the_fitting(case: Case, row: int, fitting: list[int]) -> Remedy:
    """Return a new grade that names one fitting session; a session without an exposure needs one first."""
    alias = case.facts.names.alias
    fits = " or ".join(dict.fromkeys(case.distinct_name(name) for name in fitting))
    shown = [name for name in fitting if not alias[name] and case.was_shown(name)]
    if shown:
        what = f"Grade again and name the right session ({fits}) as `exposure_session`."
        return _regrade(case, row, what, exposure_session=case.text(shown[0]))
    name = case.text(min(fitting, key=lambda name: (alias[name], name)))
    first = exposure_event(name, int(case.facts.grades["at"][row]), [])
    what = (
        f"It is not known which session the grade names ({fits}): none has an exposure under its exact name. "
        f"If it is {name}, record what it was shown, and grade again with it as `exposure_session`."
    )
    return Remedy(what, [first, *_regrade(case, row, "", exposure_session=name).events])


def _uncontested(case: Case, row: int, unit: int) -> list[Remedy]:
    """Two runs reach one exposure: they are one run, or one of the grades is wrong."""
    if case.effective_grades.shared[unit]:
        rows = [int(case.settlement.unit_grade[other]) for other in sharers_of(case, unit)]
        events = [event for other in rows for event in _retraction(case, other, "").events]
        return [Remedy("If this grade is right, its grader must retract its other grade of the run.", events)]
    others = list(rivals_of(case, unit))
    shown, rival = others[0]
    found = []
    own_run, other_run = int(case.effective_grades.run[unit]), int(case.effective_grades.run[rival])
    ranks = case.inputs.grades.rank[case.effective_grades.grade[np.array([unit, rival])]]
    two_names = case.text(own_run) != case.text(other_run)  # one may be the other, read from a sanitised form
    if (
        two_names
        and ranks[0] < ranks[1]
        and len({int(case.effective_grades.run[rival_unit]) for _, rival_unit in others}) == 1
    ):
        exposed = int(case.inputs.runs.of[case.inputs.shown.session[shown]])
        owner, native = (other_run, own_run) if exposed == own_run else (own_run, other_run)
        link = link_event("session.linked", case.text(owner), case.text(native), int(case.facts.grades["at"][row]))
        what = "If the two are one run, link them: then only this grade pays, as the policy ranks its grader first."
        found.append(Remedy(what, [link]))
    events = []
    for _, other in others:
        events += _retraction(case, int(case.settlement.unit_grade[other]), "").events
    start = "Or, if" if found else "If"
    found.append(Remedy(f"{start} the other run was not shown it, its grader must retract its grade.", events))
    return found


def _for_conflicting(case: Case, row: int, unit: int) -> list[Remedy]:
    clash = clash_of(case, unit)
    if clash.positions:
        return [_withdraw_all_but_first(case, clash.positions, _whose(case, unit, row, clash))]
    assert clash.other is not None, "what is in no id's conflict contradicts another grade"
    if clash.cause == "seq":
        what = "Grade again with the next `seq` and the right reward; this event has that of the newest grade."
        return [_regrade(case, row, what)]
    rival = int(case.inputs.grades.row[clash.other])
    graders = _ranked_first(case, "/".join(case.grader(row)))
    ordered = _policy_remedy(case, "Or rank this grader first in the policy.", graders=graders)
    return [_retraction(case, rival, "The other grader must retract its grade."), ordered]


def _whose(case: Case, unit: int, row: int, clash: Clash) -> int:
    """Return the name under which a conflict is settled: that of the first exposure, else of the grade."""
    if clash.cause != "exposures":
        return int(case.facts.grades["name"][row])
    shown = case.reached(unit)
    return int(case.inputs.shown.name[shown[case.inputs.shown.pos[shown] == clash.positions[0]]][0])


def _withdraw_all_but_first(case: Case, positions: list[int], name: int) -> Remedy:
    events: list[dict[str, Any]] = []
    for event_id in sorted({case.in_conflict[position] for position in positions}):
        rows = conflict_of(case, next(at for at in positions if case.in_conflict[at] == event_id))
        events += [withdrawal_event(case.text(name), event_id, revision, case.latest_us()) for revision, _ in rows[1:]]
    what = "Withdraw every revision of the id except the right one; these events keep the first."
    return Remedy(what, events)


def _for_retracted(case: Case, row: int, _: object) -> list[Remedy]:
    rows = case.inputs.grades.row
    stream = case.stream(
        int(case.inputs.runs.of[case.facts.grades["name"][row]]), int(case.facts.grades["grader"][row])
    )
    before = [int(rows[grade]) for grade in stream if case.inputs.grades.kind[grade] == GRADE]
    last = before[-1] if before else row
    return [_regrade(case, last, "The grader must grade the session again, with the next `seq`.")]


def _for_unmapped(case: Case, row: int, _: object) -> list[Remedy]:
    word = case.facts.outcomes.values[int(case.facts.grades["outcome"][row])]
    outcomes = {**case.policy.outcomes, word: REWARD}
    mapped = _policy_remedy(case, "Or map the word to a value in the policy, 0 to 1.", outcomes=outcomes)
    return [_regrade(case, row, "Grade again with a reward.", reward=REWARD), mapped]


def _for_in_balance(case: Case, *_: object) -> list[Remedy]:
    what = "Nothing is missing: the balance counts it already. To count grades instead, exclude the balances."
    return [_policy_remedy(case, what, balances=[])]


def _for_erased(case: Case, row: int, unit: int) -> list[Remedy]:
    table = case.facts.grades
    name = case.text(int(table["name"][row]))
    if table["kind"][row] != ERASED:
        event = exposure_event(_session_shown(case, unit), int(table["at"][row]), [])
        return [Remedy("Record the exposure again, if its content may be stored.", [event])]
    producer, _ = case.grader(row)
    grade = grade_event(name, (producer, "overall"), 1, int(table["at"][row]), reward=REWARD)
    return [Remedy("An erased grade stays erased; grade the session again, if the grade may be stored.", [grade])]


def _for_superseded(case: Case, row: int, _: object) -> list[Remedy]:
    if case.facts.grades["kind"][row] == RETRACTION:
        return []
    return [
        _regrade(case, row, "If this grade is right after all, its grader must record it again with the next `seq`.")
    ]


def _for_rival(case: Case, row: int, outcome: GradeOutcome) -> list[Remedy]:
    assert outcome.by is not None, "a rival has a counterpart"
    grades, at, by = case.inputs.grades, case.grade_at(row), case.grade_at(outcome.by)
    assert at is not None, "a rival is among the inputs"
    assert by is not None, "so is the grade that it contradicts"
    if grades.grader[at] == grades.grader[by]:
        if in_conflict := [int(grades.pos[grade]) for grade in (at, by) if grades.conflicting[grade]]:
            return [_withdraw_all_but_first(case, in_conflict[:1], int(grades.name[at]))]
        return [_regrade(case, row, "Its grader must record it again with the next `seq`.")]
    return [_retraction(case, outcome.by, "The other grader must retract its grade.")]


def _for_outranked(case: Case, row: int, outcome: GradeOutcome) -> list[Remedy]:
    graders = _ranked_first(case, "/".join(case.grader(row)))
    if outcome.by is None:
        return [_policy_remedy(case, "Rank its grader first in the policy.", graders=graders)]
    taken = _retraction(case, outcome.by, "The grader that outranks it must retract its grade.")
    return [taken, _policy_remedy(case, "Or rank its grader first in the policy.", graders=graders)]


def _for_recorded_only(case: Case, row: int, _: object) -> list[Remedy]:
    grader = "/".join(case.grader(row))
    policy: dict[str, Any] = {"graders": _ranked_first(case, grader)}
    left_out = case.policy.without_graders
    if any(fnmatchcase(grader, pattern) for pattern in left_out):
        policy["without_graders"] = [pattern for pattern in left_out if not fnmatchcase(grader, pattern)]
    what = "Use a policy that pays from this grader. It is listed first, since only the first that graded pays."
    return [_policy_remedy(case, what, **policy)]


def _for_left_out(case: Case, *_: object) -> list[Remedy]:
    return [_policy_remedy(case, "Use a policy that does not exclude the session.", without_sessions=[])]


def remedy_of_waiting_run(case: Case, number: int) -> Remedy:
    """Return the remedy for a run without a grade."""
    runs, shown = case.inputs.runs, case.inputs.shown
    mine = shown.at[runs.of[shown.session] == runs.of[number]]
    at_us = max(int(mine.max(initial=0)), case.inputs.through_balance_us + 1)
    for name in dict.fromkeys((case.text(int(runs.of[number])), case.text(number))):
        event = grade_event(name, (PRODUCER, "overall"), 1, at_us, reward=REWARD)
        remedy = Remedy(f"A grade of {name}, at or after the time of its exposures.", [event])
        if credits_new(case, remedy):
            return remedy
    return Remedy("Under this policy no new grade would pay for its exposures.")


_BY_BIN: dict[str, Callable[[Case, int, int], list[Remedy]]] = {
    "unmatched": _for_unmatched, "empty": _for_empty, "ambiguous": _for_ambiguous, "conflicting": _for_conflicting,
    "retracted": _for_retracted, "late-only": _for_late_only, "unmapped": _for_unmapped,
    "in-balance": _for_in_balance, "erased": _for_erased,
}  # fmt: skip
_BY_STATE: dict[str, Callable[[Case, int, GradeOutcome], list[Remedy]]] = {
    "superseded": _for_superseded, "rival": _for_rival, "outranked": _for_outranked, "stood-aside": _for_retracted,
    "recorded-only": _for_recorded_only, "left-out": _for_left_out,
}  # fmt: skip
