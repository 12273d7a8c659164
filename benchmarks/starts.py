"""Start-up: `rightful ingest` of one event as a hook runs it, the whole process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.generator import events
from benchmarks.harness import ROOT, Result, Setting, environment, in_turn, watch

import rightful

RUNS = 15
FLOOR = "import lmdb, msgspec, eventsourcing.dcb.api"


def ingest(setting: Setting) -> Iterator[Result]:
    """`rightful ingest` of one event, beside a Python that only imports what it stands on."""
    runs = 3 if setting.quick else RUNS
    path = setting.folder / "ledger"
    rightful.open(path, create=True).close()
    lines = (json.dumps(wire) for wire in events(runs + 2))
    command = program()

    def ours() -> float:
        return run([*command, "--ledger", str(path), "ingest"], next(lines))

    pairs = in_turn(ours, lambda: run([sys.executable, "-c", FLOOR], ""), runs, warm=2)
    with rightful.open(path) as ledger:
        assert ledger.log.head() == runs + 2
    against = f'python -c "{FLOOR}"'
    how = " ".join(Path(word).name for word in command)
    yield Result("ingest-one", against, "s", 1.5, 1, pairs, at_most=True, detail={"how": how})


def program() -> list[str]:
    """Return the installed command, or the module where it is not installed."""
    script = Path(sys.executable).with_name("rightful")
    return [str(script)] if script.exists() else [sys.executable, "-m", "rightful"]


def run(command: list[str], given: str) -> float:
    """Run a process to its end and return the seconds; it must succeed."""
    with watch() as taken:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
        )
    assert done.returncode == 0, done.stderr
    return taken.seconds
