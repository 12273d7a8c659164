"""What a tool writes next to the beliefs that were published to its file; and a target whose folder is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import AFTER, GIT, NOON, TESTS, applied, ledger_with, plan_of, rows, stands, taken_back, written
from tests.projections.telling import exposed, graded

import rightful
from rightful.errors import TargetError

JUDGE = {"helpful": 4, "harmful": 1, "false_positive": 0, "noop": 2}


def judged(target: Path, **counters: float) -> None:
    """Let gptme's judge count its words of an arm in the file."""
    document = json.loads(target.read_text())
    document["arms"][GIT] |= counters
    written(target, document)


@pytest.mark.parametrize("old", ["counted", "rebuilt"])
def test_counters_of_a_judge_do_not_make_the_beliefs_a_tools_own(tmp_path: Path, old: Any) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "bandit-state.json"
    applied(path, plan_of(path, target, "gptme-hybrid", old=old))
    judged(target, **JUDGE)

    plan = plan_of(path, target, "gptme-hybrid")

    assert (plan.refusals, plan.in_balance, plan.opens, plan.updated) == ((), 0, None, False)
    assert any("changed no belief" in note for note in plan.notes)
    assert plan.new_sha256 == plan.previous_sha256  # nothing to write: the beliefs are in place
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:new", GIT, at=NOON + 300), graded("t:new", 1.0, at=NOON + 400)])
    done = applied(path, plan_of(path, target, "gptme-hybrid"))
    assert done.happened == "written"
    entry = json.loads(target.read_text())["arms"][GIT]
    assert entry == JUDGE | {"alpha": AFTER[GIT][0] + 1.0, "beta": AFTER[GIT][1]}
    assert rows(path, "balance.opened") == []


def test_counters_of_a_judge_come_back_with_a_rollback(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "bandit-state.json"
    applied(path, plan_of(path, target, "gptme-hybrid"))
    judged(target, **JUDGE)
    before = target.read_bytes()
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:new", GIT, at=NOON + 300), graded("t:new", 1.0, at=NOON + 400)])
    applied(path, plan_of(path, target, "gptme-hybrid"))

    taken_back(path, target)

    assert target.read_bytes() == before


def test_beliefs_that_a_tool_changed_are_its_own(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "bandit-state.json"
    applied(path, plan_of(path, target, "gptme-hybrid"))
    judged(target, alpha=5.0, **JUDGE)

    plan = plan_of(path, target, "gptme-hybrid")

    assert (plan.opens is not None, plan.updated) == (True, True)


def test_new_folder_of_the_hybrid_matcher_is_made_by_apply(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "state" / "gptme" / "lessons" / "bandit-state.json"

    plan = plan_of(path, target, "gptme-hybrid")
    assert f"the folder {target.parent} is new, and apply creates it" in plan.notes
    assert not (tmp_path / "state").exists()  # a plan writes nothing
    applied(path, plan)

    assert json.loads(target.read_text())["arms"].keys() == {GIT, TESTS}
    assert stands(path, target).standing == "in place"
    taken_back(path, target)
    assert not target.exists()


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    (tmp_path / "gptme").write_text("")

    with pytest.raises(TargetError, match="its folder does not exist"):
        plan_of(path, tmp_path / "gptme" / "lessons" / "bandit-state.json", "gptme-hybrid")
