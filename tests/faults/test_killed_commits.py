"""A commit into the tables that is on the disk, and whose process was killed or failed before it told of it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.faults.support import event, filled, opened, run
from tests.faults.test_store_commit import Failing, coded

from rightful.errors import OutcomeUnknownError, StorageError
from rightful.storage.environment.lmdb_environment import Environment

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace holds a commit where it is to be killed")

KILLED_IN_ITS_COMMIT = """
import os, struct, sys, threading
from pathlib import Path
from tests.faults.support import event, opened
folder = Path(sys.argv[1])
recorder = opened(folder)
data = os.open(folder / "store/data.mdb", os.O_RDONLY)

def newest():
    return max(struct.unpack("<Q", os.pread(data, 8, page + 16 + 128))[0] for page in (0, 4096))

def watch():
    while newest() == before:
        pass
    os.kill(os.getpid(), 9)

before = newest()
threading.Thread(target=watch).start()
recorder.append([event(f"large-{n} " + "x" * 50_000) for n in range(3)])
"""
"""LMDB writes the page that names a commit, then tells the others; strace holds it between the two."""


def _killed(folder: Path) -> None:
    delay = ("-e", "trace=pwrite64", "-e", "inject=pwrite64:delay_exit=20000")
    strace = ("strace", "-f", "-qq", "-o", "/dev/null", "-P", str(folder / "store/data.mdb"), *delay)
    done = run(KILLED_IN_ITS_COMMIT, folder, prefix=strace)
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, done.stderr


def _names(folder: Path) -> list[str]:
    with opened(folder) as recorder:
        return [each.event.data.decode().split()[0] for each in recorder.read()]


def failing(_: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def fail_commits(patch: pytest.MonkeyPatch) -> None:
    begin = Environment.begin_write
    patch.setattr(Environment, "begin_write", lambda env: Failing(begin(env), really=False, error=coded(5)))


LARGE = ["large-0", "large-1", "large-2"]


def test_what_is_appended_after_it_stands_behind_it(tmp_path: Path) -> None:
    """Nobody is told of the commit who has the store open, and whoever opens it alone sees it.

    A record in the journal at the same positions would then be lost.
    """
    with opened(filled(tmp_path / "s", 2)) as recorder:
        _killed(tmp_path / "s")

        assert recorder.append([event("next")]) == 6
        assert recorder.append([event("x" * 200_000)]) == 7
        assert recorder.append([event("last")]) == 8

    assert [name[:8] for name in _names(tmp_path / "s")] == ["event-1", "event-2", *LARGE, "next", "x" * 8, "last"]


def test_who_opens_the_store_alone_afterwards_finds_it(tmp_path: Path) -> None:
    _killed(filled(tmp_path / "s", 2))
    assert _names(tmp_path / "s") == ["event-1", "event-2", *LARGE]


def test_while_it_cannot_be_told_of_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(filled(tmp_path / "s", 2)) as recorder:
        _killed(tmp_path / "s")
        with monkeypatch.context() as patch:
            fail_commits(patch)
            with pytest.raises(StorageError, match="Nothing was written"):
                recorder.append([event("lost")])

        assert recorder.append([event("next")]) == 6
    assert _names(tmp_path / "s") == ["event-1", "event-2", *LARGE, "next"]


def test_commit_of_unknown_outcome_is_repeated_before_any_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may have it, and a power cut would bring it back in front of what the journal has beyond."""
    with opened(filled(tmp_path / "s", 2)) as recorder:
        with monkeypatch.context() as patch:
            fail_commits(patch)
            patch.setattr(os, "fdatasync", failing)
            with pytest.raises(OutcomeUnknownError):
                recorder.append([event("x" * 200_000)])
        before = recorder._store.env.last_transaction()  # type: ignore[union-attr]  # it is open
        assert recorder.append([event("next")]) == 3
        assert recorder._store.env.last_transaction() == before + 1  # type: ignore[union-attr]  # it is open
        assert recorder.append([event("last")]) == 4
        assert recorder._store.env.last_transaction() == before + 1  # type: ignore[union-attr]  # it is open


def test_a_commit_that_failed_is_undone_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB writes the older naming page again, and does not sync it."""
    synced: list[str] = []
    real = os.fdatasync

    def sync(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    with opened(filled(tmp_path / "s", 2)) as recorder:
        recorder.append([event("warm")])
        with monkeypatch.context() as patch:
            fail_commits(patch)
            patch.setattr(os, "fdatasync", sync)
            with pytest.raises(StorageError, match="Nothing was written"):
                recorder.append([event("x" * 200_000)])
    assert synced == ["data.mdb"]
