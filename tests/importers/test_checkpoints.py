"""A checkpoint saves reading and nothing else: whatever is wrong with it, the ledger is the same in the end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.support import needs_root
from tests.importers.diary import Diary, DiaryReader, Draft
from tests.importers.growing import import_once, put, rows_of
from tests.importers.import_files import import_paths
from tests.importers.test_growth import lines, said

from rightful import ledger as app
from rightful import limits
from rightful.importers.engine import checkpoints
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Origin
from rightful.ledger import Ledger


def kept(ledger: Ledger) -> list[Path]:
    return sorted((ledger.path / FOLDER).glob("*.json"))


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a checkpoint says, and its check with it."""
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    change(document)
    data = json.dumps(document).encode()
    path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def replaced(path: Path, make: Callable[[], None]) -> None:
    path.unlink()
    make()


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".kept"))
    path.symlink_to(path.with_suffix(".kept"))


def begin(report: FileReport) -> int:
    assert report.span is not None
    return report.span.begin


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "changed": lambda path: path.write_bytes(path.read_bytes().replace(b'"count":2', b'"count":9')),
    "foreign": lambda path: path.write_bytes(b"{}"),
    "folder": lambda path: replaced(path, path.mkdir),
    "fifo": lambda path: replaced(path, lambda: os.mkfifo(path)),
    "link": linked,
    "version": lambda path: rewritten(path, lambda kept: kept.update(version="0/0")),
    "form": lambda path: rewritten(path, lambda kept: kept.update(form=2)),
    "ledger": lambda path: rewritten(path, lambda kept: kept.update(ledger="another")),
    "kind": lambda path: rewritten(path, lambda kept: kept.update(kind="draft")),
    "path": lambda path: rewritten(path, lambda kept: kept.update(path="/else")),
    "head": lambda path: rewritten(path, lambda kept: kept.update(head=99)),
    "anchor": lambda path: rewritten(path, lambda kept: kept.update(anchor="00")),
    "state-empty": lambda path: rewritten(path, lambda kept: kept.update(state={})),
    "state-odd": lambda path: rewritten(path, lambda kept: kept.update(state={"count": 2, "ids": 5})),
    "no-place": lambda path: rewritten(path, lambda kept: kept.pop("place")),
}


