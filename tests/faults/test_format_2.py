"""A store whose journal is bound to nothing: read as it is, and given one of format 3 when it is opened alone."""

from __future__ import annotations

import gzip
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.contracts.support import Other
from tests.faults.support import ROOT, event, flip, in_tables, journal, opened, overwrite, records, run
from tests.faults.test_format_1 import about

from rightful import limits
from rightful.errors import DamagedRowError, ForeignStoreError
from rightful.storage.environment import store_files
from rightful.storage.recorder import LMDBRecorder

GOLDEN = ROOT / "tests" / "golden"
TABLES = gzip.decompress((GOLDEN / "store-format-2.mdb.gz").read_bytes())
JOURNAL = gzip.decompress((GOLDEN / "store-format-2.journal.gz").read_bytes())
"""A plain store of five rows, three in its tables and two in its journal, made by the program before format 3."""

ID = "935a98b7-4079-4bad-88a1-cfab604cc51e"
ROOT_HASH = "a3eb05498039bb59d1850bef5d4f8be528ffef4708bfd261a556dfa6a01a4363"


def old(folder: Path) -> Path:
    """Put a store there as that program left it."""
    (folder / "store").mkdir(parents=True, mode=0o700)
    (folder / "store" / store_files.DATA).write_bytes(TABLES)
    journal(folder).write_bytes(JOURNAL.ljust(limits.JOURNAL_BYTES, b"\0"))
    store_files.make_lock_file(folder / "store")
    for name in ("ledger.lock", "queue.lock", "writer.lock"):
        (folder / name).touch(mode=0o600)
    return folder


def assert_whole(recorder: LMDBRecorder, more: int = 0) -> None:
    rows = list(recorder.read())
    assert [each.event.data for each in rows][:5] == [b"event-1", b"event-2", b"event-3", b"event-4", b"event-5"]
    assert [each.event.tags for each in rows][:5] == [[], ["tag2", "all"], ["tag3", "all"], ["all"], ["all"]]
    assert [row.payload for row in recorder.rows(2)][:3] == [None, b"payload-4", b"payload-5"]
    assert (recorder.ledger_id, recorder.head()) == (ID, 5 + more)
    assert more or recorder.tree_head()[1].hex() == ROOT_HASH


def assert_opens(folder: Path) -> None:
    with opened(folder, readonly=True) as recorder:
        assert_whole(recorder)
    with opened(folder) as recorder:
        assert_whole(recorder)
        assert recorder.append([event("next")]) == 6
        assert in_tables(recorder) == 5
        assert_whole(recorder, 1)
    with opened(folder) as recorder:
        assert_whole(recorder, 1)
    assert (about(folder)["format"], about(folder)["rewriting"]) == (3, False)


