"""What a backfill does not begin: a lock that is held, a file with other names, a place that is not a tool's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.backfilling import (
    FILE,
    NOON,
    applied,
    ledger_with,
    plan_of,
    rows,
    taken_back,
    text,
    written,
)
from tests.projections.telling import exposed, graded

import rightful
from rightful import limits
from rightful.errors import BackfillRefusedError, StorageError, TargetError

MODEL = "pm-model:ci-fix:opus"
PM = {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ledger_with(tmp_path, [exposed("t:c", MODEL, at=NOON), graded("t:c", 1.0, at=NOON + 1)])


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file or folder, as another process does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT) if not path.is_dir() else os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield
    os.close(fd)


@pytest.mark.parametrize(("lock", "named"), [("", "the folder of "), ("bandit-state.json.lock", "json.lock")])
def test_a_lock_that_is_held_for_too_long_is_given_up_with_a_sentence(
    path: Path, target: Path, lock: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(target, PM)
    plan = plan_of(path, target, "pm-dispatch")
    monkeypatch.setattr(limits, "WAIT_S", 0.0)

    with (
        held(target.parent / lock),
        pytest.raises(StorageError, match=r"held the lock of .* nothing was written") as said,
    ):
        applied(path, plan)

    assert named in str(said.value)
    assert said.value.exit_code == 4
    assert (target.read_bytes(), rows(path, "posterior.published")) == (text(PM), [])


def test_a_lock_that_is_given_back_in_time_is_taken(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, looks = plan_of(path, target), list[float]()
    with held(target.parent):
        lock = os.open(target.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            os.close(lock)

    monkeypatch.setattr(time, "sleep", wait)

    assert applied(path, plan).happened == "written"
    assert len(looks) == 3


def test_a_file_with_other_names_is_replaced_only_when_forced(path: Path, target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other name"
    os.link(target, other)

    with pytest.raises(BackfillRefusedError, match="it has 2 names"):
        applied(path, plan_of(path, target))
    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []
    assert other.samefile(target)

    applied(path, plan_of(path, target, force=True))
    os.link(target, tmp_path / "again")
    after = target.read_bytes()
    with pytest.raises(BackfillRefusedError, match="it has 2 names"):
        taken_back(path, target)
    assert (target.read_bytes(), len(rows(path, "posterior.published"))) == (after, 1)
    taken_back(path, target, force=True)
    assert (target.read_bytes(), other.read_bytes()) == (text(FILE), text(FILE))


def test_folder_at_the_backup_path_is_refused_before_publication(path: Path, target: Path) -> None:
    written(target, PM)
    plan = plan_of(path, target, "pm-dispatch")
    Path(f"{target}.bak").mkdir()

    with pytest.raises(TargetError, match="bak, where its tool keeps a copy, is a folder"):
        applied(path, plan)
    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []

    Path(f"{target}.bak").rmdir()
    applied(path, plan)
    Path(f"{target}.bak").unlink()
    Path(f"{target}.bak").mkdir()
    with pytest.raises(TargetError, match="bak, where its tool keeps a copy, is a folder"):
        taken_back(path, target)
    assert len(rows(path, "posterior.published")) == 1


@pytest.mark.parametrize("folder", ["", "backfill"])
def test_a_target_in_the_ledgers_own_folder_is_refused(path: Path, target: Path, folder: str, tmp_path: Path) -> None:
    (path / "backfill").mkdir()
    (tmp_path / "link").symlink_to(path / folder)
    inside = tmp_path / "link" / "b.json"

    with pytest.raises(TargetError, match="it is in the ledger's own folder"):
        plan_of(path, inside)
    with pytest.raises(TargetError, match="it is in the ledger's own folder"):
        applied(path, msgspec.structs.replace(plan_of(path, target), target=os.path.realpath(inside)))

    assert not inside.exists()
    with rightful.open(path, readonly=True) as ledger:
        assert len(list(ledger.read())) == 2
