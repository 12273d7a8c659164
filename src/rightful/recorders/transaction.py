"""A write transaction of LMDB in our turn, and what it did when its commit failed."""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from rightful.errors import ClosedError, StorageError
from rightful.recorders.environment import Environment
from rightful.recorders.faults import storage_error
from rightful.recorders.kinds import ABOUT


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
        """Begin one.

        Raises:
            StorageError: The store failed.
        """
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

    def adopt(self) -> None:
        """Have everybody see a commit whose process was killed before LMDB told of it; in our turn.

        LMDB tells readers of a commit after its last write and sync. Who is killed in between leaves one
        that nobody sees and that the next commit goes on from: what was added to the journal meanwhile
        would stand at positions that are taken.

        Raises:
            StorageError: The store failed.
        """
        try:
            txn = self.begin()
            meta = self._env.tables["meta"]
            txn.put(ABOUT, txn.get(ABOUT, db=meta) or b"", db=meta)  # as it was: a commit of nothing is none
            self.commit(lambda _: True)  # the turn is ours, so the number of the transaction names ours
        except (lmdb.Error, SpoiledError, UnclearError) as error:
            self.abort()
            raise StorageError(f"{self._env.root} failed: {error.__cause__ or error}") from error

    def abort(self) -> None:
        """End it, and write nothing."""
        txn, self._txn = self._txn, None
        if txn is not None:
            txn.abort()

    def commit(self, stands: Callable[[lmdb.Transaction[bytes]], bool]) -> None:
        """Commit it, durable on return.

        Args:
            stands: Tells whether what was to be committed last is there, if the commit failed.

        Raises:
            SpoiledError: Nothing was written.
            UnclearError: Nobody can say.
        """
        txn, self._txn = self._txn, None
        assert txn is not None
        try:
            txn.commit()
        except lmdb.Error as error:
            self._settle(error, stands)

    def _settle(self, error: lmdb.Error, stands: Callable[[lmdb.Transaction[bytes]], bool]) -> None:
        """Find out what a failed commit did: reopen, and ask for the bytes it was to write.

        The turn is still ours, so what stands there now is ours or older.
        """
        try:
            self._env.reopen()
            with self._env.read() as txn:
                there = txn.id() == self._number and stands(txn)
        except (lmdb.Error, OSError, StorageError) as again:
            raise UnclearError(f"{error}; {again}") from error
        if not there:
            raise SpoiledError from storage_error(self._env.root, error)
