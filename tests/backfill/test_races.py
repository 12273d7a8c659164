"""A tool that writes the file while a backfill does is noticed, and keeps what it wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backfilling import (
    FILE,
    GIT,
    OLD,
    applied,
    arm,
    ledger_with,
    plan_of,
    rows,
    sha256,
    stands,
    state,
    taken_back,
    text,
    written,
)
from tests.readers_of_tools import Bandit

from rightful.backfill import target_file as module
from rightful.errors import TargetChangedError


def _in_place(target: Path) -> None:
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")


def _by_rename(target: Path) -> None:
    other = target.with_suffix(".tmp")
    other.write_bytes(text(state(arm(OLD, 5.0, 1.0, 4))))
    other.rename(target)


def _torn(target: Path) -> None:
    target.write_bytes(text(FILE)[:40])


@pytest.mark.parametrize("write", [_in_place, _by_rename, _torn])
def test_write_of_a_tool_in_the_last_moment_is_kept(
    path: Path, target: Path, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look and the exchange: what came out is not what was expected, and goes back."""
    plan, exchange = plan_of(path, target), module._exchange

    def late(one: str, other: str) -> bool:
        if not seen:
            write(target)
            seen.append(target.read_bytes())
        return exchange(one, other)

    seen: list[bytes] = []
    monkeypatch.setattr(module, "_exchange", late)

    with pytest.raises(TargetChangedError, match="another program wrote it at the same time"):
        applied(path, plan)

    assert [target.read_bytes()] == seen
    assert [one.name for one in target.parent.iterdir()] == [target.name]
    assert stands(path, target).standing == "changed since"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_tool_that_writes_before_the_last_look_is_noticed(
    path: Path, target: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, write = plan_of(path, target), module._write

    def late(temp: str, data: bytes, like: module.FileState) -> None:
        write(temp, data, like)
        _in_place(target)

    monkeypatch.setattr(module, "_write", late)
    if not exchanges:
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)

    with pytest.raises(TargetChangedError, match="another program wrote it at the same time"):
        applied(path, plan)

    assert OLD in Bandit(target).arms
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_where_nothing_can_be_exchanged_the_file_is_renamed(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda one, other: False)

    applied(path, plan_of(path, target))

    assert Bandit(target).arms[GIT].alpha == 4.0
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_a_file_that_appears_where_none_was_is_not_replaced(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link = tmp_path / "new.json", module._linked

    def late(temp: str, real: str) -> bool:
        written(target, FILE)
        return link(temp, real)

    plan = plan_of(path, target)
    monkeypatch.setattr(module, "_linked", late)

    with pytest.raises(TargetChangedError):
        applied(path, plan)

    assert target.read_bytes() == text(FILE)


def test_a_tool_that_writes_while_its_new_file_is_removed_keeps_its_write(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new.json"
    applied(path, plan_of(path, target))
    rename = os.rename

    def late(one: str, other: str) -> None:
        if one == str(target):
            _in_place(target)
        rename(one, other)

    monkeypatch.setattr(os, "rename", late)

    with pytest.raises(TargetChangedError):
        taken_back(path, target)

    assert OLD in Bandit(target).arms


def test_a_tool_that_writes_right_after_is_noticed(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, sync = plan_of(path, target), module.sync

    def late(real: str) -> None:
        sync(real)
        Bandit(Path(real)).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")

    monkeypatch.setattr(module, "sync", late)

    with pytest.raises(TargetChangedError, match="right after it was replaced"):
        applied(path, plan)

    assert (Bandit(target).arms[GIT].alpha, Bandit(target).arms[OLD].alpha) == (4.0, 2.0)


def test_a_write_that_a_kill_left_beside_the_file_goes_back_into_its_place(path: Path, target: Path) -> None:
    """Killed between the exchange and the look at what came out, while a tool wrote."""
    plan = plan_of(path, target)
    applied(path, plan)
    theirs = text(state(arm(OLD, 5.0, 1.0, 4)))
    Path(module.temporary_path(str(target))).write_bytes(theirs)

    with pytest.raises(TargetChangedError):
        applied(path, plan)

    assert target.read_bytes() == theirs
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_temporary_file_of_another_ledger_is_kept_and_reported(path: Path, target: Path, tmp_path: Path) -> None:
    """Killed between the exchange and the look at what came out, while a tool wrote: it is in no file now."""
    (tmp_path / "other").mkdir()
    other = ledger_with(tmp_path / "other")
    applied(path, plan_of(path, target))
    theirs = text(state(arm(OLD, 5.0, 1.0, 4)))
    Path(module.temporary_path(str(target))).write_bytes(theirs)
    plan, before = plan_of(other, target, force=True), target.read_bytes()

    with pytest.raises(
        TargetChangedError, match="may contain the last write of a tool, which is not in the file"
    ) as raised:
        applied(other, plan)

    kept = other / "backfill" / f"{sha256(theirs)}.bytes"
    assert kept.read_bytes() == theirs
    assert str(kept) in str(raised.value)
    assert (target.read_bytes(), rows(other, "posterior.published")) == (before, [])
    assert [one.name for one in target.parent.iterdir()] == [target.name]
    applied(other, plan)
    assert len(rows(other, "posterior.published")) == 1


def test_both_writes_during_a_restore_are_kept(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W1 before the exchange; W2, made of what we wrote, before the exchange back."""
    plan, exchange, seen = plan_of(path, target), module._exchange, list[bytes]()

    def late(one: str, other: str) -> bool:
        if len(seen) < 2:
            _in_place(target)
            seen.append(target.read_bytes())
        return exchange(one, other)

    monkeypatch.setattr(module, "_exchange", late)

    with pytest.raises(TargetChangedError, match="wrote it more than once at the same time") as raised:
        applied(path, plan)

    first, last = seen
    kept = path / "backfill" / f"{sha256(first)}.bytes"
    assert (target.read_bytes(), kept.read_bytes()) == (last, first)
    assert str(kept) in str(raised.value)
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_a_tool_that_never_rests_loses_no_write(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, exchange, seen = plan_of(path, target), module._exchange, list[bytes]()

    def late(one: str, other: str) -> bool:
        _in_place(target)
        seen.append(target.read_bytes())
        return exchange(one, other)

    monkeypatch.setattr(module, "_exchange", late)

    with pytest.raises(TargetChangedError):
        applied(path, plan)

    kept = {one.read_bytes() for one in (path / "backfill").iterdir()}
    assert len(set(seen)) == 9
    assert set(seen) <= kept
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_write_after_the_exchange_is_not_replaced_by_an_older_one(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, exchange, sync, seen = plan_of(path, target), module._exchange, module.sync, list[bytes]()

    def write() -> None:
        _in_place(target)
        seen.append(target.read_bytes())

    def late(one: str, other: str) -> bool:
        write()
        return exchange(one, other)

    def later(real: str) -> None:
        sync(real)
        if len(seen) == 1:
            write()

    monkeypatch.setattr(module, "_exchange", late)
    monkeypatch.setattr(module, "sync", later)

    with pytest.raises(TargetChangedError, match="wrote it more than once at the same time"):
        applied(path, plan)

    assert target.read_bytes() == seen[1]
    assert (path / "backfill" / f"{sha256(seen[0])}.bytes").read_bytes() == seen[0]


@pytest.mark.parametrize("step", ["link", "sync"])
def test_two_writes_during_a_removal_are_both_kept(
    path: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the removal, and again before what came out goes back, or is looked at."""
    target = tmp_path / "new.json"
    applied(path, plan_of(path, target))
    rename, link, sync, seen = os.rename, os.link, module.sync, list[bytes]()

    def write() -> None:
        Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
        seen.append(target.read_bytes())

    def removing(one: str, other: str) -> None:
        if one == str(target):
            write()
        rename(one, other)

    def linking(one: str, other: str) -> None:
        if step == "link":
            write()
        link(one, other)

    def syncing(real: str) -> None:
        sync(real)
        if step == "sync" and len(seen) == 1:
            write()

    monkeypatch.setattr(os, "rename", removing)
    monkeypatch.setattr(os, "link", linking)
    monkeypatch.setattr(module, "sync", syncing)

    with pytest.raises(TargetChangedError, match="wrote it more than once at the same time"):
        taken_back(path, target)

    assert target.read_bytes() == seen[1]
    assert (path / "backfill" / f"{sha256(seen[0])}.bytes").read_bytes() == seen[0]
    assert not Path(module.temporary_path(str(target))).exists()
