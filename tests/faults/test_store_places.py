"""Where a store is made, and what stands in the place of its locks; each failure is an error that names it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import lmdb
import pytest
from tests.faults.support import event, filled, into_tables, opened, overwrite, records

import rightful
from rightful.errors import DamagedRowError, ForeignStoreError, OutcomeUnknownError, StorageError
from rightful.storage import folder_sync
from rightful.storage.environment import store_files
from rightful.storage.writer import Writer


def test_folders_above_a_new_store_are_private_and_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask says: transcripts are private, and a folder whose name is lost loses all that is in it."""
    synced: list[str] = []
    sync = folder_sync.sync_folder

    def syncing(path: Path) -> None:
        synced.append(path.name)
        sync(path)

    monkeypatch.setattr(folder_sync, "sync_folder", syncing)
    before = os.umask(0)
    try:
        opened(tmp_path / "a" / "b" / "c", create=True).close()
    finally:
        os.umask(before)

    for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c", tmp_path / "a/b/c/store"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert synced[:3] == [tmp_path.name, "a", "b"]


@pytest.mark.parametrize("name", ["ledger.lock", "queue.lock", "writer.lock"])
@pytest.mark.parametrize("what", ["link", "folder"])
def test_what_is_not_a_file_in_the_place_of_a_lock_is_refused(tmp_path: Path, name: str, what: str) -> None:
    folder = filled(tmp_path / "s")
    (folder / name).unlink()
    if what == "link":
        (folder / name).symlink_to(tmp_path / "elsewhere")
    else:
        (folder / name).mkdir()
    with pytest.raises(ForeignStoreError, match=f"{name} is not a regular file"):
        opened(folder)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS], ids=errno.errorcode.get)
@pytest.mark.parametrize("create", [False, True])
def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, create: bool
) -> None:
    """To try again would not help."""
    folder = tmp_path / "new" if create else filled(tmp_path / "s")

    def flock(_: int, __: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageError, match=r"cannot lock files \(.*\). .* Move the ledger to a local"):
        opened(folder, create=create)


LINE = {"type": "session.started", "producer": "p", "key": "k", "session": "s:1", "at": "2026-08-01T10:15:00Z"}


def test_a_flipped_bit_in_a_salt_is_damage_and_no_conflict(tmp_path: Path) -> None:
    """An honest repeat would be stored again, as a conflict, though nothing of it differs."""
    with pytest.MonkeyPatch.context() as patch:
        into_tables(patch)
        with rightful.open(tmp_path / "s", create=True) as ledger:
            assert ledger.append([LINE])[0].outcome == "appended"
    with lmdb.open(str(tmp_path / "s/store"), max_dbs=9, lib_version=0) as env, env.begin(write=True) as txn:
        table = env.open_db(b"payloads", txn=txn, create=False)
        salt = bytearray(txn.get((1).to_bytes(8, "big"), db=table) or b"")
        salt[7] ^= 1
        txn.put((1).to_bytes(8, "big"), bytes(salt), db=table)

    with rightful.open(tmp_path / "s") as ledger:
        with pytest.raises(DamagedRowError, match=r"position 1 .* its payload does not match its commitment"):
            ledger.append([LINE])
        assert ledger.append([{**LINE, "key": "another"}])[0].position == 2


def test_an_answer_rests_on_the_record_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that reads meanwhile may find it gone: the system drops what it could not write.

    The sync then proves nothing of it, though it succeeds.
    """
    folder = filled(tmp_path / "s", 2)
    with opened(folder) as recorder:
        recorder.append([event("warm")])
        real = Writer._make_durable

        def dropped(self: Writer, batch: list[object]) -> None:
            at, record = records(folder)[3]
            overwrite(folder, at, bytes(record.size))
            assert recorder.head() == 3
            real(self, batch)  # type: ignore[arg-type]  # as it came

        with monkeypatch.context() as patch:
            patch.setattr(Writer, "_make_durable", dropped)
            with pytest.raises(OutcomeUnknownError, match="not in the journal any more"):
                recorder.append([event("dropped")])
        assert recorder.append([event("next")]) == 4


def test_the_tables_are_synced_in_each_round_that_another_process_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ended it may have been killed in its last sync, and what the journal had is written over."""
    from tests.faults.support import run
    from tests.faults.test_journal_handles import ROUND

    folder, synced = filled(tmp_path / "s"), list[str]()
    with opened(folder) as recorder, monkeypatch.context() as patch:
        real = store_files.sync_data

        def syncing(store: Path) -> None:
            synced.append(store.name)
            real(store)

        patch.setattr(store_files, "sync_data", syncing)
        for n in range(1, 4):
            assert run(ROUND.replace('recorder.append([event("journal"', '([event("journal"'), folder).returncode == 0
            assert recorder.append([event("first of a round")])
            assert recorder.append([event("second")])
            assert len(synced) == n


def test_a_round_that_this_process_ended_is_not_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB tells of a commit after its last sync."""
    folder, synced = filled(tmp_path / "s"), list[str]()
    with opened(folder) as recorder, monkeypatch.context() as patch:
        patch.setattr(store_files, "sync_data", lambda store: synced.append(store.name))
        for _ in range(3):
            recorder.append([event("x" * 200_000)])
            recorder.append([event("journal")])
    assert synced == []
