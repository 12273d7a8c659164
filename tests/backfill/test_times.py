"""A file never gets older by a backfill, so that what a rebuild left out does not come back as its newest state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import (
    EVENTS,
    GIT,
    NOON,
    TESTS,
    applied,
    arm,
    ledger_with,
    plan_of,
    rows,
    state,
    text,
    written,
)
from tests.projections.telling import opened
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill.plan_document import Plan

LATE = "1970-01-01T12:55:00+00:00"
READERS = ("gptme-sessions", "lesson-hook")


def means(plan: Plan) -> dict[str, tuple[tuple[float, float] | None, tuple[float, float] | None]]:
    return {one.arm: (one.old, one.new) for one in plan.changes}


def contaminated(**more: Any) -> dict[str, Any]:
    """A state that paid the wrong arm, last written after the last grade of the log."""
    return state(arm(GIT, 30.0, 2.0, 30), **{"last_updated": LATE, **more})


def decayed(target: Path, rate: float = 0.9) -> None:
    """What the tool does at night: every belief goes towards the prior, and no time is moved."""
    document = json.loads(target.read_bytes())
    for entry in document["arms"].values():
        for key in ("alpha", "beta"):
            entry[key] = 1.0 + (entry[key] - 1.0) * rate
    target.write_bytes(text(document))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("document", "why"),
    [
        (contaminated(), "the file's own time"),
        (contaminated(last_updated="1970-01-01T12:50:00+00:00") | {"x": 1}, "the file's own time"),
        (state(arm(GIT, 30.0, 2.0, 30) | {"last_updated": LATE}), "the time of an arm that stays"),
        (state(arm("/ws/gone.md", 30.0, 2.0, 30) | {"last_updated": LATE}), "the time of an arm that goes"),
    ],
)
def test_decay_of_a_rebuilt_file_is_kept_without_the_old_numbers(
    tmp_path: Path, reader: str, document: dict[str, Any], why: str
) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", document)
    applied(path, plan_of(path, target, reader, old="rebuilt", force=True))
    assert {name: (one.alpha, one.beta) for name, one in Bandit(target).arms.items()} == {
        GIT: (2.0, 2.0), TESTS: (1.75, 1.25),
    }, why  # fmt: skip

    decayed(target)
    before = target.read_bytes()
    plan = plan_of(path, target, reader, force=True)
    applied(path, plan)

    assert (plan.changes, plan.unchanged, plan.in_balance) == ((), 2, 2)
    assert plan.notes == ("a tool wrote the file after it was published; its updates are among the old numbers",)
    assert target.read_bytes() == before
    assert {name: (one.alpha, one.beta) for name, one in Bandit(target).arms.items()} == {
        GIT: (1.9, 1.9), TESTS: (1.0 + 0.75 * 0.9, 1.0 + 0.25 * 0.9),
    }  # fmt: skip
    first, second = rows(path, "balance.opened")
    assert (first.arms.keys() & {GIT}, second.arms[GIT].alpha) == (document["arms"].keys() & {GIT}, 1.9)


def test_file_keeps_its_newest_arm_time_when_that_arm_goes(tmp_path: Path) -> None:
    """As gptme's hybrid matcher may have it."""
    gone, stays = ({"alpha": 30.0, "beta": 2.0, "last_updated": at} for at in (LATE, "1970-01-01T08:00:00+00:00"))
    path = ledger_with(tmp_path)
    target = written(tmp_path / "b.json", {"arms": {"/ws/gone.md": gone, GIT: stays}})

    applied(path, plan_of(path, target, "gptme-hybrid", old="rebuilt", force=True))
    new = json.loads(target.read_bytes())
    decayed(target)
    applied(path, plan_of(path, target, "gptme-hybrid", force=True))

    assert new == {
        "arms": {
            GIT: {"alpha": 2.0, "beta": 2.0, "last_updated": "1970-01-01T12:03:20+00:00"},
            TESTS: {"alpha": 1.75, "beta": 1.25},
        },
        "last_updated": LATE,
    }
    held = json.loads(target.read_bytes())["arms"]
    assert (held.keys(), held[GIT]["alpha"], held[TESTS]["alpha"]) == ({GIT, TESTS}, 1.9, 1.0 + 0.75 * 0.9)


