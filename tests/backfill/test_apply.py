"""Plan, apply, apply again, roll back: the file is what the plan said, then what it was, and the ledger says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.backfilling import (
    FILE,
    GIT,
    NOON,
    OLD,
    applied,
    bytes_of,
    ledger_with,
    plan_of,
    rows,
    sha256,
    stands,
    taken_back,
    text,
    written,
)
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill import target_file as module
from rightful.errors import BackfillRefusedError, TargetChangedError, UsageError
from rightful.policies import RULES, policy_of
from rightful.reports.alarms import alarms
from rightful.reports.session_coverage import ground_of


def test_apply_and_rollback_are_in_the_file_and_in_the_ledger(path: Path, target: Path) -> None:
    plan, data = plan_of(path, target), bytes_of(path, target)

    done = applied(path, plan)
    assert target.read_bytes() == data
    again = applied(path, plan)
    back = taken_back(path, target)
    assert target.read_bytes() == text(FILE)
    back_again = taken_back(path, target)

    assert [one.happened for one in (done, again, back, back_again)] == [
        "written", "already in place", "written", "already in place",
    ]  # fmt: skip
    assert done.publication == again.publication
    [opened] = rows(path, "balance.opened")
    first, second = rows(path, "posterior.published")
    assert (opened.source, opened.sha256) == (str(target), sha256(text(FILE)))
    assert (first.target, first.through, first.policy) == (str(target), 4, plan.policy_hash)
    assert (first.previous_sha256, first.new_sha256) == (sha256(text(FILE)), sha256(data))
    assert (first.digest, first.supersedes) == (plan.digest, None)
    assert "opened" not in first.extra
    assert (first.extra["reader"], first.extra["balance"]) == ("gptme-sessions", plan.opens)
    assert (second.previous_sha256, second.new_sha256) == (sha256(data), sha256(text(FILE)))
    assert (second.supersedes, second.extra["rollback"], second.extra["rolled_back"]) == (
        done.publication, True, done.publication,
    )  # fmt: skip


def test_the_opening_balance_counts_as_before_once_all_is_rolled_back(path: Path, target: Path) -> None:
    """The bytes that a rollback publishes are those of the balance, which must not vanish with it."""
    applied(path, plan_of(path, target))
    taken_back(path, target)

    with rightful.open(path, readonly=True) as ledger:
        assert ledger.posteriors().arms[GIT].alpha == 4.0


def test_the_first_write_of_a_new_file_is_withdrawn_by_removing_it(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    applied(path, plan_of(path, target))
    assert Bandit(target).arms[GIT].alpha == 2.0

    assert taken_back(path, target).happened == "removed"
    assert not target.exists()
    assert taken_back(path, target).happened == "already in place"
    assert [one.extra.get("removed") for one in rows(path, "posterior.published")] == [None, True]
    assert stands(path, target).standing == "rolled back"


def test_a_new_file_that_its_tool_has_updated_is_not_removed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    applied(path, plan_of(path, target))
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    before = target.read_bytes()

    with pytest.raises(TargetChangedError, match="another program wrote it after it was published"):
        taken_back(path, target)

    assert target.read_bytes() == before
    assert len(rows(path, "posterior.published")) == 1


def test_a_forced_rollback_keeps_what_it_replaces(path: Path, target: Path) -> None:
    applied(path, plan_of(path, target))
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    before = target.read_bytes()

    taken_back(path, target, force=True)

    assert target.read_bytes() == text(FILE)
    assert (path / "backfill" / f"{sha256(before)}.bytes").read_bytes() == before


def test_going_back_further_needs_the_publications_name(path: Path, target: Path) -> None:
    first = applied(path, plan_of(path, target))
    middle = target.read_bytes()
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)])
    second = applied(path, plan_of(path, target))

    with pytest.raises(UsageError, match="is not the publication in force"):
        taken_back(path, target, publication=first.publication)
    taken_back(path, target, publication=second.publication)
    assert target.read_bytes() == middle
    assert taken_back(path, target).happened == "already in place"
    assert target.read_bytes() == middle
    taken_back(path, target, publication=first.publication)
    assert target.read_bytes() == text(FILE)
    assert [one.supersedes is None for one in rows(path, "posterior.published")] == [True, False, False, False]


def test_a_plan_that_was_rolled_back_is_not_applied_again(path: Path, target: Path) -> None:
    plan = plan_of(path, target)
    applied(path, plan)
    taken_back(path, target)

    with pytest.raises(TargetChangedError, match="the plan was applied, and its publication was rolled back") as error:
        applied(path, plan)

    assert str(error.value).endswith("The file was not changed. Plan again.")
    assert target.read_bytes() == text(FILE)
    applied(path, plan_of(path, target))
    assert Bandit(target).arms[GIT].alpha == 4.0


def test_a_file_that_was_written_after_the_plan_is_refused(path: Path, target: Path) -> None:
    plan = plan_of(path, target)
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    before = target.read_bytes()

    with pytest.raises(TargetChangedError, match="neither what the plan was made for nor what the plan writes"):
        applied(path, plan)

    assert target.read_bytes() == before
    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []


def test_a_link_is_followed_to_the_file_that_the_tool_reads(path: Path, target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(target)

    applied(path, plan_of(path, link))

    assert link.is_symlink()
    assert Bandit(target).arms[GIT].alpha == 4.0
    assert rows(path, "posterior.published")[0].target == str(target)


def test_a_file_that_became_a_link_since_the_plan_is_refused(path: Path, target: Path, tmp_path: Path) -> None:
    plan = plan_of(path, target)
    target.rename(tmp_path / "real.json")
    target.symlink_to(tmp_path / "real.json")

    with pytest.raises(TargetChangedError, match="became a link"):
        applied(path, plan)


def test_mode_and_owner_stay(path: Path, target: Path) -> None:
    target.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(target, 1234, 1235)
    before = target.stat()

    applied(path, plan_of(path, target))

    after = target.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_publication_says_its_rules_and_earlier_ones_are_published_again(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier version published has no `rules`; the bytes stay the same, and the warning ends."""
    monkeypatch.setattr("rightful.backfill.apply_plan.RULES", None)
    plan = plan_of(path, target)
    before = applied(path, plan)
    monkeypatch.undo()
    with rightful.open(path) as ledger:
        ground = ground_of(ledger.projected(), policy_of("bound"))
        [alarm] = [one for one in alarms(ground, ledger.log) if one.kind == "earlier-rules"]
        assert alarm.what.startswith(f"{target} was published at #{before.position} with attribution rules 1")

    assert applied(path, plan).publication == before.publication
    again = applied(path, plan_of(path, target))

    assert (again.happened, again.sha256) == ("already in place", before.sha256)
    with rightful.open(path, readonly=True) as ledger:
        events = [row.event for row in ledger.read(types=["posterior.published"])]
        assert [getattr(event, "rules", 0) for event in events] == [None, RULES]
        assert not [one for one in alarms(ground, ledger.log) if one.kind == "earlier-rules"]
    assert applied(path, plan_of(path, target)).publication == again.publication


