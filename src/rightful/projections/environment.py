"""The LMDB environment in which a projection is stored: one opener at a time, and sealed.

LMDB follows a damaged page number out of its file and dies by SIGBUS. So the CRC-32 of the
whole file is kept beside it, and nothing is opened that does not fit. What is stored can be
done without; so nobody waits long for it, and a process that was stopped stops no other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from rightful import limits
from rightful.recorders import files, locks

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


os.register_at_fork(after_in_child=_Here.begin_anew)


def make(folder: Path) -> None:
    """Make the folders and the lock file, as far as they are missing."""
    store = folder / files.STORE
    if not folder.exists():
        files.make_folder(folder)
    with _Here.turn:
        if not store.exists():
            files.make_folder(store)
        if not files.lock_file_is_whole(store):
            files.make_lock_file(store)


def delete(folder: Path) -> None:
    """Remove what is stored."""
    with _Here.turn:
        shutil.rmtree(folder / files.STORE, ignore_errors=True)


@contextmanager
def opened(folder: Path, *, readonly: bool) -> Iterator[lmdb.Environment]:
    """Open what is stored in a projection's folder; alone, in this process and among all.

    Raises:
        HeldError: Another process kept it for all of `TURN_WAIT_S`.
        UnfitError: It is not what was sealed.
        StorageError: It is no whole LMDB file.
    """
    store = folder / files.STORE
    with _Here.turn:
        turn = locks.open_private(folder / "turn.lock")
        try:
            _wait_for(turn)
            _check(folder, store)
            if not readonly and not (store / files.DATA).exists():
                os.close(locks.open_private(store / files.DATA))  # LMDB would make it as the umask says
            env = lmdb.open(
                os.fsencode(store),
                map_size=limits.MAP_BYTES,
                mode=locks.PRIVATE_FILE,
                create=not readonly,
                readonly=readonly,
                max_readers=limits.MAX_READERS,
                lib_version=0,
            )
            try:
                yield env
            finally:
                env.close()
                if not readonly:
                    _seal(store)
        finally:
            fcntl.flock(turn, fcntl.LOCK_UN)  # closing is not enough: a child may have inherited it
            os.close(turn)


def _wait_for(turn: int) -> None:
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
    for name in (files.DATA, files.LOCK, SEAL):
        path = store / name
        if path.exists() and not path.is_file():
            raise UnfitError(name)  # opening a pipe may wait for ever
    if (store / files.DATA).exists():
        files.inspect(folder, store)
        if (store / SEAL).read_bytes() != _crc_of(store / files.DATA):
            raise UnfitError(SEAL)


def _seal(store: Path) -> None:
    new = store / f"{SEAL}.new"
    with os.fdopen(locks.open_private(new), "wb") as file:
        file.write(_crc_of(store / files.DATA))
        file.truncate()
    new.replace(store / SEAL)


def _crc_of(path: Path) -> bytes:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while part := file.read(_READ_BYTES):
            crc = zlib.crc32(part, crc)
    return b"%08x" % crc
