from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.running import Place

from rightful.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, no width, and no ledger named by the one who runs the tests."""
    monkeypatch.delenv("RIGHTFUL_LEDGER", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def run(*words: str | Path) -> Done:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def ledger(here: Path, run: Run) -> Path:
    """A ledger in the working folder, which every command finds."""
    assert run("init").code == 0
    return here / ".rightful"


@pytest.fixture
def home(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of nobody else's, in which the user's settings stand, a folder for temporary files, and a Claude Code."""
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (here / "home").mkdir()
    (here / "temp").mkdir()
    (here / "home" / "claude").write_text("#!/bin/sh\necho '2.1.220 (Claude Code)'\n")
    (here / "home" / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}/home{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(here / "home"))
    monkeypatch.setenv("TMPDIR", str(here / "temp"))
    return here / "home"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home, fake agents and a ledger, for runs in processes of their own."""
    return Place(tmp_path)
