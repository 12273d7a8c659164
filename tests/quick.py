"""The quick check: lint, types, and the tests of the rooms that changed; `./run check --quick`.

Changed means: other than on the branch `main`, or not committed. The tests of a room are those in the folder of `tests`
with its name; slow ones are left out. Everything is run by `./run check`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = ["tests/test_house.py"]


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
            room = path.parts[2].removesuffix(".py")
            found |= {str(place) for place in (Path("tests", room), Path("tests", f"test_{room}.py"))}
        elif path.parts[0] == "docs" or path.name == "README.md":
            found.add("tests/docs")
    return sorted(name for name in found if (ROOT / name).exists())


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
