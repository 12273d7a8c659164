from __future__ import annotations

import errno
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer, said
from tests.importers.diary import Diary
from tests.importers.import_files import import_paths

from rightful import limits
from rightful.errors import BusyError
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.ledger import Ledger

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
RECORD = {"session_id": "s", "start_time": "2026-08-01T10:00:00Z", "trajectory_grade": 0.5}
LINE = {"ts": 5.0, "session_id": "s", "lessons": [{"path": "x.md"}], "tool_seq": []}


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_folder_is_imported_file_by_file_in_order_and_again_adds_nothing(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    once = imported("lesson-hook", golden / "lesson-trajectories", golden / "lesson-dropout")
    again = imported("lesson-hook", golden)

    assert [Path(report.path).name for report in once] == [
        "2026-08-01.jsonl",
        "2026-08-01-running-blue-fox.jsonl",
        "7fbe4341-0d57-4016-8374-1ed5e8da4b1b.jsonl",
        "a6be8a33b7c987f4ffb76d9c9805c7eb.jsonl",
        "ca7989fa-4c90-4f22-820d-169a7bf5e2cb.jsonl",
    ]
    assert sum(report.appended for report in once) == 6
    assert sum(report.duplicate for report in again) == 6


def test_standard_input_is_imported_like_a_file(imported: Importer) -> None:
    [report] = imported("lesson-hook", "-", stdin=json.dumps(LINE).encode())

    assert (report.path, said(report)) == ("-", {"appended": 1, "duplicate": 0, "problems": []})


def test_auto_recognises_files_by_content_and_lists_what_it_skipped(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    folder = tmp_path / "ws"
    write(folder / "a.jsonl", LINE)
    write(folder / "b.jsonl", {"a": 1}, RECORD)
    write(folder / "c.json", {"weapons": {}, "total": 3})
    write(folder / "d.json", [1])
    write(folder / "e.json")
    (folder / "f.json").write_text('{"injected": ["/ho')
    write(folder / "g.jsonl", {"session_id": "s", "lessons": []})

    reports = imported("auto", folder)

    assert [(Path(report.path).name, report.appended, report.exit_code) for report in reports] == [
        ("a.jsonl", 1, 0),
        ("b.jsonl", 2, 2),
        ("c.json", 0, 0),
        ("d.json", 0, 0),
        ("e.json", 0, 0),
        ("f.json", 0, 2),
        ("g.jsonl", 0, 0),
    ]
    assert [[problem.what for problem in report.problems] for report in reports[1:]] == [
        ["Object missing required field `session_id` - at `$`"],
        ["skipped: an object with `weapons`, `total` is not of a known kind"],
        ["skipped: Expected `object`, got `array`"],
        ["note: the file is empty"],
        ["Expected JSON, got a truncated line"],
        ["skipped: an object with `session_id`, `lessons` is not of a known kind"],
    ]


def test_a_folder_says_once_how_many_files_were_not_read(imported: Importer, tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    write(folder / "a.jsonl", LINE)
    for name in ("b.log", "in/c.log", "in/d.toml", "in/Makefile"):
        write(folder / name)

    *files, folder_report = imported("auto", folder)

    assert [Path(report.path).name for report in files] == ["a.jsonl"]
    assert (folder_report.path, said(folder_report)) == (
        str(folder),
        {
            "appended": 0,
            "duplicate": 0,
            "problems": [
                {
                    "line": None,
                    "what": "skipped: 4 files with other suffixes: 2 .log, 1 without suffix, 1 .toml",
                }
            ],
        },
    )
    assert (folder_report.passed, folder_report.is_read, folder_report.exit_code) == (4, False, 0)


def test_suffixes_are_listed_by_their_number_and_the_rare_ones_counted(imported: Importer, tmp_path: Path) -> None:
    write(tmp_path / "one" / "a.md")
    for at in range(10):
        write(tmp_path / "many" / f"x.s{at}")
        write(tmp_path / "many" / f"y.s{at}" if at == 7 else tmp_path / "many" / "x.s7")

    [one], [many] = imported("auto", tmp_path / "one"), imported("auto", tmp_path / "many")

    assert one.problems[0].what == "skipped: 1 file with another suffix: 1 .md"
    assert many.problems[0].what == (
        "skipped: 11 files with other suffixes: "
        "2 .s7, 1 .s0, 1 .s1, 1 .s2, 1 .s3, 1 .s4, 1 .s5, 1 .s6, 2 with 2 other suffixes"
    )


def test_a_broken_document_of_many_lines_is_one_problem(imported: Importer, tmp_path: Path) -> None:
    path = tmp_path / "ws" / "a.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"arms": {str(at): {"alpha": 1.0, "beta": 1.0} for at in range(99)}}, indent=2)[:-50])

    for reports in (imported("auto", path.parent), imported("bandit-state", path), imported("auto", path)):
        assert [(one.line, one.what) for one in reports[0].problems] == [(1, "Expected JSON, got a truncated line")]
        assert reports[0].exit_code == 2


def test_foreign_file_is_skipped_in_a_folder_and_one_problem_if_named(imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "ws" / "c.jsonl", {"arms": {}}, {"arms": {}})

    [found] = imported("session-records", tmp_path / "ws")
    [named] = imported("session-records", path)

    assert [problem.what for problem in found.problems] == [
        "skipped: an object with `arms` is not of kind session-records"
    ]
    assert [problem.line for problem in named.problems] == [1]
    assert named.problems[0].what == (
        "an object with `arms` is not of kind session-records; nothing was imported from it"
    )
    assert (found.exit_code, named.exit_code, imported("auto", path)[0].exit_code) == (0, 2, 2)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("none.jsonl", "could not be read: No such file or directory"),
        ("pipe.jsonl", "could not be read: not a regular file"),
        ("a\0b", "not a valid path"),
    ],
)
def test_unreadable_path_is_reported_and_the_others_are_imported(
    imported: Importer, tmp_path: Path, name: str, what: str
) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    path = write(tmp_path / "good.jsonl", LINE)

    bad, good = imported("lesson-hook", f"{tmp_path}/{name}", path)

    assert said(bad) == {"appended": 0, "duplicate": 0, "problems": [{"line": None, "what": what}]}
    assert bad.exit_code == 2
    assert good.appended == 1


@pytest.mark.parametrize("nth", [1, 2])
def test_read_error_of_an_open_file_is_reported_and_the_import_continues(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The first read is of the file's head, the second compares it with its checkpoint. The error has no file name."""
    bad, good = (write(tmp_path / name, {"say": name}) for name in ("bad.jsonl", "good.jsonl"))

    def imported(*paths: Path) -> list[FileReport]:
        kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        return list(import_paths(ledger.log, [Diary()], map(str, paths), stdin=io.BytesIO(), checkpoints=kept))

    imported(bad)
    real, seen = os.pread, 0

    def broken(fd: int, size: int, offset: int) -> bytes:
        nonlocal seen
        if os.path.samestat(os.fstat(fd), bad.stat()):
            seen += 1
            if seen == nth:
                raise OSError(errno.EIO, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", broken)
    reports = imported(bad, good)

    assert seen == nth, "it was not read so often"
    assert [one.what for one in reports[0].problems] == ["could not be read: Input/output error"]
    assert reports[1].appended == 1


def test_a_named_link_is_followed_and_gives_the_session_its_own_name(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    write(tmp_path / "real.json", {"injected": ["x.md"], "last_pretool": 5})
    (tmp_path / "s.json").symlink_to("real.json")

    imported("lesson-hook", tmp_path / "s.json")

    assert [one.session for one in ledger.read()] == ["claude-code:s"]


def test_a_conflict_is_reported_with_its_line_and_exits_with_3(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    forged = {"type": "exposure.recorded", "producer": "lesson-hook-state", "key": '["u","x.md"]'}
    ledger.append([forged | {"session": "claude-code:z", "at": "2026-08-01T10:00:00Z", "arms": []}])
    [report] = imported("lesson-hook", write(tmp_path / "u.json", {"injected": ["x.md", "y.md"], "last_pretool": 5}))

    assert (report.appended, report.conflicts, report.exit_code) == (1, 1, 3)
    assert [problem.line for problem in report.problems] == [1]
    assert report.problems[0].what.startswith("conflicts with the event stored under its id: ")
    assert report.problems[0].what.endswith("; it stays in quarantine until an `event.withdrawn` settles the conflict")


def test_events_are_written_in_transactions_of_a_bounded_size(
    ledger: Ledger, imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    original = ledger.log.append

    def counted(events: Any, **condition: Any) -> Any:
        batch = list(events)
        sizes.append(len(batch))
        return original(batch, **condition)

    monkeypatch.setattr(ledger.log, "append", counted)
    rows = [LINE | {"ts": number} for number in range(limits.IMPORT_EVENTS + 1)]

    [report] = imported("lesson-hook", write(tmp_path / "t.jsonl", *rows))

    assert report.appended == limits.IMPORT_EVENTS + 1
    assert sizes == [limits.IMPORT_EVENTS, 1]


def test_problems_of_one_file_are_listed_up_to_the_limit_and_counted(imported: Importer, tmp_path: Path) -> None:
    [full] = imported("lesson-hook", write(tmp_path / "full.jsonl", LINE, *({} for _ in range(limits.PROBLEMS_COUNT))))
    [over] = imported(
        "lesson-hook", write(tmp_path / "over.jsonl", LINE, *({} for _ in range(limits.PROBLEMS_COUNT + 2)))
    )

    assert [full.problems[-1].line, len(full.problems)] == [limits.PROBLEMS_COUNT + 1, limits.PROBLEMS_COUNT]
    assert over.problems[-1] == (None, "2 more problems of this file are not listed", True)
    assert len(over.problems) == limits.PROBLEMS_COUNT + 1
    assert (full.lost, over.lost) == (limits.PROBLEMS_COUNT, limits.PROBLEMS_COUNT + 2)


def test_a_problem_behind_many_notes_is_still_a_problem(imported: Importer, tmp_path: Path) -> None:
    timeless = [{"session_id": str(at), "harness": "x"} for at in range(limits.PROBLEMS_COUNT + 1)]

    [noted] = imported("session-records", write(tmp_path / "a.jsonl", *timeless))
    [both] = imported("session-records", write(tmp_path / "b.jsonl", *timeless, {}))

    assert noted.problems[-1] == (None, "note: 1 more note of this file is not listed", False)
    assert (noted.lost, noted.notes, noted.exit_code) == (0, limits.PROBLEMS_COUNT + 1, 0)
    assert both.problems[-1] == (None, "1 more problem and 1 more note of this file are not listed", True)
    assert (both.lost, both.exit_code) == (1, 2)


def test_the_same_note_of_two_rows_glued_on_one_line_is_listed_once(imported: Importer, tmp_path: Path) -> None:
    row = json.dumps({"session_id": "a", "harness": "x"})
    (tmp_path / "a.jsonl").write_text(row + row.replace("a", "b", 1) + "\n")

    [report] = imported("session-records", tmp_path / "a.jsonl")

    assert [problem.what.partition(",")[0] for problem in report.problems] == [
        "note: the row has no time: the file's time was used",
        "note: several objects share this line; read from it: 2",
    ]


def test_rows_of_this_import_are_distinguished_from_earlier_ones(imported: Importer, tmp_path: Path) -> None:
    paths = [write(tmp_path / name, LINE) for name in ("1.jsonl", "2.jsonl")]

    first, again = imported("lesson-hook", *paths), imported("lesson-hook", *paths)

    assert [(report.appended, report.duplicate, report.repeated) for report in [*first, *again]] == [
        (1, 0, 0),
        (0, 1, 1),
        (0, 1, 0),
        (0, 1, 0),
    ]
    assert first[0].kinds == {"exposure.recorded": 1}


def test_events_are_written_while_the_file_is_read_and_progress_is_told(ledger: Ledger, tmp_path: Path) -> None:
    rows = (LINE | {"ts": number, "current_tool": "x" * 200} for number in range(2 * limits.IMPORT_EVENTS))
    path = write(tmp_path / "t.jsonl", *rows)
    told: list[tuple[str, int, int]] = []

    def tell(path: str, done: int, size: int) -> None:
        told.append((path, done, size))

    list(import_paths(ledger.log, KINDS["lesson-hook"], [str(path)], stdin=io.BytesIO(), progress=tell))

    size = path.stat().st_size
    assert [(at, whole) for at, _, whole in told] == [(str(path), size)] * 2
    assert 0.4 * size < told[0][1] < 0.8 * size
    assert told[1][1] == size


def test_an_import_that_storage_stops_can_be_run_again_without_a_double(
    ledger: Ledger, imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.jsonl", *(LINE | {"ts": number} for number in range(limits.IMPORT_EVENTS + 1)))
    original = ledger.log.append
    calls = iter([original])

    def once(events: Any, **condition: Any) -> Any:
        append = next(calls, None)
        if append is None:
            raise BusyError("ledger", 30.0)
        return append(events, **condition)

    monkeypatch.setattr(ledger.log, "append", once)
    with pytest.raises(BusyError):
        imported("lesson-hook", path)
    monkeypatch.setattr(ledger.log, "append", original)

    [report] = imported("lesson-hook", path)

    assert (report.appended, report.duplicate) == (1, limits.IMPORT_EVENTS)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not part of a checkout")
def test_the_shared_samples_import_once(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES, tmp_path / "samples")

    once = imported("auto", tmp_path / "samples")
    again = imported("auto", tmp_path / "samples")

    assert sum(report.appended for report in once) > 20
    assert sum(report.appended for report in again) == 0
    assert [report.problems for report in again] == [report.problems for report in once]
