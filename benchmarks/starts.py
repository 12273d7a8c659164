"""Start-up: `rightful ingest` of one event, and one call of the installed hook; the whole process each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

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


OTHERS, OWN, LONG, SHOWN = 2_000, 40, 1_000, 20
"""Lines of other sessions, of this one and of a long one in a day's trajectory log; lessons that it was shown."""

SESSION = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"


def hook(setting: Setting) -> Iterator[Result]:
    """One call of the hook: before and after a tool, at a prompt, and when a lesson was just shown."""
    runs = 3 if setting.quick else RUNS
    for own, calls in (
        (OWN, (("before-tool", "PreToolUse"), ("after-tool", "PostToolUse"), ("prompt", "UserPromptSubmit"))),
        (OWN, (("lesson", "PreToolUse"),)),
        (LONG, (("long-session", "PreToolUse"),)),
    ):
        folder = setting.folder / calls[0][0]
        path, left = folder / "ledger", Left(folder, own)
        rightful.open(path, create=True).close()
        environ = {"TMPDIR": str(left.temp), "HOME": str(folder), "CLAUDE_PROJECT_DIR": str(left.workspace)}
        command = [*program(), "hook", "run", "claude-code", "--ledger", str(path)]
        lesson = len(calls) == 1
        numbers = count()
        for name, event in calls:
            pairs = in_turn(
                partial(_call, command, environ, left, event, numbers, lesson=lesson),
                lambda: run([sys.executable, "-c", FLOOR], ""),
                runs,
                warm=2,
            )
            detail = {"how": " ".join(Path(word).name for word in command[:-2])}
            yield Result(f"hook-{name}", f'python -c "{FLOOR}"', "s", 1.5, 1, pairs, at_most=True, detail=detail)
        with rightful.open(path) as ledger:
            kinds = [type(row.event).__name__ for row in ledger.read()]
        events = [event for _, event in calls]
        assert kinds.count("ToolCallSnapshotted") == events.count("PreToolUse") * (runs + 2)
        assert kinds.count("ToolResultSnapshotted") == events.count("PostToolUse") * (runs + 2)
        assert kinds.count("ExposureRecorded") == own + SHOWN + 2 * (runs + 2) * lesson


def _call(
    command: list[str], environ: dict[str, str], left: Left, event: str, numbers: Iterator[int], *, lesson: bool
) -> float:
    """Call the hook after the lesson hook wrote a line of another session, and of this one if a lesson is shown."""
    number = next(numbers)
    left.line("other", number)
    if lesson:
        left.show(number)
    given = {
        "session_id": SESSION, "transcript_path": "/t.jsonl", "cwd": str(left.workspace), "hook_event_name": event,
        "tool_name": "Bash", "tool_input": {"command": "ls -la", "description": "List files"},
        "tool_use_id": f"toolu_{number}", "tool_response": {"stdout": "x" * 2_000, "stderr": ""},
    }  # fmt: skip
    return run(command, json.dumps(given), environ)


class Left:
    """What the lesson hook left on a busy day: a state file, and a log that many sessions write.

    Args:
        folder: Where to leave it.
        own: How many lines of this session stand in the log.
    """

    def __init__(self, folder: Path, own: int) -> None:
        self.temp, self.workspace = folder / "temp", folder / "workspace"
        (self.temp / "claude-lesson-match").mkdir(parents=True)
        self._log = self.workspace / "state" / "lesson-trajectories" / time.strftime("%Y-%m-%d.jsonl")
        self._log.parent.mkdir(parents=True)
        self._shown: list[str] = []
        for number in range(OTHERS):
            self.line(f"other-{number % 50}", number)
            if number % (OTHERS // own) == 0:
                self.line(SESSION, number)
        for number in range(SHOWN):
            self._state(number)

    def line(self, session: str, number: int) -> None:
        """Write what the hook logs of one match."""
        lesson = {"path": f"/w/lessons/{number}.md", "title": "Quote Paths", "score": 2.0, "matched_by": ["quote"]}
        tools = ["Read", "Bash", "Edit", "Bash", "Grep", "Read", "Bash", "Edit", "Bash", "Read"]
        line: dict[str, Any] = {"ts": 1_785_579_301.5 + number, "session_id": session, "event": "PreToolUse"}
        line |= {"current_tool": "Bash", "tool_seq": tools, "tool_count": number, "lessons": [lesson]}
        with self._log.open("a") as log:
            log.write(json.dumps(line) + "\n")

    def show(self, number: int) -> None:
        """Write what the hook writes when it shows this session a lesson."""
        self.line(SESSION, OTHERS + number)
        self._state(SHOWN + number)

    def _state(self, number: int) -> None:
        self._shown.append(f"/w/lessons/{number}.md")
        state = {"injected": self._shown, "last_pretool": 1_785_579_301.5 + number}
        (self.temp / "claude-lesson-match" / f"{SESSION}.json").write_text(json.dumps(state))


def program() -> list[str]:
    """Return the installed command, or the module where it is not installed."""
    script = Path(sys.executable).with_name("rightful")
    return [str(script)] if script.exists() else [sys.executable, "-m", "rightful"]


def run(command: list[str], given: str, environ: dict[str, str] | None = None) -> float:
    """Run a process to its end and return the seconds; it must succeed."""
    around = environment() | (environ or {})
    with watch() as taken:
        done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT, env=around, check=False)
    assert done.returncode == 0, done.stderr
    return taken.seconds
