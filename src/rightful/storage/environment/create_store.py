"""Create an empty store, completely or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path

import lmdb
import msgspec

from rightful import limits
from rightful.encoding.merkle import EMPTY_ROOT
from rightful.errors import ForeignStoreError
from rightful.storage import folder_sync, locks
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.journal.journal_records import JournalKey, TablesState
from rightful.storage.tables.store_kinds import ABOUT, FORMAT, META, About, Kind


def create(root: Path, kind: Kind) -> None:
    """Create an empty store of a kind, completely or not at all, unless one exists.

    Raises:
        ForeignStoreError: The path is a file. It was not touched.
        StorageError: The disk is full, or permission is missing.
    """
    if os.path.isfile(root):  # noqa: PTH113 - False for a path that is too long
        raise ForeignStoreError(str(root), "it is a file, not a folder")
    try:
        if not root.exists():
            store_files.make_folders(root)
        turn = locks.Flock.open(root / "writer.lock")
        try:
            turn.exclusive()  # another process may be creating the store
            if not (root / store_files.STORE).exists():
                _make(root, kind)
        finally:
            turn.close()
    except (lmdb.Error, OSError) as error:
        raise storage_error(root, error) from error


def _make(root: Path, kind: Kind) -> None:
    """Make the store in a temporary folder and rename it, so that a kill leaves no half-made store."""
    half = root / store_files.HALF_MADE
    shutil.rmtree(half, ignore_errors=True)  # left by a process that was killed while it created the store
    store_files.make_folder(half)
    os.close(locks.open_private(half / store_files.DATA))
    store_files.make_lock_file(half)
    about = About(FORMAT, kind.name, str(uuid.uuid4()))
    if kind.codec is not None:
        about, key = with_new_key(about)
        store_files.make_journal_file(half, key.beginning(TablesState(0, EMPTY_ROOT)))
    env = lmdb.open(
        os.fsencode(half),
        map_size=limits.MAP_BYTES,
        max_dbs=len(kind.tables) + 1,
        max_readers=limits.MAX_READERS,
        lib_version=0,
    )
    with env, env.begin(write=True) as txn:
        meta = env.open_db(META, txn=txn)
        for name, dup in kind.tables.items():
            env.open_db(name.encode(), txn=txn, dupsort=dup, dupfixed=dup)
        txn.put(ABOUT, about.to_bytes(), db=meta)
    folder_sync.sync_folder(half)
    half.rename(root / store_files.STORE)
    folder_sync.sync_folder(root)


def with_new_key(about: About) -> tuple[About, JournalKey]:
    """Return the store's record with a new journal key in it, and the key of that journal."""
    key = os.urandom(32)
    about = msgspec.structs.replace(about, format=FORMAT, journal_bytes=limits.JOURNAL_BYTES, key=key.hex())
    return about, JournalKey(about.id, key)


def make_journal(store: Path, begins_with: bytes) -> bool:
    """Make a journal. Replaces one that is no longer used, or that a killed process left half made.

    Returns:
        Whether it was made. If not, no file is left.
    """
    try:
        remove_journal(store)
        store_files.make_journal_file(store, begins_with)
        folder_sync.sync_folder(store)
    except OSError:
        with contextlib.suppress(OSError):
            remove_journal(store)
        return False
    return True


def remove_journal(store: Path) -> None:
    """Remove a journal that its store's record does not name."""
    (store / store_files.JOURNAL).unlink(missing_ok=True)
