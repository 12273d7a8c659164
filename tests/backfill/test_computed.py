"""What a plan computes does not depend on where the file lies, on the plan's position or on the order of the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import (
    EVENTS,
    GIT,
    NOON,
    OLD,
    TESTS,
    applied,
    arm,
    bytes_of,
    ledger_with,
    plan_of,
    rows,
    stands,
    state,
    taken_back,
    written,
)
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill.plan_document import Plan
from rightful.errors import PolicyError, TargetError

SAID = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2))
NEXT = [exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)]
FIRST = {GIT: (4.0, 3.0, 5), OLD: (2.0, 1.0, 2), TESTS: (1.75, 1.25, 1)}
"""What the first backfill makes of `SAID` and `EVENTS`."""


def numbers(target: Path) -> dict[str, tuple[float, float, int]]:
    return {name: (one.alpha, one.beta, one.total_selections) for name, one in Bandit(target).arms.items()}


def published(tmp_path: Path, document: dict[str, Any] = SAID) -> tuple[Path, Path]:
    """A file into which the ledger was published once."""
    path, target = ledger_with(tmp_path), written(tmp_path / "ws" / "b.json", document)
    applied(path, plan_of(path, target))
    return path, target


def told(path: Path, *events: Any) -> None:
    with rightful.open(path) as ledger:
        ledger.append(list(events))


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_bytes_published_to_another_file_are_refused(tmp_path: Path, how: str) -> None:
    """The balance that is in it belongs to the other file."""
    path, target = published(tmp_path)
    before, other = target.read_bytes(), tmp_path / "ws2" / "b.json"
    if how == "moved":
        target.parent.rename(other.parent)
        advice = (
            f"Plan with --rebuild, which uses only the log. Or `rightful backfill rollback --target {other} "
            f"--publication {stands(path, target).publication}` restores the content from before the publication, "
            f"and a new plan opens it."
        )
    else:
        other.parent.mkdir()
        shutil.copy(target, other)
        advice = f"Plan with --rebuild, which uses only the log, or with --target {target} if that is the file."

    with pytest.raises(TargetError) as refused:
        plan_of(path, other, force=True)

    assert str(refused.value) == (
        f"{other} was not changed: these bytes were published to {target}, so the file was moved or copied from "
        f"there, and the numbers opened there would be lost here. {advice}"
    )
    assert other.read_bytes() == before
    assert numbers(other) == FIRST


def test_copy_of_a_publication_that_was_rolled_back_is_refused(tmp_path: Path) -> None:
    """Nothing is in force that could be undone here."""
    path, target = published(tmp_path)
    copy = shutil.copy(target, tmp_path / "copy.json")
    taken_back(path, target)
    target.unlink()

    with pytest.raises(TargetError) as refused:
        plan_of(path, Path(copy))

    assert str(refused.value).endswith("would be lost here. Plan with --rebuild, which uses only the log.")


def test_moved_file_is_rebuilt_or_counts_if_the_policy_names_the_other(tmp_path: Path) -> None:
    path, target = published(tmp_path)
    other = tmp_path / "moved.json"
    target.rename(other)

    named = plan_of(path, other, policy={"balances": [str(target)]})
    rebuilt = plan_of(path, other, old="rebuilt")

    assert (named.changes, named.unchanged, named.opens, named.notes) == ((), 3, None, ())
    assert rebuilt.notes == (
        "these bytes were published to another file, and the balance opened from that file does not count here",
    )
    applied(path, rebuilt)
    assert numbers(other) == {GIT: (2.0, 2.0, 2), TESTS: (1.75, 1.25, 1)}
    told(path, *NEXT)
    applied(path, plan_of(path, other))
    assert numbers(other)[GIT] == (3.0, 2.0, 3)


def test_a_file_that_is_rolled_back_and_then_moved_is_opened_where_it_is(tmp_path: Path) -> None:
    """The way out that the refusal names."""
    path, target = published(tmp_path)
    taken_back(path, target)
    target.parent.rename(tmp_path / "ws2")

    applied(path, plan_of(path, tmp_path / "ws2" / "b.json"))

    assert numbers(tmp_path / "ws2" / "b.json") == FIRST


def test_the_same_bytes_in_two_targets_are_ours_in_both(tmp_path: Path) -> None:
    path, first, second = ledger_with(tmp_path), tmp_path / "1.json", tmp_path / "2.json"
    for target in (first, second):
        applied(path, plan_of(path, target))
    assert first.read_bytes() == second.read_bytes()
    told(path, *NEXT)

    for target in (first, second):
        applied(path, plan_of(path, target))
        assert numbers(target)[GIT] == (3.0, 2.0, 3)


@pytest.mark.parametrize("as_of", [2, 4, 5, 6])
def test_plan_at_an_earlier_position_omits_later_credits(tmp_path: Path, as_of: int) -> None:
    """What stands there is ours whenever it was published, and the balance that is in it counts."""
    path, target = published(tmp_path)  # the balance stands at 5, what was published at 6
    told(path, *NEXT)
    applied(path, plan_of(path, target))
    assert numbers(target)[GIT] == (5.0, 3.0, 6)

    plan = plan_of(path, target, as_of=as_of)
    applied(path, plan)

    expected = (3.75, 2.25, 4) if as_of == 2 else (4.0, 3.0, 5)
    assert (plan.opens, plan.notes, plan.refusals, plan.in_balance) == (None, (), (), 0)
    assert numbers(target)[GIT] == expected
    assert numbers(target)[OLD] == (2.0, 1.0, 2)
    assert len(rows(path, "balance.opened")) == 1


def test_a_prior_that_is_not_the_tools_is_refused(tmp_path: Path) -> None:
    """They add to Beta(1, 1); under another prior each of their writes would add ours once more."""
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", SAID)

    with pytest.raises(PolicyError) as refused:
        plan_of(path, target, policy={"prior": [3, 2]}, force=True)

    assert refused.value.what == ("Expected [1.0, 1.0], the prior that the tools use, got [3.0, 2.0] - at `$.prior`")


@pytest.mark.parametrize("reader", ["gptme-sessions", "lesson-hook"])
def test_a_context_whose_arm_has_no_belief_of_its_own_stays(tmp_path: Path, reader: str) -> None:
    key = json.dumps(["code", "opus"])
    inside = {"/ws/only.md": {key: arm("/ws/only.md", 4.0, 2.0, 4)}}
    path = ledger_with(tmp_path, EVENTS)
    target = written(tmp_path / "b.json", state(arm(OLD, 2.0, 1.0, 2), contextual_arms=inside))

    plan = plan_of(path, target, reader)
    applied(path, plan)

    one = Bandit(target).contexts["/ws/only.md"]["code", "opus"]
    assert (one.alpha, one.beta, one.total_selections, one.total_rewards) == (4.0, 2.0, 4, 4)
    assert one.last_updated == "1970-01-01T08:00:00+00:00"
    assert (plan.notes, set(Bandit(target).arms)) == ((), {OLD, GIT, TESTS})
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    applied(path, plan_of(path, target, reader, force=True))
    assert Bandit(target).contexts["/ws/only.md"]["code", "opus"].as_json() == one.as_json()
    with rightful.open(path, readonly=True) as ledger:
        assert {(each.arm, each.alpha) for each in ledger.posteriors().contexts} >= {("/ws/only.md", 4.0)}


def test_gptmes_matcher_keeps_such_a_context_too(tmp_path: Path) -> None:
    key = json.dumps(["code", "opus"])
    inside = {"/ws/only.md": {key: arm("/ws/only.md", 4.0, 2.0, 4)}}
    target = written(tmp_path / "b.json", state(arm(OLD, 2.0, 1.0, 2), contextual_arms=inside))

    document = json.loads(bytes_of(ledger_with(tmp_path), target, "gptme-hybrid"))

    assert document["contextual_arms"]["/ws/only.md"] == inside["/ws/only.md"]
    assert set(document["arms"]) == {OLD, GIT, TESTS}


def test_creation_time_of_new_file_is_that_of_its_first_event(tmp_path: Path) -> None:
    made: list[tuple[Plan, bytes]] = []
    for number, events in enumerate((EVENTS, [*EVENTS[2:], *EVENTS[:2]])):
        target = tmp_path / str(number) / "b.json"
        target.parent.mkdir()
        path = ledger_with(target.parent, events)
        plan = plan_of(path, target)
        applied(path, plan)
        made.append((plan, target.read_bytes()))

    (first, bytes_), (second, same) = made
    assert (bytes_, first.digest, first.new_sha256) == (same, second.digest, second.new_sha256)
    assert json.loads(bytes_)["created"] == "1970-01-01T12:00:00+00:00"
