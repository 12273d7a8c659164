from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app
from rightful.importers.engine.formats import AUTO, KINDS, kinds

GOLDEN = Path(__file__).parents[1] / "golden" / "imports"


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shown(session_id: str, arm: str, ts: float, **fields: Any) -> dict[str, Any]:
    return {"ts": ts, "session_id": session_id, "tool_seq": [], "lessons": [{"path": arm}]} | fields


def record(session_id: str, minute: int, native: str | None, grade: float) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "start_time": "2026-08-01T10:00:00+00:00",
        "end_time": f"2026-08-01T10:{minute}:00+00:00",
        "trajectory_path": None if native is None else f"/home/dev/.claude/projects/-p/{native}.jsonl",
        "trajectory_grade": grade,
    }


A, B = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
TEN = 1_785_578_400.0  # 2026-08-01T10:00Z


def test_each_file_is_reported_with_its_problems(ledger: Path, run: Run) -> None:
    done = run("import", "lesson-hook", GOLDEN / "lesson-trajectories", GOLDEN / "state" / "truncated.json", "--json")

    assert done.code == 2
    assert done.document == [
        {
            "path": f"{GOLDEN}/lesson-trajectories/2026-08-01.jsonl",
            "appended": 2,
            "duplicate": 0,
            "problems": [
                {
                    "line": 3,
                    "what": "Expected a session id, got 'unknown', which names no session - at `$.session_id`",
                }
            ],
        },
        {
            "path": f"{GOLDEN}/state/truncated.json",
            "appended": 0,
            "duplicate": 0,
            "problems": [{"line": 1, "what": "Expected JSON, got a truncated line"}],
        },
    ]


def test_people_get_the_problems_on_stderr_with_file_and_line(ledger: Path, run: Run) -> None:
    path = GOLDEN / "lesson-trajectories" / "2026-08-01.jsonl"

    done = run("import", "lesson-hook", path)
    again = run("import", "lesson-hook", path)

    assert done.out == f"{path}: 2 appended\n1 file: 2 appended (2 exposures); 1 problem.\n"
    assert done.err == (
        f"rightful: {path}:3: problem: Expected a session id, got 'unknown', "
        "which names no session - at `$.session_id`\n"
        "rightful: A line with a problem was not imported; the rest of its file was. "
        "Repair the file and import it again.\n"
    )
    problem = "1 problem (1 of them in files that were read before)"
    assert (again.code, again.out) == (
        2,
        f"{path}: 2 already in the ledger\n1 file: 2 already in the ledger; {problem}.\n",
    )


def test_what_is_worth_a_note_is_no_problem(ledger: Path, run: Run, here: Path) -> None:
    path = write(here / "a.jsonl", {"session_id": "g1", "trajectory_grade": 0.5})

    done = run("import", "session-records", path)

    assert (done.code, done.out) == (
        0,
        f"{path}: 2 appended\n1 file: 2 appended (1 grade, 1 start); 0 problems, 1 note.\n",
    )
    assert done.err.startswith(f"rightful: {path}:1: note: the row has no time")


@pytest.mark.parametrize("kind", ["lesson-hook", "auto"])
def test_foreign_file_is_a_problem_if_named_and_skipped_in_a_folder(
    ledger: Path, run: Run, here: Path, kind: str
) -> None:
    path = write(here / "ws" / "c.json", {"cookies": {}})

    named, found = run("import", kind, path), run("import", kind, here / "ws")

    assert (named.code, found.code) == (2, 1)
    assert named.out.endswith("nothing new; 1 problem.\n")
    assert named.err.startswith(f"rightful: {path}:1: problem: an object with `cookies` is not of ")
    why = "1 file of an unknown format"
    assert found.out == f"{here}/ws: nothing was imported: {why}. --json lists each file.\n"
    assert found.err == ""


