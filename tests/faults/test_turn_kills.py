"""Kill a runner at any moment: what was acknowledged is there, and recording the turn again gives it whole."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.faults.support import run

import rightful
from rightful.projections.facts.completeness import Completeness, Hole, completeness_of

MESSAGES = 60
SCRIPT = """
import os, signal, sys
import rightful
from rightful.log.log import Log

at, when = int(sys.argv[2]), sys.argv[3]
append, calls, answers = Log.append, 0, 0

def die(moment, count):
    if (count, when) == (at, moment):
        os.kill(os.getpid(), signal.SIGKILL)

def appending(log, events, **more):
    global calls
    calls += 1
    die("before the commit", calls)
    receipts = append(log, events, **more)
    die("after the commit", calls)
    return receipts

def acknowledged(answer):
    global answers
    answers += 1
    os.write(1, f"{answer.result().id}\\n".encode())
    die("while it acknowledges", answers)

Log.append = appending
with rightful.open(sys.argv[1]) as ledger, ledger.producer("my-runner").turn("runner:7f3a", "1") as turn:
    for n in range(60):
        turn.message("user", f"message {n}").add_done_callback(acknowledged)
        if n % 10 == 9:
            turn.flush()
"""


def stored(path: Path) -> tuple[list[str], Completeness]:
    with rightful.open(path, readonly=True) as ledger:
        rows = [row for page in ledger.log.scan() for row in page]
    return [row.envelope.id for row in rows], completeness_of(rows)


@pytest.mark.sweep
@pytest.mark.parametrize("when", ["before the commit", "after the commit", "while it acknowledges"])
@pytest.mark.parametrize("at", [1, 2, 4, 7])
def test_acknowledged_events_survive_a_kill_and_the_turn_can_be_repeated(tmp_path: Path, at: int, when: str) -> None:
    ledger, whole = tmp_path / "ledger", tmp_path / "whole"
    for path in (ledger, whole):
        rightful.open(path, create=True).close()
    killed = run(SCRIPT, ledger, at, when)
    ids, found = stored(ledger)
    again = run(SCRIPT, ledger, 0, "never")
    never = run(SCRIPT, whole, 0, "never")

    assert (killed.returncode, again.returncode, never.returncode) == (-signal.SIGKILL, 0, 0)
    acknowledged = killed.stdout.split()
    assert acknowledged == ids[: len(acknowledged)]
    assert found.holes in ((), (Hole("1", "open"),))
    assert stored(ledger) == stored(whole) == (stored(whole)[0], Completeness("complete"))
    assert len(stored(whole)[0]) == MESSAGES + 1
