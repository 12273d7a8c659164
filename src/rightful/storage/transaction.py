"""LMDB write transactions under our write lock, and how a failed commit is resolved."""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from rightful.errors import ClosedError, StorageError
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error


class SpoiledError(Exception):
    """A commit did not happen, so none of its requests is written. The cause gives the reason."""


class UnclearError(Exception):
    """It is not known whether a commit happened."""


class Transaction:
    """The transactions of one writer, one after the other."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._number = 0
        self._txn: lmdb.Transaction[bytes] | None = None

    def begin(self) -> lmdb.Transaction[bytes]:
        """Begin a transaction. If an exception left one open, abort it first.

        Raises:
            StorageError: The store failed.
        """
        self.abort()
        try:
            try:
                self._txn = self._env.begin_write()
            except (lmdb.PanicError, ClosedError):  # an earlier commit failed, and so did reading its outcome
                self._env.reopen()
                self._txn = self._env.begin_write()
        except (lmdb.Error, OSError) as error:
            raise storage_error(self._env.root, error) from error
        self._number = self._txn.id()
        return self._txn

    def abort(self) -> None:
        """Abort the transaction. Nothing is written."""
        if self._txn is not None:
            self._txn.abort()  # has no effect if it has ended
            self._txn = None

    def commit(self, is_stored: Callable[[lmdb.Transaction[bytes]], bool]) -> int:
        """Commit the transaction, durable on return; return its number.

        Args:
            is_stored: Returns whether the transaction's last write is stored. Called if the commit failed.

        Raises:
            SpoiledError: Nothing was written.
            UnclearError: It is not known whether anything was written.
        """
        assert self._txn is not None
        try:
            self._txn.commit()
        except lmdb.Error as error:
            self._resolve_failure(error, is_stored)
        self._txn = None
        return self._number

    def _resolve_failure(self, error: lmdb.Error, is_stored: Callable[[lmdb.Transaction[bytes]], bool]) -> None:
        """Find out what a failed commit did: reopen the store, and compare the bytes that it was to write.

        We still have the write lock, so what is stored now is ours or older. The disk may have the meta page of the
        commit while LMDB wrote the older one over it only in memory. Without a sync a power cut would bring the commit
        back, and the rows that the journal got meanwhile would be lost.
        """
        try:
            self._env.reopen()
            store_files.sync_data(self._env.data.parent)
            there = self._env.read(lambda txn: txn.id() == self._number and is_stored(txn))
        except (lmdb.Error, OSError, StorageError) as again:
            raise UnclearError(f"{error}; {again}") from error
        if not there:
            raise SpoiledError from storage_error(self._env.root, error)
