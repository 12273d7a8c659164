"""`import gptme-workspace`: it knows the places, reports those that are absent, and imports the others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app
from rightful.importers.gptme import gptme_workspace
from rightful.importers.gptme.gptme_workspace import places

SAMPLES = Path(__file__).parents[1] / "samples"
VARIABLES = (
    "GPTME_SESSIONS_DIR", "LESSON_DROPOUT_LOG_DIR", "GPTME_LOGS_HOME", "GPTME_LOGS_DIR", "GPTME_RECEIPTS_LEDGER",
    "PM_BANDIT_STATE_DIR", "GPTME_LESSONS_TS_STATE", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
)  # fmt: skip
ROW = {
    "session_id": "7c1d",
    "timestamp": "2026-08-01T10:00:00Z",
    "end_time": "2026-08-01T10:30:00Z",
    "trajectory_grade": 0.5,
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gptme_workspace, "_TMP", "/nowhere/tmp")


def records(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "session-records.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


def found(run: Run, *words: str | Path) -> dict[str, tuple[bool, int]]:
    """Return whether each place exists, and how many events came from it."""
    document = run("import", "gptme-workspace", *words, "--json").document
    return {
        item["path"]: (item["exists"], sum(file["appended"] for file in item["files"])) for item in document["places"]
    }


@pytest.mark.usefixtures("ledger")
def test_sample_workspace_is_imported_from_all_its_places(run: Run, here: Path, home: Path) -> None:
    shutil.copytree(SAMPLES / "ws", here / "ws")
    shutil.copytree(SAMPLES / "gptme", home / ".local/share/gptme")
    shutil.copytree(SAMPLES / "xdg", home / ".local/state")
    shutil.copytree(SAMPLES / "tmp", here / "temp", dirs_exist_ok=True)

    done = run("import", "gptme-workspace", here / "ws")
    again = run("import", "gptme-workspace", here / "ws")

    lines = [line.split() for line in done.out.splitlines()]
    assert ["session", "records", "state/sessions/session-records.jsonl", "1", "18", "0"] in lines
    assert ["conversations", f"{home}/.local/share/gptme/logs", "6", "49", "0"] in lines
    assert ["bandit", "state", "state/thompson-control", "absent"] in lines
    assert "21 files: 85 appended (14 exposures, 7 grades," in done.out
    assert "state/sessions/session-records.jsonl:5: problem: Expected JSON" in done.err
    assert (done.code, again.code) == (2, 2)  # the samples hold broken lines
    problems = [[line for line in shown.err.splitlines() if ": problem: " in line] for shown in (done, again)]
    assert problems[0] == problems[1]
    assert "0 appended" not in again.out
    assert "21 files: 39 already in the ledger; 6 problems" in again.out


@pytest.mark.usefixtures("ledger")
def test_broken_line_of_a_conversation_gives_the_same_exit_code_again(run: Run, here: Path, home: Path) -> None:
    shutil.copytree(SAMPLES / "gptme", home / ".local/share/gptme")
    path = next((home / ".local/share/gptme/logs").glob("*/conversation.jsonl"))
    path.write_bytes(path.read_bytes().rstrip(b"\n") + b"\nbroken\n")
    (here / "ws").mkdir()

    first, again = (run("import", "gptme-workspace", here / "ws") for _ in range(2))

    assert (first.code, again.code) == (2, 2)
    assert ": problem: Expected JSON" in first.err
    assert f"{path}: problem: 1 problem in the part that an earlier import read; `--again` " in again.err


@pytest.mark.usefixtures("ledger", "home")
def test_absent_places_are_reported_and_are_not_a_problem(run: Run, here: Path) -> None:
    records(here / "state" / "sessions")

    done = run("import", "gptme-workspace")

    assert done.code == 0
    assert "1 file: 3 appended (1 grade, 1 start, 1 end); 0 problems." in " ".join(done.out.split())
    absent = [line.split()[-2] for line in done.out.splitlines() if line.rstrip().endswith("absent")]
    assert "state/lesson-trajectories" in absent
    assert "home/.local/share/gptme-sessions/session-records.jsonl" in absent
    assert "temp/claude-lesson-match" in absent
    assert done.err == ""


@pytest.mark.usefixtures("ledger", "home")
def test_folder_without_anything_of_gptme_is_a_check_that_fails(run: Run, here: Path) -> None:
    (here / "empty").mkdir()

    done = run("import", "gptme-workspace", "empty")

    assert done.code == 1
    assert f"nothing of gptme was found for {here / 'empty'}." in done.err


@pytest.mark.usefixtures("ledger", "home")
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["gptme-workspace", "nowhere"], "nowhere is not a folder"),
        (["gptme-workspace", "a", "b"], "gptme-workspace takes one DIR, and 2 were given"),
        (["session-records"], "`import session-records` needs a PATH"),
    ],
)
def test_wrong_use_is_refused(run: Run, words: list[str], what: str) -> None:
    done = run("import", *words)

    assert (done.code, what in done.err) == (2, True)


@pytest.mark.usefixtures("ledger")
def test_records_of_the_machine_are_found_with_those_of_the_workspace(run: Run, here: Path, home: Path) -> None:
    mine, shared = records(here / "state/sessions"), records(home / ".local/share/gptme-sessions")

    places_found = found(run, here)

    assert places_found[str(mine)] == (True, 3)
    assert places_found[str(shared)] == (True, 0)  # the same rows


@pytest.mark.usefixtures("ledger", "home")
def test_folder_of_state_files_has_their_lessons_and_lesson_events(run: Run, here: Path) -> None:
    temp = here / "temp"
    (temp / "claude-lesson-match").mkdir()
    (temp / "claude-lesson-match" / "s1.json").write_text('{"injected": ["/lessons/a.md"], "last_pretool": 0}')
    event = {"lesson_file": "/lessons/b.md", "timestamp_inject": "2026-08-01T10:00:00Z"}
    (temp / "cc-session-s2-lessons.jsonl").write_text(json.dumps(event) + "\n")

    found(run, here)

    with app.open(here / ".rightful") as ledger:
        assert {row.session for row in ledger.read()} == {"claude-code:s1", "claude-code:s2"}


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("GPTME_SESSIONS_DIR", "state/other", "/ws/state/other/session-records.jsonl"),
        ("GPTME_SESSIONS_DIR", "/srv/records", "/srv/records/session-records.jsonl"),
        ("LESSON_DROPOUT_LOG_DIR", "/srv/dropout", "/srv/dropout"),
        ("GPTME_LOGS_HOME", "/srv/logs", "/srv/logs"),
        ("GPTME_LOGS_DIR", "/srv/logs", "/srv/logs"),
        ("GPTME_RECEIPTS_LEDGER", "/srv/r.jsonl", "/srv/r.jsonl"),
        ("PM_BANDIT_STATE_DIR", "/srv/pm", "/srv/pm"),
        ("GPTME_LESSONS_TS_STATE", "/srv/b.json", "/srv/b.json"),
        ("XDG_DATA_HOME", "/srv/data", "/srv/data/gptme/logs"),
        ("XDG_DATA_HOME", "/srv/data", "/srv/data/gptme-sessions/session-records.jsonl"),
        ("XDG_STATE_HOME", "/srv/state", "/srv/state/gptme/lessons/bandit-state.json"),
        ("TMPDIR", "/srv/tmp", "/srv/tmp/claude-lesson-match"),
    ],
)
def test_variables_of_the_tools_say_where_a_place_is(variable: str, value: str, path: str) -> None:
    every = [place.path for place in places(Path("/ws"), {variable: value}, Path("/home/me"))]

    assert path in every
    assert path not in [place.path for place in places(Path("/ws"), {}, Path("/home/me"))]
    assert len(every) == len({os.path.realpath(one) for one in every})
