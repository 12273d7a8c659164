"""A run that waits for a person, and is taken up again elsewhere."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import rightful
from rightful.events import HistoryAppended

ROOT = Path(__file__).parents[3]


def play(what: str, folder: Path, state: str = "") -> str:
    words = [sys.executable, "-m", "tests.integrations.openai_agents.approving", what, str(folder / "ledger")]
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "", "HOME": str(folder)}
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, env=env, input=state)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_paused_run_resumed_in_another_process_answers_each_call_once(tmp_path: Path) -> None:
    """openai-agents-python#4615, #4646 and #4827: no orphan call, no orphan output, nothing twice."""
    told = json.loads(play("resume", tmp_path, play("pause", tmp_path)))

    shapes = [(one.get("type", one.get("role")), one.get("call_id")) for one in told["left"]]
    assert told["answer"] == "gone"
    assert shapes[0] == ("user", None)
    assert shapes[-1] == ("message", None)
    assert sorted(shapes[1:-1]) == [
        ("function_call", "call-add"), ("function_call", "call-delete"),
        ("function_call_output", "call-add"), ("function_call_output", "call-delete"),
    ]  # fmt: skip
    assert told["sent"] == told["left"][:-1]
    with rightful.open(tmp_path / "ledger", readonly=True) as ledger:
        events = [row.event for row in ledger.read() if isinstance(row.event, HistoryAppended)]
    runs = {event.run for event in events}
    assert len(runs) == 2
    agents = [event.agent for event in events if event.items[0].get("role") != "user"]
    resumed = "Careful" if importlib.metadata.version("openai-agents") >= "0.24" else None  # not traced before 0.24
    assert agents == [*["Careful"] * (len(events) - 3), resumed, "Careful"]
    assert [(event.usage or {}).get("requests") for event in events] == [None, 1, None, 1]