def test_a_refused_plan_is_not_applied_and_a_forced_one_is(path: Path, target: Path) -> None:
    with rightful.open(path) as ledger:
        ledger.append([graded("t:nobody", 1.0)])
    plan = plan_of(path, target)

    with pytest.raises(BackfillRefusedError, match="1 unmatched") as refused:
        applied(path, plan)
    assert refused.value.why == plan.refusals
    assert target.read_bytes() == text(FILE)
    assert rows(path, "posterior.published") == []

    applied(path, plan_of(path, target, force=True))
    assert rows(path, "posterior.published")[0].extra["forced"] is True


def test_a_refusal_cannot_be_edited_out_of_a_plan(path: Path, target: Path) -> None:
    with rightful.open(path) as ledger:
        ledger.append([graded("t:nobody", 1.0)])

    with pytest.raises(BackfillRefusedError):
        applied(path, msgspec.structs.replace(plan_of(path, target), refusals=()))


def test_a_plan_of_other_bytes_or_another_ledger_is_refused(path: Path, target: Path, tmp_path: Path) -> None:
    plan = plan_of(path, target)

    with pytest.raises(TargetChangedError, match="the ledger at position 4 no longer gives what the plan says"):
        applied(path, msgspec.structs.replace(plan, new_sha256="0" * 64))
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="another ledger"):
        applied(ledger_with(tmp_path / "other"), plan)
    assert target.read_bytes() == text(FILE)


def test_of_two_plans_of_one_state_the_second_is_refused(path: Path, target: Path) -> None:
    one, other = plan_of(path, target), plan_of(path, target, old="rebuilt")
    applied(path, one)

    with pytest.raises(TargetChangedError, match="something else was published"):
        applied(path, other)


def test_what_already_stands_there_is_published_once_and_not_written(path: Path, target: Path) -> None:
    applied(path, plan_of(path, target))
    before = target.stat().st_ino

    done = applied(path, plan_of(path, target))

    assert done.happened == "already in place"
    assert target.stat().st_ino == before
    assert len(rows(path, "posterior.published")) == 1


def test_unchanged_file_is_published_without_a_write(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", FILE)
    path = ledger_with(tmp_path, [])

    done = applied(path, plan_of(path, target))

    assert (done.happened, done.sha256) == ("already in place", sha256(text(FILE)))
    assert rows(path, "posterior.published")[0].extra["opened"] is True
    with rightful.open(path, readonly=True) as ledger:
        assert ledger.posteriors().arms[GIT].alpha == 3.0


def test_nothing_can_be_withdrawn_where_nothing_was_published(path: Path, target: Path) -> None:
    with pytest.raises(UsageError, match="nothing was published to"):
        taken_back(path, target)


def test_what_is_kept_is_its_owners_alone(path: Path, target: Path) -> None:
    applied(path, plan_of(path, target))

    assert (path / "backfill").stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in (path / "backfill").iterdir()} == {0o600}


def test_the_lock_of_pm_dispatch_is_taken_and_its_file_stays(path: Path, tmp_path: Path) -> None:
    import fcntl

    model = "pm-model:ci-fix:opus"
    document = {"arms": {model: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}
    target = written(tmp_path / "pm" / "bandit-state.json", document)
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", model, at=NOON), graded("t:c", 1.0, at=NOON + 1)])
    held: list[bool] = []
    place = module.place

    def read_plannable(*arguments: Any) -> None:
        with Path(f"{target}.lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)
        place(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "place", read_plannable)
        applied(path, plan_of(path, target, "pm-dispatch"))
        taken_back(path, target)

    assert held == [True, True]
    assert target.read_bytes() == text(document)
    assert sorted(one.name for one in target.parent.iterdir()) == ["bandit-state.json", "bandit-state.json.lock"]