def test_rebuilt_file_has_the_later_of_its_own_time_and_the_latest_grade(tmp_path: Path) -> None:
    for last, then in ((LATE, LATE), ("1970-01-01T09:00:00+00:00", "1970-01-01T12:03:20+00:00")):
        target = written(tmp_path / last / "b.json", contaminated(last_updated=last))
        path = ledger_with(tmp_path / last)

        applied(path, plan_of(path, target, old="rebuilt"))

        assert (Bandit(target).last_updated, Bandit(target).arms[GIT].last_updated) == (
            then, "1970-01-01T12:03:20+00:00",
        )  # fmt: skip


def test_an_arm_that_stays_keeps_its_own_time_where_that_is_later(tmp_path: Path) -> None:
    held = arm(GIT, 3.0, 2.0, 3) | {"last_updated": LATE}
    key = json.dumps(["code", None])
    document = state(held, contextual_arms={GIT: {key: held}})
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", document)

    applied(path, plan_of(path, target, old="rebuilt"))

    new = json.loads(target.read_bytes())
    assert (new["last_updated"], new["arms"][GIT]["last_updated"]) == (LATE, LATE)
    assert new["contextual_arms"][GIT][key]["last_updated"] == LATE
    assert new["arms"][TESTS]["last_updated"] == "1970-01-01T12:01:00+00:00"


def test_restored_file_is_not_older_than_its_opened_balance(tmp_path: Path) -> None:
    """Somebody imported the file, restored an older copy by hand, and rebuilds that."""
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    later = opened(at=NOON + 3300, source=str(target), arms={GIT: {"alpha": 90.0, "beta": 1.0, "n": 90}})
    path = ledger_with(tmp_path, [later, *EVENTS])

    applied(path, plan_of(path, target, old="rebuilt", force=True))
    assert Bandit(target).last_updated == LATE
    decayed(target)
    applied(path, plan_of(path, target, force=True))

    assert Bandit(target).arms[GIT].alpha == 1.9


def test_a_file_without_any_time_gets_one_that_is_not_before_its_balances(tmp_path: Path) -> None:
    """Its balance is as old as the file's own write."""
    timeless = {"arms": {GIT: {"arm_id": GIT, "alpha": 30.0, "beta": 2.0}}}
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", timeless)

    applied(path, plan_of(path, target, old="rebuilt", force=True))
    decayed(target)
    applied(path, plan_of(path, target, force=True))

    assert Bandit(target).arms[GIT].alpha == 1.9


def test_of_two_states_of_one_time_the_one_that_stands_there_counts(tmp_path: Path) -> None:
    """gptme_sessions leaves the time as it is when it prunes."""
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    held = {GIT: {"alpha": 9.0, "beta": 1.0, "n": 9}}
    time = "1970-01-01T09:00:00Z"
    path = ledger_with(tmp_path, [opened(at=9 * 3600, source=str(target), arms=held, through=time), *EVENTS])

    plan = plan_of(path, target)
    applied(path, plan)

    assert means(plan)[GIT] == ((3.0, 2.0), (4.0, 3.0))
    with rightful.open(path, readonly=True) as ledger:
        assert ledger.posteriors().arms[GIT].alpha == 4.0


def test_a_state_of_before_what_was_opened_is_said_not_to_count(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    later = opened(at=10 * 3600, source=str(target), arms={GIT: {"alpha": 9.0, "beta": 1.0, "n": 9}})
    path = ledger_with(tmp_path, [later, *EVENTS])

    plan = plan_of(path, target)

    assert means(plan)[GIT] == ((3.0, 2.0), (10.0, 2.0))
    assert (plan.counts, plan.notes[0]) == (
        False, "the present numbers do not count; those of a later state of this file, which was opened, do",
    )  # fmt: skip
    assert plan.refusals == (
        (
            "the present numbers do not count, since a later state of this file was opened (1970-01-01 10:00:00+00:00)"
            "; with --force that state comes back, and with --rebuild neither counts"
        ),
    )
    rebuilt = plan_of(path, target, old="rebuilt")
    assert (rebuilt.counts, rebuilt.refusals, rebuilt.notes) == (True, (), ())


def test_a_policy_that_leaves_the_file_out_is_said_to(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))

    plan = plan_of(path, target, policy={"balances": ["/elsewhere"]})

    assert (plan.counts, plan.refusals, means(plan)[GIT]) == (False, (), ((3.0, 2.0), (2.0, 2.0)))
    assert plan.notes == ("the present numbers do not count: the policy's `balances` exclude this file",)
