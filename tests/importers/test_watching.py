"""A watch imports what is there, then what changes; each step here is ordered by a script of changes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.importers.diary import Diary, Draft
from tests.importers.growing import put
from tests.importers.test_growth import lines, said

from rightful import limits
from rightful.errors import BusyError
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.loop import Import
from rightful.importers.session_records import SessionRecords
from rightful.importers.sources.watch import Watch, Watcher
from rightful.ledger import Ledger

Step = Callable[[], set[str]]


class Script(Watcher):
    """Does one thing at each wait and tells what it changed; ends when there is nothing more to do."""

    ended = False

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self._steps = list(steps)
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, timeout_s: float) -> set[str] | None:
        self.waits.append(timeout_s)
        return self._steps.pop(0)() if self._steps else None

    def clock(self) -> float:
        return self.now


def writes(path: Path, data: bytes) -> Step:
    def step() -> set[str]:
        put(path, data)
        return {str(path)}

    return step


@pytest.fixture
def follow(ledger: Ledger, tmp_path: Path) -> Callable[..., list[FileReport]]:
    def run(script: Script, *paths: Path | str) -> list[FileReport]:
        kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        importing = Import(ledger.log, [Diary(), SessionRecords()], ledger.log.head(), None, kept)
        return list(Watch(importing, [str(path) for path in paths], script).follow(script.clock))

    return run


Follow = Callable[..., list[FileReport]]


def told(reports: list[FileReport]) -> list[tuple[str, int, int]]:
    return [(Path(report.path).name, report.appended, report.duplicate) for report in reports]


def test_what_is_there_is_imported_then_what_appears_and_grows(follow: Follow, ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder / "a.jsonl", lines("a"))

    reports = follow(
        Script(writes(folder / "b.jsonl", lines("b")), writes(folder / "a.jsonl", lines("a", "c") + b'{"sa')), folder
    )

    assert told(reports) == [("a.jsonl", 1, 0), ("b.jsonl", 1, 0), ("a.jsonl", 1, 0)]
    assert said(ledger) == ["a", "b", "c"]


def test_a_file_that_is_renamed_deleted_or_replaced_does_not_end_it(
    follow: Follow, ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    put(folder / "a.jsonl", lines("a"))
    put(folder / "b.jsonl", lines("b"))

    def renamed() -> set[str]:
        (folder / "a.jsonl").rename(folder / "c.jsonl")
        return {str(folder / "a.jsonl"), str(folder / "c.jsonl")}

    def deleted() -> set[str]:
        (folder / "b.jsonl").unlink()
        return {str(folder / "b.jsonl")}

    def replaced() -> set[str]:
        put(tmp_path / "new", lines("d"))
        (tmp_path / "new").rename(folder / "c.jsonl")
        return {str(folder / "c.jsonl")}

    reports = follow(Script(renamed, deleted, replaced), folder)

    assert told(reports) == [("a.jsonl", 1, 0), ("b.jsonl", 1, 0), ("c.jsonl", 1, 0), ("c.jsonl", 2, 0)]
    assert said(ledger) == ["a", "b", "a", "d", "gone: a"], "a diary's entries are known by its name"


def test_what_is_wrong_with_one_file_is_told_and_does_not_end_it(
    follow: Follow, ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    reports = follow(Script(writes(folder / "a.jsonl", b'{"say":1}\n'), writes(folder / "b.jsonl", lines("b"))), folder)

    assert [(report.lost, report.appended) for report in reports] == [(1, 0), (0, 1)]


def test_a_folder_that_is_moved_in_is_imported(follow: Follow, ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def moved() -> set[str]:
        put(tmp_path / "else" / "sub" / "a.jsonl", lines("a"))
        shutil.move(tmp_path / "else", folder / "else")
        return {str(folder / "else")}

    assert told(follow(Script(moved), folder)) == [("a.jsonl", 1, 0)]


def test_what_a_walk_would_pass_over_is_not_imported_when_it_changes(
    follow: Follow, ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    put(tmp_path / "out.jsonl", lines("out"))
    folder.mkdir()
    link = folder / "link.jsonl"

    def linked() -> set[str]:
        link.symlink_to(tmp_path / "out.jsonl")
        return {str(link)}

    script = Script(
        writes(folder / "node_modules" / "a.jsonl", lines("a")),
        writes(folder / "a.txt", lines("a")),
        writes(tmp_path / "beside.jsonl", lines("a")),
        linked,
    )

    assert follow(script, folder) == []
    assert ledger.log.head() == 0


def test_a_file_that_is_named_and_missing_is_imported_when_it_appears(
    follow: Follow, ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"

    reports = follow(Script(writes(path, lines("a"))), path)

    assert told(reports) == [("a.log", 1, 0)]
    assert said(ledger) == ["a"]


def test_what_the_watcher_missed_is_found_by_looking(follow: Follow, ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def unseen() -> set[str]:
        put(folder / "a.jsonl", lines("a"))
        script.now += limits.WATCH_LOOK_S
        return set()

    script = Script(unseen)

    assert told(follow(script, folder)) == [("a.jsonl", 1, 0)]
    assert script.waits[0] == limits.WATCH_LOOK_S


def test_a_look_reads_nothing_that_is_as_it_was(
    follow: Follow, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    put(folder / "a.jsonl", lines("a"))
    put(folder / "b.jsonl", lines("b"))
    read: list[str] = []
    file = Import.file

    def counted(self: Import, path: str, *, named: bool) -> FileReport:
        read.append(Path(path).name)
        return file(self, path, named=named)

    monkeypatch.setattr(Import, "file", counted)

    def later() -> set[str]:
        script.now += limits.WATCH_LOOK_S
        os.utime(folder / "b.jsonl", (1, 1))
        return set()

    script = Script(later)
    follow(script, folder)

    assert read == ["a.jsonl", "b.jsonl", "b.jsonl"]


def test_a_ledger_that_others_hold_is_tried_again(
    follow: Follow, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a"))
    append = ledger.log.append
    held = iter([True])

    def busy(*arguments: object, **more: object) -> object:
        if next(held, False):
            raise BusyError("the ledger", 30.0)
        return append(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger.log, "append", busy)
    script = Script(set)

    reports = follow(script, path)

    assert [(report.appended, len(report.problems)) for report in reports] == [(0, 1), (1, 0)]
    assert "The import is retried" in reports[0].problems[0].what
    assert script.waits == [limits.WATCH_AGAIN_S, limits.WATCH_LOOK_S]


def test_an_ended_watch_reads_no_further_file(follow: Follow, ledger: Ledger, tmp_path: Path) -> None:
    script = Script()
    put(tmp_path / "in" / "a.jsonl", lines("a"))
    script.ended = True

    assert follow(script, tmp_path / "in") == []


def test_a_note_is_recorded_once(follow: Follow, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.jsonl"
    put(path, b'{"say":"a')

    def torn() -> Iterator[Step]:
        for more in (b"b", b"bc", b"bcd"):
            yield writes(path, b'{"say":"a' + more)

    reports = follow(Script(*torn(), writes(path, b'{"say":"abcd"}')), path)

    assert [(report.appended, report.notes) for report in reports] == [(0, 1), (1, 0)]


def test_a_draft_that_is_rewritten_is_followed(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    script = Script(writes(path, lines("a")))

    list(Watch(Import(ledger.log, [Draft()], 0, None, kept), [str(path)], script).follow(script.clock))

    assert said(ledger) == ["a", "b", "gone: b"]


def test_whatever_ends_the_watching_threads_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a panic of the library's compiled part, which is no `Exception`."""

    def panics(*_: object, **__: object) -> None:
        raise SystemExit("panic")

    monkeypatch.setitem(sys.modules, "watchfiles", SimpleNamespace(watch=panics))
    watcher = Watcher()
    with watcher.watching([str(tmp_path)]):
        pass

    assert watcher.failures.get_nowait() == "SystemExit: panic"
