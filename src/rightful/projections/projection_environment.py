"""The LMDB environment in which a projection is stored: one opener at a time, and sealed.

LMDB follows a damaged page number out of its file and dies by SIGBUS. So the CRC-32 of the
whole file is stored in a second file, and a file that does not match is not opened. The store
can be rebuilt, so no process waits long for it, and a stopped process blocks no other.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from rightful import limits
from rightful.storage import locks
from rightful.storage.critical_sections import run_locked
from rightful.storage.environment import store_files

T = TypeVar("T")

SEAL = "data.crc32"
"""CRC-32 of the whole data file, in hexadecimal, written after it."""

TURN_WAIT_S = 5.0
"""How long another process is waited for that reads or writes what is stored; seconds."""

_GLANCE_S = 0.005
_READ_BYTES = 1 << 20


class UnfitError(Exception):
    """What is stored cannot be used; it is rebuilt."""


class HeldError(Exception):
    """Another process has it, and keeps it."""


class _Here:
    """Whose turn it is in this process: LMDB allows one environment of a file in it."""

    turn = threading.Lock()

    @classmethod
    def begin_anew(cls) -> None:
        """Forget, in the child of a fork, the thread that had the turn."""
        cls.turn = threading.Lock()


for _ in range(2):  # Python drops what is raised in one; the second one then does it
    os.register_at_fork(after_in_child=_Here.begin_anew)


def make(folder: Path) -> None:
    """Make the folders and the lock file, as far as they are missing."""
    if not folder.exists():
        store_files.make_folder(folder)
    run_locked(_Here.turn, _make, folder / store_files.STORE)


def _make(store: Path) -> None:
    if not store.exists():
        store_files.make_folder(store)
    if not store_files.lock_file_is_whole(store):
        store_files.make_lock_file(store)


def delete(folder: Path) -> None:
    """Remove what is stored."""
    run_locked(_Here.turn, shutil.rmtree, folder / store_files.STORE, ignore_errors=True)


def with_opened(folder: Path, work: Callable[[lmdb.Environment], T], *, readonly: bool) -> T:
    """Return what the work returns, given what is stored in a projection's folder; alone in this process and among all.

    Whatever is raised, and wherever, the environment and the lock file are closed: each is entered and left in C,
    on one line.

    Raises:
        HeldError: Another process kept it for all of `TURN_WAIT_S`.
        UnfitError: It is not what was sealed.
        StorageError: It is not a complete LMDB file.
    """
    return run_locked(_Here.turn, _in_turn, folder, work, readonly=readonly)


def _in_turn(folder: Path, work: Callable[[lmdb.Environment], T], *, readonly: bool) -> T:
    with io.FileIO(locks.open_private(folder / "turn.lock")) as turn: return _turn(turn, folder, work, readonly=readonly)  # noqa: E501, E701  # fmt: skip


def _turn(turn: io.FileIO, folder: Path, work: Callable[[lmdb.Environment], T], *, readonly: bool) -> T:
    store = folder / store_files.STORE
    try:
        _wait_for(turn)
        _check(folder, store)
        if not readonly and not (store / store_files.DATA).exists():
            os.close(locks.open_private(store / store_files.DATA))  # LMDB would make it as the umask says
        result = _with_lmdb(store, work, readonly=readonly)
    finally:
        fcntl.flock(turn, fcntl.LOCK_UN)  # closing is not enough: a child may have inherited it
    return result


def _with_lmdb(store: Path, work: Callable[[lmdb.Environment], T], *, readonly: bool) -> T:
    try:
        return _with_environment(store, work, readonly=readonly)
    finally:
        if not readonly:
            _seal(store)


def _with_environment(store: Path, work: Callable[[lmdb.Environment], T], *, readonly: bool) -> T:
    options: Any = {"map_size": limits.MAP_BYTES, "mode": locks.PRIVATE_FILE, "max_readers": limits.MAX_READERS}
    options |= {"create": not readonly, "readonly": readonly, "lib_version": 0}
    with lmdb.open(os.fsencode(store), **options) as env: return work(env)  # noqa: E701  # fmt: skip


def _wait_for(turn: io.FileIO) -> None:
    until = time.monotonic() + TURN_WAIT_S
    while True:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise HeldError from None
            time.sleep(_GLANCE_S)
        else:
            return


def _check(folder: Path, store: Path) -> None:
    for name in (store_files.DATA, store_files.LOCK, SEAL):
        path = store / name
        if path.exists() and not path.is_file():
            raise UnfitError(name)  # opening a pipe may wait for ever
    if (store / store_files.DATA).exists():
        store_files.inspect(folder, store)
        if not (store / SEAL).exists() or (store / SEAL).read_bytes() != _crc_of(store / store_files.DATA):
            raise UnfitError(SEAL)


def _seal(store: Path) -> None:
    new = store / f"{SEAL}.new"
    with os.fdopen(locks.open_private(new), "wb") as file:
        file.write(_crc_of(store / store_files.DATA))
        file.truncate()
    new.replace(store / SEAL)


def _crc_of(path: Path) -> bytes:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while part := file.read(_READ_BYTES):
            crc = zlib.crc32(part, crc)
    return b"%08x" % crc
