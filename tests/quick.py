"""The quick check: lint, types, and the tests of the rooms that changed; `./run check --quick`.

Changed means: other than on the branch `main`, or not committed. The tests of a room are those in the folder of `tests`
with its name. Of a room whose tests take longer than a minute, only those run that belong to the changed modules. Slow
tests are left out. Everything is run by `./run check`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = ["tests/test_house.py"]
LONG = ("cli", "integrations")
"""Rooms whose tests take more than a minute on two processors."""


def git(*words: str) -> list[str]:
    """Return the lines that git prints; none if it fails, as without a branch `main`."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed() -> list[str]:
    """Return the paths that differ from `main`, and those that are not committed."""
    base = git("merge-base", "HEAD", "main") or ["HEAD"]
    return sorted({*git("diff", "--name-only", base[0]), *git("ls-files", "--others", "--exclude-standard")})


def tests_of(paths: list[str]) -> list[str]:
    """Return the test files and folders that belong to changed paths."""
    found = set(ALWAYS)
    for path in map(Path, paths):
        if path.parts[0] == "tests" and path.name.startswith("test_"):
            found.add(str(path))
        elif path.parts[:2] == ("src", "rightful"):
            found.update(tests_of_module(path))
        elif path.parts[0] == "docs" or path.name == "README.md":
            found.add("tests/docs")
    return sorted(name for name in found if (ROOT / name).exists())


def tests_of_module(path: Path) -> list[str]:
    """Return the tests of a module's room; of a long one those that import the module or share a word with its name.

    If the room has no such file, those of other rooms that import the module; if there is none, the whole room.
    """
    folders = path.parts[2:-1]
    room = folders[0] if folders else path.stem
    whole = [f"tests/{room}", f"tests/test_{room}.py"]
    if room not in LONG:
        return whole
    name = path.stem if path.stem != "__init__" else folders[-1]
    words = {*name.strip("_").split("_"), *folders[1:]}
    package = re.escape(".".join(path.parts[1:-1]))
    imports = re.compile(rf"{package}(\.{name}\b| import .*\b{name}\b)")
    own, others = list[str](), list[str]()
    for test in ROOT.glob("tests/**/test_*.py"):
        place = test.relative_to(ROOT)
        is_import = imports.search(test.read_text("utf-8")) is not None
        if place.parts[1] != room:
            others += [str(place)] * is_import
        elif is_import or not words.isdisjoint(test.stem.split("_")):
            own.append(str(place))
    return own or others or whole


def main() -> int:
    """Run every step; return the exit code of the first that failed."""
    python = [sys.executable, "-m"]
    steps = [
        [*python, "ruff", "check", "."],
        [*python, "ruff", "format", "--check", "."],
        [*python, "mypy"],
        [*python, "pytest", "--quiet", "--numprocesses", "auto", "--dist", "worksteal", *tests_of(changed())],
    ]
    codes = []
    for step in steps:
        print("==", *step[2:], flush=True)  # noqa: T201 - a command for contributors
        codes.append(subprocess.run(step, cwd=ROOT, check=False).returncode)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
