"""Disks that are full, read-only or failing, below the program."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.faults.support import event, filled, needs_root, open_to_everybody, opened, run, small_disk

from rightful import limits
from rightful.errors import ReadOnlyStoreError, StorageError, StoreFullError
from rightful.storage.recorder import LMDBRecorder


@needs_root
@pytest.mark.parametrize("small_bytes", [limits.JOURNAL_COMMIT_BYTES, 0], ids=["journal", "tables"])
def test_full_disk_loses_nothing_and_the_handle_works_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, small_bytes: int
) -> None:
    """The journal has its room from the beginning; the disk is full when it is emptied into the tables."""
    monkeypatch.setattr(limits, "JOURNAL_COMMIT_BYTES", small_bytes)
    with small_disk(limits.JOURNAL_BYTES // 1024 + 2_048) as disk, opened(disk / "s", create=True) as recorder:
        written = _append_until_it_fails(recorder)
        assert 10 < written < 100
        assert len(list(recorder.read())) == written == recorder.head()
        for _ in range(2):
            with pytest.raises(StoreFullError, match="Nothing of this call was written"):
                recorder.append([event("x" * 50_000)])
        assert [row.position for row in recorder.rows(0, 1000)] == list(range(1, written + 1))

        subprocess.run(["mount", "-o", "remount,size=12m", str(disk)], check=True)
        assert recorder.append([event("x" * 50_000)]) == written + 1
        recorder.close()
        with opened(disk / "s") as again:
            assert [each.event.data for each in again.read()] == [b"x" * 50_000] * (written + 1)


def _append_until_it_fails(recorder: LMDBRecorder) -> int:
    """Return the last position that was acknowledged."""
    written = 0
    with contextlib.suppress(StoreFullError):
        for _ in range(100):
            written = recorder.append([event("x" * 50_000)])
    return written


@needs_root
def test_a_full_disk_fails_no_commit_for_which_the_journal_has_room() -> None:
    with small_disk(limits.JOURNAL_BYTES // 1024 + 512) as disk, opened(disk / "s", create=True) as recorder:
        with pytest.raises(OSError, match="No space left"):
            (disk / "ballast").write_bytes(bytes(limits.JOURNAL_BYTES))

        assert [recorder.append([event("x" * 5_000)]) for _ in range(200)] == list(range(1, 201))


CREATE = """
import sys
from pathlib import Path
from rightful.storage.recorder import LMDBRecorder
from tests.faults.support import opened
try:
    opened(Path(sys.argv[1]) / "s", create=True)
except Exception as error:
    print(type(error).__name__)
"""

BARE_CREATE = """
import os, sys, lmdb
lmdb.open(sys.argv[1], map_size=1 << 40, lib_version=0, max_readers=1024).begin()
"""


@needs_root
def test_a_store_made_on_a_full_disk_is_refused_where_lmdb_alone_dies() -> None:
    _refused_on(512, 496)
    _refused_on(limits.JOURNAL_BYTES // 1024, 0)  # room for all but the journal


def _refused_on(kilobytes: int, taken: int) -> None:
    with small_disk(kilobytes) as disk:
        (disk / "ballast").write_bytes(bytes(taken * 1024))
        done = run(CREATE, disk)
        assert done.stdout.strip() == StoreFullError.__name__, done.stderr
        assert not (disk / "s" / "store").exists()

        shutil.rmtree(disk / "s")
        (disk / "bare").mkdir()
        with contextlib.suppress(OSError):
            (disk / "bare" / "fill").write_bytes(bytes(kilobytes * 1024))
        assert run(BARE_CREATE, disk / "bare").returncode == -signal.SIGBUS


FILE_LIMIT = """
import json, resource, signal, sys
from pathlib import Path
from rightful import limits
from rightful.errors import StoreFullError
from tests.faults.support import event, opened
limits.JOURNAL_COMMIT_BYTES = int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
recorder = opened(Path(sys.argv[1]), create=True)
recorder.append([event("first")])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
written = 1
try:
    for n in range(100):
        written = recorder.append([event("x" * 20_000)])
except StoreFullError as error:
    failed = str(error)
