"""What LMDB does with files that are not whole, and how that is prevented."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import lmdb
import pytest
from tests.faults.support import event, filled, opened, run

from rightful import limits
from rightful.errors import ForeignStoreError, InUseError, LedgerNotFoundError
from rightful.storage import folder_sync, open_stores
from rightful.storage.environment import store_files
from rightful.storage.recorder import LMDBRecorder

PAGE_BYTES = 4096


def _data(folder: Path) -> Path:
    return folder / "store" / "data.mdb"


def test_a_folder_without_a_store_is_not_made_into_one(tmp_path: Path) -> None:
    with pytest.raises(LedgerNotFoundError):
        opened(tmp_path / "none")
    with pytest.raises(LedgerNotFoundError):
        opened(tmp_path / "none", readonly=True)

    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_refused_that_lmdb_takes_for_a_new_store(tmp_path: Path) -> None:
    _data(filled(tmp_path / "s")).write_bytes(b"")
    with pytest.raises(ForeignStoreError, match="is empty"):
        opened(tmp_path / "s")
    with pytest.raises(ForeignStoreError, match="is empty"):
        opened(tmp_path / "s", create=True)

    assert _data(tmp_path / "s").read_bytes() == b""
    lmdb.open(str(tmp_path / "s" / "store"), create=False, lib_version=0).close()
    assert _data(tmp_path / "s").stat().st_size > 0, "LMDB made a new store of it"


def test_missing_file_that_lmdb_would_create_is_refused(tmp_path: Path) -> None:
    _data(filled(tmp_path / "s")).unlink()
    for create in (False, True):
        with pytest.raises(ForeignStoreError, match=r"data\.mdb is missing"):
            opened(tmp_path / "s", create=create)

    assert not _data(tmp_path / "s").exists()
    lmdb.open(str(tmp_path / "s" / "store"), create=False, lib_version=0).close()
    assert _data(tmp_path / "s").exists(), "LMDB made a new store"


def test_a_file_cut_short_is_refused_that_kills_whoever_reads_it(tmp_path: Path) -> None:
    """A page missing at the end is enough; LMDB reads beyond the end by SIGBUS."""
    folder = filled(tmp_path / "s")
    with opened(folder) as recorder:
        recorder.append([event("x" * 100_000)])
    whole = _data(folder).stat().st_size
    for size in (whole - 1, whole - PAGE_BYTES, 2 * PAGE_BYTES, PAGE_BYTES, 100):
        os.truncate(_data(folder), size)
        with pytest.raises(ForeignStoreError, match="cut short"):
            opened(folder)
        assert _data(folder).stat().st_size == size

    os.truncate(_data(filled(tmp_path / "t", 50)), 2 * PAGE_BYTES)
    script = "import sys, lmdb; e = lmdb.open(sys.argv[1], max_dbs=9, lib_version=0); e.open_db(b'rows', create=False)"
    assert run(script, tmp_path / "t" / "store").returncode < 0, "LMDB itself survived"


@pytest.mark.parametrize(
    "content",
    [b"SQLite format 3\0" + bytes(8192), b"\0" * 8192, b"{}" * 5000, b"text"],
    ids=["sqlite", "zeros", "json", "short"],
)
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    _data(filled(tmp_path / "s")).write_bytes(content)
    with pytest.raises(ForeignStoreError, match="not an LMDB file"):
        opened(tmp_path / "s")

    assert _data(tmp_path / "s").read_bytes() == content


def test_a_store_of_another_lmdb_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = filled(tmp_path / "s") / "store"
    for name in (store_files.DATA, store_files.LOCK):
        (store / name).unlink()
    with lmdb.open(str(store), lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"1")
    before = _data(tmp_path / "s").read_bytes()

    with pytest.raises(ForeignStoreError, match="another program's"):
        opened(tmp_path / "s")

    assert _data(tmp_path / "s").read_bytes() == before


def test_a_file_of_the_newer_engine_is_refused(tmp_path: Path) -> None:
    """The default engine follows the file and the environment; other tools read 0.9 only."""
    store = filled(tmp_path / "s") / "store"
    for name in (store_files.DATA, store_files.LOCK):
        (store / name).unlink()
    lmdb.open(str(store), lib_version=1).close()

    with pytest.raises(ForeignStoreError, match="not an LMDB file of format 1"):
        opened(tmp_path / "s")


def test_the_engine_is_the_old_one_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMDB_DEFAULT_LIB_VERSION", "1")
    with opened(tmp_path / "s", create=True) as recorder:
        assert _lmdb(recorder).lib_version()[:2] == (0, 9)


def test_a_store_of_one_kind_is_refused_as_the_other(tmp_path: Path) -> None:
    filled(tmp_path / "s")
    with pytest.raises(ForeignStoreError, match="a plain store, not a ledger store"):
        LMDBRecorder(tmp_path / "s", kind="ledger")
    with opened(tmp_path / "s"), pytest.raises(ForeignStoreError, match="a plain store, not a ledger store"):
        LMDBRecorder(tmp_path / "s", kind="ledger", create=True)


def test_a_store_of_a_newer_form_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path / "s") / "store"
    with lmdb.open(str(store), max_dbs=9, lib_version=0) as env:
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(b"about", b'{"format":4,"kind":"plain","id":"x"}', db=meta)

    with pytest.raises(ForeignStoreError, match="its format is 4; the newest known one is 3"):
        opened(tmp_path / "s")


def test_a_copy_keeps_the_identity_and_another_store_has_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "a", create=True) as a, opened(tmp_path / "b", create=True) as b:
        first, second = a.ledger_id, b.ledger_id
        with lmdb_copy(a, tmp_path / "c"), opened(tmp_path / "c") as copy:
            assert copy.ledger_id == first
    assert first != second


class lmdb_copy:  # noqa: N801 - it reads as a verb
    """Copy a store while it is open, as a backup does."""

    def __init__(self, recorder: LMDBRecorder, folder: Path) -> None:
        (folder / "store").mkdir(parents=True)
        _lmdb(recorder).copy(str(folder / "store"))
        (folder / "store" / store_files.JOURNAL).write_bytes(
            (Path(recorder.path) / "store" / store_files.JOURNAL).read_bytes()
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        filled(tmp_path / "s")
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "s", *(tmp_path / "s").rglob("*")]}
    assert modes == {
        "s": 0o700,
        "store": 0o700,
        "data.mdb": 0o600,
        "journal": 0o600,
        "lock.mdb": 0o600,
        "ledger.lock": 0o600,
        "queue.lock": 0o600,
        "writer.lock": 0o600,
    }


def test_names_are_made_durable_after_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB does not sync folders: after a power cut the whole store would be gone."""
    synced: list[str] = []
    sync = folder_sync.sync_folder

    def sync_and_note(path: Path) -> None:
        synced.append(path.name)
        sync(path)

    monkeypatch.setattr(folder_sync, "sync_folder", sync_and_note)
    opened(tmp_path / "s", create=True).close()

    assert synced == [tmp_path.name, "s", "store.new", "s"]


