"""The README: its first minute works, its two commands are there, its picture can be read by all."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from rightful.cli import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"
TEXT = (ROOT / "README.md").read_text("utf-8")
MINUTE = TEXT.partition("## In one minute\n")[2].partition("\n## ")[0]
SVG = "{http://www.w3.org/2000/svg}"


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with sessions of Claude Code and Codex, and the working folder."""
    shutil.copytree(SAMPLES / "claude" / "projects", tmp_path / ".claude" / "projects")
    shutil.copytree(SAMPLES / "codex" / "sessions", tmp_path / ".codex" / "sessions")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    [(name, value)] = re.findall(r"^export (\w+)=~/(\S+)", MINUTE, re.MULTILINE)
    monkeypatch.setenv(name, str(tmp_path / value))
    return tmp_path


def commands(text: str) -> Iterator[list[str]]:
    for line in "".join(blocks("sh", text)).splitlines():
        if line.startswith("rightful "):
            yield shlex.split(line, comments=True)[1:]


def test_every_command_of_the_first_minute_answers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: dict[str, str] = {}
    for command in commands(MINUTE):
        code = main([f"{home}{word[1:]}" if word.startswith("~/") else word for word in command])
        answers[" ".join(command)] = capsys.readouterr().out
        assert code == 0, command

    assert "claude-code:7fbe4341-" in answers["status --sessions"]
    assert "codex:019fbcd1-" in answers["status --sessions"]
    assert "Fix the path bug" in answers["transcript 7fbe4341"]
    assert "history of claude-code:7fbe4341-" in answers["history 7fbe4341"]
    assert (home / ".claude" / "settings.json").is_file()
    assert answers.keys() >= {"hook install claude-code", "hook status claude-code"}


def test_the_readme_shows_demo_and_test_in_one_block() -> None:
    jobs = [re.findall(r"^\./run (\w+)", code, re.MULTILINE) for code in blocks("sh")]

    assert jobs.count(["demo", "test"]) == 1


def test_the_readme_opens_with_the_first_minute_and_then_attribution() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE)[:3] == [
        "In one minute", "Which session earned the grade", "Two commands",
    ]  # fmt: skip


def test_the_readme_shows_about_thirty_lines_of_python() -> None:
    session, attribution = (len(code.strip().splitlines()) for code in blocks("python"))

    assert session <= 20
    assert 25 <= attribution <= 45


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_stands_alone_and_has_a_title_and_a_description(path: Path) -> None:
    text = path.read_text("utf-8")
    picture = ET.fromstring(text)  # noqa: S314 - our own file
    titles = {child.get("id") for child in picture if child.tag in {f"{SVG}title", f"{SVG}desc"} and child.text}

    assert picture.tag == f"{SVG}svg"
    assert set((picture.get("aria-labelledby") or "").split()) == titles
    assert len(titles) == 2
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:href|src|url)\W+(?!#)\w*:", text) == []  # loads nothing from elsewhere
    assert f"docs/pictures/{path.name}" in TEXT