head = recorder.head()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps([written, head, failed, recorder.append([event("after")])]))
"""


@pytest.mark.parametrize("small_bytes", [limits.JOURNAL_COMMIT_BYTES, 0], ids=["journal", "tables"])
def test_a_file_at_its_limit_is_full_and_the_handle_goes_on_afterwards(tmp_path: Path, small_bytes: int) -> None:
    """A record of which only a part could be written before the limit counts for nothing."""
    done = run(FILE_LIMIT, tmp_path / "s", small_bytes)
    assert done.returncode == 0, done.stderr
    written, head, failed, after = json.loads(done.stdout)

    assert 1 < written < 100
    assert head == written
    assert "No space left" in failed
    assert after == written + 1


@needs_root
def test_read_only_file_system_can_be_read_and_explains_refused_writes(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    (tmp_path / "ro").mkdir()
    if subprocess.run(["mount", "--bind", str(folder), str(tmp_path / "ro")], check=False).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(tmp_path / "ro")], check=True)
        with pytest.raises(ReadOnlyStoreError):
            opened(tmp_path / "ro")
        with pytest.raises(ReadOnlyStoreError):
            opened(tmp_path / "ro" / "new", create=True)
        with opened(tmp_path / "ro", readonly=True) as recorder:
            assert len(recorder.rows(0, 10)) == 3
            with pytest.raises(ReadOnlyStoreError):
                recorder.append([event()])
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "ro")], check=True)


AS_NOBODY = """
import os, sys
from pathlib import Path
from rightful.storage.recorder import LMDBRecorder
from tests.faults.support import opened
opened(Path(sys.argv[1]).with_name("loads-every-module"), create=True).close()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    print(len(opened(Path(sys.argv[1]), readonly=True).rows(0, 10)))
except Exception as error:
    print(type(error).__name__, error)
"""


@needs_root
def test_a_reader_without_rights_is_told_which_file_it_may_not_write(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    outside = run(AS_NOBODY, folder)
    assert outside.stdout.startswith((ReadOnlyStoreError.__name__, "LedgerNotFoundError")), outside.stderr

    open_to_everybody(tmp_path)
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    inside = run(AS_NOBODY, folder)
    assert inside.stdout.startswith(StorageError.__name__), (inside.stdout, inside.stderr)
    assert "lock.mdb is not writable" in inside.stdout


APPEND = """
import json, sys
from pathlib import Path
from rightful import limits
from rightful.errors import OutcomeUnknownError, StorageError
from tests.faults.support import event, opened
limits.JOURNAL_COMMIT_BYTES = int(sys.argv[2])
recorder = opened(Path(sys.argv[1]))
recorder.append([event("warm")])
for n in range(4):
    try:
        outcome = recorder.append([event(f"e{n}")]) and "written"
    except OutcomeUnknownError:
        outcome = "unknown"
    except StorageError as error:
        outcome = "not written"
    print(json.dumps([f"e{n}", outcome]), flush=True)
"""


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the errors")
@pytest.mark.parametrize("small_bytes", [limits.JOURNAL_COMMIT_BYTES, 0], ids=["journal", "tables"])
@pytest.mark.parametrize(("call", "first"), [("fdatasync", 2), ("pwrite64", 3)])  # what is before is of `warm`
@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_what_is_said_of_an_append_is_true_when_the_system_fails_anywhere(
    tmp_path: Path, small_bytes: int, call: str, first: int, at: int, error: str
) -> None:
    """Each call that a commit makes fails once; then the store is asked what it has.

    A commit into the tables syncs its pages and then writes the page that names them: if either fails, it is not
    there. A record in the journal that could not be synced may be there or not. What a commit into the tables
    writes into the journal afterwards only saves the next reader some work.
    """
    folder = filled(tmp_path / "s", 1)
    inject, log = f"inject={call}:error={error}:when={first + at}", tmp_path / "strace"
    traced = ("strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", inject)
    done = run(APPEND, folder, small_bytes, prefix=traced)
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    with opened(folder) as recorder:
        there = {each.event.data.decode() for each in recorder.read()}
        rows = recorder.rows(0, 100)

    assert [row.position for row in rows] == list(range(1, len(rows) + 1))
    for name, outcome in said.items():
        if outcome != "unknown":
            assert (name in there) == (outcome == "written"), said
    injected = [line for line in log.read_text().splitlines() if "(INJECTED)" in line]
    assert len(injected) == 1
    if not small_bytes and "/store/journal>" in injected[0]:
        assert list(said.values()) == ["written"] * 4
        return
    failed = "unknown" if call == "fdatasync" and small_bytes else "not written"
    assert list(said) == ["e0", "e1", "e2", "e3"], done.stderr
    assert sorted(said.values()) == sorted([failed, "written", "written", "written"]), "the handle does not go on"
