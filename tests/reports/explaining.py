"""Explaining whole logs: every session, every exposure and every grade of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import exposed

from rightful.encoding import wire
from rightful.errors import InvalidEventError, PolicyError
from rightful.policies import Policy, policy_of
from rightful.projections.credit.inputs import BINS, credit_inputs
from rightful.projections.projected import Projected
from rightful.reports.explain import (
    ArmExplained,
    ExposureRow,
    GradeRow,
    Remedy,
    SessionExplained,
    explain_arm,
    explain_session,
)
from rightful.reports.explain.exposure_outcomes import STATES
from rightful.reports.explain.grade_outcomes import OUTSIDE
from rightful.reports.explain.phrases import ARMS, OTHER_NAME, PRODUCER, REWARD, bin_name, count

BIN_STATES = {bin_name(number) for number in range(len(BINS))}

FILLED: dict[str, Any] = {REWARD: 0.5, ARMS: [{"arm": "x"}], PRODUCER: "judge", OTHER_NAME: "u:other"}


def filled(value: Any, producer: str = FILLED[PRODUCER]) -> Any:
    """Put in what only a person knows."""
    if isinstance(value, dict):
        return {name: filled(one, producer) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, producer) for one in value]
    known = FILLED | {PRODUCER: producer}
    return known.get(value, value) if isinstance(value, str) else value


def assert_can_be_recorded(remedies: list[Remedy]) -> None:
    """What is proposed is valid as it stands, once what only a person knows is put in."""
    for remedy in remedies:
        assert remedy.what.endswith(".")
        assert remedy.events or remedy.policy is not None or remedy.what.startswith("Under this policy no")
        for event in remedy.events:
            wire.check(filled(event))
            assert_no_placeholder_is_recorded(event)
        if remedy.policy is not None and (place := placed(remedy.policy)) is not None:
            with pytest.raises(PolicyError, match=rf"at `\$\.{place.split('.')[1]}\["):
                policy_of(remedy.policy)


def assert_no_placeholder_is_recorded(event: dict[str, Any]) -> None:
    """What is left in angle brackets is refused, with its place."""
    place = placed(event)
    assert "<" not in event["key"]
    if place is not None:
        with pytest.raises(InvalidEventError) as refused:
            wire.check(event)
        assert refused.value.place == f"${place}"


def placed(value: Any, path: str = "") -> str | None:
    """Say where a placeholder stands; None for nowhere."""
    if isinstance(value, dict):
        steps = [(one, f"{path}.{name}") for name, one in value.items()]
    elif isinstance(value, list):
        steps = [(one, f"{path}[{at}]") for at, one in enumerate(value)]
    else:
        return path if isinstance(value, str) and value in FILLED else None
    return next((found for one, step in steps if (found := placed(one, step)) is not None), None)


def projected(log: FakeLog) -> Projected:
    return Projected(log)  # type: ignore[arg-type]


def sessions_of(projection: Projected, through: int) -> list[str]:
    """Every session that a row up to a position names."""
    names = projection.facts.names
    found = [names.text(number) for number in range(len(names)) if names.first[number] <= through]
    return list(dict.fromkeys(found))


def walked(
    projection: Projected, policy: Policy, through: int | None = None
) -> tuple[dict[int, GradeRow], dict[int, ExposureRow]]:
    """Explain every session; return every grade and exposure by position. What is told twice is told alike."""
    end = projection.prefix(through)
    grades: dict[int, GradeRow] = {}
    exposures: dict[int, ExposureRow] = {}
    for session in sessions_of(projection, end):
        found = explain_session(projection, policy, session, as_of=end)
        assert_can_be_recorded(found.remedies)
        for grade in found.grades:
            assert grades.setdefault(grade.position, grade) == grade
        for shown in found.exposures:
            assert exposures.setdefault(shown.position, shown) == shown
    return grades, exposures


def assert_explained(projection: Projected, policy: Policy, through: int | None = None) -> None:
    """Every grade and exposure has a reason, and the stated bins are those of the settlement."""
    grades, exposures = walked(projection, policy, through)
    facts, end = projection.facts, projection.prefix(through)
    settled = projection.settle(policy, end)
    position = facts.grades["pos"]
    said = {at: row.bin for at, row in grades.items() if row.bin is not None}
    assert said == {
        int(position[row]): BINS[number]
        for row, number in zip(settled.unit_grade.tolist(), settled.unit_bin.tolist(), strict=True)
    }
    assert grades.keys() == set(position[position <= end].tolist())
    shown = facts.shown["pos"]
    assert exposures.keys() == set(shown[shown <= end].tolist())
    for grade in grades.values():
        assert grade.state in (BIN_STATES if grade.bin else OUTSIDE)
        assert grade.reason.endswith(".")
        assert_can_be_recorded(grade.remedies)
        if grade.bin not in {None, "credited"}:
            assert grade.remedies
    assert {row.state for row in exposures.values()} <= set(STATES)
    assert all(row.reason.endswith(".") for row in exposures.values())
    paid = {row.position for row in exposures.values() if row.state in {"paid", "repeated"}}
    assert paid <= {at for row in grades.values() if row.bin == "credited" for at in row.exposures}


def assert_own(projection: Projected, policy: Policy, through: int | None = None) -> None:
    """A session's verdict counts the exposures that the projections give to its own run, and no others."""
    facts, end = projection.facts, projection.prefix(through)
    inputs = credit_inputs(facts, policy, end, None)
    for session in sessions_of(projection, end):
        number = next(one for one in facts.names.numbers_of(session, end) if facts.names.first[one] <= end)
        fitting = facts.names.fitting(number, end) if facts.names.alias[number] else []
        if len(fitting) == 1 and not facts.names.alias[fitting[0]]:
            number = fitting[0]
        if inputs.runs.ambiguous[number]:
            continue
        own = inputs.shown.pos[inputs.runs.of[inputs.shown.session] == inputs.runs.of[number]].tolist()
        found = explain_session(projection, policy, session, as_of=end)
        mine = [row for row in found.exposures if row.position not in found.elsewhere]
        assert [row.position for row in mine if row.state not in {"withdrawn", "left-out"}] == own
        shown = f"{count(len({arm for row in mine for arm in row.arms}), 'arm')} in {count(len(mine), 'exposure')}. "
        assert found.verdict.startswith(
            f"{session} was shown {shown}" if mine else f"No exposure of {session} is recorded. "
        )
        assert found.pending == any(row.state == "pending" and row.arms for row in mine)