def test_the_table_of_readers_has_its_room_on_disk_before_lmdb_maps_it(tmp_path: Path) -> None:
    lock = filled(tmp_path / "s") / "store" / "lock.mdb"

    assert lock.stat().st_size == store_files.lock_file_bytes() >= 64 * limits.MAX_READERS + 128
    assert lock.stat().st_blocks * 512 >= store_files.lock_file_bytes()


def test_what_a_killed_creator_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "s" / "store.new").mkdir(parents=True)
    (tmp_path / "s" / "store.new" / "data.mdb").write_bytes(b"half")

    with opened(tmp_path / "s", create=True) as recorder:
        assert recorder.append([event()]) == 1
    assert not (tmp_path / "s" / "store.new").exists()


def test_a_lock_file_deleted_under_a_writer_lets_nobody_else_in(tmp_path: Path) -> None:
    """LMDB would make a new one, and two writers would lose commits without an error."""
    folder = filled(tmp_path / "s")
    with opened(folder):
        (folder / "store" / "lock.mdb").unlink()
        script = (
            "import sys\nfrom pathlib import Path\nfrom tests.faults.support import opened\n"
            "try:\n opened(Path(sys.argv[1]))\nexcept Exception as e:\n print(type(e).__name__, *e.holders)"
        )
        assert run(script, folder).stdout.split() == [InUseError.__name__, "pid", str(os.getpid())]
    with opened(folder) as recorder:
        assert recorder.append([event()]) == 4


def _lmdb(recorder: LMDBRecorder) -> lmdb.Environment:
    assert recorder._store is not None
    return recorder._store.env._raw()


