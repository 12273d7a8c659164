"""A plan says all of what will stand in the file, and why, before anything is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.backfilling import (
    AFTER,
    EVENTS,
    GIT,
    NOON,
    OLD,
    TESTS,
    applied,
    arm,
    asked,
    books,
    bytes_of,
    ledger_with,
    plan_of,
    rows,
    state,
    taken_back,
    written,
)
from tests.projections.telling import exposed, graded, opened, retracted
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill.plan_document import Plan, plan_from
from rightful.backfill.planning import make_plan
from rightful.errors import PolicyError, TargetError, UsageError
from rightful.importers.bandits.bandit_file import read


def means(plan: Plan) -> dict[str, tuple[tuple[float, float] | None, tuple[float, float] | None]]:
    return {one.arm: (one.old, one.new) for one in plan.changes}


def test_a_plan_writes_nothing_to_the_ledger_or_the_file(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    before = target.read_bytes()

    plan = plan_of(path, target)

    assert target.read_bytes() == before
    assert rows(path, "balance.opened") == rows(path, "posterior.published") == []
    assert plan.opens is not None
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.json", "ledger"]


def test_diff_lists_arms_by_the_change_of_their_mean(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2)))

    plan = plan_of(ledger_with(tmp_path), target)

    assert means(plan) == {TESTS: (None, (1.75, 1.25)), GIT: ((3.0, 2.0), (4.0, 3.0))}
    assert [one.arm for one in plan.changes] == [TESTS, GIT]
    assert [one.delta_mean for one in plan.changes] == pytest.approx([1.75 / 3 - 0.5, 4 / 7 - 0.6])
    assert [one.n for one in plan.changes] == [1, 5]
    assert plan.unchanged == 1
    assert (plan.in_balance, plan.refusals, plan.notes) == (0, (), ())


def test_the_plan_is_what_the_ledger_says_once_it_is_applied(tmp_path: Path) -> None:
    """The balance counts in the plan as it does when it is opened."""
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))

    applied(path, plan_of(path, target))

    with rightful.open(path, readonly=True) as ledger:
        found = ledger.posteriors().arms
    assert {name: (one.alpha, one.beta) for name, one in found.items()} == {
        name: read("", target.read_bytes()).numbers(name) for name in found
    }


def test_grades_that_the_old_numbers_contain_are_counted_and_refused(tmp_path: Path) -> None:
    """The trap of who repairs a contaminated file: its wrong numbers would stay."""
    old = state(arm(GIT, 3.0, 2.0, 3), last_updated="1970-01-01T12:01:00+00:00")
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", old)

    plan = plan_of(path, target)

    assert (plan.in_balance, plan.grades) == (1, 2)
    assert plan.uncredited["in-balance"].count == 1
    assert plan.uncredited["in-balance"].sessions == ("t:a",)
    assert plan.refusals == ("1 of 2 grades would not be counted (1 in-balance); at most 10% may be",)


def test_rebuilt_posterior_uses_only_the_log_and_opens_the_old_one(tmp_path: Path) -> None:
    old = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2), last_updated="1970-01-01T12:01:00+00:00")
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", old)

    plan = plan_of(path, target, old="rebuilt", force=True)
    applied(path, plan)

    assert {name: (one.alpha, one.beta, one.total_selections) for name, one in Bandit(target).arms.items()} == AFTER
    assert Bandit(target).total_sessions == 2
    why = "1 of 2 arms that the tool wrote would go (old.md), and the ledger has no exposure or grade of it"
    assert (plan.in_balance, plan.refusals, plan.policy.balances) == (0, (why,), ())
    assert means(plan)[OLD] == ((2.0, 1.0), None)
    [opening] = rows(path, "balance.opened")
    assert (opening.source, opening.arms[OLD].alpha, opening.sessions) == (str(target), 2.0, 7)


def test_balances_of_other_files_do_not_belong_into_this_one(tmp_path: Path) -> None:
    other = opened(
        at=1, source="/else/b.json", arms={OLD: {"alpha": 9.0, "beta": 1.0, "n": 8}}, through="1970-01-02T00:00:00Z"
    )
    path, target = (
        ledger_with(tmp_path, [*EVENTS, other]),
        written(tmp_path / "b[1].json", state(arm(GIT, 3.0, 2.0, 3))),
    )

    plan = plan_of(path, target)

    assert plan.policy.balances == (str(target).replace("[", "[[]"),)
    assert means(plan) == {TESTS: (None, (1.75, 1.25)), GIT: ((3.0, 2.0), (4.0, 3.0))}
    assert plan.in_balance == 0
    assert plan.notes == (
        "opening balances of other files do not count here: the policy in force names only that of this file",
    )


def test_a_policy_that_names_balances_itself_decides(tmp_path: Path) -> None:
    other = opened(at=1, source="/else/b.json", arms={OLD: {"alpha": 9.0, "beta": 1.0, "n": 8}})
    path = ledger_with(tmp_path, [*EVENTS, other])

    plan = plan_of(path, tmp_path / "b.json", policy={"balances": ["/else/*"]})

    assert means(plan)[OLD] == (None, (9.0, 1.0))
    with pytest.raises(PolicyError, match="--rebuild"):
        plan_of(path, tmp_path / "b.json", policy={"balances": ["/else/*"]}, old="rebuilt")


def test_a_file_that_was_imported_is_not_opened_again(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    applied(path, plan_of(path, target))
    taken_back(path, target)

    plan = plan_of(path, target)

    assert plan.opens is None
    assert means(plan)[GIT] == ((3.0, 2.0), (4.0, 3.0))
    assert len(rows(path, "balance.opened")) == 1


def test_our_own_bytes_are_not_opened_and_what_came_since_is_added(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    applied(path, plan_of(path, target))
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)])

    plan = plan_of(path, target)
    applied(path, plan)

    assert plan.opens is None
    assert means(plan) == {GIT: ((4.0, 3.0), (5.0, 3.0))}
    assert Bandit(target).arms[GIT].total_selections == 6
    assert len(rows(path, "balance.opened")) == 1


def test_what_the_tool_did_since_counts_unless_it_is_dropped(tmp_path: Path) -> None:
    """The tool goes on in the file; its updates are in the balance that is opened of it."""
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    applied(path, plan_of(path, target))
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 7200), graded("t:c", 1.0, at=NOON + 7201)])

    counted, dropped = plan_of(path, target), plan_of(path, target, old="kept", force=True)
    applied(path, dropped)

    assert means(counted) == {GIT: ((4.0, 3.0), (5.0, 3.0))}
    assert counted.in_balance == 2
    assert counted.notes == ("a tool wrote the file after it was published; its updates are among the old numbers",)
    assert means(dropped) == {GIT: ((4.0, 3.0), (5.0, 3.0)), OLD: ((2.0, 1.0), None)}
    assert (dropped.in_balance, dropped.opens, dropped.refusals) == (0, None, ())
    assert len(rows(path, "balance.opened")) == 1


@pytest.mark.parametrize("old", ["counted", "kept"])
def test_what_a_rebuild_omitted_stays_out_of_the_next_plan(tmp_path: Path, old: Any) -> None:
    """The second backfill of a repaired file must not bring the contaminated numbers back."""
    before = state(arm(GIT, 30.0, 2.0, 30), last_updated="1970-01-01T12:01:00+00:00")
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", before)
    applied(path, plan_of(path, target, old="rebuilt"))
    if old == "kept":
        Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)])

    plan = plan_of(path, target, old=old)
    applied(path, plan)

    assert (plan.asked_old, plan.old, plan.in_balance, plan.opens) == (old, "rebuilt", 0, None)
    assert plan.notes == ("the present numbers were rebuilt from the log only, and so are the new ones",)
    assert (Bandit(target).arms[GIT].alpha, set(Bandit(target).arms)) == (3.0, {GIT, TESTS})
    later = "1970-01-01T13:00:00+00:00" if old == "kept" else "1970-01-01T12:10:00+00:00"
    assert Bandit(target).last_updated == later


def test_updates_can_be_dropped_only_where_something_was_published(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))

    with pytest.raises(UsageError, match=r"nothing that was published to .* is in force"):
        plan_of(ledger_with(tmp_path), target, old="kept")


def test_bytes_that_a_rollback_put_back_are_opened_if_nobody_had(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    applied(path, plan_of(path, target))
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    applied(path, plan_of(path, target, old="kept"))
    taken_back(path, target)
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 7200), graded("t:c", 1.0, at=NOON + 7201)])

    plan = plan_of(path, target)
    applied(path, plan_of(path, target, force=True))

    assert plan.opens is not None
    assert Bandit(target).arms[OLD].alpha == 2.0
    assert [one.through.hour for one in rows(path, "balance.opened")] == [9, 13]


@pytest.mark.parametrize(("credited", "refused"), [(9, False), (8, True)])
def test_more_than_a_tenth_of_the_grades_elsewhere_is_refused(tmp_path: Path, credited: int, refused: bool) -> None:
    events = [exposed(f"t:{n}", GIT) for n in range(credited)] + [graded(f"t:{n}", 0.5) for n in range(credited + 1)]

    plan = plan_of(ledger_with(tmp_path, events), tmp_path / "b.json")

    assert bool(plan.refusals) is refused
    assert plan.uncredited["unmatched"].sessions == (f"t:{credited}",)


def test_empty_and_retracted_grades_speak_against_nothing(tmp_path: Path) -> None:
    events = [exposed("t:a"), graded("t:a", 1.0), exposed("t:b", GIT), graded("t:b", 1.0), retracted("t:b", 2)]
    credited = [exposed("t:c", GIT), graded("t:c", 1.0)]

    plan = plan_of(ledger_with(tmp_path, [*events, *credited]), tmp_path / "b.json")

    assert {name: one.count for name, one in plan.uncredited.items()} == {"empty": 1, "retracted": 1}
    assert plan.refusals == ()


def test_the_same_question_gives_the_same_bytes_in_two_processes(tmp_path: Path) -> None:
    """Forced, so that all that is dropped is listed too."""
    many = [arm(f"/ws/{number}.md", 2.0, 1.0, 1, confounded=True, a=1, b=2) for number in range(9)]
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(*many, x=1, y=2))
    words = [
        "--ledger",
        str(path),
        "backfill",
        "plan",
        "--target",
        str(target),
        "--reader",
        "gptme-sessions",
        "--force",
    ]
    command = [sys.executable, "-m", "rightful", *words, "--json"]

    one, other = (
        subprocess.run(
            command,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )

    assert one == other
    assert json.loads(one)["new_sha256"] == plan_of(path, target).new_sha256
    assert "a, b, confounded of /ws/0.md; a, b, confounded of /ws/1.md" in json.loads(one)["notes"][0]


def test_decay_position_and_time_still_hold_when_a_plan_is_applied_later(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "b.json"
    policy = {"decay": {"mode": "time", "half_life": 3600}}
    plan = plan_of(path, target, policy=policy, as_of=2, decay_at="1970-01-01T13:00:00Z")
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)])

    applied(path, plan)

    assert plan.notes == ("decayed as of 1970-01-01T13:00:00Z",)
    assert (Bandit(target).arms[GIT].alpha, Bandit(target).arms[GIT].beta) == (1.375, 1.125)


def test_a_target_that_does_not_exist_yet_has_nothing_to_open(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), tmp_path / "b.json"

    plan = plan_of(path, target)

    assert (plan.previous_sha256, plan.opens) == (None, None)
    with pytest.raises(TargetError, match=r"its folder does not exist\. Make the folder, or name a file in"):
        plan_of(path, tmp_path / "none" / "b.json")
    with pytest.raises(TargetError, match=r"it is a folder\. Name the state file itself\."):
        plan_of(path, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TargetError, match=r"it is not a regular file\. Name the state file itself\."):
        plan_of(path, tmp_path / "pipe")
    with pytest.raises(UsageError, match="no reader 'gptme'; there are gptme-sessions, lesson-hook"):
        plan_of(path, target, "gptme")


def test_an_empty_ledger_gives_an_empty_state(tmp_path: Path) -> None:
    path = ledger_with(tmp_path, [])

    document = json.loads(bytes_of(path, tmp_path / "b.json"))

    assert document == {
        "arms": {}, "total_sessions": 0,
        "created": "1970-01-01T00:00:00+00:00", "last_updated": "1970-01-01T00:00:00+00:00",
    }  # fmt: skip


def test_a_file_without_any_time_says_that_its_grades_count_again(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", {"arms": {GIT: {"alpha": 3.0, "beta": 2.0}}})

    notes = plan_of(ledger_with(tmp_path), target, "gptme-hybrid").notes

    assert notes == (
        (
            "the file gives no time, so grades that its old numbers contain count again; with --rebuild the old "
            "numbers are dropped, and the grades count once"
        ),
    )


def test_a_balance_that_no_event_can_hold_is_refused(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", {"arms": {"a\nb": {"alpha": 3.0, "beta": 2.0}}})

    with pytest.raises(TargetError, match="its balance cannot be opened"):
        plan_of(ledger_with(tmp_path), target, "gptme-hybrid")


def test_a_plan_comes_back_from_its_document_and_a_changed_one_does_not(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    with books(path) as found:
        plan = make_plan(found, asked(tmp_path / "b.json")).plan

    document = msgspec.json.decode(plan.document())

    assert plan_from(plan.document(), "p") == plan
    for change in ({"reader": "x"}, {"policy": {"prior": [2.0, 1.0]}}):
        with pytest.raises(UsageError, match="p was not made by this program, or was changed"):
            plan_from(msgspec.json.encode(document | change), "p")
    with pytest.raises(UsageError, match="p is not a plan of a backfill"):
        plan_from(b"{}", "p")
