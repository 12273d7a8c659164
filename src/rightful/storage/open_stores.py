"""The stores that this process has open, and how they survive a fork.

A child may not use what it inherited, and LMDB refuses to open the same file twice, so the
child closes it at once. That close frees the reader slots of the *parent*. So the parent waits,
without any transaction, until the child has closed. Neither of them unlocks anything, because a fork
shares a flock.
"""

from __future__ import annotations

import io
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rightful.errors import ForeignStoreError, LedgerNotFoundError, ReadOnlyStoreError
from rightful.storage.critical_sections import run_locked
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.tables.store_kinds import Kind
from rightful.storage.writer import CommitSignal, CommitterMaker, Writer

_HANDSHAKE_MS: Final = 5_000
"""How long a parent waits until its child has closed what it inherited; milliseconds."""

_GLANCE_MIN_S: Final = 0.001
_GLANCE_MAX_S: Final = 0.032
"""How often a waiting thread checks for commits of other processes; seconds, growing."""


class Store:
    """An open store, its writer, and the handles that share it.

    Attributes:
        env: The LMDB environment.
        commit_signal: Notifies this process's threads of its own commits.
        writer: Commits for all handles; None while only readers have it open.
        holders: One object for each handle on it.
        is_closing: Whether the last handle is releasing the store, or has released it.
        shutting: The lock of the thread that closes the store.
    """

    def __init__(self, env: Environment, make_committer: CommitterMaker, holder: object) -> None:
        self.env = env
        self.commit_signal = CommitSignal()
        self.holders = {holder}
        self.is_closing = False
        self.shutting = threading.RLock()
        self._make_committer = make_committer
        self.writer = None if env.readonly else Writer(env, make_committer(env), self.commit_signal)

    def wait_until(
        self, reached: Callable[[], bool], timeout_s: float | None = None, stop: threading.Event | None = None
    ) -> bool:
        """Wait until a condition holds that commits can change.

        Commits of this process wake it. For those of other processes it polls LMDB's counter and the journal.

        Returns:
            Whether it holds; False if the time limit passed or `stop` was set first.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        glance_s, seen = _GLANCE_MIN_S, (-1, -1, -1)
        while True:
            now = self.commit_signal.count, self.env.last_transaction(), self.env.journal.read_state()[1]
            if now != seen:
                seen, glance_s = now, _GLANCE_MIN_S
                if reached():
                    return True
            left_s = glance_s if until is None else min(glance_s, until - time.monotonic())
            if left_s <= 0 or (stop is not None and stop.is_set()):
                return False
            self.commit_signal.wait(seen[0], left_s)
            glance_s = min(2 * glance_s, _GLANCE_MAX_S)

    def allow_writing(self) -> None:
        """Start a writer, if there is none."""
        if self.writer is None:
            self.env.allow_writing()
            self.writer = Writer(self.env, self._make_committer(self.env), self.commit_signal)

    def shut(self) -> None:
        """Stop the writer, then close. After an exception it can be called again."""
        if self.writer is not None:
            self.writer.stop()
        self.env.close()

    def forget(self) -> None:
        """Close what the child of a fork inherited."""
        if self.writer is not None:
            self.writer.forget()
        self.env.after_fork_in_child()


class _Registry:
    """The open stores of this process, by the identity of their file."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stores: dict[tuple[int, int], Store] = {}
        self.is_forking = False  # whether the lock is held during a fork
        self.pipe: tuple[io.FileIO, ...] | None = None
        self.pid = os.getpid()  # last, so that an interrupted reset starts again


_registry = _Registry()


def acquire(
    holder: object,
    path: str | os.PathLike[str],
    kind: Kind,
    make_committer: CommitterMaker,
    *,
    create: bool = False,
    readonly: bool = False,
) -> Store:
    """Return the store at a path, opened once in this process. `release` must follow, also after an exception.

    Args:
        holder: Any object of the handle's own; it identifies the handle from then on.
        path: The folder.
        kind: The kind that the store must have.
        make_committer: Creates its writer's `Committer`.
        create: Create the store if it does not exist.
        readonly: Request read access only.

    Raises:
        LedgerNotFoundError: The store does not exist.
        ForeignStoreError: The folder is not a complete store of this kind.
        StorageError: It cannot be opened.
    """
    root = Path(os.path.realpath(path))

    def open_or_share() -> Store:
        if create and not os.path.exists(root / store_files.STORE):  # noqa: PTH110 - False for a path that is too long
            from rightful.storage.environment import (
                create_store,  # importing it costs every hook 2 ms, and few processes create a store
            )

            create_store.create(root, kind)
        key = _identity(root)
        store = _registry.stores.get(key)
        if store is None:
            _registry.stores[key] = store = _open(root, kind, make_committer, holder, readonly=readonly)
        elif not store.is_closing:
            _share(store, kind, holder, readonly=readonly)
        return store

    while (store := run_locked(_registry.lock, open_or_share)).is_closing:
        _shut(store)  # waits for the thread that closes it, or finishes if an exception interrupted that thread
    return store


