"""The pages for contributors name files and constants that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rightful"
EXPLANATION = ROOT / "docs" / "explanation"
PAGES = [
    ROOT / "CONTRIBUTING.md",
    EXPLANATION / "append.md",
    EXPLANATION / "architecture.md",
    EXPLANATION / "map.md",
    ROOT / "docs" / "reference" / "code-names.md",
]
PYTHON = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
SOURCE = "\n".join(path.read_text("utf-8") for path in [*PYTHON, ROOT / "run"])


def quoted(page: Path) -> list[str]:
    """Return what a page has in backquotes, outside of its code blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def exists(path: str) -> bool:
    """Return whether a path, or a module's name alone, is one of the repository."""
    places = (ROOT, PACKAGE, ROOT / "tests" / "faults")
    return any((place / path).exists() for place in places) or any(PACKAGE.rglob(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_path_in_a_page_for_contributors_exists(page: Path) -> None:
    paths = [name for name in quoted(page) if re.fullmatch(r"[\w./-]+(\.py|/)", name) and "<" not in name]

    assert paths
    assert [path for path in paths if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_constant_in_a_page_for_contributors_exists(page: Path) -> None:
    names = [name for name in quoted(page) if re.fullmatch(r"[A-Z][A-Z_]{3,}", name)]

    assert [name for name in names if not re.search(rf"\b{name}\b", SOURCE)] == []


def test_each_room_has_its_place_in_the_architecture() -> None:
    rooms = {
        path.name + "/" * path.is_dir()
        for path in PACKAGE.iterdir()
        if not path.name.startswith("__") and (path / "__init__.py" if path.is_dir() else path).suffix == ".py"
    }

    assert rooms - set(quoted(EXPLANATION / "architecture.md")) - {"py.typed"} == set()


def test_each_code_name_that_is_an_identifier_is_in_its_module() -> None:
    page = (ROOT / "docs" / "reference" / "code-names.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| `([\w/]+\.py)` \|", page, re.MULTILINE)

    assert len(rows) > 40
    lost = [
        (name, module)
        for cell, module in rows
        for name in re.findall(r"`(\w+)`", cell)
        if not re.search(rf"\bclass {name}\b", (PACKAGE / module).read_text("utf-8"))
    ]
    assert lost == []
