"""A store of the form before the journal: read as it is, and given a journal when it is opened for writing alone."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import lmdb
import pytest
from tests.contracts.support import PATIENCE_S, Other, together
from tests.faults.support import ROOT, event, in_tables, journal, needs_root, opened, records, run, small_disk

from rightful import limits
from rightful.errors import ForeignStoreError, InUseError
from rightful.storage import locks
from rightful.storage.environment import create_store, lmdb_environment, store_files
from rightful.storage.recorder import LMDBRecorder

GOLDEN = gzip.decompress((ROOT / "tests" / "golden" / "store-format-1.mdb.gz").read_bytes())
"""`data.mdb` of a plain store of five rows in four commits, made by the program before it knew of journals."""

ID = "8c4fbb59-c965-404d-8a78-b84d9963c4b9"
ROOT_HASH = "4f60475def85bd033b95983ac16b163e67d183ea0744647ad456564e9b83897d"


def old(folder: Path) -> Path:
    """Put a store there as that program left it."""
    (folder / "store").mkdir(parents=True, mode=0o700)
    (folder / "store" / store_files.DATA).write_bytes(GOLDEN)
    store_files.make_lock_file(folder / "store")
    for name in ("ledger.lock", "queue.lock", "writer.lock"):
        (folder / name).touch(mode=0o600)
    return folder


def about(folder: Path) -> dict[str, object]:
    """Return what a store that nobody here has open says of itself."""
    with lmdb.open(str(folder / "store"), max_dbs=9, lib_version=0, readonly=True, lock=False) as env:
        table = env.open_db(b"meta", create=False)
        with env.begin() as txn:
            said: dict[str, object] = json.loads(txn.get(b"about", db=table) or b"")
            return said


def assert_whole(recorder: LMDBRecorder, more: int = 0) -> None:
    """See that the five rows, their tags, the tree and the id are there, and as many rows behind them."""
    rows = list(recorder.read())
    assert [each.event.data for each in rows][:5] == [b"event-1", b"event-2", b"event-3", b"event-4", b"event-5"]
    assert [each.event.tags for each in rows][1:5] == [["tag2", "all"], ["tag3", "all"], ["all"], ["all"]]
    assert [row.payload for row in recorder.rows(2)][:3] == [None, b"payload-4", b"payload-5"]
    assert recorder.ledger_id == ID
    assert recorder.head() == 5 + more
    assert more or recorder.tree_head()[1].hex() == ROOT_HASH


def test_it_is_read_without_change(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    with opened(folder, readonly=True) as recorder:
        assert_whole(recorder)

    assert (folder / "store" / store_files.DATA).read_bytes() == GOLDEN
    assert sorted(path.name for path in (folder / "store").iterdir()) == ["data.mdb", "lock.mdb"]


def test_first_open_for_writing_adds_a_journal_and_keeps_all_rows(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    with opened(folder) as recorder:
        assert_whole(recorder)
        assert recorder.append([event("in the journal")]) == 6
        assert in_tables(recorder) == 5

    said = about(folder)
    assert (said["format"], said["id"], said["journal_bytes"]) == (3, ID, limits.JOURNAL_BYTES)
    assert journal(folder).stat().st_mode & 0o777 == 0o600
    assert [record.first for _, record in records(folder)] == [6]
    for readonly in (True, False):
        with opened(folder, readonly=readonly) as recorder:
            assert_whole(recorder, 1)


def test_what_a_killed_process_left_of_a_journal_is_replaced(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    journal(folder).write_bytes(b"half of it, or of another round")
    with opened(folder) as recorder:
        assert_whole(recorder)
        assert recorder.append([event()]) == 6
    assert journal(folder).stat().st_size == limits.JOURNAL_BYTES


OPEN = """
import sys
from pathlib import Path
from tests.faults.support import event, opened
with opened(Path(sys.argv[1])) as recorder:
    print(recorder.append([event("killed or not")]))
