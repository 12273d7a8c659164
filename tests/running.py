"""What the tests of `rightful run` share: a place with fake agents, and runs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import rightful
from rightful.log.rows import Recorded

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "tests" / "fake_agent.py"
TOOLS = ("claude", "codex", "copilot", "gptme", "none")


class Ran(NamedTuple):
    code: int
    out: str
    err: str
    report: dict[str, Any]


class Place:
    """A home, a folder for temporary files, a program for each tool, and a ledger.

    Args:
        root: An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = root / "ledger"
        self.project = root / "project"
        self.reports = 0
        for name in ("home", "temp", "bin", "project"):
            (root / name).mkdir()
        for tool in TOOLS:
            program = root / "bin" / tool
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{AGENT}" {tool} "$@"\n')
            program.chmod(0o755)
        rightful.open(self.ledger, create=True).close()

    def env(self, **more: str) -> dict[str, str]:
        lost = ("RIGHTFUL_", "GIT_", "CLAUDE_", "CODEX_", "GPTME_", "XDG_", "FAKE_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(lost)}
        made = {
            "HOME": str(self.root / "home"), "TMPDIR": str(self.root / "temp"), "PYTHONPATH": str(ROOT / "src"),
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}", "RIGHTFUL_LEDGER": str(self.ledger),
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        return kept | made | more

    def words(self, *words: str | Path) -> list[str]:
        return [sys.executable, "-m", "rightful", "run", *map(str, words)]

    def start(self, *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, **more: Any) -> Any:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
        return subprocess.Popen(self.words(*words), cwd=cwd or self.project, env=env or self.env(), **streams)

    def run(self, *words: str | Path, cwd: Path | None = None, **more: str) -> Ran:
        """Run a command to its end; words before `--` are options."""
        self.reports += 1
        report = self.root / f"report-{self.reports}"
        process = self.start("--report", report, *words, cwd=cwd, env=self.env(**more))
        out, err = process.communicate(timeout=120)
        told = json.loads(report.read_text()) if report.exists() else {}
        return Ran(process.returncode, out, err, told)

    def rows(self, *types: str) -> list[Recorded]:
        with rightful.open(self.ledger, readonly=True) as ledger:
            return list(ledger.read(types=types or None))

    def events(self, *types: str, session: str | None = None) -> list[Any]:
        return [row.event for row in self.rows(*types) if session in {None, row.session}]

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.project, env=self.env(), check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def repository(self) -> None:
        """Make the project a repository with one commit."""
        self.git("init", "-q", "-b", "main")
        (self.project / "a.txt").write_text("one\n")
        self.git("add", "a.txt")
        self.git("commit", "-q", "-m", "first")


def told(path: Path) -> dict[str, Any]:
    """What a fake agent told of itself."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def meeting(place: Place, *words: str, count: int, **more: str) -> list[dict[str, Any]]:
    """Reports of runs that are all there at once: none goes on before all have begun."""
    gate = place.root / "gate"
    os.mkfifo(gate)
    script = 'echo here; read _ < "$GATE"; exec "$@"'
    reports = [place.root / f"met-{number}" for number in range(count)]
    env = place.env(GATE=str(gate), **more)
    before, command = words[: words.index("--")], words[words.index("--") + 1 :]
    started = [
        place.start("--report", report, *before, "--", "sh", "-c", script, "sh", *command, env=env)
        for report in reports
    ]
    here = [process.stdout.readline() for process in started]
    if here != ["here\n"] * count:
        for process in started:
            process.kill()  # and with it its command
        raise AssertionError([process.communicate()[1] for process in started])
    writers = [os.open(gate, os.O_RDWR)]  # each reader takes one line
    os.write(writers[0], b"\n" * count)
    codes = [process.wait(timeout=120) for process in started]
    errors = [process.communicate()[1] for process in started]
    os.close(writers[0])
    assert codes == [0] * count, errors
    return [json.loads(report.read_text()) | {"err": err} for report, err in zip(reports, errors, strict=True)]
