"""What every kind whose files grow must hold: importing in pieces, or dying in between, changes nothing.

def test_a_file_that_grows_byte_by_byte_is_imported_as_if_at_once(tmp_path: Path) -> None:
    same_by_prefixes(Codex(), "rollout-….jsonl", data, tmp_path)

def test_an_import_that_is_killed_anywhere_changes_nothing(tmp_path: Path) -> None:
    same_after_kills("rightful.importers.codex.rollout:Codex", "rollout-….jsonl", data, tmp_path)
"""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import amounts
from tests.importers.import_files import import_paths

from rightful import ledger as app
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind
from rightful.ledger import Ledger

ROOT = Path(__file__).parents[2]
MTIME_S = 1_785_600_000
STEPS = 200
"""More steps than a killed import of a small file takes."""
APART = amounts.either(1, 3)
"""How many steps apart the kills are."""

Rows = list[dict[str, Any]]


def rows_of(ledger: Ledger) -> Rows:
    """All rows with all that they say, but when they were recorded and what salts them."""
    return [
        {
            "position": row.position,
            "id": row.envelope.id,
            "revision": row.envelope.revision,
            "type": row.envelope.type,
            "session": row.envelope.session,
            "turn": row.envelope.turn,
            "index": row.envelope.index,
            "producer": row.envelope.producer,
            "at_us": row.envelope.at_us,
            "at_basis": row.envelope.at_basis,
            "outcome": row.envelope.outcome,
            "first": row.envelope.first,
            "escaped": row.envelope.escaped,
            "body": row.body,
        }
        for page in ledger.log.scan()
        for row in page
    ]


def import_once(ledger: Ledger, kind: Kind, path: Path, *, again: bool = False) -> FileReport:
    """Import a file as the command line does, with what was kept of it before."""
    checkpoints = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log, again=again)
    [report] = import_paths(ledger.log, [kind], [str(path)], stdin=io.BytesIO(), checkpoints=checkpoints)
    return report


def put(path: Path, data: bytes) -> None:
    """Write a file in place, with a time that does not move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()
    os.utime(path, (MTIME_S, MTIME_S))


def at_once(kind: Kind, name: str, data: bytes, folder: Path) -> tuple[Rows, FileReport]:
    """Import the whole file into a ledger of its own."""
    path = folder / "file" / name
    put(path, data)
    with app.open(folder / "whole", create=True) as ledger:
        report = import_once(ledger, kind, path)
        return rows_of(ledger), report


def in_pieces(kind: Kind, name: str, data: bytes, cuts: Iterable[int], folder: Path) -> Rows:
    """Import a file at each of its lengths into one ledger; the last is the whole file."""
    path = folder / "file" / name
    with app.open(folder / "pieces", create=True) as ledger:
        for cut in [*cuts, len(data)]:
            put(path, data[:cut])
            report = import_once(ledger, kind, path)
            assert report.conflicts == 0, report
        return rows_of(ledger)


def same_by_prefixes(kind: Kind, name: str, data: bytes, folder: Path) -> FileReport:
    """Import every byte prefix of a file in turn, and compare with importing it once.

    Returns:
        The report of the one import, so that a test can say what it expects of it.
    """
    expected, report = at_once(kind, name, data, folder)
    assert expected, "a file of which nothing is imported shows nothing"
    assert in_pieces(kind, name, data, range(len(data)), folder) == expected
    return report


def same_by_cuts(kind: Kind, name: str, data: bytes, folder: Path, *, examples: int = 30) -> FileReport:
    """As `same_by_prefixes`, for bigger files: lengths that hypothesis chooses."""
    expected, report = at_once(kind, name, data, folder)
    assert expected, "a file of which nothing is imported shows nothing"
    number = 0

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(st.integers(0, len(data)), max_size=8))
    def check(cuts: list[int]) -> None:
        nonlocal number
        number += 1
        assert in_pieces(kind, name, data, sorted(cuts), folder / str(number)) == expected

    check()
    return report


_DYING = """
import json, os, signal, sys, traceback
from pathlib import Path
from rightful import ledger as app, limits
from rightful.log.log import Log
from rightful.importers.engine import checkpoints
from tests.importers.growing import import_once, kind_of
limits.IMPORT_EVENTS, limits.IMPORT_BYTES, limits.CHECKPOINT_EVERY_BYTES = 3, 32, 1
done = 0
def step(name, owner, at):
    real = getattr(owner, name)
    def taking(*args, **more):
        global done
        for moment in (0, 1):
            done += 1
            if done == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if moment == 0:
                result = real(*args, **more)
        return result
    setattr(owner, name, taking)
def run(ledger, kind, path, at):
    step("append", Log, at)
    step("_create_private", checkpoints, at)
    step("rename", Path, at)
    with app.open(ledger) as opened:
        import_once(opened, kind_of(kind), Path(path))
for line in sys.stdin:
    if (child := os.fork()) == 0:
        try:
            run(*json.loads(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Imports in tiny transactions, in a process for each line that it is told, which dies before or after an append, a
checkpoint's making or its renaming."""


def kind_of(place: str) -> Kind:
    """Return the kind that `module:Class` names."""
    module, _, name = place.partition(":")
    kind: Kind = getattr(importlib.import_module(module), name)()
    return kind


def same_after_kills(kind: str, name: str, data: bytes, folder: Path, *, grown: Iterable[int] = ()) -> int:
    """Kill the importer at each append and each write of a checkpoint, import again, and compare.

    Args:
        kind: `module:Class` of the kind.
        name: The file's name.
        data: What it holds.
        folder: Where the ledgers go.
        grown: Lengths at which it is imported, undisturbed, before the import that is killed.

    Returns:
        The last step at which it died.
    """
    expected, _ = at_once(kind_of(kind), name, data, folder)
    path = folder / "file" / name
    with dying() as killed:
        for step in range(1, STEPS, APART):
            place = folder / f"killed-{step}"
            with app.open(place, create=True) as ledger:
                for cut in grown:
                    put(path, data[:cut])
                    import_once(ledger, kind_of(kind), path)
            put(path, data)
            code = killed(str(place), kind, str(path), step)
            with app.open(place) as ledger:
                import_once(ledger, kind_of(kind), path)
                assert rows_of(ledger) == expected, f"killed at step {step}"
            if code == 0:
                return step - APART
    raise AssertionError("it never came to its end")


@contextmanager
def dying() -> Iterator[Callable[..., int]]:
    """Start what imports and dies, once for many deaths, since starting Python takes longer than all the rest."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command, env = [sys.executable, "-c", _DYING], {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        asked, answers = server.stdin, server.stdout

        def killed(*args: object) -> int:
            asked.write(json.dumps(args) + "\n")
            asked.flush()
            code = int(answers.readline())
            assert code in {0, -signal.SIGKILL}, "an import failed; its traceback is on stderr"
            return code

        yield killed
