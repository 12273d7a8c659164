"""The house rules that a machine can judge, run as tests."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rightful"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON = sorted(path for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py"))
TEXTS = [*PYTHON, *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "run", ".ci/run"))]

MODULE_LINES = 600
FOLDER_MODULES = 12  # more is a sign of a missing subfolder
ONE_FILE_A_COMMAND = PACKAGE / "cli" / "commands"  # named as the command is called, so that it is found
CIRCLES = 0  # of imports; may only fall
FUNCTION_LINES = 45  # without its docstring; ruff counts statements and branches
PUBLIC_NAMES = 25
HEAVY = ("numpy", "rich", "structlog")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pins}


def body_lines(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {named(path): len(path.read_text("utf-8").splitlines()) for path in PYTHON}

    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_folder_holds_more_modules_than_a_reader_can_scan() -> None:
    folders = Counter(path.parent for path in SOURCES if path.name != "__init__.py")

    large = {named(folder): count for folder, count in folders.items() if count > FOLDER_MODULES}
    assert large.keys() <= {named(ONE_FILE_A_COMMAND)}
    assert not any(folder.is_relative_to(ONE_FILE_A_COMMAND) and folder != ONE_FILE_A_COMMAND for folder in folders)


def test_every_module_name_is_used_once() -> None:
    """Old import paths repeat names of the new ones, for one version."""
    old = [PACKAGE / "producers", PACKAGE / "recorders"]
    names = Counter(
        path.stem for path in SOURCES if path.stem != "__init__" and not any(path.is_relative_to(room) for room in old)
    )

    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(FIX" + r"ME|TO" + r"DO|XX" + r"X)\b")

    assert [named(path) for path in TEXTS if later.search(path.read_text("utf-8"))] == []


def public(nodes: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for node in nodes:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def is_overload(definition: Function | ast.ClassDef) -> bool:
    return any("overload" in ast.unparse(mark) for mark in definition.decorator_list)


def broken_rules(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each rule that a module breaks, with the place."""
    tree = tree_of(path)
    if not ast.get_docstring(tree):
        yield "module without docstring", named(path)
    for definition in public(tree.body):
        if not ast.get_docstring(definition) and not any(
            "overload" in ast.unparse(mark) for mark in definition.decorator_list
        ):
            yield "public name without docstring", f"{named(path)}:{definition.name}"
    for node in ast.walk(tree):
        if isinstance(node, Function) and body_lines(node) > FUNCTION_LINES:
            yield "long function", f"{named(path)}:{node.name}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield "print", f"{named(path)}:{node.lineno}"


@cache
def broken() -> dict[str, list[str]]:
    """Return the places by broken rule; the modules are parsed once for all rules."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for rule, place in broken_rules(path):
            places.setdefault(rule, []).append(place)
    return places


def test_no_function_is_longer_than_a_screen() -> None:
    assert broken().get("long function", []) == []


def test_every_module_and_public_name_has_a_docstring() -> None:
    assert broken().get("module without docstring", []) == []
    assert broken().get("public name without docstring", []) == []


def test_only_the_command_line_prints() -> None:
    prints = broken().get("print", [])

    assert prints != []
    assert [place for place in prints if not place.startswith("src/rightful/cli/")] == []


def limits() -> dict[str, str]:
    """Return each limit with the docstring that follows it."""
    body = tree_of(PACKAGE / "limits.py").body
    found = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found[ast.unparse(target)] = str(after.value.value) if documented else ""  # type: ignore[union-attr]
    return found


def test_every_limit_gives_its_unit_and_its_reason() -> None:
    assert len(limits()) > 15
    assert [name for name, text in limits().items() if len(text.split()) <= 3] == []


def test_every_limit_is_tested() -> None:
    here = Path(__file__).resolve()
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path.resolve() != here]
    tested = {word for path in tests for word in re.findall(r"\b[A-Z][A-Z_0-9]+\b", path.read_text("utf-8"))}

    assert [name for name in limits() if name not in tested] == []


def test_the_public_names_are_few_and_all_there() -> None:
    package = importlib.import_module("rightful")

    assert 0 < len(package.__all__) <= PUBLIC_NAMES
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) <= set(dir(package))


def test_rooms_import_only_what_stands_below_them() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    done = subprocess.run(
        [*command, "--no-logo", "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def upstream(graph: dict[str, set[str]], module: str) -> set[str]:
    """Return all that a module imports, directly or not."""
    found, queue = set[str](), [module]
    while queue:
        new = graph[queue.pop()] - found
        found |= new
        queue += new
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type annotations count, and imports inside functions."""
    imports = grimp.build_graph("rightful", cache_dir=None)
    graph = {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}
    reach = {module: upstream(graph, module) for module in graph}
    circles = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}

    assert len(circles - {frozenset()}) <= CIRCLES, circles


INGEST = """
import sys
from rightful.cli import main
assert main(["--ledger", sys.argv[1], "init"]) == 0
assert main(["--ledger", sys.argv[1], "ingest", sys.argv[2], "--json"]) == 0
print(sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def test_a_hook_that_ingests_pays_for_nothing_that_only_people_need(tmp_path: Path) -> None:
    line = (
        '{"type":"exposure.recorded","producer":"hook","key":"1","session":"t:a",'
        '"at":"2026-08-01T10:15:00Z","arms":[{"arm":"lessons/git.md"}]}'
    )
    (tmp_path / "events.jsonl").write_text(line + "\n")
    done = subprocess.run(
        [sys.executable, "-c", INGEST, str(tmp_path / "ledger"), str(tmp_path / "events.jsonl")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    imported = ast.literal_eval(done.stderr.splitlines()[-1])
    assert {"lmdb", "msgspec"} <= set(imported)
    assert [name for name in HEAVY if name in imported] == []


def test_the_constraints_pin_versions_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()

    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = chain(project["build-system"]["requires"], project["project"]["dependencies"], *extras)

    names = {re.split(r"[\[<>=~!; ]", one)[0].lower().replace("_", "-") for one in wanted}
    assert names - set(constraints()) == set()


def test_every_lint_that_is_off_gives_its_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
    rules = [line for line in lines if re.match(r'\s+"[A-Z]+[0-9]*",', line)]

    assert len(rules) > 10
    assert [line for line in rules if not re.search(r"# \w+", line)] == []


def test_every_exception_to_a_lint_in_the_code_gives_its_reason() -> None:
    silent = re.compile(r"# noqa: [A-Z0-9, ]+$|# noqa$")
    found = [
        f"{named(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if silent.search(line)
    ]

    assert found == []


def test_the_licence_is_whole_and_the_notice_names_what_is_used() -> None:
    licence = (ROOT / "LICENSE").read_text("utf-8")
    notice = (ROOT / "NOTICE").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    used = [re.split(r"[\[<>=]", one)[0] for one in project["dependencies"]]
    assert [name for name in used if name not in notice] == []