def test_folder_of_another_tool_names_the_tool(ledger: Path, run: Run, here: Path) -> None:
    meta = {"timestamp": "2026-08-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "x", "cwd": "/"}}
    for name in "ab":
        write(here / "codex" / f"{name}.jsonl", meta)
    write(here / "qwen" / "a.jsonl", {"session_id": "q", "qwen_code_version": "1"})

    codex, qwen = run("import", "claude-code", here / "codex"), run("import", "claude-code", here / "qwen")

    assert codex.out == (
        f"{here}/codex: nothing was imported: 2 files of kind codex (use `rightful import codex`). "
        "--json lists each file.\n"
    )
    assert qwen.out == (
        f"{here}/qwen: nothing was imported: a session of Qwen Code (recognised, but not imported by this version). "
        "--json lists each file.\n"
    )
    assert (codex.code, qwen.code) == (1, 1)


def test_a_path_that_is_not_there_is_a_problem_and_no_file(ledger: Path, run: Run, here: Path) -> None:
    done = run("import", "auto", here / "none")

    assert (done.code, done.out) == (2, "0 files: nothing new; 1 problem.\n")


def test_counts_of_last_line_match_the_document_and_the_exit_code(ledger: Path, run: Run, here: Path) -> None:
    """A problem has no mark; what has one is none."""
    write(here / "ws" / "a.jsonl", {"session_id": "g1", "trajectory_grade": 0.5}, {"session_id": 5, "harness": "x"})
    write(here / "ws" / "b.json", {"cookies": {}})
    (here / "ws" / "c.json").symlink_to("b.json")

    done = run("import", "auto", here / "ws", "--json")
    said = [problem["what"] for report in done.document for problem in report["problems"]]
    total = run("import", "auto", here / "ws").out.splitlines()[-1]

    assert done.code == 2
    assert [{"note": "note", "skipped": "passed"}.get(what.partition(":")[0], "problem") for what in said] == [
        "note",
        "problem",
        "passed",
        "passed",
    ]
    assert all(set(problem) == {"line", "what"} for report in done.document for problem in report["problems"])
    assert total == (
        "1 file: 2 already in the ledger; 1 problem (1 of them in files that were read before), 1 note, 2 skipped."
    )


def test_similar_problems_are_printed_three_times_and_counted(ledger: Path, run: Run, here: Path) -> None:
    (here / "a.jsonl").write_text(json.dumps(shown("a", "x.md", TEN)) + "\n" + "x = 1\n" * 103)

    done = run("import", "lesson-hook", here / "a.jsonl")

    assert [line.partition(": Expected")[0] for line in done.err.splitlines()] == [
        f"rightful: {here}/a.jsonl:2: problem",
        f"rightful: {here}/a.jsonl:3: problem",
        f"rightful: {here}/a.jsonl:4: problem",
        f"rightful: {here}/a.jsonl: problem: 100 more like these; --json lists them.",
        (
            "rightful: A line with a problem was not imported; the rest of its file was. "
            "Repair the file and import it again."
        ),
    ]
    assert done.out.endswith("103 problems.\n")
    assert len(run("import", "lesson-hook", here / "a.jsonl", "--json").document[0]["problems"]) == 103


def test_a_named_file_without_any_object_is_one_problem(ledger: Path, run: Run, here: Path) -> None:
    (here / "notes.md").write_text("# A heading\n" * 9_994)

    done = run("import", "auto", here / "notes.md")

    what = "Expected JSON: Expecting value, column 1; none of its 9,994 lines holds a JSON object"
    assert done.err == f"rightful: {here}/notes.md:1: problem: {what}. Nothing was imported from the file\n"
    assert (done.code, done.out) == (2, "0 files: nothing new; 1 problem.\n")


def test_similar_notes_are_printed_three_times_over_all_files(ledger: Path, run: Run, here: Path) -> None:
    for at in range(5):
        write(here / "ws" / f"{at}.jsonl", {"session_id": f"g{at}", "harness": "x"})
        write(here / "ws" / "in" / f"{at}.jsonl", {"lesson_stats": {}})

    done = run("import", "auto", here / "ws")

    timeless = "note: the row has no time: the file's time was used, and the session's name does not include a start"
    stats = "skipped: the statistics of gptme's lesson tracker; not imported by this version"
    assert done.err.splitlines() == [
        *(f"rightful: {here}/ws/{at}.jsonl:1: {timeless}" for at in range(3)),
        f"rightful: {here}/ws/in/0.jsonl:1: {stats}",
        f"rightful: 2 more like this: {timeless}; --json lists them.",
        f"rightful: 4 more like this: {stats}; --json lists them.",
    ]
    assert done.out.splitlines()[-1] == "5 files: 5 appended (5 starts); 0 problems, 5 notes, 5 skipped."
    assert len(run("import", "auto", here / "ws", "--json").document) == 10


def test_files_that_were_not_read_are_counted_with_those_skipped(ledger: Path, run: Run, here: Path) -> None:
    for name in ("a.md", "b.md", "c.json"):
        write(here / "ws" / name, {"a": 1})

    done = run("import", "auto", here / "ws")

    why = "1 file of an unknown format; 2 files with other suffixes: 2 .md"
    assert done.out == f"{here}/ws: nothing was imported: {why}. --json lists each file.\n"
    assert (done.code, done.err) == (1, "")

    write(here / "ws" / "d.jsonl", {"session_id": "g", "start_time": "2026-08-01T10:00:00Z", "harness": "x"})
    done = run("import", "auto", here / "ws")

    what = "skipped: 2 files with other suffixes: 2 .md"
    assert (done.code, done.err.splitlines()[-1]) == (0, f"rightful: {here}/ws: {what}")
    assert done.out.endswith("0 problems, 3 skipped.\n")


def test_one_more_reason_is_counted_in_the_singular(ledger: Path, run: Run, here: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "outside" / "11-unsupported", here / "ws")

    done = run("import", "auto", here / "ws")

    assert (done.code, done.out.endswith("; and 1 other reason. --json lists each file.\n")) == (1, True)


def test_a_suffix_cannot_steer_the_terminal(ledger: Path, run: Run, here: Path) -> None:
    write(here / "ws" / "a.\x1b[2Jb")

    assert run("import", "auto", here / "ws").out.endswith("other suffix: 1 .\\x1b[2Jb. --json lists each file.\n")


def test_a_balance_is_counted_by_its_name(ledger: Path, run: Run, here: Path) -> None:
    path = write(
        here / "b.json",
        {"arms": {"x": {"alpha": 2, "beta": 1, "total_selections": 1}}, "last_updated": "2026-08-01T10:00:00Z"},
    )

    done = run("import", "bandit-state", path)

    assert done.out == f"{path}: 1 appended\n1 file: 1 appended (1 opening balance); 0 problems.\n"
    assert alphas(run) == {"x": 2.0}


def test_what_repeats_within_one_import_was_not_there_before(ledger: Path, run: Run, here: Path) -> None:
    paths = [write(here / name, shown("a", "x.md", TEN)) for name in ("1.jsonl", "2.jsonl")]

    first, again = run("import", "lesson-hook", *paths), run("import", "lesson-hook", *paths)

    assert first.out.splitlines()[-1] == "2 files: 1 appended (1 exposure), 1 repeated in this import; 0 problems."
    assert again.out.splitlines()[-1] == "2 files: 2 already in the ledger; 0 problems."


def test_import_continues_after_stdout_is_closed(ledger: Path, run: Run, here: Path) -> None:
    paths = [write(here / f"{name}.jsonl", shown(name, "x.md", TEN)) for name in "ab"]
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "import", "lesson-hook", *map(str, paths)],
        check=False,
        stdout=written,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
    )
    os.close(written)

    assert (done.returncode, done.stderr) == (141, b"")
    assert run("status", "--json").document["events"] == 2