def test_it_is_read_without_change(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    before = journal(folder).read_bytes()
    with opened(folder, readonly=True) as recorder:
        assert_whole(recorder)
        assert in_tables(recorder) == 3

    assert (folder / "store" / store_files.DATA).read_bytes() == TABLES
    assert journal(folder).read_bytes() == before


def test_the_first_open_for_writing_binds_its_journal_and_keeps_all_it_has(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    assert_opens(folder)
    said = about(folder)
    assert (said["id"], said["journal_bytes"], len(str(said["key"]))) == (ID, limits.JOURNAL_BYTES, 64)
    assert journal(folder).stat().st_mode & 0o777 == 0o600
    assert [record.first for _, record in records(folder)] == [6]
    assert b"payload-4" not in journal(folder).read_bytes()


def _write_on(pipe: Connection, folder: Path, readonly: bool) -> None:
    with opened(folder, readonly=readonly) as recorder:
        assert recorder.head() == 5
        pipe.send("open")
        while pipe.recv() == "append":
            pipe.send(recorder.append([event("theirs")]))


def test_while_others_have_it_open_it_stays_and_all_goes_into_the_tables(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    reader = Other(_write_on, folder, True)
    assert reader.hear() == "open"
    second = Other(_write_on, folder, False)
    assert second.hear() == "open"
    with opened(folder) as recorder:
        assert_whole(recorder)
        for n in range(3):
            assert recorder.append([event("ours")]) == 6 + 2 * n
            second.tell("append")
            assert second.hear() == 7 + 2 * n
        assert in_tables(recorder) == 11
        assert_whole(recorder, 6)
    for other in (reader, second):
        other.tell("end")
        other.end()
    assert about(folder)["format"] == 2
    with opened(folder) as recorder:
        assert_whole(recorder, 6)
        assert recorder.append([event("in the journal")]) == 12
        assert in_tables(recorder) == 11
    assert about(folder)["format"] == 3


OPEN = """
import sys
from pathlib import Path
from tests.faults.support import event, opened
with opened(Path(sys.argv[1])) as recorder:
    print(recorder.append([event("killed or not")]))
"""

WRITES = [("pwrite64", n) for n in range(1, 6)]
"""LMDB's pages and the page that names them, which mark it; the journal's beginning; again of LMDB, which names it."""
STEPS = [*WRITES, ("fdatasync", 1), ("fdatasync", 2), ("unlink", 1), ("fallocate", 1), ("fsync", 1), ("fsync", 2)]


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills it")
@pytest.mark.parametrize(("call", "when"), STEPS, ids=[f"{call}-{when}" for call, when in STEPS])
def test_killed_at_any_step_it_opens_again(tmp_path: Path, call: str, when: int) -> None:
    folder = old(tmp_path / "s")
    inject = f"inject={call}:signal=KILL:when={when}"
    done = run(OPEN, folder, prefix=("strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", inject))
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")

    assert "killed by SIGKILL" in (tmp_path / "log").read_text(), done.stderr
    with opened(folder, readonly=True) as recorder:
        rows = recorder.head()
    if rows == 5:
        assert_opens(folder)
    else:
        assert (rows, done.returncode) == (6, 128 + signal.SIGKILL)


def test_store_during_its_rewrite_is_used_without_its_journal(tmp_path: Path) -> None:
    """Whatever the file holds: a kill left it so. While another process reads, it stays so."""
    folder = old(tmp_path / "s")
    inject = "inject=unlink:signal=KILL:when=1"
    run(OPEN, folder, prefix=("strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", inject))
    assert (about(folder)["format"], about(folder)["rewriting"], about(folder)["journal_bytes"]) == (3, True, 0)
    overwrite(folder, 0, bytes(limits.JOURNAL_BYTES))
    reader = Other(_write_on, folder, True)
    assert reader.hear() == "open"
    with opened(folder) as recorder:
        assert_whole(recorder)
        assert recorder.append([event("tables")]) == 6
        assert in_tables(recorder) == 6
    reader.tell("end")
    reader.end()
    with opened(folder) as recorder:
        assert recorder.append([event("journal")]) == 7
        assert in_tables(recorder) == 6
        assert_whole(recorder, 2)
    assert about(folder)["rewriting"] is False


def test_damage_in_its_journal_stays_damage(tmp_path: Path) -> None:
    """The row's position is known, since the record behind it says that it was durable."""
    folder = old(tmp_path / "s")
    flip(folder, JOURNAL.index(b"event-4") + 2)
    with opened(folder) as recorder:
        with pytest.raises(DamagedRowError, match="position 4"):
            recorder.rows(0)
        assert [row.position for row in recorder.rows(4)] == [5]
        assert recorder.append([event("next")]) == 6
    assert about(folder)["format"] == 3


def test_a_journal_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = old(tmp_path / "s")
    journal(folder).write_bytes(b"text " * 500_000)
    with opened(folder) as recorder, pytest.raises(ForeignStoreError, match="another program's file"):
        recorder.head()
    assert journal(folder).read_bytes() == b"text " * 500_000
    assert about(folder)["format"] == 2
