"""A call of the hook that is killed at any step of spooling or draining."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.faults.hooked import DYING, run
from tests.hooking import before_tool, call, given, id_of_call, rows, spooled, surroundings
from tests.log.facts import exposure

import rightful
from rightful.integrations.spool.spool_drain import drain
from rightful.integrations.spool.spool_files import Spool

STEPS = 60
"""More than a call has; the last ones show that it ends by itself."""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    rightful.open(tmp_path / "ledger", create=True).close()
    return tmp_path / "ledger"


def test_a_call_killed_at_any_step_of_spooling_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    """Each call is another one; those whose file was there when they died are in the ledger in the end."""
    ledger = tmp_path / "ledger"
    kept: set[int] = set()
    ended = 0
    for step in range(1, STEPS):
        before = len(spooled(tmp_path))
        done = run(DYING, step, ledger, before_tool(step))
        assert done.returncode in {0, -signal.SIGKILL}
        ended += done.returncode == 0
        if len(spooled(tmp_path)) > before:
            kept.add(step)
        if done.returncode == 0:
            assert step in kept
        if ended > 1:
            break
    assert ended > 1
    assert len(kept) > 2, "it was killed after the file was there, too"

    rightful.open(ledger, create=True).close()
    call(ledger, given("Stop"))

    assert sorted(row.id for row in rows(ledger)) == sorted(id_of_call(step) for step in kept)
    assert spooled(tmp_path) == []
    assert list(tmp_path.rglob("aside/*")) == []


def test_call_killed_at_any_step_of_draining_loses_and_repeats_nothing(ledger: Path, tmp_path: Path) -> None:
    spool = Spool(str(ledger), surroundings(tmp_path))
    expected: set[str] = set()
    killed, code, step = 0, 1, 0
    while code and step < STEPS:
        step += 1
        for number in range(2):
            keys = [f"{step}-{number}", f"{step}-{number}-more"]
            assert spool.keep_events([exposure(key) for key in keys], 1_785_579_400_000_000 + number)
            expected |= {rightful.event_id("hook", key) for key in keys}
        code = run(DYING, step, ledger, before_tool(step)).returncode
        with rightful.open(ledger) as opened:
            drain(spool, opened.log, timeout_s=1)
        killed += code == -signal.SIGKILL
    assert killed > 8
    assert code == 0, "it ends by itself when no step kills it"

    found = [row.id for row in rows(ledger)]
    assert len(found) == len(set(found))
    calls = {id_of_call(number) for number in range(1, STEPS + 1)}
    assert set(found) - calls == expected
    assert id_of_call(step) in found
    assert (spooled(tmp_path), spool.aside()) == ([], [])
