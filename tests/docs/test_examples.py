"""Every Python block of the README and the docs runs; every command they show can be parsed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(#[^)]*)?\)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The page's blocks in one language, each moved down to its own line numbers."""
    text = page.read_text("utf-8")
    found = (hit for hit in BLOCK.finditer(text) if hit["language"] == language)
    return ["\n" * text.count("\n", 0, hit.start("code")) + hit["code"] for hit in found]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=named)
def test_every_python_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIGHTFUL_LEDGER", raising=False)
    namespace: dict[str, Any] = {"__name__": "__main__"}

    for code in blocks(page, "python"):
        exec(compile(code, named(page), "exec", dont_inherit=True), namespace)  # noqa: S102


def test_the_readme_shows_about_thirty_lines_of_python() -> None:
    [code] = blocks(ROOT / "README.md", "python")

    assert 25 <= len(code.strip().splitlines()) <= 45


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [hit["target"] for hit in LINK.finditer(page.read_text("utf-8"))]

    assert [target for target in targets if not (page.parent / target).exists()] == []


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    calls = (re.search(r"(?:^|\| )(?:\./run )?rightful (?P<rest>.*)", line) for line in lines)
    return [hit["rest"] for hit in calls if hit]


@pytest.mark.parametrize(
    "command", [pytest.param(line, id=f"{named(page)}:{line[:40]}") for page in PAGES for line in commands(page)]
)
def test_every_command_that_a_page_shows_can_be_parsed(command: str) -> None:
    from rightful.cli import parser

    words = shlex.split(command.partition(" > ")[0].partition(" | ")[0].partition(" < ")[0], comments=True)

    assert parser().parse_args(words).command in words


def test_the_two_commands_of_the_readme_are_known_to_the_runner() -> None:
    shown = re.findall(r"^\./run (\w+)", "".join(blocks(ROOT / "README.md", "sh")), re.MULTILINE)
    runner = (ROOT / "run").read_text("utf-8")

    assert shown == ["demo", "test"]
    assert [name for name in shown if f"\n{name})\n" not in runner] == []
