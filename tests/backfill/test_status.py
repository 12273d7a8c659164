"""What is published and not in place, changed since, or cannot be put there at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import (
    FILE,
    OLD,
    applied,
    books,
    plan_of,
    rows,
    sha256,
    stands,
    taken_back,
    text,
)
from tests.readers_of_tools import Bandit

from rightful.backfill import target_file as module
from rightful.backfill.apply_plan import interrupted
from rightful.backfill.publication_status import status
from rightful.errors import StorageError
from rightful.policies import policy_of


def test_publication_not_in_place_is_reported_completed_or_withdrawn(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(path, target)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        with pytest.raises(StorageError, match="No space left on device"):
            applied(path, plan)
    assert stands(path, target).standing == "not in place"
    with books(path) as found:
        assert interrupted(found, plan)

    assert taken_back(path, target).happened == "already in place"
    assert stands(path, target).standing == "rolled back"
    assert target.read_bytes() == text(FILE)


def test_a_later_plan_supersedes_one_that_never_came_into_place(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        with pytest.raises(StorageError):
            applied(path, plan_of(path, target))

    applied(path, plan_of(path, target, "lesson-hook", old="rebuilt"))

    first, second = rows(path, "posterior.published")
    assert second.supersedes is not None
    assert stands(path, target).standing == "in place"
    assert first.new_sha256 != second.new_sha256 == sha256(target.read_bytes())


def test_status_says_how_each_target_stands(path: Path, target: Path, tmp_path: Path) -> None:
    done = applied(path, plan_of(path, target))
    applied(path, plan_of(path, tmp_path / "new.json", "lesson-hook"))
    one = stands(path, target)
    assert (one.standing, one.publication, one.position) == ("in place", done.publication, done.position)
    assert (one.restores, one.kept, one.count, one.reader) == (sha256(text(FILE)), True, 1, "gptme-sessions")
    assert (one.policy, one.through, one.sha256) == (policy_of("bound").hash, 4, sha256(target.read_bytes()))

    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    (tmp_path / "new.json").unlink()

    with books(path) as found:
        every = {entry.target: (entry.standing, entry.restores) for entry in status(found)}
    assert every == {
        str(target): ("changed since", sha256(text(FILE))), str(tmp_path / "new.json"): ("missing", "no file"),
    }  # fmt: skip
    target.unlink()
    target.mkdir()
    assert stands(path, target).standing == "not readable"


def test_a_rollback_without_its_bytes_says_so_and_touches_nothing(path: Path, target: Path) -> None:
    applied(path, plan_of(path, target))
    after = target.read_bytes()
    [kept] = [one for one in (path / "backfill").iterdir() if one.name.startswith(sha256(text(FILE)))]
    kept.write_bytes(b"damaged")

    assert stands(path, target).kept is False
    with pytest.raises(StorageError, match="are missing from this ledger, or damaged"):
        taken_back(path, target)
    assert target.read_bytes() == after
    assert len(rows(path, "posterior.published")) == 1


def test_unwritable_folder_is_refused_before_the_publication(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(path, target)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(StorageError, match="is not writable for you"):
        applied(path, plan)

    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []


def test_a_file_of_another_user_is_refused_before_anything_is_published(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, other = plan_of(path, target), target.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)

    with pytest.raises(StorageError, match="belongs to another user"):
        applied(path, plan)

    assert rows(path, "posterior.published") == []
