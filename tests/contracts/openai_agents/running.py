"""One run of the suites, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.contracts.openai_agents.comparing import Outcome
from tests.contracts.openai_agents.suites import HERE, SuiteError

_TIMEOUT_S = 120  # of one test; the slowest takes seconds
_RAN = (0, 1)  # pytest's exit codes for "all passed" and "some failed"; the others mean that it did not run


def run(
    python: Path, tests: Path, files: Sequence[str], *, ours: bool, scratch: Path, workers: int
) -> dict[str, Outcome]:
    """Run the suites with the SDK's own stores or with ours, and return the outcome of each test.

    Raises:
        SuiteError: pytest itself failed.
    """
    outcomes = scratch / ("ours.json" if ours else "base.json")
    plugins = ["rightful_outcomes", *(["rightful_substitute"] if ours else [])]
    command = [str(python), "-m", "pytest", "-q", "--tb=no", "--no-header", f"--timeout={_TIMEOUT_S}"]
    command += ["-p", "no:cacheprovider", *(word for plugin in plugins for word in ("-p", plugin))]
    command += ["-n", str(workers), "--continue-on-collection-errors", *files]
    done = subprocess.run(command, cwd=tests, env=_environment(outcomes, scratch), stdout=subprocess.PIPE, check=False)
    if done.returncode not in _RAN or not outcomes.exists():
        sys.stderr.buffer.write(done.stdout)
        raise SuiteError(f"pytest ended with {done.returncode}; what it said stands above. Nothing was compared.")
    found = json.loads(outcomes.read_text("utf-8"))
    return {test: (outcome, said) for test, (outcome, said) in found.items()}


def _environment(outcomes: Path, scratch: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    return kept | {
        "PYTHONPATH": os.pathsep.join((".", str(HERE / "plugins"))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RIGHTFUL_OUTCOMES": str(outcomes),
        "RIGHTFUL_SCRATCH": str(scratch),
    }
