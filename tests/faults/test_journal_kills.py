"""Who is killed at any step of a commit leaves a store that others go on with, and nothing that was answered is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contracts.support import PATIENCE_S
from tests.faults.support import event, filled, opened, reach

from rightful import limits
from rightful.recorders.environment import Environment
from rightful.recorders.recorder import LMDBRecorder

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
    inject = "inject=pwrite64:delay_exit=60000000:when=2"  # the first write is the journal's, in its first turn
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", inject]
    command = [*strace, "sh", "-c", 'echo $$; exec "$@"', "sh", sys.executable, "-c", INTO_TABLES, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reach(), start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace holds the process")
def test_a_commit_that_was_killed_before_others_were_told_is_adopted_before_the_journal_grows(tmp_path: Path) -> None:
    """Else the next commit into the tables finds its positions taken, and an answered row is gone."""
    with opened(filled(tmp_path / "s", 3)) as recorder:
        env = env_of(recorder)
        with held_after_its_last_write(tmp_path / "s") as pid:
            until = time.monotonic() + PATIENCE_S
            while env.newest_commit() == env.last_transaction():
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
