"""Views stored in LMDB: their state and their read position, in one transaction."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import lmdb
from eventsourcing.persistence import (
    IntegrityError,
    ProgrammingError,
    Tracking,
    TrackingRecorder,
    WaitInterruptedError,
)

from rightful import limits
from rightful.errors import ClosedError
from rightful.storage import open_stores
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.tables.store_kinds import Kind
from rightful.storage.tables.store_tables import word_key
from rightful.storage.transaction import Transaction
from rightful.storage.writer import Request

VIEWS: Final = Kind("views", MappingProxyType({"tracking": False, "state": False}))
"""A store of views; it can be deleted and rebuilt."""

_ID: Final = struct.Struct(">Q")
_KEY_BYTES: Final = 511
"""Longest key of LMDB 0.9; bytes."""

T = TypeVar("T")


class ViewState:
    """The state of one view inside a transaction: keys and values are bytes. Valid only during the transaction."""

    __slots__ = ("_prefix", "_table", "_txn", "touched")

    def __init__(self, env: Environment, txn: lmdb.Transaction[bytes], name: str) -> None:
        self._txn = txn
        self._table: Any = env.tables["state"]
        self._prefix = name.encode() + b"\0"
        self.touched = False

    def get(self, key: bytes) -> bytes | None:
        """Return the value of the key, or None."""
        return self._txn.get(self._key(key), db=self._table)

    def put(self, key: bytes, value: bytes) -> None:
        """Store the value of the key, replacing any existing one."""
        self.touched = True
        self._txn.put(self._key(key), value, db=self._table)

    def delete(self, key: bytes) -> bool:
        """Delete the key; return whether it existed."""
        self.touched = True
        return self._txn.delete(self._key(key), db=self._table)

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that begin with the prefix, ascending, and their values."""
        start = self._prefix + prefix
        with self._txn.cursor(db=self._table) as cursor:
            if not cursor.set_range(start):
                return
            for key, value in cursor:
                if not key.startswith(start):
                    return
                yield key[len(self._prefix) :], value

    def _key(self, key: bytes) -> bytes:
        whole = self._prefix + key
        if len(whole) > _KEY_BYTES:
            msg = f"a view's name and key can have at most {_KEY_BYTES - 1} bytes together, got {len(whole) - 1}"
            raise ProgrammingError(msg)
        return whole


class _ViewCommitter:
    """The work of the writer of views in a transaction."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._transaction = Transaction(env)
        self._touched = self._touching = False

    def begin(self) -> None:
        self._txn = self._transaction.begin()
        self._touched = self._touching = False

    def apply(self, request: Request) -> Any:  # noqa: ANN401 - as the work
        name, tracking, work = request.work
        self._touching = False
        if tracking is not None:
            self._track(name, tracking)
        state = ViewState(self._env, self._txn, name)
        try:
            return None if work is None else work(state)
        finally:
            self._touching = self._touching or state.touched
            self._touched = self._touched or self._touching

    def _track(self, name: str, tracking: Tracking) -> None:
        key = tracking_key(name, tracking.application_name)
        record = self._txn.get(key, db=self._env.tables["tracking"])
        if record is not None and (last := _ID.unpack(record)[0]) >= tracking.notification_id:
            msg = f"{tracking.application_name} is already tracked up to {last}; {tracking} was refused"
            raise IntegrityError(msg)
        self._touching = self._touched = True
        self._txn.put(key, _ID.pack(tracking.notification_id), db=self._env.tables["tracking"])

    def spoiled(self) -> bool:
        return self._touching

    def commit(self) -> None:
        if self._touched:
            self._transaction.commit(lambda _: True)  # we have the write lock, so the number identifies our commit
        else:
            self._transaction.abort()

    def abandon(self) -> None:
        self._transaction.abort()

    def sync(self) -> None:
        """Do nothing: a commit is synced before others see it."""


def tracking_key(name: str, application_name: str) -> bytes:
    """Return the key of a view's position in an application."""
    return word_key(f"{name}\0{application_name}")


class LMDBTrackingRecorder(TrackingRecorder):
    """A view in LMDB. A subclass changes its state with `transact` and reads it with `query`.

    Args:
        path: The folder of the store of views; several views may share it.
        name: The view's name; it separates the views of one store.

    Raises:
        StorageError: The store cannot be created or opened.
    """

    _handle: object = None  # until `__init__` sets one

    def __init__(self, path: str | os.PathLike[str], *, name: str = "view") -> None:
        self._handle = object()
        self._store: open_stores.Store | None = None
        self._name = name
        self._path = os.fspath(path)
        try:
            self._store = open_stores.acquire(self._handle, path, VIEWS, _ViewCommitter, create=True)
        except BaseException:
            open_stores.release(self._handle)
            raise

    def transact(self, tracking: Tracking | None, work: Callable[[ViewState], T] | None = None) -> T | None:
        """Advance the position and change the state, both or neither; durable on return.

        Args:
            tracking: The position that the view has read up to with this change; None leaves it unchanged.
            work: Changes the state. It runs on the writer's thread and may be called again.

        Raises:
            IntegrityError: The position is not beyond the last one. Nothing was changed.
            StorageError: The store failed, or another process held the write lock. Nothing was changed.
            OutcomeUnknownError: It is unknown whether anything was changed; check `max_tracking_id`.
        """
        writer = self._open().writer
        assert writer is not None
        return cast("T | None", writer.submit((self._name, tracking, work), limits.WAIT_S))

    def query(self, work: Callable[[ViewState], T]) -> T:
        """Return what `work` reads from the state in one short read transaction."""
        env = self._open().env
        return env.read(lambda txn: work(ViewState(env, txn, self._name)))

    def insert_tracking(self, tracking: Tracking) -> None:
        """Advance the position without changing the state.

        Raises:
            IntegrityError: The position is not beyond the last one.
        """
        self.transact(tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return the position that the view has read up to in an application; None if it has not begun."""
        env, key = self._open().env, tracking_key(self._name, application_name)
        record = env.read(lambda txn: txn.get(key, db=env.tables["tracking"]))
        return None if record is None else int(_ID.unpack(record)[0])

    def wait(
        self,
        application_name: str,
        notification_id: int | None,
        timeout: float = 1.0,
        interrupt: threading.Event | None = None,
    ) -> None:
        """Wait until the view has read up to a position; a commit of this process wakes it at once.

        Raises:
            TimeoutError: It did not within `timeout` seconds.
            WaitInterruptedError: `interrupt` was set before.
        """
        reached = partial(self.has_tracking_id, application_name, notification_id)
        if self._open().wait_until(reached, timeout, interrupt):
            return
        if interrupt is not None and interrupt.is_set():
            raise WaitInterruptedError
        msg = f"{self._name} did not process {application_name!r} up to {notification_id} within {timeout:g} s"
        raise TimeoutError(msg)

    def close(self) -> None:
        """Release the store; idempotent."""
        self._store = None
        open_stores.release(self._handle)  # the child of a fork has no entry for its parent's handle

    def __del__(self) -> None:
        self.close()

    def _open(self) -> open_stores.Store:
        if self._store is None:
            raise ClosedError(self._path)
        return self._store
