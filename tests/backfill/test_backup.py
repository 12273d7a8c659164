"""The `.bak` that pm-dispatch keeps beside its file: written as the tool does, and given back by a rollback."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import NOON, applied, plan_of, rows, taken_back, text, written
from tests.projections.telling import exposed, graded

import rightful
from rightful.backfill import target_file as module
from rightful.errors import StorageError, TargetChangedError

MODEL = "pm-model:ci-fix:opus"
PM = {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}


@pytest.fixture
def of_pm(path: Path, tmp_path: Path) -> Path:
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", MODEL, at=NOON), graded("t:c", 1.0, at=NOON + 1)])
    return written(tmp_path / "pm" / "bandit-state.json", PM)


@pytest.mark.parametrize("before", [None, b"older", b""])
def test_rollback_restores_the_backup_from_before_each_publication(
    path: Path, of_pm: Path, before: bytes | None
) -> None:
    bak = of_pm.with_name("bandit-state.json.bak")
    if before is not None:
        bak.write_bytes(before)
    first = applied(path, plan_of(path, of_pm, "pm-dispatch"))
    ours = of_pm.read_bytes()
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:d", MODEL, at=NOON + 50), graded("t:d", 1.0, at=NOON + 60)])
    applied(path, plan_of(path, of_pm, "pm-dispatch"))
    assert bak.read_bytes() == ours

    taken_back(path, of_pm)
    assert (of_pm.read_bytes(), bak.read_bytes()) == (ours, text(PM))
    taken_back(path, of_pm, publication=first.publication)
    assert (of_pm.read_bytes(), bak.read_bytes() if bak.exists() else None) == (text(PM), before)


def test_rollback_restores_the_backup_after_a_repeated_apply(
    path: Path, of_pm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call wrote `.bak` already, so the second one finds what the first one left."""
    bak = of_pm.with_name("bandit-state.json.bak")
    bak.write_bytes(b"older")
    plan = plan_of(path, of_pm, "pm-dispatch")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        with pytest.raises(StorageError):
            applied(path, plan)
    assert bak.read_bytes() == text(PM)
    applied(path, plan)
    taken_back(path, of_pm)

    assert (of_pm.read_bytes(), bak.read_bytes()) == (text(PM), b"older")


def test_repeated_rollback_restores_the_backup(path: Path, of_pm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bak = of_pm.with_name("bandit-state.json.bak")
    bak.write_bytes(b"older")
    applied(path, plan_of(path, of_pm, "pm-dispatch"))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_aside", fail)
        with pytest.raises(StorageError):
            taken_back(path, of_pm)
    assert (of_pm.read_bytes(), bak.read_bytes()) == (text(PM), text(PM))
    assert taken_back(path, of_pm).happened == "already in place"

    assert bak.read_bytes() == b"older"


def test_forced_rollback_keeps_a_backup_written_by_the_tool_since(path: Path, of_pm: Path) -> None:
    applied(path, plan_of(path, of_pm, "pm-dispatch"))
    bak = of_pm.with_name("bandit-state.json.bak")
    bak.write_bytes(b"of the tool")
    of_pm.write_bytes(text(PM | {"more": 1}))

    with pytest.raises(TargetChangedError, match="With --force the earlier bytes are restored anyway"):
        taken_back(path, of_pm)
    assert bak.read_bytes() == b"of the tool"
    taken_back(path, of_pm, force=True)

    assert (of_pm.read_bytes(), bak.exists()) == (text(PM), False)
    assert (path / "backfill" / f"{hashlib.sha256(b'of the tool').hexdigest()}.bytes").read_bytes() == b"of the tool"


def test_a_backup_whose_bytes_are_gone_stops_a_rollback_before_it_begins(path: Path, of_pm: Path) -> None:
    of_pm.with_name("bandit-state.json.bak").write_bytes(b"older")
    applied(path, plan_of(path, of_pm, "pm-dispatch"))
    ours = of_pm.read_bytes()
    (path / "backfill" / f"{hashlib.sha256(b'older').hexdigest()}.bytes").unlink()

    with pytest.raises(StorageError, match=r"of .*\.bak are missing"):
        taken_back(path, of_pm)

    assert of_pm.read_bytes() == ours
    assert len(rows(path, "posterior.published")) == 1
