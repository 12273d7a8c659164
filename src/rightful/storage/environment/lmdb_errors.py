"""Translate LMDB's errors into ours, by what they mean for the caller's data."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb

from rightful.errors import ForeignStoreError, ForkedError, ReadOnlyStoreError, StorageError, StoreFullError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_NO_PLACE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of a lock call where locks are not supported, as on some network file systems."""
_NOT_OURS = (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError, lmdb.PageNotFoundError)
_ROOM_BYTES = 1 << 20


def storage_error(folder: Path, error: lmdb.Error | OSError) -> StorageError:
    """Return the error to raise for a failure after which nothing of this call is stored."""
    path, code = str(folder), _code(error)
    if isinstance(error, (lmdb.MapFullError, lmdb.TxnFullError)) or code in _FULL:
        return StoreFullError(path, str(error))
    if isinstance(error, lmdb.ReadonlyError) or code in _READ_ONLY:
        return ReadOnlyStoreError(path, str(error))
    if isinstance(error, _NOT_OURS):
        return ForeignStoreError(path, f"LMDB cannot read it ({error})")
    if isinstance(error, lmdb.ReadersFullError):
        return StorageError(f"all reader slots of {path} are in use", "Close some readers and try again.")
    if isinstance(error, lmdb.MemoryError) or code == errno.ENOMEM:
        what = f"{path} needs 1 TiB of address space, but a limit of this process prevents it"
        return StorageError(what, "Nothing was written. Raise `ulimit -v` and try again.")
    if isinstance(error, OSError) and code in _NO_LOCKS | _NO_PLACE:
        return _wrong_place(path, error)
    if code == errno.EIO and _is_full(folder):
        return StoreFullError(path, f"{error}; the disk or a file size limit is full")
    return StorageError(f"{path} failed: {error}")


def _wrong_place(path: str, error: OSError) -> StorageError:
    if error.errno in _NO_LOCKS:
        what = f"the file system of {path} cannot lock files ({error.strerror})"
        return StorageError(what, "Nothing was written. Move the ledger to a local disk, not a network file system.")
    what = f"{path} cannot be used: {error.strerror}: {error.filename}"
    return StorageError(what, "Nothing was written. Pass another path.")


def opening_error(folder: Path, error: lmdb.Error | OSError, *, readonly: bool) -> StorageError:
    """Return the error to raise for a store that could not be opened."""
    if isinstance(error, lmdb.Error) and "already open" in str(error):
        return ForkedError(str(folder))
    if readonly and isinstance(storage_error(folder, error), ReadOnlyStoreError):
        what = f"{folder / 'store' / 'lock.mdb'} is not writable, but a reader must register in it ({error})"
        if isinstance(error, OSError):
            what = f"{folder} is not readable ({error})"
        return StorageError(what, "Nothing was changed. Ask the ledger's owner, or read a copy.")
    return storage_error(folder, error)


def _code(error: lmdb.Error | OSError) -> int:
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)  # py-lmdb's own errors have no code
    return code or 0


def _is_full(folder: Path) -> bool:
    """Return whether a short write, which LMDB reports as EIO instead of ENOSPC, means a full disk or a size limit."""
    import resource  # most runs never need it

    system = os.statvfs(folder)
    if system.f_bavail * system.f_frsize < _ROOM_BYTES:
        return True
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return False
    return limit - (folder / "store" / "data.mdb").stat().st_size < _ROOM_BYTES