def test_commits_are_synchronous_and_locked_in_one_huge_sparse_map(tmp_path: Path) -> None:
    with opened(tmp_path / "s", create=True) as recorder:
        recorder.append([event("x" * limits.JOURNAL_COMMIT_BYTES)])
        flags, info = _lmdb(recorder).flags(), _lmdb(recorder).info()

        assert (flags["sync"], flags["metasync"], flags["writemap"], flags["lock"]) == (True, True, False, True)
        assert info["map_size"] == 1 << 40
        assert info["max_readers"] >= limits.MAX_READERS
        assert _data(tmp_path / "s").stat().st_blocks * 512 < 1 << 20


def test_one_environment_serves_all_handles_and_paths_of_a_process(tmp_path: Path) -> None:
    """LMDB refuses a second one, and a close of it would drop the first one's locks."""
    folder = filled(tmp_path / "s")
    (tmp_path / "link").symlink_to(folder)
    first, second = opened(folder), opened(tmp_path / "link")
    with pytest.raises(lmdb.Error, match="already open"):
        lmdb.open(str(folder / "store"), lib_version=0)

    assert first._store is second._store
    first.close()
    assert second.append([event()]) == 4
    second.close()
    assert open_stores._registry.stores == {}
    lmdb.open(str(folder / "store"), lib_version=0).close()


def test_no_file_of_an_open_environment_is_ever_opened_again(tmp_path: Path) -> None:
    """Any close of lock.mdb in the process gives up LMDB's own locks without an error."""
    folder = filled(tmp_path / "s")
    touched: list[str] = []
    watching = False

    def watch(name: str, arguments: tuple[Any, ...]) -> None:
        if watching and name == "open" and str(arguments[0]).endswith(".mdb"):
            touched.append(str(arguments[0]))

    sys.addaudithook(watch)
    with opened(folder) as recorder:
        recorder.append([event()])
        watching = True
        with opened(folder, create=True) as second, opened(folder, readonly=True) as third:
            second.append([event()])
            assert len(list(third.read())) == 5
        with pytest.raises(ForeignStoreError):
            LMDBRecorder(folder, kind="ledger")
        watching = False

    assert touched == []


def test_no_reader_is_pinned_while_a_read_is_looked_at(tmp_path: Path) -> None:
    """A pinned reader made a file of 7 MB grow to 432 MB."""
    with opened(tmp_path / "s", create=True) as recorder:
        recorder.append([event() for _ in range(2 * limits.PAGE_ROWS)])
        response = recorder.read()
        subscription = recorder.subscribe()
        next(response)
        next(subscription)

        assert _lmdb(recorder).readers().strip() == "(no active readers)"
        subscription.stop()


KILLED_READER = """
import os, signal, sys, lmdb
env = lmdb.open(sys.argv[1], map_size=1 << 40, max_dbs=9, lib_version=0, readonly=True)
txn = env.begin()
os.kill(os.getpid(), signal.SIGKILL)
"""


OPEN = """
import sys
from pathlib import Path
from tests.faults.support import opened
opened(Path(sys.argv[1])).close()
"""


def test_slots_of_killed_readers_are_freed_on_opening(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    keeper = opened(folder)
    run(KILLED_READER, folder / "store")
    assert "no active" not in _lmdb(keeper).readers()

    assert run(OPEN, folder).returncode == 0

    assert "no active" in _lmdb(keeper).readers()
    keeper.close()


def test_slots_of_killed_readers_are_freed_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rightful.storage.writer._CHECK_READERS_EVERY", 2)
    with opened(filled(tmp_path / "s")) as recorder:
        recorder.append([event()])
        run(KILLED_READER, tmp_path / "s" / "store")
        assert len(_readers(recorder) - {os.getpid()}) == 1
        recorder.append([event()])
        recorder.append([event()])

        assert _readers(recorder) <= {os.getpid()}


def _readers(recorder: LMDBRecorder) -> set[int]:
    return {int(line.split()[0]) for line in _lmdb(recorder).readers().splitlines()[1:]}


def test_a_folder_whose_name_is_no_utf8_holds_a_ledger_like_any_other(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))

    with opened(folder, create=True) as recorder:
        assert recorder.append([event()]) == 1

    with opened(folder) as recorder:
        assert len(recorder.rows(0, 10)) == 1
