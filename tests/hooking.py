"""What the tests of the hook share: its input, the lesson hook's files, and calls in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import rightful
from rightful.log.rows import Recorded

ROOT = Path(__file__).parents[1]
CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
AT_S = 1_785_579_400.0
"""A time on the day of the golden trajectory log, in UTC; seconds since 1970."""


def given(event: str, **fields: Any) -> dict[str, Any]:
    """The input of a hook."""
    common = {"session_id": CC, "transcript_path": "/t.jsonl", "cwd": "/", "permission_mode": "default"}
    return common | {"hook_event_name": event} | fields


def before_tool(number: int = 1, **fields: Any) -> dict[str, Any]:
    tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": f"toolu_{number}"}
    return given("PreToolUse", **(tool | fields))


def after_tool(number: int = 1, **fields: Any) -> dict[str, Any]:
    tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": f"toolu_{number}"}
    return given("PostToolUse", **(tool | {"tool_response": {"stdout": "a\n"}} | fields))


def surroundings(folder: Path) -> dict[str, str]:
    """An environment whose home and temporary folder are below a folder."""
    for name in ("home", "temp"):
        (folder / name).mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in {"CLAUDE_PROJECT_DIR", "XDG_STATE_HOME"}}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return kept | {"HOME": str(folder / "home"), "TMPDIR": str(folder / "temp"), "PYTHONPATH": path, "TZ": "UTC"}


def command(ledger: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "rightful", "hook", "run", "claude-code", "--ledger", str(ledger), *words]


def call(
    ledger: Path, value: dict[str, Any] | bytes, *, prefix: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """One call of the hook, which prints nothing and succeeds, whatever happens."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    more.setdefault("env", surroundings(ledger.parent))
    done = subprocess.run(
        [*prefix, *command(ledger)], input=raw, capture_output=True, timeout=60, check=False, cwd="/", **more
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return done


def rows(ledger: Path) -> list[Recorded]:
    with rightful.open(ledger, readonly=True) as opened:
        return list(opened.read())


def spooled(folder: Path) -> list[Path]:
    """The files that wait, wherever below a folder."""
    whole = (path for path in folder.rglob("*") if not path.name.startswith("."))
    return sorted(path for path in whole if path.name.endswith((".events.jsonl", ".input.json")))


def id_of_call(number: int) -> str:
    """The event id of `before_tool(number)`."""
    return rightful.event_id("claude-code-hook", f'["{CC}","call","toolu_{number}"]')
