"""Which stores this process has open, and what happens to them when it forks.

A child may not use what it inherited, and LMDB refuses to open the same file twice. So the
child closes it at once. That close frees the reader slots of the *parent*; so the parent
stands still, without any transaction, until the child has closed. Nobody unlocks anything:
a flock is shared over fork.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rightful.errors import ForeignStoreError, LedgerNotFoundError, ReadOnlyStoreError
from rightful.recorders import files
from rightful.recorders.environment import Environment
from rightful.recorders.faults import storage_error
from rightful.recorders.kinds import Kind
from rightful.recorders.writer import News, SessionMaker, Writer

_HANDSHAKE_MS: Final = 5_000
"""How long a parent waits for its child to have closed what it inherited; milliseconds."""

_GLANCE_MIN_S: Final = 0.001
_GLANCE_MAX_S: Final = 0.032
"""How often a waiting thread looks for commits of other processes; seconds, growing."""


class Store:
    """An open store, its writer, and the handles that share it.

    Attributes:
        env: The LMDB environment.
        news: Tells this process's threads about its own commits.
        handles: How many hold it.
        is_shut: Set when it is closed, some time after the last of them has given it back.
    """

    def __init__(self, env: Environment, make_session: SessionMaker) -> None:
        self.env = env
        self.news = News()
        self.handles = 1
        self.is_shut = threading.Event()
        self._make_session = make_session
        self._writer = None if env.readonly else Writer(env, make_session(env), self.news)

    def submit(self, work: Any, timeout_s: float | None) -> Any:  # noqa: ANN401 - each session has its own
        """Have the writer do the work; as `Writer.submit`."""
        if self._writer is None:
            raise ReadOnlyStoreError(str(self.env.root))
        return self._writer.submit(work, timeout_s)

    def wait_until(
        self, reached: Callable[[], bool], timeout_s: float | None = None, stop: threading.Event | None = None
    ) -> bool:
        """Wait until something that commits change is so.

        Commits of this process wake it; for those of others it glances at LMDB's counter and the journal.

        Returns:
            Whether it is so; False when the time was over or `stop` was set first.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        glance_s, seen = _GLANCE_MIN_S, (-1, -1, -1)
        while True:
            now = self.news.count, self.env.last_transaction(), self.env.journal.now()[1]
            if now != seen:
                seen, glance_s = now, _GLANCE_MIN_S
                if reached():
                    return True
            left_s = glance_s if until is None else min(glance_s, until - time.monotonic())
            if left_s <= 0 or (stop is not None and stop.is_set()):
                return False
            self.news.wait(seen[0], left_s)
            glance_s = min(2 * glance_s, _GLANCE_MAX_S)

    def allow_writing(self) -> None:
        """Give it a writer, if it has none."""
        if self._writer is None:
            self.env.allow_writing()
            self._writer = Writer(self.env, self._make_session(self.env), self.news)

    def shut(self) -> None:
        """Stop the writer, then close."""
        if self._writer is not None:
            self._writer.stop()
        self.env.close()

    def forget(self, *, still: bool) -> None:
        """Close what the child of a fork inherited."""
        if self._writer is not None:
            self._writer.forget()
        self.env.after_fork_in_child(still=still)


class _Registry:
    """The open stores of this process by the identity of their file."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stores: dict[tuple[int, int], Store] = {}
        self.still: list[Store] = []
        self.pipe: tuple[int, int] | None = None


_registry = _Registry()


def acquire(
    path: str | os.PathLike[str],
    kind: Kind,
    make_session: SessionMaker,
    *,
    create: bool = False,
    readonly: bool = False,
) -> Store:
    """Return the store at a path, opened once in this process. `release` must follow.

    Args:
        path: The folder.
        kind: What it must hold.
        make_session: Makes what its writer does in a transaction.
        create: Make it if there is none.
        readonly: Ask for nothing but reading.

    Raises:
        LedgerNotFoundError: There is none.
        ForeignStoreError: What stands there is not a whole store of this kind.
        StorageError: It cannot be opened.
    """
    root = Path(os.path.realpath(path))
    while True:
        with _registry.lock:
            if create and not os.path.exists(root / files.STORE):  # noqa: PTH110 - of a path that is too long it says no
                from rightful.recorders import creation  # its imports cost every hook 2 ms, and few make a store

                creation.create(root, kind)
            key = _identity(root)
            store = _registry.stores.get(key)
            if store is None:
                store = _registry.stores[key] = _open(root, kind, make_session, readonly=readonly)
                return store
            if store.handles:
                _share(store, kind, readonly=readonly)
                return store
        store.is_shut.wait()


def _share(store: Store, kind: Kind, *, readonly: bool) -> None:
    """Give one more handle on a store that is open."""
    if store.env.kind.name != kind.name:
        raise ForeignStoreError(str(store.env.root), f"it is a {store.env.kind.name} store, not a {kind.name} store")
    if not readonly:
        store.allow_writing()
    store.handles += 1


def _open(root: Path, kind: Kind, make_session: SessionMaker, *, readonly: bool) -> Store:
    env = Environment(root, kind, readonly=readonly)
    env.open()
    try:
        if env.is_outdated():
            from rightful.recorders.upgrade import upgrade  # a store needs it once

            upgrade(env)
        return Store(env, make_session)
    except BaseException:
        env.close()
        raise


def release(store: Store) -> None:
    """Give a store back; the last one closes it.

    It waits for the turn of a thread, so not with the lock of all stores, which that thread may need: a handle
    of another one may be collected there.
    """
    if not store.env.is_ours():
        return
    with _registry.lock:
        store.handles -= 1
        is_last = not store.handles
    if is_last:
        try:
            store.shut()
        finally:
            with _registry.lock:
                for key in [key for key, known in _registry.stores.items() if known is store]:
                    del _registry.stores[key]
            store.is_shut.set()
    store.news.announce()  # threads that wait through this handle must see that it is closed


def _identity(root: Path) -> tuple[int, int]:
    store = root / files.STORE
    try:
        seen = (store / files.DATA).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if store.exists():
            raise ForeignStoreError(str(root), f"{files.STORE}/{files.DATA} is missing") from error
        raise LedgerNotFoundError(str(root)) from error
    except PermissionError as error:
        raise ReadOnlyStoreError(str(root), "you may not look into it") from error
    except OSError as error:
        raise storage_error(root, error) from error
    return seen.st_dev, seen.st_ino


def _before_fork() -> None:
    _registry.lock.acquire()
    if _registry.stores:
        _registry.pipe = os.pipe()
        _registry.still = [store for store in _registry.stores.values() if store.env.before_fork()]


def _after_fork_in_parent() -> None:
    try:
        if _registry.pipe is not None:
            _await_child(*_registry.pipe)
        for store in _registry.still:
            store.env.after_fork_in_parent()
    finally:
        _registry.pipe, _registry.still = None, []
        _registry.lock.release()


def _await_child(reading: int, writing: int) -> None:
    """Wait for the end of the pipe: the child has closed what it inherited, or is gone."""
    os.close(writing)
    poll = select.poll()
    poll.register(reading, select.POLLIN | select.POLLHUP)
    poll.poll(_HANDSHAKE_MS)
    os.close(reading)


def _after_fork_in_child() -> None:
    global _registry  # the parent's is left behind, with its locks
    parents, _registry = _registry, _Registry()
    for store in parents.stores.values():
        store.forget(still=store in parents.still)
    for fd in parents.pipe or ():
        os.close(fd)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
