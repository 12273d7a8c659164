"""How far an import is: bytes over all files, for who watches a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rightful.cli.support.import_progress import Quiet, Sizes, progress, sizes_of


def test_bytes_add_up_over_all_files_whether_they_are_read_or_skipped() -> None:
    sizes = Sizes({"a": 100, "b": 50, "c": 30})
    seen = []
    sizes.step("a", 40, 100)
    seen.append(sizes.read)
    sizes.step("a", 90, 100)
    seen.append(sizes.read)
    sizes.done("a")
    seen.append(sizes.read)
    sizes.done("b")
    seen.append(sizes.read)
    sizes.step("c", 30, 30)
    sizes.done("c")

    assert (seen, sizes.read, sizes.total) == ([40, 90, 100, 150], 180, 180)


def test_what_grew_or_was_found_on_the_way_is_added() -> None:
    sizes = Sizes({"a": 100})
    sizes.step("a", 120, 100)
    sizes.done("a")
    sizes.step("b", 5, 10)

    assert (sizes.read, sizes.total) == (125, 130)


def test_the_sizes_are_those_of_the_files_that_an_import_looks_at(tmp_path: Path) -> None:
    for name, size in (("in/a.jsonl", 3), ("in/b/c.json", 5), ("in/notes.md", 7), ("named.log", 11)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)

    found = sizes_of([str(tmp_path / "in"), str(tmp_path / "named.log"), str(tmp_path / "gone"), "-", "a\0b"])

    assert {Path(path).name: size for path, size in found.items()} == {"a.jsonl": 3, "c.json": 5, "named.log": 11}


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(["gone"]) as told:
        told.step("a", 1, 2)
        told.done("a")

    assert isinstance(told, Quiet)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_file_and_the_bytes_of_all_files(ledger: Path, here: Path) -> None:
    line = '{"ts":5.0,"session_id":"s%d","lessons":[{"path":"x.md"}],"tool_seq":[]}\n'
    for name in ("a.jsonl", "b.jsonl"):
        (here / name).write_text("".join(line % at for at in range(100)))
    terminal, own = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "rightful", "import", "lesson-hook", str(here / "a.jsonl"), str(here / "b.jsonl")],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=own,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(own)
    shown = os.read(terminal, 1 << 20).decode()
    os.close(terminal)

    assert f"{here}/b.jsonl" in shown
    assert "14.4/14.4 kB" in shown
