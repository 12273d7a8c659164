"""`import --watch` as a process of its own: it is told to go on by files, and to end by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app

LINE = {"ts": 1_785_578_400.0, "session_id": "s", "lessons": [{"path": "x.md"}], "tool_seq": []}


def put(path: Path, *seconds: float) -> Path:
    """Write a log of the lesson hook whole, as a tool that renames does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    half.write_text("".join(json.dumps(LINE | {"ts": LINE["ts"] + at}) + "\n" for at in seconds))  # type: ignore[operator]
    half.rename(path)
    return path


@contextmanager
def watching(ledger: Path, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "rightful", "--ledger", str(ledger), "import", "--watch", "lesson-hook"]
    process = subprocess.Popen(
        [*command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_it_imports_what_is_there_then_what_changes_until_a_signal(
    ledger: Path, here: Path, number: signal.Signals
) -> None:
    pytest.importorskip("watchfiles")
    put(here / "logs" / "a.jsonl", 0)
    with watching(ledger, here / "logs", "--json") as process:
        first = answer(process)
        put(here / "logs" / "b.jsonl", 1)
        second = answer(process)
        put(here / "logs" / "sub" / "a.jsonl", 0, 2, 3)
        third = answer(process)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)

    assert [(Path(one["path"]).name, one["appended"], one["duplicate"]) for one in (first, second, third)] == [
        ("a.jsonl", 1, 0),
        ("b.jsonl", 1, 0),
        ("a.jsonl", 2, 1),
    ]
    note = "rightful: note: watching 1 folder; Ctrl-C or SIGTERM ends it\n"
    assert (rest, errors, process.returncode) == ("", note, 0)
    with app.open(ledger, readonly=True) as opened:
        assert opened.log.head() == 4


def test_it_ends_with_the_totals_of_all_that_it_imported(ledger: Path, here: Path) -> None:
    pytest.importorskip("watchfiles")
    path = put(here / "a.jsonl", 0)
    with watching(ledger, path) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        put(path, 0, 1)
        second = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)

    assert first == f"{path}: 1 appended\n"
    assert second == f"{path}: 1 appended, 1 repeated in this import\n"
    assert rest == "1 file: 2 appended (2 exposures), 1 repeated in this import; 0 problems.\n"
    assert (errors, process.returncode) == ("rightful: note: watching 1 file; Ctrl-C or SIGTERM ends it\n", 0)


def test_missing_path_is_awaited_without_a_problem(ledger: Path, here: Path) -> None:
    pytest.importorskip("watchfiles")
    path = here / "later.jsonl"
    (here / "logs").mkdir()
    with watching(ledger, here / "logs", path) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        errors = [process.stderr.readline(), process.stderr.readline()]
        put(path, 0)
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)

    assert errors == [
        "rightful: note: watching 1 folder and 1 path that is awaited; Ctrl-C or SIGTERM ends it\n",
        f"rightful: note: {path} does not exist yet; it is imported as soon as it does\n",
    ]
    assert (first, rest) == (f"{path}: 1 appended\n", "")


def test_without_the_library_it_says_what_to_install(
    ledger: Path, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    put(here / "a.jsonl", 0)

    done = run("import", "--watch", "lesson-hook", here / "a.jsonl")

    assert (done.code, done.out) == (2, "")
    assert "pip install '/path/to/the/clone[watch]'" in done.err
    assert run("status", "--json").document["events"] == 0


def test_standard_input_cannot_be_watched(ledger: Path, run: Run) -> None:
    done = run("import", "--watch", "lesson-hook", "-")

    assert (done.code, done.err) == (
        2,
        "rightful: stdin cannot be watched; nothing was imported. Name files and folders.\n",
    )