def _share(store: Store, kind: Kind, holder: object, *, readonly: bool) -> None:
    """Add a handle to a store that is already open."""
    if store.env.kind.name != kind.name:
        raise ForeignStoreError(str(store.env.root), f"it is a {store.env.kind.name} store, not a {kind.name} store")
    if not readonly:
        store.allow_writing()
    store.holders.add(holder)


def _open(root: Path, kind: Kind, make_committer: CommitterMaker, holder: object, *, readonly: bool) -> Store:
    env = Environment(root, kind, readonly=readonly)
    try:
        env.open()
        if env.is_outdated():
            from rightful.storage.journal.journal_upgrade import upgrade  # a store needs it once

            upgrade(env)
        return Store(env, make_committer, holder)
    except BaseException:
        env.close()
        raise


def release(holder: object) -> None:
    """Release the store of a handle, if it has one. The last handle closes the store.

    It waits for the writer thread. So the caller may not hold the lock of all stores, which that thread may need to
    collect a handle of another store. After an exception it can be called again, and continues.
    """
    for store in run_locked(_registry.lock, _given_back, holder):
        if store.is_closing:
            _shut(store)
        store.commit_signal.announce()  # threads that wait through this handle must notice that it is closed


def _given_back(holder: object) -> list[Store]:
    """Return the stores of a handle. A store without another handle is marked as closing, and stays until closed."""
    stores = [store for store in _registry.stores.values() if holder in store.holders]
    for store in stores:
        store.is_closing = len(store.holders) == 1
        if not store.is_closing:
            store.holders.discard(holder)
    return stores


def _shut(store: Store) -> None:
    run_locked(store.shutting, store.shut)
    run_locked(_registry.lock, _forget, store)


def _forget(store: Store) -> None:
    for key in [key for key, known in _registry.stores.items() if known is store]:
        del _registry.stores[key]


def _identity(root: Path) -> tuple[int, int]:
    store = root / store_files.STORE
    try:
        seen = (store / store_files.DATA).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if store.exists():
            raise ForeignStoreError(str(root), f"{store_files.STORE}/{store_files.DATA} is missing") from error
        raise LedgerNotFoundError(str(root)) from error
    except PermissionError as error:
        raise ReadOnlyStoreError(str(root), "you do not have permission to read it") from error
    except OSError as error:
        raise storage_error(root, error) from error
    return seen.st_dev, seen.st_ino


def _before_fork() -> None:
    if not _registry.is_forking:
        _registry.lock.acquire(); _registry.is_forking = True  # noqa: E702  # fmt: skip  # on one line: both or neither
    if _registry.stores and _registry.pipe is None:
        _registry.pipe = tuple(map(io.FileIO, os.pipe(), "rw"))
    for store in _registry.stores.values():
        store.env.before_fork()


def _after_fork_in_parent() -> None:
    if _registry.pipe is not None:
        _await_child(*_registry.pipe)
        _registry.pipe = None
    for store in _registry.stores.values():
        store.env.after_fork_in_parent()
    if _registry.is_forking:
        _registry.is_forking = False; _registry.lock.release()  # noqa: E702  # fmt: skip  # as above


def _await_child(reading: io.FileIO, writing: io.FileIO) -> None:
    """Wait for the end of the pipe: the child has closed what it inherited, or has ended."""
    writing.close()
    if not reading.closed:
        poll = select.poll()
        poll.register(reading, select.POLLIN | select.POLLHUP)
        poll.poll(_HANDSHAKE_MS)
        reading.close()


def _after_fork_in_child() -> None:
    if _registry.pid == os.getpid():
        return
    for store in _registry.stores.values():
        store.forget()
    for end in _registry.pipe or ():
        end.close()
    _registry.__init__()  # type: ignore[misc]  # drops the parent's locks


if hasattr(os, "register_at_fork"):
    for _ in range(2):  # Python discards an exception raised in this hook, so the second attempt completes it
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=_after_fork_in_parent,
            after_in_child=_after_fork_in_child,
        )