"""

STEPS = [
    ("unlink", 1),
    ("fallocate", 1),
    ("fsync", 1),
    ("fsync", 2),
    ("pwrite64", 1),
    ("fdatasync", 1),
    ("pwrite64", 2),
]
"""What giving a journal calls: it removes a half-made one, makes the file, syncs it and its name; LMDB's commit."""


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills it")
@pytest.mark.parametrize(("call", "when"), STEPS, ids=[f"{call}-{when}" for call, when in STEPS])
def test_killed_at_any_step_it_opens_again(tmp_path: Path, call: str, when: int) -> None:
    folder = old(tmp_path / "s")
    journal(folder).write_bytes(b"half")
    inject = f"inject={call}:signal=KILL:when={when}"
    done = run(OPEN, folder, prefix=("strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", inject))
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")

    assert "killed by SIGKILL" in (tmp_path / "log").read_text(), done.stderr
    assert done.stdout == ""
    assert about(folder)["format"] == 1
    _assert_opens(folder)


def _assert_opens(folder: Path) -> None:
    with opened(folder, readonly=True) as recorder:
        assert_whole(recorder)
    with opened(folder) as recorder:
        assert recorder.append([event("next")]) == 6
        assert in_tables(recorder) == 5
        assert_whole(recorder, 1)
    assert about(folder)["format"] == 3


KILLED_BEHIND = """
import os, signal, sys
from pathlib import Path
from rightful.storage import locks
from tests.faults.support import opened
locks.Flock.share = lambda lock: os.kill(os.getpid(), signal.SIGKILL)
opened(Path(sys.argv[1]))
"""


