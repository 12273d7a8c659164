"""Who is killed at any step of a commit leaves a store that others go on with; what was answered stands."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contracts.support import PATIENCE_S
from tests.faults.support import event, filled, opened, reach

from rightful import limits
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.recorder import LMDBRecorder

INTO_TABLES = """
import sys
from pathlib import Path
from rightful import limits
from tests.faults.support import event, opened
recorder = opened(Path(sys.argv[1]))
limits.JOURNAL_ROWS = 0
recorder.append([event("dead")] * 2)
"""


def env_of(recorder: LMDBRecorder) -> Environment:
    assert recorder._store is not None
    return recorder._store.env


def data(recorder: LMDBRecorder) -> list[str]:
    return [each.event.data.decode() for each in recorder.read()]


@contextmanager
def held_after_its_last_write(folder: Path) -> Iterator[int]:
    """Run a process that commits into the tables; strace holds it behind the write that names the commit's pages."""
    inject = "inject=pwrite64:delay_exit=60000000:when=1"
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", inject]
    command = [*strace, "sh", "-c", 'echo $$; exec "$@"', "sh", sys.executable, "-c", INTO_TABLES, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reach(), start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace holds the process")
def test_unannounced_commit_of_killed_process_is_adopted_before_growth(tmp_path: Path) -> None:
    """Else the next commit into the tables finds its positions taken, and an answered row is gone."""
    with opened(filled(tmp_path / "s", 3)) as recorder:
        env = env_of(recorder)
        with held_after_its_last_write(tmp_path / "s") as pid:
            until = time.monotonic() + PATIENCE_S
            while env.newest_transaction() == env.last_transaction():
                assert time.monotonic() < until, "it never came to its last write"
            assert data(recorder) == ["event-1", "event-2", "event-3"], "it was told before it was durable"
            os.kill(pid, signal.SIGKILL)

        assert recorder.append([event("mine")]) == 6
        expected = ["event-1", "event-2", "event-3", "dead", "dead", "mine"]
        assert data(recorder) == expected
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "JOURNAL_ROWS", 0)
            assert recorder.append([event("into the tables")]) == 7
        assert data(recorder) == [*expected, "into the tables"]


VICTIM = """
import os, signal, sys
from pathlib import Path
from rightful import limits
from rightful.storage.journal.journal import Journal
from tests.faults.support import event, opened

folder, step, left = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
pwrite, fdatasync, emptied = os.pwrite, os.fdatasync, Journal.emptied
limits.JOURNAL_ROWS = 5

def die(at):
    global left
    left -= at == step
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def writing(fd, data, at):
    die("before it is written")
    pwrite(fd, bytes(data)[: len(data) // 2], at)
    die("half written")
    done = pwrite(fd, data, at)
    die("written")
    return done

def syncing(fd):
    fdatasync(fd)
    die("synced")

def emptying(journal, head):
    die("before it begins anew")
    emptied(journal, head)
    die("begun anew")

recorder = opened(folder)
recorder.append([event("first")])
os.pwrite, os.fdatasync, Journal.emptied = writing, syncing, emptying
for number in range(2, 1000):
    print(recorder.append([event(f"victim {number}"), event(f"victim {number}")]), number, flush=True)
"""


def live_on(recorder: LMDBRecorder, over: threading.Event, answered: dict[int, str]) -> None:
    """Append one by one until it is over, and then so often that the journal begins anew."""
    left = 7
    for number in range(1_000_000):
        position = recorder.append([event(f"mine {number}")])
        answered[position] = f"mine {number}"
        left -= over.is_set()
        if not left:
            return


@pytest.mark.sweep
@pytest.mark.parametrize(
    "step", ["before it is written", "half written", "written", "synced", "before it begins anew", "begun anew"]
)
def test_a_kill_at_any_step_takes_nothing_that_was_answered(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_ROWS", 5)
    filled(tmp_path / "s", 1)
    over, answered = threading.Event(), dict[int, str]()
    with opened(tmp_path / "s") as recorder:
        writer = threading.Thread(target=live_on, args=(recorder, over, answered))
        writer.start()
        command = [sys.executable, "-c", VICTIM, str(tmp_path / "s"), step, "4"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reach()) as victim:
            before: list[str] = []
            while victim.poll() is None:
                now = data(recorder)
                assert now[: len(before)] == before, "what was read before is gone"
                before = now
            assert victim.returncode == -signal.SIGKILL
            assert victim.stdout is not None
            said = [line.split() for line in victim.stdout]
        over.set()
        writer.join(PATIENCE_S)
        stands = data(recorder)
        assert stands[: len(before)] == before

    for position, number in said:
        assert stands[int(position) - 2 : int(position)] == [f"victim {number}"] * 2
    assert {position: stands[position - 1] for position in answered} == answered
    whole = [word for word in stands if word.startswith("victim")]
    assert whole[::2] == whole[1::2], "half a commit stands"
    assert len(stands) == 2 + len(answered) + len(whole)
    with opened(tmp_path / "s") as again:
        assert data(again) == stands
