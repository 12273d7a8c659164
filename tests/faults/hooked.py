"""A call of the hook in a process that does something to itself at a chosen step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.hooking import surroundings

DYING = """
import os, signal, sys
step = int(sys.argv.pop(1))
count = 0
def dying(name):
    real = getattr(os, name)
    def call(*args, **more):
        global count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    setattr(os, name, call)
for name in ("open", "write", "fsync", "rename", "unlink", "mkdir", "chmod", "fchmod", "close"):
    dying(name)
from rightful.cli import main
sys.argv[0] = "rightful"
main()
"""
"""Dies before the step-th call that changes a file, or opens or closes one; LMDB's own calls are not seen."""

INTERFERING = """
import os, signal, sys, time
from rightful import limits
from rightful.cli import main
exec(sys.argv.pop(1))
sys.argv[0] = "rightful"
main()
"""
"""Runs a script first, which changes what a later step does."""


def run(program: str, first: object, ledger: Path, value: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    """Call the hook by one of the programs; nothing is printed, however it ends."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(first), "hook", "run", "claude-code", "--ledger", str(ledger)],
        input=json.dumps(value).encode(), capture_output=True, check=False, timeout=60, cwd="/",
        env=surroundings(ledger.parent),
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"", b"")
    return done
