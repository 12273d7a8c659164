from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.importers.conftest import Importer
from tests.importers.diary import Diary
from tests.importers.growing import put
from tests.importers.import_files import import_paths
from tests.importers.test_growth import lines

from rightful import limits
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind
from rightful.importers.session_records import SessionRecords
from rightful.ledger import Ledger

LINE = {"ts": 5.0, "session_id": "s", "lessons": [{"path": "x.md"}], "tool_seq": []}
FOREIGN, TORN = json.dumps({"a": 1}), '{"torn": '


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.mark.parametrize("first", [FOREIGN, TORN])
@pytest.mark.parametrize("kind", ["auto", "lesson-hook"])
def test_a_file_is_recognised_behind_many_foreign_and_torn_lines(
    imported: Importer, tmp_path: Path, first: str, kind: str
) -> None:
    path = write(tmp_path / "ws" / "a.jsonl", *[first] * 40, *[json.dumps(LINE)] * 20)

    [report] = imported(kind, path.parent)

    assert (report.appended, report.lost, report.exit_code) == (20, 40, 2)
    assert [one.line for one in report.problems] == list(range(1, 41))


@pytest.mark.parametrize("first", [FOREIGN, TORN])
def test_a_file_is_looked_at_up_to_a_limit_and_that_is_said(
    imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(limits, "FOREIGN_OBJECTS", 50)
    write(tmp_path / "at" / "a.jsonl", *[first] * 49, json.dumps(LINE))
    write(tmp_path / "past" / "a.jsonl", *[first] * 50, json.dumps(LINE))
    write(tmp_path / "whole" / "a.jsonl", *[first] * 50)

    [at], [past], [whole] = (imported("auto", tmp_path / name) for name in ("at", "past", "whole"))

    assert (at.appended, past.appended, whole.appended) == (1, 0, 0)
    only = "only its first 50 objects were examined"
    assert past.problems[-1].what.endswith(only)
    assert not any(only in one.what for one in (*at.problems, *whole.problems))


def test_a_file_that_is_known_to_be_another_tools_is_not_read_on(imported: Importer, tmp_path: Path) -> None:
    of_another = json.dumps({"model_version": 1, "co_occurrence": {}})
    write(tmp_path / "ws" / "a.jsonl", *[of_another] * 32, json.dumps(LINE))

    [report] = imported("auto", tmp_path / "ws")

    assert [one.what for one in report.problems] == [
        "skipped: a prediction model of the lesson hook; not imported by this version"
    ]
    assert (report.appended, report.exit_code) == (0, 0)


def test_of_lines_that_are_not_recognised_yet_a_torn_last_one_waits(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.jsonl", b'{"say":"a')
    put(tmp_path / "in" / "b.json", b'{"say":"a')

    reports = list(import_paths(ledger.log, [SessionRecords(), Diary()], [str(tmp_path / "in")], stdin=io.BytesIO()))

    assert [(report.exit_code, report.notes) for report in reports] == [(0, 1), (2, 0)]


def test_last_imported_kind_is_tried_first_and_another_is_searched(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    kinds: list[Kind] = [SessionRecords(), Diary()]

    def imported() -> FileReport:
        [report] = import_paths(ledger.log, kinds, [str(path)], stdin=io.BytesIO(), checkpoints=kept)
        return report

    put(path, lines("a"))
    imported()
    put(path, lines("a") + b'{"odd":1}\n' + lines("b"))
    grown = imported()
    put(path, b'{"session_id":"s","start_time":"2026-08-01T10:00:00Z","trajectory_grade":0.5}\n')
    other = imported()

    assert (grown.appended, grown.span) == (1, (13, 36, 36))
    assert (other.kinds.get("grade.recorded"), other.span) == (1, None)
