"""Other processes: each task runs in a new one, made by a fork of one that has the SDK loaded and nothing open.

It reads a task a line (JSON: a name of `tasks` and its arguments), and answers with how it ended and what it returned.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import traceback
from typing import Any, NamedTuple

from tests.faults.support import ROOT

TASKS = "tests.sidebyside.tasks"


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: Its exit code; minus the signal that ended it.
        value: What it returned; None if it was killed.
    """

    code: int
    value: Any


class Piped:
    """A process that runs a module, and is spoken with by lines.

    Args:
        module: Its name.
    """

    def __init__(self, module: str) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )

    def tell(self, line: str) -> None:
        """Write a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Read a line, and wait for it."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> int:
        """Say that no more comes, and return the code that it ends with."""
        self._process.communicate()
        return self._process.returncode


class Elsewhere:
    """A process that forks another one for each task."""

    def __init__(self) -> None:
        self._process = Piped("tests.sidebyside.elsewhere")

    def do(self, task: str, *arguments: Any) -> Ended:
        """Do a task in a process of its own, and wait for its end."""
        self._process.tell(json.dumps([task, *map(_plain, arguments)]))
        code, value = json.loads(self._process.hear())
        if code > 0:
            raise AssertionError(f"{task} failed in its process:\n{value}")
        return Ended(code, value)

    def close(self) -> None:
        """End the process."""
        self._process.end()


def _plain(one: Any) -> Any:
    return one if isinstance(one, int | str | list | None) else str(one)


def _child(task: str, arguments: list[Any], out: int) -> None:
    try:
        value = getattr(importlib.import_module(TASKS), task)(*arguments)
        os.write(out, json.dumps(value).encode())
    except BaseException:  # noqa: BLE001 - whatever it was is told to the caller
        os.write(out, json.dumps(traceback.format_exc()).encode())
        os._exit(70)
    os._exit(0)


def _serve() -> None:
    importlib.import_module(TASKS)
    logging.disable()  # what the SDK tells of each compaction that it skips would stand among what the caller prints
    for line in sys.stdin:
        task, *arguments = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _child(task, arguments, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            said = told.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps([code, json.loads(said) if said else None]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