def test_checkpoints_are_their_owners_alone(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", lines("a"))
    import_once(ledger, Diary(), tmp_path / "a.jsonl")

    [path] = kept(ledger)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden ones too


def test_each_kind_and_file_has_its_own(ledger: Ledger, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        put(tmp_path / name, lines(name))
        import_once(ledger, Diary(), tmp_path / name)
    import_once(ledger, Draft(), tmp_path / "a.jsonl")

    assert len(kept(ledger)) == 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_that_is_damaged_or_foreign_is_not_used(ledger: Ledger, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    import_once(ledger, Diary(), path)
    DAMAGES[damage](kept(ledger)[0])
    put(path, lines("a", "b", "c"))

    report = import_once(ledger, Diary(), path)

    assert (begin(report), report.appended, report.duplicate, report.lost) == (0, 1, 2, 0)
    assert said(ledger) == ["a", "b", "c"]


def test_one_of_rows_that_a_restored_ledger_does_not_have_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a"))
    with app.open(tmp_path / "l", create=True) as ledger:
        import_once(ledger, Diary(), path)
    shutil.copytree(tmp_path / "l", tmp_path / "backup")
    put(path, lines("a", "b"))
    with app.open(tmp_path / "l") as ledger:
        import_once(ledger, Diary(), path)
        newest = kept(ledger)[0].read_bytes()
    shutil.rmtree(tmp_path / "l")
    shutil.copytree(tmp_path / "backup", tmp_path / "l")
    with app.open(tmp_path / "l") as ledger:
        kept(ledger)[0].write_bytes(newest)

        report = import_once(ledger, Diary(), path)

        assert (begin(report), said(ledger)) == (0, ["a", "b"])


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Put another file system in the place of a folder."""
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@needs_root
def test_full_disk_is_noted_once_and_everything_is_imported(ledger: Ledger, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        put(tmp_path / "in" / name, lines(name))
    with mounted(ledger.path / FOLDER, "size=4k"):
        (ledger.path / FOLDER / "fill").write_bytes(b"x" * 4_096)
        every = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        paths = [str(tmp_path / "in")]
        reports = list(import_paths(ledger.log, [Diary()], paths, stdin=io.BytesIO(), checkpoints=every))
        left = [path.name for path in (ledger.path / FOLDER).iterdir()]

    assert [(report.appended, report.exit_code, report.notes) for report in reports] == [(1, 0, 1), (1, 0, 0)]
    assert [problem.what for problem in reports[0].problems] == [
        "note: the file's checkpoint could not be stored: No space left on device; "  # noqa: ISC004 - one sentence
        "the next import reads all of the file"
    ]
    assert left == ["fill"]


@needs_root
def test_a_folder_of_checkpoints_that_is_read_only_is_a_note(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", lines("a"))
    with mounted(ledger.path / FOLDER, "ro"):
        report = import_once(ledger, Diary(), tmp_path / "a.jsonl")

    assert (report.appended, report.exit_code) == (1, 0)
    assert "could not be stored: Read-only file system" in report.problems[0].what


def test_a_state_at_the_limit_is_kept_and_a_longer_one_is_not(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a"))
    import_once(ledger, Diary(), path)
    size = len(kept(ledger)[0].read_bytes().partition(b"\n")[2])
    kept(ledger)[0].unlink()

    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", size - 1)
    refused = import_once(ledger, Diary(), path)
    assert kept(ledger) == []
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", size)
    taken = import_once(ledger, Diary(), path)

    assert f"the reader's state is larger than {size - 1} bytes" in refused.problems[0].what
    assert (taken.problems, begin(import_once(ledger, Diary(), path))) == ([], 13)


def test_how_far_a_long_file_was_read_is_kept_on_the_way(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of 13 bytes: a transaction at 26 of them, a checkpoint at 52."""
    monkeypatch.setattr(limits, "IMPORT_BYTES", 26)
    monkeypatch.setattr(limits, "CHECKPOINT_EVERY_BYTES", 52)
    put(tmp_path / "a.jsonl", lines(*"abcdefg"))
    batches: list[int] = []
    places: list[int] = []
    append, save = ledger.log.append, Checkpoints.save

    def appending(events: Any, **more: Any) -> Any:
        batches.append(len(events))
        return append(events, **more)

    def saving(self: Checkpoints, kind: Any, reading: Any, *rest: Any) -> Any:
        places.append(reading.lines.offset)
        return save(self, kind, reading, *rest)

    monkeypatch.setattr(ledger.log, "append", appending)
    monkeypatch.setattr(Checkpoints, "save", saving)
    import_once(ledger, Diary(), tmp_path / "a.jsonl")

    assert batches == [2, 2, 2, 1]
    assert places == [52, 91]


def test_rewritten_file_keeps_its_checkpoint_until_it_was_read_whole(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    import_once(ledger, Diary(), path)
    monkeypatch.setattr(limits, "IMPORT_BYTES", 1)
    monkeypatch.setattr(limits, "CHECKPOINT_EVERY_BYTES", 1)
    put(path, lines("A", "B", "C"))

    class Killed(BaseException):
        pass

    append = ledger.log.append
    left = iter([True, True])

    def dying(events: Any, **more: Any) -> Any:
        if not next(left, False):
            raise Killed
        return append(events, **more)

    monkeypatch.setattr(ledger.log, "append", dying)
    with pytest.raises(Killed):
        import_once(ledger, Diary(), path)
    monkeypatch.setattr(ledger.log, "append", append)
    import_once(ledger, Diary(), path)

    assert said(ledger) == ["a", "b", "A", "B", "C", "gone: a", "gone: b"]


def test_internal_error_is_retried_after_it_was_reported(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    right = DiaryReader.events

    def wrong(self: DiaryReader, found: Any) -> Any:
        if found.value["say"] == "b":
            raise KeyError("b")
        return right(self, found)

    monkeypatch.setattr(DiaryReader, "events", wrong)
    first = import_once(ledger, Diary(), path)
    monkeypatch.setattr(DiaryReader, "events", right)
    second = import_once(ledger, Diary(), path)

    assert (first.lost, second.lost) == (1, 0)
    assert said(ledger) == ["a", "b"]


def test_a_state_that_cannot_be_said_is_a_mistake_and_nothing_is_lost(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiaryReader, "state", lambda _self: 1 / 0)
    put(tmp_path / "a.jsonl", lines("a"))

    report = import_once(ledger, Diary(), tmp_path / "a.jsonl")

    assert (report.appended, report.lost, kept(ledger)) == (1, 1, [])
    assert "internal error (ZeroDivisionError" in report.problems[0].what


def test_files_that_cannot_be_read_on_have_none(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "a.json", b'{\n  "say": "a"\n}\n')
    put(tmp_path / "b.jsonl", '{"say":"b"}\n'.encode("utf-16"))

    reports = [import_once(ledger, Diary(), tmp_path / name) for name in ("a.json", "b.jsonl")]

    assert [(report.appended, report.span) for report in reports] == [(1, None), (1, None)]
    assert kept(ledger) == []


def test_a_kind_that_refuses_a_file_says_so(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "refused.jsonl", lines("a"))

    report = import_once(ledger, Diary(), tmp_path / "refused.jsonl")

    assert [problem.what for problem in report.problems] == ["Expected a diary"]


def test_two_imports_at_once_give_the_ledger_of_one(ledger: Ledger, tmp_path: Path) -> None:
    """The second begins where the first has read a part, and overtakes it; then the first ends."""
    path = tmp_path / "a.jsonl"
    put(path, lines(*"abcdef"))
    events = DiaryReader.events
    inside: list[FileReport] = []

    class Interleaved(Diary):
        def reader(self, origin: Origin) -> DiaryReader:
            reader = DiaryReader(origin)
            plain = reader.events

            def taking(found: Any) -> Any:
                if found.value["say"] == "d" and not inside:
                    inside.append(import_once(ledger, Diary(), path))
                return plain(found)

            reader.events = taking  # type: ignore[method-assign]
            return reader

    report = import_once(ledger, Interleaved(), path)

    assert events is DiaryReader.events
    assert (inside[0].appended, report.appended, report.duplicate) == (6, 0, 6)
    assert said(ledger) == [*"abcdef"]
    assert begin(import_once(ledger, Diary(), path)) == 78
    assert [row["position"] for row in rows_of(ledger)] == [*range(1, 7)]


def test_a_path_that_is_no_text_has_its_own(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    put(path, lines("a"))
    import_once(ledger, Diary(), path)

    assert begin(import_once(ledger, Diary(), path)) == 13


def test_another_program_reads_again(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a.jsonl", lines("a"))
    import_once(ledger, Diary(), tmp_path / "a.jsonl")
    monkeypatch.setattr(checkpoints, "_program", lambda: "99.0")

    assert begin(import_once(ledger, Diary(), tmp_path / "a.jsonl")) == 0


def test_data_after_the_place_of_a_rewritten_file_is_kept_up_to_the_limit(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a") + b"x" * 500)

    monkeypatch.setattr(limits, "EVENT_BYTES", 499)
    import_once(ledger, Draft(), path)
    assert kept(ledger) == []
    monkeypatch.setattr(limits, "EVENT_BYTES", 500)
    import_once(ledger, Draft(), path)
    put(path, lines("a") + b"x" * 500 + b"\n" + lines("b"))

    assert begin(import_once(ledger, Draft(), path)) == 13
    assert said(ledger) == ["a", "b"]


def test_what_is_old_is_removed_by_the_first_that_is_written(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", lines("a"))
    folder = ledger.path / FOLDER
    folder.mkdir(mode=0o700)
    days, hour = limits.CHECKPOINT_DAYS * 86_400, 3_600
    ages = {"old.json": days + 60, "new.json": days - 60, ".torn.json": hour + 60, ".half.json": hour - 60}
    for name, age in ages.items():
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (time.time() - age,) * 2)

    import_once(ledger, Diary(), tmp_path / "a.jsonl")

    left = {path.name for path in folder.iterdir()}
    assert left & ages.keys() == {"new.json", ".half.json"}
    assert len(left) == 3
