"""A file that grows is read on from where the last import stopped, and gives what reading it once gives."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from tests.importers.conftest import GOLDEN
from tests.importers.diary import Diary, DiaryReader, Draft
from tests.importers.growing import import_once, put, rows_of, same_after_kills, same_by_cuts, same_by_prefixes
from tests.importers.import_files import import_paths

from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import KNOWN
from rightful.importers.engine.formats import Kind, Origin
from rightful.importers.lesson_hook.artifacts import LessonHook
from rightful.importers.session_records import SessionRecords
from rightful.importers.sources.growing_files import WAITS
from rightful.importers.sources.text_files import Found, Problem
from rightful.ledger import Ledger

ODD = (
    b'\xef\xbb\xbf{"say":"a"}\n{"say":"\xc3\xa9"}{"say":"b","twice":true}\n\nno json\n{"say":"torn{"say":"c"}\r\n'
    b'[1]{"say":"d"}\n{"say":"e","say":"f"}\n{"say": "\\ud800", "n": NaN}\n{"say":5}\n{"say":"g"}  {"say":"h"}'
)
BOTH = pytest.mark.parametrize("kind", [Diary(), Draft()], ids=["appended", "rewritten"])


def lines(*words: str) -> bytes:
    return b"".join(json.dumps({"say": word}).encode() + b"\n" for word in words)


def said(ledger: Ledger) -> list[str]:
    return [json.loads(row["body"])["content"] for row in rows_of(ledger)]


@BOTH
def test_every_byte_prefix_in_turn_gives_the_rows_of_the_whole_file(kind: Kind, tmp_path: Path) -> None:
    report = same_by_prefixes(kind, "a.jsonl", ODD, tmp_path)

    assert report.appended == 9
    assert [problem.line for problem in report.problems if problem.lost] == [4, 5, 6, 7, 9]


@BOTH
def test_a_big_file_cut_anywhere_gives_the_rows_of_the_whole_file(kind: Kind, tmp_path: Path) -> None:
    data = b"".join(lines(f"{number}" + "x" * (number % 7 * 100)) for number in range(300))

    assert same_by_cuts(kind, "a.jsonl", data, tmp_path, examples=10).appended == 300


@pytest.mark.parametrize("name", ["Diary", "Draft"])
def test_killed_import_gives_the_rows_of_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    died = same_after_kills(f"tests.importers.diary:{name}", "a.jsonl", ODD, tmp_path, grown=[20])

    assert died >= 10


@BOTH
def test_only_what_grew_is_read(kind: Kind, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    import_once(ledger, kind, path)
    put(path, lines("a", "b", "c"))

    grown = import_once(ledger, kind, path)
    same = import_once(ledger, kind, path)

    assert (grown.appended, grown.duplicate, grown.span) == (1, 0, (26, 39, 39))
    assert (same.appended, same.duplicate, same.span) == (0, 0, (39, 39, 39))
    assert grown.as_dict()["bytes"] == {"begin": 26, "end": 39, "size": 39}


def test_a_torn_last_line_waits_and_is_no_problem(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a") + b'{"say": "b')

    report = import_once(ledger, Diary(), path)

    assert (report.exit_code, report.problems) == (0, [Problem(2, f"note: {WAITS}", lost=False)])
    assert report.span == (0, 13, 23)


def test_what_is_glued_behind_an_object_that_was_imported_is_imported_too(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, b'{"say":"a"}')
    import_once(ledger, Diary(), path)
    put(path, b'{"say":"a"}{"say":"b"}\n{"say":"c"}')

    report = import_once(ledger, Diary(), path)

    assert (report.appended, report.duplicate) == (2, 0)
    assert said(ledger) == ["a", "b", "c"]


@BOTH
def test_file_that_shrank_is_read_again_and_its_reader_is_notified(kind: Kind, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    import_once(ledger, kind, path)
    put(path, lines("a"))

    report = import_once(ledger, kind, path)

    assert (report.appended, report.duplicate) == (1, 1)
    assert said(ledger) == ["a", "b", "gone: b"]
    assert import_once(ledger, kind, path).span == (13, 13, 13)


@BOTH
def test_a_file_whose_end_was_changed_is_read_again(kind: Kind, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b"))
    import_once(ledger, kind, path)
    put(path, lines("a", "B", "c"))

    import_once(ledger, kind, path)

    assert said(ledger) == ["a", "b", "B", "c", "gone: b"]


def test_change_in_the_middle_is_seen_if_the_tool_may_rewrite_the_file(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    words = [f"{number:06}" for number in range(12_000)]
    put(path, lines(*words))
    import_once(ledger, Draft(), path)
    put(path, lines(*words[:6_000], "here!!", *words[6_001:]))

    report = import_once(ledger, Draft(), path)

    assert (report.appended, report.duplicate) == (2, 11_999)
    assert said(ledger)[-2:] == ["here!!", "gone: 006000"]


def test_replacement_of_an_append_only_file_is_read_from_the_start(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a"))
    import_once(ledger, Diary(), path)
    put(tmp_path / "b.jsonl", lines("a", "b"))
    os.replace(tmp_path / "b.jsonl", path)  # noqa: PTH105 - what tools call

    report = import_once(ledger, Diary(), path)

    assert (report.appended, report.duplicate, report.span) == (1, 1, (0, 26, 26))


def test_all_is_read_again_when_that_is_asked_for(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a", "b") + b"broken\n")
    import_once(ledger, Diary(), path)

    rest = import_once(ledger, Diary(), path)
    put(path, lines("a", "b") + b"broken\nbroken\n")
    import_once(ledger, Diary(), path)
    more = import_once(ledger, Diary(), path)
    again = import_once(ledger, Diary(), path, again=True)

    assert (rest.duplicate, rest.lost, rest.exit_code) == (0, 1, 2)
    assert [problem.what for problem in rest.problems] == [f"1 problem {KNOWN}"]
    assert (more.lost, [problem.what for problem in more.problems]) == (2, [f"2 problems {KNOWN}"])
    assert (again.duplicate, again.lost, again.span) == (2, 2, (0, 40, 40))


@pytest.mark.parametrize("rest", [b"[1,2]", b"7", b"\x00\x00", b'{"key" 1'], ids=["array", "number", "nul", "object"])
def test_unreadable_end_is_the_same_problem_in_each_import(ledger: Ledger, tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "a.jsonl"
    put(path, lines("a") + rest)
    first, second = import_once(ledger, Diary(), path), import_once(ledger, Diary(), path)
    put(path, lines("a") + rest + b"\n" + lines("b"))
    whole, last = import_once(ledger, Diary(), path), import_once(ledger, Diary(), path)

    assert [(report.appended, report.lost, report.exit_code) for report in (first, second, whole, last)] == [
        (1, 1, 2), (0, 1, 2), (1, 1, 2), (0, 1, 2)
    ]  # fmt: skip
    assert first.problems == second.problems
    assert (first.problems[0].line, last.problems[0].what) == (2, f"1 problem {KNOWN}")


def test_conflict_in_the_part_read_before_keeps_its_exit_code(ledger: Ledger, tmp_path: Path) -> None:
    [event] = DiaryReader(Origin("a.jsonl", None)).events(Found(1, {"say": "a"}))
    ledger.append([event | {"content": "other"}])  # type: ignore[operator]
    put(tmp_path / "a.jsonl", lines("a"))

    first, second = (import_once(ledger, Diary(), tmp_path / "a.jsonl") for _ in range(2))

    assert (first.exit_code, first.conflicts, second.exit_code, second.conflicts) == (3, 1, 3, 1)


def test_a_file_named_by_a_link_and_by_itself_is_one_file(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", lines("a"))
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    import_once(ledger, Diary(), tmp_path / "a.jsonl")

    assert import_once(ledger, Diary(), tmp_path / "link.jsonl").span == (13, 13, 13)


@pytest.mark.parametrize(("kind", "name"), [(LessonHook(), "2026-08-01.jsonl"), (SessionRecords(), "records.jsonl")])
def test_a_log_that_is_read_whole_each_time_gives_the_same_byte_by_byte(kind: Kind, name: str, tmp_path: Path) -> None:
    if kind.NAME == "lesson-hook":
        data = (GOLDEN / "lesson-trajectories" / name).read_bytes()[:2_000]
    else:
        rows = [{"session_id": at, "start_time": f"2026-08-01T1{at}:00:00Z", "trajectory_grade": 0.5} for at in "12"]
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    same_by_prefixes(kind, name, data, tmp_path)


def test_a_growing_log_of_standard_input_is_read_to_its_end(ledger: Ledger) -> None:
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    stdin = io.BytesIO(lines("a") + b'{"say":"b')

    [report] = import_paths(ledger.log, [Diary()], ["-"], stdin=stdin, checkpoints=kept)

    assert (report.appended, report.lost, report.span) == (1, 1, None)
    assert not (ledger.path / FOLDER).exists()
