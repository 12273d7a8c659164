"""Every Python block of the README and the docs runs, and the tutorial's commands too; every command can be parsed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rightful

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
JOBS = re.compile(r"^(?:\$ )?\./run (\w+)", re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(#[^)]*)?\)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def steps(page: Path) -> list[tuple[str, str]]:
    """The page's blocks in order: language, and code moved down to its own line numbers."""
    text = page.read_text("utf-8")
    return [
        (hit["language"], "\n" * text.count("\n", 0, hit.start("code")) + hit["code"]) for hit in BLOCK.finditer(text)
    ]


def blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in steps(page) if found == language]


TUTORIAL = ROOT / "docs" / "tutorial.md"
PYTHON_PAGES = [page for page in PAGES if page != TUTORIAL and blocks(page, "python")]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working folder, and `rightful` as a command."""
    command = tmp_path / "bin" / "rightful"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom rightful.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RIGHTFUL_LEDGER", raising=False)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return folder


def run_python(page: Path, code: str, namespace: dict[str, Any]) -> None:
    exec(compile(code, named(page), "exec", dont_inherit=True), namespace)  # noqa: S102 - our own page


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=named)
def test_every_python_block_of_a_page_runs(page: Path, elsewhere: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}

    for code in blocks(page, "python"):
        run_python(page, code, namespace)


def test_the_tutorial_runs_from_its_first_step_to_its_last(elsewhere: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}

    for language, code in steps(TUTORIAL):
        if language == "sh":
            subprocess.run(["sh", "-euc", code], check=True, cwd=elsewhere)
        elif language == "python":
            run_python(TUTORIAL, code, namespace)

    with rightful.open(elsewhere / "ledger") as ledger:
        audit = ledger.audit("historical-newest", as_of=namespace["before"])
    assert audit.foreign_grades_bounds == (1, 1)  # one number, as the tutorial says, and not a range


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [hit["target"] for hit in LINK.finditer(page.read_text("utf-8"))]

    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors that a forge gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_heading_finds_it(page: Path) -> None:
    hits = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8"))

    assert [f"{to}#{at}" for to, at in hits if at not in anchors(page.parent / to if to else page)] == []


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    calls = (re.search(r"(?:^|\| |&& )(?:\./run )?rightful (?P<rest>.*)", line) for line in lines)
    return [hit["rest"] for hit in calls if hit]


@pytest.mark.parametrize("command", sorted({line for page in PAGES for line in commands(page)}))
def test_every_command_that_a_page_shows_can_be_parsed(command: str) -> None:
    from rightful.cli import COMMANDS
    from rightful.cli.support import parsing

    words = shlex.split(command.partition(" > ")[0].partition(" | ")[0].partition(" < ")[0], comments=True)

    assert parsing.parser(COMMANDS).parse_args(words).command in words


def test_every_job_of_the_runner_that_a_page_shows_is_known_to_it() -> None:
    shown = {name for page in PAGES for name in JOBS.findall("".join(blocks(page, "sh") + blocks(page, "console")))}
    runner = (ROOT / "run").read_text("utf-8")

    assert shown >= {"demo", "test", "rightful", "setup"}
    assert [name for name in shown if f"\n{name})\n" not in runner] == []