def test_answer_goes_to_stdout_while_a_terminal_shows_progress(ledger: Path, here: Path) -> None:
    path = write(here / "t.jsonl", shown("a", "x.md", TEN))
    terminal, own = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "import", "lesson-hook", str(path)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=own,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"},
    )
    os.close(own)
    os.close(terminal)

    assert done.stdout == f"{path}: 1 appended\n1 file: 1 appended (1 exposure); 0 problems.\n"


def test_a_name_in_a_problem_cannot_steer_the_terminal(ledger: Path, run: Run, here: Path) -> None:
    done = run("import", "lesson-hook", here / "a\x1b[2Jb")

    assert done.err == f"rightful: {here}/a\\x1b[2Jb: problem: could not be read: No such file or directory\n"


def test_standard_input_is_imported(ledger: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps(shown("a", "x.md", TEN)).encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(line)))

    assert run("import", "auto", "-", "--json").document == [
        {"path": "-", "appended": 1, "duplicate": 0, "problems": []}
    ]


def test_standard_input_can_be_named_once(ledger: Path, run: Run) -> None:
    done = run("import", "auto", "-", "-")

    assert (done.code, done.err) == (
        2,
        "rightful: stdin can be read only once; nothing was imported. Pass `-` once.\n",
    )


def test_an_unknown_kind_is_wrong_usage(ledger: Path, run: Run) -> None:
    assert run("import", "cookies", "x").code == 2


def test_an_import_makes_no_ledger(run: Run, here: Path) -> None:
    done = run("import", "auto", GOLDEN)

    assert done.code == 4
    assert list(here.iterdir()) == []


def test_every_kind_of_the_table_can_be_loaded() -> None:
    assert [kind.NAME for kind in kinds(AUTO)] == list(KINDS)


def alphas(run: Run) -> dict[str, float]:
    return {arm: one["alpha"] for arm, one in run("posteriors", "--json").document["arms"].items()}


def trajectories(here: Path, a_ts: float, b_ts: float, *, b_first: bool = False) -> Path:
    rows = [shown(A, "a.md", a_ts), shown(B, "b.md", b_ts)]
    return write(here / "t.jsonl", *(rows[::-1] if b_first else rows))


@pytest.mark.parametrize("b_first", [False, True])
def test_a_grade_reaches_its_own_session_though_anothers_exposure_is_newer(
    ledger: Path, run: Run, here: Path, b_first: bool
) -> None:
    """The two-file case, older by content time and by append order."""
    run("import", "lesson-hook", trajectories(here, TEN, TEN + 60, b_first=b_first))
    run("import", "session-records", write(here / "r.jsonl", record("w", 30, A, 0.8)))

    assert alphas(run) == {"a.md": 1.8}
    newest = run("posteriors", "--policy", "historical-newest", "--json").document["arms"]
    assert {arm: one["alpha"] for arm, one in newest.items()} == {"b.md": 1.8}


