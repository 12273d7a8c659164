from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.importers import transcript_writers as write
from tests.locate.searching import A, run

from rightful import limits
from rightful.locate import check_bound, find_transcripts
from rightful.locate.check_bound import CheckedBinding
from rightful.locate.evidence import hashed
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.ranks import Rank
from rightful.projections.bindings import Binding, Bindings

SESSION = "workspace:a"


def known(*bound: tuple[str, str, Path], sessions: dict[str, Any] | None = None) -> LedgerSessions:
    state = Bindings()
    for position, (session, uri, path) in enumerate(bound, 1):
        of = hashed(path)
        state._bound[session, uri] = Binding(session, uri, of.bytes, of.sha256, "sentinel", None, position)
    return LedgerSessions(bindings=state, sessions=sessions or {})


def check(of: LedgerSessions, root: Path) -> list[CheckedBinding]:
    return list(check_bound.check(of, find_transcripts.search_folders([str(root)], {}, root)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write.codex(tmp_path / "codex", A, "2026-08-01T10:15:00Z")


def test_what_is_as_it_was_or_has_grown_is_good(path: Path, tmp_path: Path) -> None:
    of = known((SESSION, path.as_uri(), path))
    assert [(one.state, one.is_good) for one in check(of, tmp_path)] == [("good", True)]
    with path.open("a") as file:
        file.write("more\n")
    [one] = check(of, tmp_path)
    assert (one.state, one.is_good, one.why) == ("grown", True, "5 bytes were added")


def test_what_was_changed_shortened_or_removed_is_not(path: Path, tmp_path: Path) -> None:
    of = known((SESSION, path.as_uri(), path))
    data = path.read_bytes()
    os.utime(path, (1, 1))
    assert check(of, tmp_path)[0].state == "good"
    path.write_bytes(b"x" + data[1:])
    [one] = check(of, tmp_path)
    assert (one.state, one.is_good, one.why) == ("changed", False, "its beginning differs from the bound bytes")
    path.write_bytes(data[:-1])
    assert (check(of, tmp_path)[0].state, check(of, tmp_path)[0].why) == (
        "changed", f"it has {len(data) - 1} bytes, and had {len(data)}",
    )  # fmt: skip
    path.unlink()
    assert [(one.state, one.path) for one in check(of, tmp_path)] == [("deleted", str(path))]
    path.mkdir()
    assert check(of, tmp_path)[0].state == "unreadable"


def test_what_was_moved_out_of_its_tools_layout_is_found_too(path: Path, tmp_path: Path) -> None:
    of = known((SESSION, path.as_uri(), path))
    moved = tmp_path / "moved" / "old.jsonl"
    moved.parent.mkdir()
    shutil.move(path, moved)
    [one] = check(of, tmp_path)
    assert (one.state, one.path) == ("moved", str(moved))


def test_what_was_moved_is_found_by_its_hash_also_if_it_grew(path: Path, tmp_path: Path) -> None:
    of = known((SESSION, path.as_uri(), path))
    other = write.codex(tmp_path / "other", A, "2026-08-01T10:15:00Z", "Something else of some length")
    moved = tmp_path / "kept" / "sessions" / path.name
    moved.parent.mkdir(parents=True)
    shutil.move(path, moved)
    with moved.open("a") as file:
        file.write("{}\n")
    [one] = check(of, tmp_path)
    assert (one.state, one.path, one.is_good) == ("moved", str(moved), False)
    assert other.exists()


def test_no_more_is_hashed_than_the_limit(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = known((SESSION, path.as_uri(), path))
    moved = tmp_path / "kept" / path.name
    moved.parent.mkdir()
    shutil.move(path, moved)
    monkeypatch.setattr(limits, "LOCATE_HASHED_BYTES", moved.stat().st_size)
    assert check(of, tmp_path)[0].state == "moved"
    monkeypatch.setattr(limits, "LOCATE_HASHED_BYTES", moved.stat().st_size - 1)
    assert check(of, tmp_path)[0].state == "deleted"


def test_two_runs_of_one_transcript_fail_but_a_run_and_its_tools_name_pass(path: Path, tmp_path: Path) -> None:
    uri = path.as_uri()
    of = known((SESSION, uri, path), ("workspace:b", uri, path), (f"codex:{A}", uri, path))
    assert [(one.binding.session, one.others) for one in check(of, tmp_path)] == [
        (SESSION, ("workspace:b",)),
        ("workspace:b", (SESSION,)),
        (f"codex:{A}", ()),
    ]
    linked = run("a", None, natives={"workspace:b": Rank.NATIVE})
    of = known((SESSION, uri, path), ("workspace:b", uri, path), sessions={SESSION: linked})
    assert [one.is_good for one in check(of, tmp_path)] == [True, True]


def test_only_the_session_that_is_asked_for_is_looked_at(path: Path, tmp_path: Path) -> None:
    of = known((SESSION, path.as_uri(), path), ("workspace:b", "file:///gone", path))
    where = find_transcripts.search_folders([str(tmp_path)], {}, tmp_path)
    assert [one.binding.session for one in check_bound.check(of, where, "workspace:b")] == ["workspace:b"]


def test_a_name_with_odd_letters_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "ä %20 b\udcff.jsonl"
    path.write_text("x")
    assert find_transcripts.path_of(path.as_uri()) == str(path)
    assert find_transcripts.path_of("https://example.com/x") is None
    assert find_transcripts.path_of("file:///a%00b") is None
