"""A call of the hook that is ended, or hears late: what was said is kept at every moment that is ours."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.faults.hooked import INTERFERING, run
from tests.hooking import CC, before_tool, call, rows, spooled, surroundings

import rightful
from rightful import limits
from rightful.events import ExposureRecorded
from rightful.integrations.claude_code.settings_text import TIMEOUT_S
from rightful.integrations.spool.spool_files import Spool

ENDINGS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    rightful.open(tmp_path / "ledger", create=True).close()
    return tmp_path / "ledger"


def calls(ledger: Path) -> list[str]:
    return sorted(getattr(row.event, "call", "") for row in rows(ledger))


def notes(ledger: Path) -> list[dict[str, object]]:
    return [json.loads(Path(file).read_bytes()) for file in Spool(str(ledger), surroundings(ledger.parent)).aside()]


AT_IMPORT = """
import builtins
real, done = builtins.__import__, []
def importing(name, *args, **more):
    if name == {name!r} and not done:
        done.append(1)
        os.kill(os.getpid(), {number})
    return real(name, *args, **more)
builtins.__import__ = importing
"""

BEFORE_READING = """
from rightful.cli.commands import hook_call as hooked
real = hooked._be_silent
def silent(**more):
    os.kill(os.getpid(), {number})
    real(**more)
hooked._be_silent = silent
"""

WHILE_KEEPING = """
import rightful.storage.recorder as module
def broken(*args, **more):
    raise OSError("a fault")
module.LMDBRecorder = broken
from rightful.integrations.spool import spool_files as spool
write_file = spool.write_file
def late(*args):
    os.kill(os.getpid(), {number})
    return write_file(*args)
spool.write_file = late
"""


@pytest.mark.sweep
@pytest.mark.parametrize("number", ENDINGS)
@pytest.mark.parametrize(
    "script",
    [
        AT_IMPORT.replace("{name!r}", "'rightful.integrations.spool.spool_files'"),
        AT_IMPORT.replace("{name!r}", "'select'"),
        BEFORE_READING,
        WHILE_KEEPING,
    ],
    ids=["spool", "select", "before reading", "while keeping"],
)
def test_call_terminated_before_its_start_or_while_spooling_loses_nothing(
    ledger: Path, script: str, number: int
) -> None:
    assert run(INTERFERING, script.replace("{number}", str(int(number))), ledger, before_tool(1)).returncode == 0
    assert len(spooled(ledger)) == 1

    call(ledger, before_tool(2))

    assert calls(ledger) == ["toolu_1", "toolu_2"]


@pytest.mark.parametrize("number", ENDINGS)
def test_a_call_that_is_ended_while_it_loads_goes_on(ledger: Path, number: int) -> None:
    script = AT_IMPORT.format(name="rightful.cli", number=int(number))

    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    assert calls(ledger) == ["toolu_1"]


def test_keeping_is_bounded_too(ledger: Path) -> None:
    script = """
limits.HOOK_KEEP_S = 0.05
import rightful.storage.recorder as module
def broken(*args, **more):
    raise OSError("a fault")
module.LMDBRecorder = broken
os.fsync = lambda fd: time.sleep(1_000)
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    assert spooled(ledger.parent) == []
    assert limits.HOOK_TOTAL_S + limits.HOOK_KEEP_S < TIMEOUT_S


HEARD_LATE = """
from rightful.cli.commands import hook_call as hooked
reading, writing = os.pipe()
os.dup2(reading, 0)
data = {data!r}
os.write(writing, data[:90])
asked = []
def whole(heard):
    asked.append(bytes(heard))
    if len(asked) == 1:
        os.write(writing, data[90:])
        {then}
    return real(heard)
real, hooked._is_whole = hooked._is_whole, whole
"""


@pytest.mark.parametrize("then", ["os.close(writing)", "pass"], ids=["closed", "left open"])
def test_an_agent_that_writes_late_is_heard_to_the_end(ledger: Path, then: str) -> None:
    script = HEARD_LATE.format(data=json.dumps(before_tool(1)).encode(), then=then)

    assert run(INTERFERING, script, ledger, before_tool(9)).returncode == 0

    assert calls(ledger) == ["toolu_1"]


def test_what_an_agent_never_ends_is_set_aside_with_the_reason(ledger: Path) -> None:
    script = HEARD_LATE.format(data=json.dumps(before_tool(1)).encode()[:-1], then="pass")

    assert run(INTERFERING, f"limits.HOOK_STDIN_S = 0.3\n{script}", ledger, before_tool(9)).returncode == 0

    [note] = notes(ledger)
    assert str(note["reason"]).startswith("stdin stayed open for 0.3 s: Expected JSON")
    assert note["input"] == json.dumps(before_tool(1))[:-1]
    assert limits.HOOK_STDIN_S < limits.HOOK_TOTAL_S


BUSY = """
from rightful.errors import BusyError
from rightful.log.log import Log
def append(self, events, *, timeout_s):
    raise BusyError("ledger", timeout_s)
Log.append = append
"""


def test_a_call_that_waits_less_does_not_make_the_next_one_wait_less(ledger: Path) -> None:
    run(INTERFERING, BUSY, ledger, before_tool(1))
    first = (ledger / "spool" / "waited").stat().st_mtime_ns
    run(INTERFERING, BUSY, ledger, before_tool(2))

    assert (ledger / "spool" / "waited").stat().st_mtime_ns == first
    call(ledger, before_tool(3))
    assert not (ledger / "spool" / "waited").exists()
    assert calls(ledger) == ["toolu_1", "toolu_2", "toolu_3"]


def shown(ledger: Path, *arms: str) -> None:
    """The lesson hook shows the session lessons."""
    folder = ledger.parent / "temp" / "claude-lesson-match"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{CC}.json").write_text(json.dumps({"injected": arms, "last_pretool": 1785579331.25 + len(arms)}))


def test_each_exposure_is_kept_once_while_the_ledger_is_stuck(ledger: Path) -> None:
    shown(ledger, "a", "b")
    run(INTERFERING, BUSY, ledger, before_tool(1))
    shown(ledger, "a", "b", "c")
    run(INTERFERING, BUSY, ledger, before_tool(2))

    assert [kept.read_bytes().count(b"\n") for kept in spooled(ledger)] == [3, 2]
    call(ledger, before_tool(3))
    assert [row.outcome for row in rows(ledger)] == ["appended"] * 6


def test_invalid_lesson_loses_neither_its_neighbours_nor_the_call(ledger: Path) -> None:
    """It stays in the lesson hook's file, and an import of that names it."""
    shown(ledger, "bad\x01arm")
    call(ledger, before_tool(1))
    shown(ledger, "bad\x01arm", "good")
    call(ledger, before_tool(2))

    assert notes(ledger) == []
    shown_arms = [row.event.arms for row in rows(ledger) if isinstance(row.event, ExposureRecorded)]
    assert [[one.arm for one in arms] for arms in shown_arms] == [["good"]]
    assert [row.type for row in rows(ledger)].count("tool_call.snapshotted") == 2


def test_calls_that_name_no_session_are_one_note(ledger: Path) -> None:
    for number in range(3):
        call(ledger, before_tool(number, session_id="unknown"))
    call(ledger, b"rubbish")

    assert sorted(str(note["reason"]).partition(" - ")[0] for note in notes(ledger)) == [
        "Expected JSON: Expecting value, line 1 column 1",
        "Expected a session id, got 'unknown', which names no session",
    ]
    assert any("(3 times)" in str(note["reason"]) for note in notes(ledger))
