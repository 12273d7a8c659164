"""`rightful import agenta`: an answer for each record, what people see, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.importers.agenta_records import body

from rightful.importers.agenta.agenta_records import record_id

CALL = record_id("sess-1", "c", "tool_call", "turn-1")


def call(given: Any, index: int = 0) -> dict[str, Any]:
    return body("tool_call", {"id": "c", "name": "bash", "input": given}, record_id=CALL, record_index=index)


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in records))
    return path


def test_each_record_is_answered_in_its_order(run: Run, ledger: Path, here: Path) -> None:
    file = write(here / "records.jsonl", call({}), "{torn", call({"command": "ls"}, 1), call({}, 2), body("thought"))

    done = run("import", "agenta", file, "--json")

    [report] = done.document
    assert [(one["line"], one["outcome"], one["position"]) for one in report["receipts"]] == [
        (1, "appended", 1),
        (2, "invalid", None),
        (3, "refined", 2),
        (4, "duplicate", 1),
        (5, "appended", 3),
    ]
    assert report["receipts"][0] == {"id": CALL, "outcome": "appended", "position": 1, "first": 1, "line": 1}
    assert report["counts"] == {"invalid": 1, "appended": 2, "refined": 1, "duplicate": 1}
    assert done.code == 2


def test_people_see_how_many_there_were_of_each_outcome(run: Run, ledger: Path, here: Path) -> None:
    file = write(
        here / "records.jsonl", call({"command": "ls"}, 1), call({"command": "l"}), body("thought", record_index=2)
    )

    first, again = run("import", "agenta", file), run("import", "agenta", file)

    assert first.out.splitlines()[0] == f"{file}: 2 appended, 1 stale"
    assert again.out.splitlines()[0] == f"{file}: 3 already in the ledger"
    assert (first.code, again.code) == (0, 0)


def test_a_conflict_is_an_answer_and_exit_code_3(run: Run, ledger: Path, here: Path) -> None:
    file = write(here / "records.jsonl", call({"command": "ls"}), call({"path": "/x"}, 1))

    done = run("import", "agenta", file, "--json")

    assert [one["outcome"] for one in done.document[0]["receipts"]] == ["appended", "conflict"]
    assert done.code == 3


def test_auto_tells_records_and_answers_of_records_from_all_else(run: Run, ledger: Path, here: Path) -> None:
    folder = here / "ws"
    folder.mkdir()
    write(folder / "a.jsonl", call({"command": "ls"}))
    write(folder / "b.json", {"count": 1, "records": [body("thought", record_index=1)]})
    write(folder / "c.json", {"count": 0, "records": []})
    write(folder / "d.json", {"records": [1], "count": 1})

    done = run("import", "auto", folder, "--json")

    found = {Path(report["path"]).name: report.get("counts") for report in done.document}
    assert found == {"a.jsonl": {"appended": 1}, "b.json": {"appended": 1}, "c.json": {}, "d.json": None}


def test_a_kind_that_does_not_answer_for_each_record_has_no_receipts(run: Run, ledger: Path, here: Path) -> None:
    write(here / "s.jsonl", {"session_id": "s", "start_time": "2026-08-01T10:00:00Z", "trajectory_grade": 0.5})

    [report] = run("import", "session-records", here / "s.jsonl", "--json").document

    assert {"receipts", "counts"} & report.keys() == set()
