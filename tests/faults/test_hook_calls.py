"""A call of the hook on machines where something is wrong: it says nothing, exits with 0, and loses nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.hooked import INTERFERING, run
from tests.faults.support import needs_root, small_disk
from tests.hooking import after_tool, before_tool, call, command, given, id_of_call, rows, spooled, surroundings
from tests.log.facts import exposure

import rightful
from rightful import limits
from rightful.integrations.claude_code.settings_text import TIMEOUT_S
from rightful.integrations.spool.spool_files import Spool


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    rightful.open(tmp_path / "ledger", create=True).close()
    return tmp_path / "ledger"


def calls(ledger: Path) -> list[str]:
    return sorted(getattr(row.event, "call", "") for row in rows(ledger))


STOPPED_IN_TRANSACTION = """
import os, signal, sys, time
import rightful
def now():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)  # another thread takes the signal, and this one must not end its turn meanwhile
    return 1
with rightful.open(sys.argv[1], clock=now) as ledger:
    end = {"type": "session.ended", "producer": "p", "key": "1", "session": "t:a", "at": "2026-08-01T10:15:00Z"}
    ledger.append([end])
"""
"""It has its turn, and is about to write."""

STOPPED_IN_TURN = """
import fcntl, os, signal, sys
file = open(f"{sys.argv[1]}/writer.lock", "r+")
fcntl.flock(file, fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def stopped_writer(script: str, ledger: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", script, str(ledger)], env=surroundings(ledger.parent)) as process:
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("script", [STOPPED_IN_TRANSACTION, STOPPED_IN_TURN], ids=["in transaction", "in turn"])
def test_ledger_locked_by_a_stopped_writer_delays_and_loses_no_call(ledger: Path, script: str) -> None:
    with stopped_writer(script, ledger):
        call(ledger, before_tool(1))
        call(ledger, after_tool(1))
        assert len(spooled(ledger)) == 2

    call(ledger, before_tool(2))

    assert calls(ledger) == ["toolu_1", "toolu_1", "toolu_2"]
    assert spooled(ledger.parent) == []


@needs_root
def test_a_full_disk_loses_nothing() -> None:
    with small_disk(4_096) as disk, small_disk(4_096) as other:
        ledger = disk / "ledger"
        rightful.open(ledger, create=True).close()
        places = surroundings(disk) | {"HOME": str(other)}
        with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4_096))
        for number in range(4):
            call(ledger, after_tool(number, tool_response="x" * 200_000), env=places)
        assert len(spooled(other)) == 4
        assert spooled(disk) == []

        (disk / "ballast").unlink()
        call(ledger, after_tool(4), env=places)

        assert calls(ledger) == [f"toolu_{number}" for number in range(5)]
        assert spooled(other) == []


@pytest.mark.parametrize("fault", ["missing", "newer", "foreign", "file"])
def test_a_ledger_that_cannot_be_opened_is_not_touched_and_loses_nothing(
    ledger: Path, tmp_path: Path, fault: str
) -> None:
    kept = ledger.rename(tmp_path / "kept")
    before = b""
    if fault in {"newer", "foreign"}:
        subprocess.run(["cp", "-a", kept, ledger], check=True)
        data = ledger / "store" / "data.mdb"
        old, new = (b'"format":3', b'"format":9') if fault == "newer" else (b"\xde\xc0\xef\xbe", b"\x00\x00\x00\x00")
        data.write_bytes(data.read_bytes().replace(old, new))
        before = data.read_bytes()
        assert new in before
    elif fault == "file":
        ledger.write_text("no ledger")

    call(ledger, before_tool(1))

    assert len(spooled(tmp_path)) == 1
    if fault in {"newer", "foreign"}:
        assert (ledger / "store" / "data.mdb").read_bytes() == before
        subprocess.run(["cp", kept / "store" / "data.mdb", ledger / "store" / "data.mdb"], check=True)
    else:
        ledger.unlink(missing_ok=True)
        kept.rename(ledger)
    call(ledger, before_tool(2))
    assert calls(ledger) == ["toolu_1", "toolu_2"]
    assert spooled(tmp_path) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" \n",
        b"rubbish",
        b"\x00\xff\xfe\x00" * 1_000,
        b"{" * 200_000,
        b"null",
        b'{"session_id":"x"}',
        b'{"a":1,"a":2}',
    ],
    ids=["empty", "blank", "rubbish", "binary", "deep", "null", "no event", "twice"],
)
def test_rubbish_is_set_aside_and_disturbs_nobody(ledger: Path, raw: bytes) -> None:
    call(ledger, raw)
    call(ledger, before_tool(1))

    assert calls(ledger) == ["toolu_1"]
    assert len(list(ledger.rglob("*.note.json"))) == bool(raw.strip())
    assert spooled(ledger.parent) == []