def test_killed_behind_the_commit_it_has_its_journal(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    assert run(KILLED_BEHIND, folder).returncode == -signal.SIGKILL

    assert about(folder)["format"] == 3
    _assert_opens(folder)


ONLY_OPEN = """
import sys
from pathlib import Path
from tests.faults.support import opened
print(opened(Path(sys.argv[1])).head())
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the errors")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
@pytest.mark.parametrize(("error", "said"), [("ENOSPC", "5"), ("EIO", "")])
def test_a_commit_that_fails_leaves_it_unchanged(tmp_path: Path, call: str, error: str, said: str) -> None:
    """The one that names the journal: without room it goes on as before; what else fails is said."""
    folder = old(tmp_path / "s")
    inject = f"inject={call}:error={error}:when={2 if call == 'pwrite64' else 1}"  # the first writes the journal
    done = run(ONLY_OPEN, folder, prefix=("strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", inject))
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")

    assert done.stdout.strip() == said, done.stderr
    assert said or "StorageError" in done.stderr
    assert about(folder)["format"] == 1
    assert journal(folder).exists() == (not said), "none is left beside a store that goes on without"
    with opened(folder) as recorder:
        assert_whole(recorder)
    assert about(folder)["format"] == 3


def _hold(pipe: Connection, folder: Path, *, readonly: bool) -> None:
    recorder = opened(folder, readonly=readonly)
    pipe.send("open")
    while pipe.recv() == "append":
        pipe.send(recorder.append([event("theirs")]))
    recorder.close()


def test_store_open_in_another_process_keeps_its_format_and_both_write(tmp_path: Path) -> None:
    """Somebody who knows of no journal would not look there; whether he does cannot be told."""
    folder = old(tmp_path / "s")
    first = Other(_hold_reading, folder)
    assert first.hear() == "open"
    second = Other(_hold_writing, folder)
    assert second.hear() == "open"
    first.kill()
    with opened(folder) as recorder:
        for n in range(3):
            assert recorder.append([event("ours")]) == 6 + 2 * n
            second.tell("append")
            assert second.hear() == 7 + 2 * n
        assert in_tables(recorder) == 11
        assert_whole(recorder, 6)
        second.tell("end")
        second.end()
    assert about(folder)["format"] == 1
    assert not journal(folder).exists()

    with opened(folder) as recorder:
        assert recorder.append([event("in the journal")]) == 12
        assert in_tables(recorder) == 11
    assert about(folder)["format"] == 3


def _hold_reading(pipe: Connection, folder: Path) -> None:
    _hold(pipe, folder, readonly=True)


def _hold_writing(pipe: Connection, folder: Path) -> None:
    _hold(pipe, folder, readonly=False)


def _open_and_append(pipe: Connection, folder: Path) -> None:
    pipe.send("ready")
    pipe.recv()
    with opened(folder) as recorder:
        pipe.send(recorder.append([event("theirs")]))


def test_who_opens_it_while_it_gets_its_journal_waits_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is then held alone, for milliseconds: nobody is told that it is in use."""
    folder = old(tmp_path / "s")
    other = Other(_open_and_append, folder)
    assert other.hear() == "ready"
    make = create_store.make_journal
    said: list[bool] = []

    def slow(store: Path, begins_with: bytes) -> bool:
        other.tell("go")
        said.append(other.pipe.poll(1.0))
        return make(store, begins_with)

    monkeypatch.setattr(create_store, "make_journal", slow)
    with opened(folder) as recorder:
        assert other.hear() == 6
        assert recorder.append([event("ours")]) == 7
        assert in_tables(recorder) == 5
        assert_whole(recorder, 2)
    other.end()
    assert said == [False], "it did not wait"


def test_nobody_waits_for_one_who_has_it_alone_for_something_else(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    lock = locks.hold_alone(folder)
    with pytest.raises(InUseError):
        opened(folder)
    lock.close()


def test_nobody_waits_for_ever_for_one_who_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_TURN_WAIT_S", 0.05)
    folder = old(tmp_path / "s")
    lock, turn = locks.hold_alone(folder), locks.Flock.open(folder / "writer.lock")
    turn.exclusive()
    with pytest.raises(InUseError):
        opened(folder)
    turn.close()
    lock.close()


def test_a_stopped_writer_does_not_prevent_opening_it(tmp_path: Path) -> None:
    """It gets no journal then; who writes has the turn, and who waits for that may be stopped."""
    folder = old(tmp_path / "s")
    turn = locks.Flock.open(folder / "writer.lock")
    turn.exclusive()
    with opened(folder) as recorder:
        assert_whole(recorder)
    turn.close()
    assert about(folder)["format"] == 1


def test_many_processes_that_open_it_at_once_all_write(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    others = [Other(_open_and_append, folder) for _ in range(6)]
    for other in others:
        assert other.hear() == "ready"
    for other in others:
        other.tell("go")
    assert sorted(other.hear() for other in others) == list(range(6, 12))
    for other in others:
        other.end()
    with opened(folder) as recorder:
        assert_whole(recorder, 6)


@needs_root
@pytest.mark.parametrize("left_kilobytes", [0, 1_000, 2_044])
def test_on_a_full_disk_it_stays_unchanged(left_kilobytes: int) -> None:
    kilobytes = (len(GOLDEN) + store_files.lock_file_bytes()) // 1024 + left_kilobytes
    with small_disk(kilobytes) as disk:
        folder = old(disk / "s")
        with opened(folder) as recorder:
            assert_whole(recorder)
        assert about(folder)["format"] == 1
        assert not journal(folder).exists()


def test_older_program_refuses_a_store_with_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not see what stands in the journal."""
    opened(old(tmp_path / "s")).close()
    monkeypatch.setattr(lmdb_environment, "FORMAT", 2)
    for readonly in (False, True):
        with pytest.raises(ForeignStoreError, match="its format is 3; the newest known one is 2"):
            opened(tmp_path / "s", readonly=readonly)


def test_a_handle_for_reading_and_then_one_for_writing_leave_it_unchanged(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    with opened(folder, readonly=True) as reader, opened(folder) as writer:
        assert writer.append([event("tables")]) == 6
        assert_whole(reader, 1)
        assert in_tables(reader) == 6
    assert about(folder)["format"] == 1


def test_threads_that_open_it_at_once_give_it_one_journal(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    barrier = threading.Barrier(4)

    def write() -> int:
        barrier.wait(PATIENCE_S)
        with opened(folder) as recorder:
            return recorder.append([event()])

    assert sorted(together(*[write] * 4)) == [6, 7, 8, 9]
    assert about(folder)["format"] == 3
