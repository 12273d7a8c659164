"""The turn recorder and processes: exits, forks and kills."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.importers.recording import completeness, events, turn

from rightful import limits
from rightful.errors import ForkedError
from rightful.ledger import Ledger
from rightful.projections.facts.completeness import Hole
from rightful.recording.outbox import Outbox, drain

ROOT = Path(__file__).parents[2]


def run(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"PYTHONPATH": path}
    )


def test_program_that_ends_without_closing_leaves_its_events_and_open_turn(ledger: Ledger) -> None:
    script = """
import sys, rightful
ledger = rightful.open(sys.argv[1])
turn = ledger.producer("my-runner").turn("runner:7f3a", "1")
for at in range(500):
    turn.message("user", str(at))
"""
    done = run(script, ledger.path)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(events(ledger)) == 500
    assert completeness(ledger).holes == (Hole("1", "open"),)


def test_program_that_ends_while_writes_fail_reports_the_loss(ledger: Ledger) -> None:
    script = """
import sys, rightful
ledger = rightful.open(sys.argv[1])
turn = ledger.producer("my-runner").turn("runner:7f3a", "1")
turn.message("user", "kept")
turn.flush()
ledger.close()
turn.message("user", "lost")
"""
    done = run(script, ledger.path)

    assert "RuntimeWarning: 1 event(s) were not written: This handle on" in done.stderr
    assert [one.content for one in events(ledger)] == ["kept"]


def test_the_child_of_a_fork_can_not_use_the_turn_and_the_parent_goes_on(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.message("user", "parent")
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            code = 1
            try:
                with recorder:
                    for call in (lambda: recorder.message("user", "child"), recorder.flush, recorder.close):
                        try:
                            call()
                        except ForkedError:
                            code += 1
                code += 1  # leaving the block raises nothing: the turn is the parent's
            finally:
                os._exit(0 if code == 5 else 1)
        _, status = os.waitpid(child, 0)
        recorder.message("user", "parent again")

    assert status == 0
    assert [one.content for one in events(ledger)[:-1]] == ["parent", "parent again"]


def test_nothing_of_it_is_loaded_before_a_turn_is_recorded() -> None:
    script = """
import sys, rightful
from rightful.recording.producer import Producer
late = "rightful.recording.turn_recorder", "rightful.recording.outbox", "concurrent.futures"
print([name for name in late if name in sys.modules])
"""
    assert run(script).stdout == "[]\n"


def test_what_the_end_of_a_program_waits_for_is_limited(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []
    monkeypatch.setattr(Outbox, "flush", lambda _, timeout_s: waited.append(timeout_s))
    with turn(ledger):
        drain()

    assert waited[0] == limits.OUTBOX_EXIT_S
