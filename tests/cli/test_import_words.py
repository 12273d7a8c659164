"""What an import says to people: each file, then its notes, then its problems, and one last line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_import import write


def test_problems_have_their_own_label_and_follow_the_notes_of_their_file(ledger: Path, run: Run, here: Path) -> None:
    path = write(here / "a.jsonl", {"session_id": 5, "harness": "x"}, {"session_id": "g1", "trajectory_grade": 0.5})

    done = run("import", "session-records", path)

    assert [line.split(": ")[:3] for line in done.err.splitlines()] == [
        ["rightful", f"{path}:2", "note"],
        ["rightful", f"{path}:1", "problem"],
        [
            "rightful",
            "A line with a problem was not imported; the rest of its file was. Repair the file and import it again.",
        ],
    ]
    document = run("import", "session-records", path, "--json").document
    assert [(one["line"], one["what"][:8]) for one in document[0]["problems"]] == [(1, "Expected"), (2, "note: th")]


def test_each_file_precedes_its_problems_and_nothing_follows_the_last_line(ledger: Path, here: Path) -> None:
    for name in "ab":
        write(here / f"{name}.jsonl", {"session_id": 5, "harness": "x"}, {"session_id": name, "trajectory_grade": 0.5})
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "import", "session-records", "a.jsonl", "b.jsonl"],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: one for name, one in os.environ.items() if name != "PYTHONUNBUFFERED"}
        | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert [line.removeprefix("rightful: ").split(": ")[:2] for line in done.stdout.splitlines()] == [
        ["a.jsonl", "2 appended"],
        ["a.jsonl:2", "note"],
        ["a.jsonl:1", "problem"],
        ["b.jsonl", "2 appended"],
        ["b.jsonl:2", "note"],
        ["b.jsonl:1", "problem"],
        ["A line with a problem was not imported; the rest of its file was. Repair the file and import it again."],
        ["2 files", "4 appended (2 grades, 2 starts); 2 problems, 2 notes."],
    ]
