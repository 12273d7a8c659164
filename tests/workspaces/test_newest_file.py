"""Audits of workspaces in which the newest-file selector really acted: what it did, or bounds that contain it."""

from __future__ import annotations

import io
import math
import uuid
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest
from tests.amounts import cases
from tests.importers.import_files import import_paths
from tests.log.memory import MemoryRecorder
from tests.workspaces.acted import LESSONS, Acted, Session, Workspace, copy_changes_times, random_plan

from rightful.importers.lesson_hook.artifacts import LessonHook
from rightful.importers.session_records import SessionRecords
from rightful.log.log import Log
from rightful.policies import policy_of
from rightful.projections.projected import Projected
from rightful.reports.audits.rule_audit import Audit, audit

COUNT = cases("RIGHTFUL_WORKSPACES", 16)
"""How many workspaces; 200 for the long run."""

_NEWEST, _BOUND = policy_of("historical-newest"), policy_of("bound")
_COPIED_S = 1_790_000_000


def audited(acted: Acted) -> tuple[Audit, Projected]:
    """Import the files and audit them; the recorder is in memory, all else is real."""
    log = Log(MemoryRecorder(), entropy=bytes)
    reports = list(import_paths(log, [LessonHook(), SessionRecords()], acted.places, stdin=io.BytesIO()))
    assert not any(report.lost for report in reports)
    projected = Projected(log)
    return audit(projected, ("historical-newest", _NEWEST), ("bound", _BOUND)), projected


def assert_within(found: Audit, acted: Acted) -> None:
    (low, high), (least, most) = found.foreign_grades_bounds, found.policy_credited_grades_bounds
    assert low <= len(acted.foreign) <= high
    assert least <= sum(bool(paid.arms) for paid in acted.paid) <= most
    by_day = Counter(paid.day for paid in acted.foreign)
    assert {day.day for day in found.days} == {paid.day for paid in acted.paid}
    assert all(day.foreign_bounds[0] <= by_day[day.day] <= day.foreign_bounds[1] for day in found.days)


@pytest.mark.parametrize("seed", range(COUNT))
def test_audit_gives_what_the_newest_file_selector_did(seed: int, tmp_path: Path) -> None:
    plan, zone = random_plan(seed)
    acted = Workspace(tmp_path, plan, zone).act()
    names = {f"claude-code:{session.native}": session.native for session in plan}
    natives = {f"workspace:{session.label}": session.native for session in plan}

    found, projected = audited(acted)
    beliefs = projected.posteriors(_NEWEST).arms

    assert found.foreign_grades == len(acted.foreign)
    assert Counter(
        (natives[one.session.partition("@")[0]], names[one.paid_session or ""], tuple(sorted(one.arms)), one.reward)
        for one in found.foreign
    ) == Counter((paid.session, paid.source, tuple(paid.arms), paid.reward) for paid in acted.foreign)
    assert found.foreign_reward == pytest.approx(math.fsum(paid.reward for paid in acted.foreign), abs=1e-12)
    assert {day.day: day.foreign for day in found.days if day.foreign} == Counter(paid.day for paid in acted.foreign)
    assert beliefs.keys() == acted.bandit.arms.keys()
    for name, arm in acted.bandit.arms.items():
        belief = beliefs[name]
        assert (belief.alpha, belief.beta) == pytest.approx((arm.alpha, arm.beta), abs=1e-9)
        assert belief.n == arm.total_selections
    assert_within(found, acted)

    copy_changes_times(acted, _COPIED_S)
    assert_within(audited(acted)[0], acted)


@pytest.mark.parametrize("seed", range(1_000, 1_000 + COUNT))
def test_bounds_of_files_alone_contain_what_the_selector_did(seed: int, tmp_path: Path) -> None:
    """The logs are gone, files were rewritten after a grade, some deleted since; then all times are those of a copy."""
    plan, zone = random_plan(seed)
    for session in plan:
        session.logged = session.evented = False
        session.reward = 0.5 if session.reward is None else session.reward
    acted = Workspace(tmp_path, plan, zone).act()
    for number, path in enumerate(sorted(acted.states.iterdir())):
        if (number + seed) % 7 == 0:
            path.unlink()

    assert_within(audited(acted)[0], acted)

    copy_changes_times(acted, _COPIED_S)
    assert_within(audited(acted)[0], acted)


def test_bounds_contain_a_late_prompt_of_a_session_without_a_grade(tmp_path: Path) -> None:
    """The file of A has the `last_pretool` of 10; a prompt rewrote it at 30, before B was graded, and A never was."""
    first, second = (str(uuid.UUID(int=number, version=4)) for number in (1, 2))
    a, b = Session(first, "a", 5.0, 90.0, None), Session(second, "b", 12.0, 60.0, 0.5)
    a.injections = [(10.0, "PreToolUse", [LESSONS[0]]), (30.0, "UserPromptSubmit", [LESSONS[1]])]
    b.injections = [(15.0, "PreToolUse", [LESSONS[2]])]
    for session in (a, b):
        session.logged = session.evented = False
    acted = Workspace(tmp_path, [a, b], UTC).act()
    assert [paid.source for paid in acted.foreign] == [first]

    found, _ = audited(acted)

    assert_within(found, acted)
    assert found.foreign_grades_bounds == (0, 1)


@pytest.mark.parametrize("seed", range(2_000, 2_000 + COUNT))
def test_bounds_of_files_alone_contain_the_truth_with_ungraded_sessions(seed: int, tmp_path: Path) -> None:
    """A session without a grade has no known end; a prompt may rewrite its file long after its `last_pretool`."""
    plan, zone = random_plan(seed)
    for number, session in enumerate(plan):
        session.logged = session.evented = False
        session.reward = None if number % 3 == seed % 3 else 0.5
    acted = Workspace(tmp_path, plan, zone).act()

    assert_within(audited(acted)[0], acted)

    copy_changes_times(acted, _COPIED_S)
    assert_within(audited(acted)[0], acted)
