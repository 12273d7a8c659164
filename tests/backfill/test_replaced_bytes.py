"""What a backfill keeps: whole or not at all, by its hash, one writer at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from rightful.backfill.replaced_bytes import ReplacedBytes


def names(shelf: ReplacedBytes) -> list[str]:
    return sorted(one.name for one in shelf.folder.iterdir())


def test_bytes_are_found_by_their_hash_and_kept_once(tmp_path: Path) -> None:
    shelf = ReplacedBytes(tmp_path)
    assert shelf.find("0" * 64) is None

    name = shelf.keep(b"state")
    before = (shelf.folder / f"{name}.bytes").stat().st_ino
    shelf.keep(b"state")

    assert name == hashlib.sha256(b"state").hexdigest()
    assert shelf.find(name) == b"state"
    assert (shelf.folder / f"{name}.bytes").stat().st_ino == before
    assert names(shelf) == [f"{name}.bytes"]


def test_damaged_bytes_are_not_returned_and_are_stored_again(tmp_path: Path) -> None:
    shelf = ReplacedBytes(tmp_path)
    name = shelf.keep(b"state")
    (shelf.folder / f"{name}.bytes").write_bytes(b"stat")

    assert shelf.find(name) is None
    shelf.keep(b"state")
    assert shelf.find(name) == b"state"


def test_what_a_kill_left_half_is_replaced(tmp_path: Path) -> None:
    shelf = ReplacedBytes(tmp_path)
    name = shelf.keep(b"state")
    (shelf.folder / f"{name}.bytes").rename(shelf.folder / f"{name}.bytes.new")

    shelf.keep(b"state")

    assert names(shelf) == [f"{name}.bytes"]


def test_the_last_plan_of_a_target_replaces_the_one_before(tmp_path: Path) -> None:
    shelf = ReplacedBytes(tmp_path)
    assert shelf.plan_of("/ws/b.json") is None

    shelf.keep_plan("/ws/b.json", b"one")
    path = shelf.keep_plan("/ws/b.json", b"two")

    assert shelf.plan_of("/ws/b.json") == b"two"
    assert path.name == f"{hashlib.sha256(b'/ws/b.json').hexdigest()}.plan.json"
    assert names(shelf) == [path.name]


def test_a_writer_waits_for_its_turn_before_it_makes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    flock, opened = fcntl.flock, os.open

    def locking(fd: int, how: int) -> None:
        flock(fd, how)
        if how == fcntl.LOCK_EX and os.fstat(fd).st_ino == (tmp_path / "backfill").stat().st_ino:
            said.append("turn")

    def opening(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            said.append(Path(path).suffix)
        return opened(path, flags, *mode)

    monkeypatch.setattr(fcntl, "flock", locking)
    monkeypatch.setattr(os, "open", opening)

    ReplacedBytes(tmp_path).keep(b"state")

    assert said == ["turn", ".new"]


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, os.strerror(28))

    shelf = ReplacedBytes(tmp_path)
    shelf.keep(b"first")
    before = names(shelf)
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        shelf.keep(b"state")
    assert names(shelf) == before