def state_files(here: Path, a_mtime: int, b_mtime: int) -> Path:
    for native, arm, mtime in ((A, "a.md", a_mtime), (B, "b.md", b_mtime)):
        path = write(here / "state" / f"{native}.json", {"injected": [arm], "last_pretool": 0})
        os.utime(path, (mtime, mtime))
    return here / "state"


@pytest.mark.parametrize("newer", ["a", "b"])
def test_state_file_is_found_as_alias_by_a_grade_that_names_the_session(
    ledger: Path, run: Run, here: Path, newer: str
) -> None:
    """The two-file case, older by file time: the grade names A, whatever was written last."""
    times = (int(TEN) + 60, int(TEN)) if newer == "a" else (int(TEN), int(TEN) + 60)
    run("import", "lesson-hook", state_files(here, *times))
    grade = {"type": "grade.recorded", "producer": "judge", "key": "1", "seq": 1, "reward": 0.8}
    at = {"session": f"claude-code:{A}", "at": "2026-08-01T10:30:00Z"}
    with app.open(ledger) as opened:
        opened.append([grade | at])

    assert alphas(run) == {"a.md": 1.8}


MISSING: dict[str, Callable[[Path], object]] = {
    "missing": lambda here: write(here / "t.jsonl", shown(B, "b.md", TEN)),
    "empty": lambda here: write(here / "t.jsonl", shown(A, "a.md", TEN, lessons=[]), shown(B, "b.md", TEN)),
    "malformed": lambda here: write(here / "t.jsonl", shown(A, "a.md", TEN, lessons="a.md"), shown(B, "b.md", TEN)),
}


@pytest.mark.parametrize("how", MISSING)
def test_grade_with_an_empty_exposure_gives_no_credit(ledger: Path, run: Run, here: Path, how: str) -> None:
    MISSING[how](here)
    run("import", "lesson-hook", here / "t.jsonl")
    run("import", "session-records", write(here / "r.jsonl", record("w", 30, A, 0.8)))

    assert alphas(run) == {}


def test_later_link_brings_credit_and_its_withdrawal_removes_it(ledger: Path, run: Run, here: Path) -> None:
    records = here / "r.jsonl"
    run("import", "lesson-hook", trajectories(here, TEN, TEN + 60))
    run("import", "session-records", write(records, record("w", 30, None, 0.8)))
    assert alphas(run) == {}

    run("import", "session-records", write(records, record("w", 30, A, 0.8)))
    assert alphas(run) == {"a.md": 1.8}

    unlinked = {"type": "session.unlinked", "producer": "me", "key": "1", "at": "2026-08-01T11:00:00Z"}
    names = {"session": "workspace:w@2026-08-01T10:00:00+00:00", "other": f"claude-code:{A}"}
    with app.open(ledger) as opened:
        opened.append([unlinked | names])
    assert alphas(run) == {}


def test_a_regrade_pays_once_with_the_newest_grade(ledger: Path, run: Run, here: Path) -> None:
    run("import", "lesson-hook", trajectories(here, TEN, TEN + 60))
    for grade in (0.8, 0.25, 0.8):
        run("import", "session-records", write(here / "r.jsonl", record("w", 30, A, grade)))

    assert alphas(run) == {"a.md": 1.25}


def test_a_folder_is_one_line_unless_a_file_has_something_to_say(ledger: Path, run: Run, here: Path) -> None:
    """22 lines of "1 appended" for the files of one folder (row A14)."""
    for number in range(3):
        write(here / "logs" / f"{number}.jsonl", shown(f"{number}" + A[1:], "a.md", TEN + number))
    write(here / "logs" / "more" / "one.jsonl", shown(B, "b.md", TEN))
    write(here / "logs" / "odd.jsonl", shown("x" + A[1:], "a.md", TEN, lessons=[{"path": 5}, {"path": "a.md"}]))

    done = run("import", "lesson-hook", "logs")

    assert sorted(done.out.splitlines()) == [
        "5 files: 5 appended (5 exposures); 1 problem.",
        "logs/more/one.jsonl: 1 appended",
        "logs/odd.jsonl: 1 appended",
        "logs: 3 files, 3 appended",
    ]
    files = sorted(str(path.relative_to(here)) for path in (here / "logs").glob("[0-9].jsonl"))
    run("--ledger", "other", "init")
    named = run("--ledger", "other", "import", "lesson-hook", *files)
    assert named.out.splitlines()[:3] == [f"logs/{number}.jsonl: 1 appended" for number in range(3)]
