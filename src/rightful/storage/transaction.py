"""A write transaction of LMDB in our turn, and what it did when its commit failed."""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from rightful.errors import ClosedError, StorageError
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error


class SpoiledError(Exception):
    """A commit did not happen, so none of its requests is written; the cause says why."""


class UnclearError(Exception):
    """Nobody can say whether a commit happened."""


class Transaction:
    """The transactions of one writer, one after the other."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._number = 0
        self._txn: lmdb.Transaction[bytes] | None = None

    def begin(self) -> lmdb.Transaction[bytes]:
        """Begin one. One that an exception left open is ended first.

        Raises:
            StorageError: The store failed.
        """
        self.abort()
        try:
            try:
                self._txn = self._env.begin_write()
            except (lmdb.PanicError, ClosedError):  # an earlier commit failed, and so did asking
                self._env.reopen()
                self._txn = self._env.begin_write()
        except (lmdb.Error, OSError) as error:
            raise storage_error(self._env.root, error) from error
        self._number = self._txn.id()
        return self._txn

    def abort(self) -> None:
        """End it, and write nothing."""
        if self._txn is not None:
            self._txn.abort()  # of one that has ended, nothing
            self._txn = None

    def commit(self, stands: Callable[[lmdb.Transaction[bytes]], bool]) -> int:
        """Commit it, durable on return; return its number.

        Args:
            stands: Tells whether what was to be committed last is there, if the commit failed.

        Raises:
            SpoiledError: Nothing was written.
            UnclearError: Nobody can say.
        """
        assert self._txn is not None
        try:
            self._txn.commit()
        except lmdb.Error as error:
            self._settle(error, stands)
        self._txn = None
        return self._number

    def _settle(self, error: lmdb.Error, stands: Callable[[lmdb.Transaction[bytes]], bool]) -> None:
        """Find out what a failed commit did: reopen, and ask for the bytes it was to write.

        The turn is still ours, so what stands there now is ours or older. The disk may have the page that
        names the commit, and LMDB only wrote the older one over it: without a sync a power cut would
        bring the commit back, and rows that the journal got meanwhile would be lost behind it.
        """
        try:
            self._env.reopen()
            store_files.sync_data(self._env.data.parent)
            there = self._env.read(lambda txn: txn.id() == self._number and stands(txn))
        except (lmdb.Error, OSError, StorageError) as again:
            raise UnclearError(f"{error}; {again}") from error
        if not there:
            raise SpoiledError from storage_error(self._env.root, error)