def test_an_input_beyond_all_size_is_read_to_its_end_and_said_to_be(ledger: Path) -> None:
    call(ledger, b'{"a":"' + b"x" * (limits.HOOK_INPUT_BYTES + 1_000_000) + b'"}')

    [note] = ledger.rglob("*.note.json")
    assert json.loads(note.read_text())["reason"].startswith(
        f"Expected input of at most {limits.HOOK_INPUT_BYTES} bytes"
    )


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_closed_and_broken_streams_are_nothing_to_it(ledger: Path, streams: str) -> None:
    line = f"{shlex.join(command(ledger))} {streams}"

    done = subprocess.run(
        ["sh", "-c", line], input=json.dumps(before_tool(1)).encode(), capture_output=True, check=False,
        env=surroundings(ledger.parent), cwd="/", timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert calls(ledger) == ([] if "<&-" in streams else ["toolu_1"])


def test_an_agent_that_never_closes_stdin_is_heard_all_the_same(ledger: Path) -> None:
    with subprocess.Popen(command(ledger), stdin=subprocess.PIPE, env=surroundings(ledger.parent), cwd="/") as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(before_tool(1)).encode())
        process.stdin.flush()
        assert process.wait(timeout=60) == 0

    assert calls(ledger) == ["toolu_1"]


