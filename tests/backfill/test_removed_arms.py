"""A plan that would leave nothing of a file is refused, and an arm that only changes its name is noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import EVENTS, GIT, NOON, TESTS, applied, arm, ledger_with, plan_of, rows, state, written
from tests.projections.telling import exposed, graded

import rightful
from rightful.errors import BackfillRefusedError
from rightful.reports.aliases.arm_aliases import same_lesson

TOOLS = arm(TESTS, 2.0, 2.0, 2)
MODEL = "pm-model:ci-fix:opus"
PM = {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}


def test_a_rebuild_that_would_empty_a_file_is_refused_and_says_why(tmp_path: Path) -> None:
    """The log knows lessons alone; pm-dispatch would start from nothing."""
    path, target = ledger_with(tmp_path), written(tmp_path / "bandit-state.json", PM)
    before = target.read_bytes()

    plan = plan_of(path, target, "pm-dispatch", old="rebuilt")

    why = (
        f"every arm of the file would go (1, such as {MODEL}), and none would be left: the log credits no arm that "
        f"pm-dispatch takes (pm-model:WORK_TYPE:MODEL); with --force they go; without --rebuild they stay"
    )
    assert plan.refusals == (why,)
    with pytest.raises(BackfillRefusedError, match="none would be left"):
        applied(path, plan)
    assert target.read_bytes() == before
    assert plan_of(path, target, "pm-dispatch").refusals == ()
    applied(path, plan_of(path, target, "pm-dispatch", old="rebuilt", force=True))
    assert target.read_bytes() == b'{\n  "arms": {}\n}\n'


def test_rebuild_from_a_log_without_grades_names_that_reason(tmp_path: Path) -> None:
    """The names of the arms are not the reason, and no alias would help."""
    path = ledger_with(tmp_path, [event for event in EVENTS if event["type"] != "grade.recorded"])
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))

    [why] = plan_of(path, target, old="rebuilt").refusals

    assert "none would be left: the log holds no grade to pay from; with --force they go" in why


def test_a_rebuild_under_which_every_arm_of_the_file_goes_is_refused(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    gone = written(tmp_path / "gone.json", state(arm("/ws/lessons/x.md", 3.0, 2.0, 3), arm("y", 1.0, 1.0, 0)))
    one_stays = written(
        tmp_path / "stays.json",
        state(arm("/ws/lessons/x.md", 3.0, 2.0, 3), arm(GIT, 1.0, 1.0, 0), arm(TESTS, 1.0, 1.0, 0)),
    )
    empty = written(tmp_path / "empty.json", state())

    assert plan_of(path, gone, old="rebuilt").refusals == (
        (
            "every arm of the file would go (2, such as /ws/lessons/x.md), and only other arms are added; with "
            "--force they go; "
            "without --rebuild they stay"
        ),
    )
    assert plan_of(path, one_stays, old="rebuilt").refusals == ()
    assert plan_of(path, empty, old="rebuilt").refusals == ()


def test_new_file_without_arms_is_refused_with_the_reader_of_the_arms(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "b.json"

    plan = plan_of(path, target, "pm-dispatch")

    assert plan.refusals == (
        (
            f"the file would have no arm: the log credits no arm that pm-dispatch takes (pm-model:WORK_TYPE:MODEL); "
            f"its arms, such as {GIT}, belong into the file of another reader "
            f"(gptme-sessions, lesson-hook, gptme-hybrid)"
        ),
    )
    with pytest.raises(BackfillRefusedError, match="Pass the --reader of these arms"):
        applied(path, plan)
    assert not target.exists()
    assert rows(path, "posterior.published") == []


@pytest.mark.parametrize("before", [None, {"arms": {}}])
def test_file_without_arms_is_not_written_before_the_first_grade(tmp_path: Path, before: Any) -> None:
    path, target = ledger_with(tmp_path, [exposed("t:a", GIT, at=NOON)]), tmp_path / "b.json"
    if before is not None:
        written(target, before)

    plan = plan_of(path, target)

    assert plan.refusals == ("the file would have no arm: the log holds no grade to pay from",)


STYLE = "/ws/lessons/style.md"


def test_rebuild_counts_arms_of_the_tool_without_those_we_published(tmp_path: Path) -> None:
    """The one arm of a publication survived, so the guard of an empty file did not refuse."""
    session = [exposed("t:a", GIT, at=NOON), graded("t:a", 0.75, at=NOON + 60)]
    path, target = ledger_with(tmp_path, session), written(tmp_path / "b.json", state(arm(STYLE, 3.0, 2.0, 3), TOOLS))
    applied(path, plan_of(path, target))
    published = target.read_bytes()

    plan = plan_of(path, target, old="rebuilt")

    [why] = plan.refusals
    assert why == (
        "2 of 2 arms that the tool wrote would go (style.md, tests.md), and the ledger has no exposure or grade of them"
    )
    keep = "import the sessions in which they were shown and graded, or plan without --rebuild. With --force the arms"
    with pytest.raises(BackfillRefusedError, match=keep):
        applied(path, plan)
    assert target.read_bytes() == published
    applied(path, plan_of(path, target, old="rebuilt", force=True))
    assert STYLE not in target.read_text()
    assert plan_of(path, target, old="rebuilt").refusals == ()


@pytest.mark.parametrize("reported", ["exposure", "per_arm"])
def test_rebuild_removes_arms_that_the_ledger_knows_without_force(tmp_path: Path, reported: str) -> None:
    """Their past was imported: an exposure without a grade, or a reward that no exposure explains."""
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(STYLE, 3.0, 2.0, 3), TOOLS))
    assert plan_of(path, target, old="rebuilt").refusals != ()
    more = exposed("t:c", STYLE, at=NOON) if reported == "exposure" else graded("t:b", 0.5, seq=2, per_arm={STYLE: 0.5})
    with rightful.open(path) as ledger:
        ledger.append([more])

    plan = plan_of(path, target, old="rebuilt")

    assert [change.arm for change in plan.changes if change.new is None] == [STYLE]
    assert [why for why in plan.refusals if "would go" in why] == []


def test_rebuild_that_removes_less_than_half_is_not_refused(tmp_path: Path) -> None:
    path, kept = ledger_with(tmp_path), arm(GIT, 3.0, 2.0, 3)
    third = written(tmp_path / "third.json", state(arm(STYLE, 3.0, 2.0, 3), TOOLS, kept))
    half = written(tmp_path / "half.json", state(arm(STYLE, 3.0, 2.0, 3), kept))

    assert plan_of(path, third, old="rebuilt").refusals == ()
    assert len(plan_of(path, half, old="rebuilt").refusals) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("git.md", GIT, True),
        ("workflow/a.md", "/home/me/lessons/workflow/a.md", True),
        ("lessons/workflow/a.md", "/home/me/lessons/workflow/a.md", True),
        ("workflow/a.md", "other/a.md", False),
        ("workflow/a.md", "/home/me/lessons/a.md", False),
        ("git", GIT, False),
        (GIT, GIT, False),
    ],
)
def test_equal_paths_below_the_lessons_folder_are_one_lesson(one: str, other: str, same: bool) -> None:
    assert same_lesson(one, other) is same_lesson(other, one) is same


@pytest.mark.parametrize(("old", "what"), [("counted", "are both in the new file"), ("rebuilt", "goes")])
def test_lesson_with_both_names_in_the_file_is_noted(tmp_path: Path, old: Any, what: str) -> None:
    path = ledger_with(tmp_path)
    numbers = {"alpha": 3.0, "beta": 2.0}
    target = written(tmp_path / "b.json", {"arms": {"git.md": numbers, GIT: numbers, TESTS: numbers}})

    [note] = [note for note in plan_of(path, target, "gptme-hybrid", old=old).notes if "two names" in note]

    both, gone = f"git.md and {GIT} are both in the new file", f"git.md goes and {GIT} stays"
    assert f"by its path: {both if old == 'counted' else gone}; " in note
    assert what in note


def test_renamed_arm_is_noted_with_the_fix(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    target = written(tmp_path / "b.json", {"arms": {"git.md": {"alpha": 3.0, "beta": 2.0}}, "last_updated": ""})

    plan = plan_of(path, target, "gptme-hybrid", old="rebuilt", force=True)
    counted = plan_of(path, target, "gptme-hybrid", force=True)

    assert plan.notes == (
        (
            f"one lesson has two names, by its path: git.md goes and {GIT} is added; map one of them to the "
            f"other in the policy's arm_aliases"
        ),
    )
    assert counted.notes[0].startswith(
        f"one lesson has two names, by its path: git.md and {GIT} are both in the new file; map one of them"
    )
    named = {"arm_aliases": {GIT: "git.md"}}
    again = plan_of(path, target, "gptme-hybrid", named, old="rebuilt")
    assert (again.refusals, [note for note in again.notes if "two names" in note]) == ((), [])


def test_rebuild_under_new_names_loses_no_arm(tmp_path: Path) -> None:
    """After a move, the file and the log have the lessons by their old paths, and the policy maps them to the new."""
    path = ledger_with(tmp_path)
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3), arm(TESTS, 2.0, 2.0, 2)))
    moved = {old: old.replace("/ws/", "/moved/") for old in (GIT, TESTS)}
    assert all(old != new for old, new in moved.items())

    plan = plan_of(path, target, "lesson-hook", {"arm_aliases": moved}, old="rebuilt")

    assert (plan.refusals, [note for note in plan.notes if "two names" in note]) == ((), [])
    assert {change.arm for change in plan.changes if change.new is None} == {GIT, TESTS}
    assert {change.arm for change in plan.changes if change.new is not None} == set(moved.values())
    assert plan_of(path, target, "lesson-hook", {"arm_aliases": {GIT: moved[GIT]}}, old="rebuilt").refusals == ()