def assert_names_are_told_apart(projection: Projected, policy: Policy, through: int | None = None) -> None:
    """No sentence lists one name twice, and none says that a name is reached by itself."""
    grades, exposures = walked(projection, policy, through)
    for reason in [*(one.reason for one in grades.values()), *(one.reason for one in exposures.values())]:
        listed = re.search(r"(?:sanitised form|fits it): (.*?)\.(?: |$)", reason)
        names = re.split(r", | and ", listed[1]) if listed else []
        assert len(names) == len(set(names)), reason
    for grade in grades.values():
        assert f" of {grade.session}. One exposure is paid" not in grade.reason


_NUMBERS = re.compile(r"seq \d+|#\d+")


def assert_remedies_help(fresh: Callable[[], FakeLog], policy: Policy) -> None:
    """Recording what a remedy proposes changes the reason that is given, each of them on its own."""
    projection = projected(fresh())
    end = projection.prefix(None)
    for row in walked(projection, policy)[0].values():
        for remedy in row.remedies:
            if remedy.events:
                told = walked(_with(fresh(), remedy, policy, row.at), policy)[0]
                given = any(event["type"] == "grade.recorded" for event in remedy.events)
                after = [one for at, one in told.items() if (at > end if given else at == row.position)]
                before = (row.state, _NUMBERS.sub("", row.reason))
                assert any((one.state, _NUMBERS.sub("", one.reason)) != before for one in after), (row, remedy)
    for session in sessions_of(projection, end):
        found = explain_session(projection, policy, session)
        for remedy in found.remedies:
            if remedy.events:
                then = explain_session(_with(fresh(), remedy, policy), policy, session)
                assert (then.run_reason, then.pending) != (found.run_reason, found.pending), (found, remedy)


def _with(log: FakeLog, remedy: Remedy, policy: Policy, at: str = "") -> Projected:
    """Record a remedy; what is linked by another name was shown something under that.

    A grade is given by whom the policy ranks first: another's may be outranked, and change nothing.
    """
    first = policy.graders[0].partition("/")[0].replace("*", FILLED[PRODUCER]) if policy.graders else FILLED[PRODUCER]
    events = [filled(event, first) for event in remedy.events]
    if any(OTHER_NAME in event.values() for event in remedy.events):
        events.append(exposed(FILLED[OTHER_NAME], "x") | {"at": at})
    assert set(log.append(events)) == {"appended"}
    return projected(log)


def assert_arms_add_up(
    projection: Projected, policy: Policy, through: int | None = None, decay_at: float | None = None
) -> None:
    """The last running belief of every arm is the one that `posteriors` answers, to the last bit."""
    found = projection.posteriors(policy, as_of=through, decay_at=decay_at)
    for arm, belief in found.arms.items():
        told = explain_arm(projection, policy, arm, as_of=through, decay_at=decay_at)
        assert (told.alpha, told.beta, told.n, told.mass) == (belief.alpha, belief.beta, belief.n, belief.mass)
        last = told.steps[-1]
        assert (last.alpha, last.beta, last.n, last.mass) == (belief.alpha, belief.beta, belief.n, belief.mass)
        credited = [step for step in told.steps if step.kind == "credit"]
        assert all(step.exposures for step in credited)
        assert all(row.state not in {"paid", "repeated"} for row in told.unpaid if policy.arithmetic == "exact")


def explained(log: FakeLog, session: str, **policy: Any) -> SessionExplained:
    return explain_session(projected(log), policy_of(policy), session)


def armed(log: FakeLog, arm: str, **policy: Any) -> ArmExplained:
    return explain_arm(projected(log), policy_of(policy), arm)