def test_a_session_without_a_working_folder_or_a_home_is_recorded(ledger: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && exec {shlex.join(command(ledger))}"
    places = {name: value for name, value in surroundings(tmp_path).items() if name != "HOME"}

    done = subprocess.run(
        ["sh", "-c", line], input=json.dumps(before_tool(1)).encode(), capture_output=True, check=False, env=places,
        timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert calls(ledger) == ["toolu_1"]


@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    "where",
    [
        "rightful.integrations.claude_code.hook_events.events_of",
        "rightful.integrations.claude_code.hook_lessons.new_exposures",
        "rightful.log.log.Log.append",
    ],
)
def test_a_call_that_is_ended_at_any_step_is_made_good_by_the_next(ledger: Path, number: int, where: str) -> None:
    """The second signal comes while the first one's loss is being kept."""
    module, _, name = where.rpartition(".")
    owner, _, inner = module.rpartition(".") if name == "append" else ("", "", "")
    script = f"""
import importlib
owner = {f"importlib.import_module({owner!r}).{inner}" if owner else f"importlib.import_module({module!r})"}
def ended(*args, **more):
    os.kill(os.getpid(), {int(number)})
    time.sleep(60)
owner.{name} = ended
from rightful.integrations.spool import spool_files as spool
write_file = spool.write_file
def late(*args):
    os.kill(os.getpid(), {int(number)})
    return write_file(*args)
spool.write_file = late
"""
    done = run(INTERFERING, script, ledger, before_tool(1))
    assert done.returncode == 0
    assert calls(ledger) == []
    assert len(spooled(ledger)) == 1

    call(ledger, before_tool(2))

    assert calls(ledger) == ["toolu_1", "toolu_2"]
    assert spooled(ledger) == []


def test_a_call_ends_when_its_time_is_over_and_loses_nothing(ledger: Path) -> None:
    """The agent ends it too, while the loss is being kept."""
    script = """
from rightful.integrations.spool import spool_files as spool
write_file = spool.write_file
def late(*args):
    os.kill(os.getpid(), signal.SIGTERM)
    return write_file(*args)
spool.write_file = late
limits.HOOK_TOTAL_S = 0.01
import rightful.storage.recorder as module
def slow(*args, **more):
    time.sleep(60)
module.LMDBRecorder = slow
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    assert len(spooled(ledger)) == 1
    assert limits.HOOK_WAIT_S < 1.5 <= limits.HOOK_TOTAL_S < TIMEOUT_S


def test_call_waits_for_writers_up_to_the_limit_and_not_for_a_close(ledger: Path) -> None:
    script = """
limits.HOOK_TOTAL_S = 1_000
from rightful.log.log import Log
from rightful.storage.recorder import LMDBRecorder
LMDBRecorder.close = lambda self: time.sleep(1_000)
from rightful.errors import BusyError
def append(self, events, *, timeout_s):
    assert timeout_s == limits.HOOK_WAIT_S
    events[0]["name"] = str(timeout_s)
    raise BusyError("ledger", timeout_s)
Log.append = append
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    [kept] = spooled(ledger)
    assert json.loads(kept.read_text())["name"] == str(limits.HOOK_WAIT_S)


def test_a_call_may_take_longer_than_the_agent_may_take_to_close_stdin(ledger: Path) -> None:
    script = """
limits.HOOK_STDIN_S, limits.HOOK_TOTAL_S = 0.3, 60
from rightful.log.log import Log
real = Log.append
def append(*args, **more):
    time.sleep(0.5)
    return real(*args, **more)
Log.append = append
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    assert calls(ledger) == ["toolu_1"]


def test_what_a_library_prints_reaches_nobody(ledger: Path) -> None:
    script = """
from rightful.integrations.claude_code import hook_events as claude_hook
real = claude_hook.events_of
def noisy(*args):
    os.write(1, b"noise")
    os.write(2, b"noise")
    print("noise")
    return real(*args)
claude_hook.events_of = noisy
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    assert calls(ledger) == ["toolu_1"]


def test_what_the_disk_refuses_once_is_written_elsewhere_or_the_next_time(ledger: Path) -> None:
    script = """
import errno
real, failed = os.fsync, []
def fsync(fd):
    if not failed:
        failed.append(1)
        raise OSError(errno.EIO, "Input/output error")
    return real(fd)
os.fsync = fsync
from rightful.log.log import Log
def append(*args, **more):
    raise MemoryError
Log.append = append
"""
    assert run(INTERFERING, script, ledger, before_tool(1)).returncode == 0

    [kept] = spooled(ledger.parent)
    assert kept.is_relative_to(ledger.parent / "home")
    call(ledger, before_tool(2))
    assert calls(ledger) == ["toolu_1", "toolu_2"]


def test_eight_calls_at_once_drain_one_spool_and_write_each_event_once(ledger: Path) -> None:
    spool = Spool(str(ledger), surroundings(ledger.parent))
    for number in range(40):
        spool.keep_events([exposure(f"kept-{number}")], 1_785_579_400_000_000 + number)
    processes: list[subprocess.Popen[bytes]] = []
    for _ in range(8):
        process = subprocess.Popen(
            command(ledger), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=surroundings(ledger.parent), cwd="/",
        )  # fmt: skip
        processes.append(process)
    values: list[dict[str, Any]] = [before_tool(number) for number in range(8)]
    for process, value in zip(processes, values, strict=True):
        assert process.stdin is not None
        process.stdin.write(json.dumps(value).encode())
        process.stdin.close()
        process.stdin = None
    said = [(*process.communicate(timeout=60), process.returncode) for process in processes]

    assert said == [(b"", b"", 0)] * 8
    call(ledger, given("Stop"))
    found = rows(ledger)
    kept = [rightful.event_id("hook", f"kept-{number}") for number in range(40)]
    assert sorted(row.id for row in found) == sorted([*kept, *(id_of_call(number) for number in range(8))])
    assert {row.outcome for row in found} == {"appended"}
    assert (spooled(ledger.parent), spool.aside()) == ([], [])
