"""The how-to of importing transcripts, followed word for word in a home folder with every tool's files."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rightful.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "import-transcripts.md"
SAMPLES, OUTSIDE = ROOT / "tests" / "samples", ROOT / "tests" / "outside"
BLOCK = re.compile(r"^```sh\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LOG = "cc-session-20260801-1015.log"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as the page expects one, with files of other tools among those of Claude Code."""
    made = tmp_path / "home"
    for source, target in {
        "claude/projects": ".claude/projects",
        "codex/sessions": ".codex/sessions",
        "copilot/session-state": ".copilot/session-state",
        "gptme/logs": ".local/share/gptme/logs",
        "manifest": "manifests",
        "grok/grok-trajectories": "ws/state/sessions/grok-trajectories",
    }.items():
        shutil.copytree(SAMPLES / source, made / target)
    shutil.copytree(OUTSIDE / "08-grok-session-store" / "grok-sessions", made / ".grok" / "sessions")
    shutil.copy(SAMPLES / "gptme" / "receipts.jsonl", made / ".local/share/gptme")
    shutil.copy(SAMPLES / "tmp" / LOG, tmp_path)
    project = made / ".claude" / "projects" / "-home-dev-my-proj"
    for name in (
        "01-qwen-code-taken-for-claude/qwen-code.jsonl",
        "02-droid-stream-taken-for-claude/droid-stream.jsonl",
    ):
        shutil.copy(OUTSIDE / name, project)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.chdir(made / "ws")
    return tmp_path


def test_every_command_of_the_page_answers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: dict[str, str] = {}
    for line in "".join(hit["code"] for hit in BLOCK.finditer(PAGE.read_text("utf-8"))).splitlines():
        words = shlex.split(line.replace("/tmp/", f"{home}/").replace(" ~/", f" {home}/home/"))
        code = main([word for word in words[1:] if word != "--watch"])
        answers[line] = "".join(capsys.readouterr())
        assert code == 0, answers[line]

    assert (
        "droid-stream.jsonl:1: skipped: a session of Droid" in answers["rightful import claude-code ~/.claude/projects"]
    )
    gptme = answers["rightful import gptme ~/.local/share/gptme/logs"]
    assert "0 problems, 2 notes." in gptme
    assert "toml" not in gptme  # it is read with its conversation
    assert answers["rightful transcript 7fbe4341"].startswith("transcript of claude-code:7fbe4341-")
    assert "Fix the path bug" in answers["rightful transcript 7fbe4341"]
    assert answers["rightful status --sessions"].count("\n    transcript ") == 11
    assert list(answers)[-1] == "rightful status --check"
    assert "No warnings." in answers["rightful status --check"]


def test_reading_again_prints_the_notes_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = str(home / "home/.local/share/gptme/logs")
    assert (main(["init"]), main(["import", "gptme", logs])) == (0, 0)
    first = capsys.readouterr().err

    assert main(["import", "gptme", logs]) == 0
    plain = capsys.readouterr().err
    assert main(["import", "--again", "gptme", logs]) == 0

    assert first.count("the times have no UTC offset") == 2
    assert plain == "rightful: note: 2 notes on files without new events are not repeated; --json lists them.\n"
    assert capsys.readouterr().err == first
