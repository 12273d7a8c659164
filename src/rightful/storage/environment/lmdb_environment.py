"""One LMDB environment per store and process, shared and counted by all handles on it.

LMDB forbids a second one in a process. Each rule here prevents a failure that we have seen: one
huge sparse map; every commit synced; LMDB's own lock always on; engine 0.9; private files;
short read transactions that run only our own code; a check for dead readers now and then.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import msgspec

from rightful import limits
from rightful.encoding.merkle import EMPTY_ROOT, HASH_BYTES
from rightful.errors import ClosedError, ForeignStoreError, ForkedError, InUseError
from rightful.storage import locks
from rightful.storage.critical_sections import ReadWriteLock, run_locked
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_errors import opening_error, storage_error
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import JournalKey, TablesState
from rightful.storage.tables.store_kinds import ABOUT, FORMAT, META, ROUND, TREE, About, Kind, tree_size

_SPARE_TABLES = 4  # a newer format may have more

T = TypeVar("T")

_FORK_WAIT_S = 5.0
"""How long a fork waits for reads to end; seconds. They take milliseconds, unless they fork themselves."""


class Environment:
    """An open store of this process. Get one from `open_stores.acquire`.

    Attributes:
        root: The folder that was passed.
        kind: The kind of store.
        about: The store's own record.
        readonly: Whether this process may only read.
        tables: The open tables by name.
        data: The mapped file.
        journal: The rows of small commits; opened with the rest.
    """

    def __init__(self, root: Path, kind: Kind, *, readonly: bool) -> None:
        self.root = root
        self.kind = kind
        self.readonly = readonly
        self.pid = os.getpid()
        self.write_gate: Any = threading.RLock()  # held while a write transaction is open; knows its owner
        self._forks = self._is_still = False  # whether this thread stops it for a fork, and whether it has stopped
        self.thread: int | None = None  # the thread that holds the gate
        self._writable = self._closed = False  # `_writable`: whether it is to be opened for writing
        self._can_write = False  # whether it was opened for writing
        self._store = root / store_files.STORE
        self.data = self._store / store_files.DATA
        self._lmdb_lock = ReadWriteLock()
        self._lmdb: lmdb.Environment | None = None
        self._hold: locks.Flock | None = None
        self.tables: dict[str, Any] = {}
        self.about = About(FORMAT, kind.name, "")
        self.journal = Journal(root, None, kind.codec, self.tables_state)

    # -- opening ---------------------------------------------------------------------------

    def open(self) -> None:
        """Check the files, lock the store shared, and open it.

        Raises:
            ForeignStoreError: It is not a complete store of this kind.
            InUseError: Another process holds the store exclusively.
            StorageError: It cannot be opened.
        """
        try:
            self._hold = locks.hold_shared(self.root, readonly=self.readonly)
            store_files.inspect(self.root, self._store)
            if os.access(self._store, os.W_OK):
                self._mend_lock_file()
            self._lmdb = self._open_lmdb()
            self._open_tables()
            with contextlib.suppress(lmdb.Error):  # on a read-only disk there is no reader table
                self._lmdb.reader_check()
            self._open_journal()
        except (lmdb.Error, OSError) as error:
            self.close()
            raise opening_error(self.root, error, readonly=self.readonly) from error
        except BaseException:
            self.close()
            raise

    def _mend_lock_file(self) -> None:
        """Recreate lock.mdb if it is missing and no process uses the deleted file."""
        if store_files.lock_file_is_whole(self._store):
            return
        if self._hold is None or not self._hold.try_alone():
            if (self._store / store_files.LOCK).exists():
                return  # the first opener gives it its full size
            self.close()  # so that the error does not list this process
            raise InUseError(str(self.root), locks.holders(self.root / "ledger.lock"))
        try:
            store_files.make_lock_file(self._store)
        finally:
            self._hold.share()

    def _open_lmdb(self) -> lmdb.Environment:
        """Open LMDB's part: for reading, until the writer acquires the write lock for the first time.

        Opening tables for writing waits for LMDB's own lock, which a stopped process may
        hold. The owner of our write lock need not wait.
        """
        return lmdb.open(
            os.fsencode(self._store),
            map_size=limits.MAP_BYTES,
            mode=locks.PRIVATE_FILE,
            create=False,
            readonly=not self._writable,
            max_readers=limits.MAX_READERS,
            max_dbs=len(self.kind.tables) + 1 + _SPARE_TABLES,
            lib_version=0,
        )

    def _open_tables(self) -> None:
        env = self._raw()
        meta = _table(env, META)
        with env.begin() as txn:
            self.about = self._checked(None if meta is None else txn.get(ABOUT, db=meta))
        tables = {"meta": meta}
        for name, dup in self.kind.tables.items():
            tables[name] = _table(env, name.encode(), dup=dup)
            if tables[name] is None:
                raise ForeignStoreError(str(self.root), f"table {name!r} is missing")
        self.tables = tables

    def _checked(self, record: bytes | None) -> About:
        try:
            about = msgspec.json.decode(record or b"", type=About)
        except msgspec.DecodeError as error:
            raise ForeignStoreError(str(self.root), "it is another program's LMDB file") from error
        if not 1 <= about.format <= FORMAT:
            raise ForeignStoreError(str(self.root), f"its format is {about.format}; the newest known one is {FORMAT}")
        if not about.fits():
            raise ForeignStoreError(str(self.root), "its metadata is damaged: the checksum does not match")
        if about.kind != self.kind.name:
            raise ForeignStoreError(str(self.root), f"it is a {about.kind} store, not a {self.kind.name} store")
        return about

    def _open_journal(self) -> None:
        if self.kind.codec is not None and self.about.journal_bytes:
            fd = store_files.open_journal(self.root, self._store, self.about.journal_bytes, readonly=self.readonly)
            key = JournalKey(self.about.id, bytes.fromhex(self.about.key)) if self.about.key else None
            self.journal = Journal(self.root, fd, self.kind.codec, self.tables_state, key)

    def is_outdated(self) -> bool:
        """Return whether the store needs a journal of the current format, and gets one if no other process uses it."""
        is_done = self.about.format == FORMAT and not self.about.rewriting
        return self.kind.codec is not None and not self.readonly and not is_done

    def alone(self) -> contextlib.AbstractContextManager[bool]:
        """Acquire the write lock and the exclusive store lock, if both are free; yield whether both were acquired."""
        assert self._hold is not None
        return locks.alone_in_turn(self.root, self._hold)

    def change(self, about: About) -> None:
        """Store a new record about the store, and open the journal that it names.

        Raises:
            lmdb.Error: It could not be stored. Which record is stored is unknown until the store is opened again.
        """
        self._writable = True
        self.reopen()
        with self._raw().begin(write=True) as txn:
            txn.put(ABOUT, about.to_bytes(), db=self.tables["meta"])

    def renew(self) -> None:
        """Open the store again, with the journal that its record names."""
        self.reopen()
        self.journal.forget()
        self.journal = Journal(self.root, None, self.kind.codec, self.tables_state)
        self._open_journal()

    def allow_writing(self) -> None:
        """Reopen for writing what was opened for reading.

        Raises:
            StorageError: It cannot be opened for writing.
        """
        if self.about.journal_bytes:
            try:
                fd = store_files.open_journal(self.root, self._store, self.about.journal_bytes, readonly=False)
            except OSError as error:
                raise storage_error(self.root, error) from error
            self.journal.use_file(fd)
        self.readonly = False

    def tables_state(self) -> TablesState:
        """Return the tables' own record of what they contain."""
        return self.read(self._tables_state)

    def _tables_state(self, txn: lmdb.Transaction[bytes]) -> TablesState:
        meta = self.tables["meta"]
        tree, noted = txn.get(TREE, db=meta) or b"", txn.get(ROUND, db=meta)
        size, root = tree_size(tree), tree[:HASH_BYTES] or EMPTY_ROOT
        return (
            TablesState(size, root)
            if noted is None
            else TablesState(size, root, int.from_bytes(noted[:8], "big"), noted[8:])
        )

    def close(self) -> None:
        """Close it, after reads in progress have ended."""
        try:
            self._lmdb_lock.alone(self._close)
        finally:
            self.journal.close()  # afterwards: a thread that reads in it may wait to read in LMDB

    def _close(self) -> None:
        self._closed = True
        try:
            self._close_lmdb()
        finally:
            if self._hold is not None:
                self._hold.close()

    def is_ours(self) -> bool:
        """Return whether this process opened it, rather than a parent that forked this process."""
        return self.pid == os.getpid()

    # -- transactions ----------------------------------------------------------------------

    def read(self, work: Callable[[lmdb.Transaction[bytes]], T]) -> T:
        """Return what the work reads in one short read transaction. The work may run only our own code.

        Raises:
            ClosedError: The store was closed.
            ForkedError: This is the child of the process that opened it.
            StorageError: All reader slots are taken, or the store failed.
        """
        if self.pid != os.getpid():
            raise ForkedError(str(self.root))
        if self._lmdb is None:
            self._open_again()
        try:
            try:
                return self._lmdb_lock.shared(self._read, work)
            except lmdb.MapResizedError:
                self._adopt_map()
            except lmdb.ReadersFullError:
                self.check_readers()
            return self._lmdb_lock.shared(self._read, work)
        except lmdb.Error as error:
            raise storage_error(self.root, error) from error

    def _read(self, work: Callable[[lmdb.Transaction[bytes]], T]) -> T:
        with self._raw().begin() as txn: return work(txn)  # noqa: E701  # fmt: skip  # as `run_locked`

    def _open_again(self) -> lmdb.Environment:
        """Open LMDB's part for reading, after both a commit and the reopening failed."""
        try:
            self._lmdb_lock.alone(self._open_if_broken)
            return self._raw()
        except (lmdb.Error, OSError) as error:
            raise storage_error(self.root, error) from error

    def _open_if_broken(self) -> None:
        if self._lmdb is None and not self._closed:
            self._reopen()

    def begin_read(self) -> lmdb.Transaction[bytes]:
        """Begin a read transaction that the caller ends; only for the writer, which holds the write lock and the gate.

        Raises:
            ClosedError: The store was closed.
            StorageError: All reader slots are taken, or the store failed.
        """
        env = self._lmdb
        if env is None:
            env = self._open_again()
        try:
            try:
                return env.begin()
            except lmdb.MapResizedError:
                self._adopt_map()
            except lmdb.ReadersFullError:
                self.check_readers()
            return self._raw().begin()
        except lmdb.Error as error:
            raise storage_error(self.root, error) from error

    def begin_write(self) -> lmdb.Transaction[bytes]:
        """Begin a write transaction; only for the writer, which holds the write lock and the gate."""
        if not self._can_write:
            self._writable = True
            self.reopen()
        try:
            return self._raw().begin(write=True)
        except lmdb.MapResizedError:
            self._adopt_map()
            return self._raw().begin(write=True)

    def _adopt_map(self) -> None:
        """Adopt the larger map of another process; no thread of this process may read meanwhile."""
        adopt = partial(self._raw().set_mapsize, 0)
        if self.thread == threading.get_ident():
            self._lmdb_lock.alone(adopt)
        else:
            run_locked(self.write_gate, self._lmdb_lock.alone, adopt)  # the writer reads without a lock

    def reopen(self) -> None:
        """Close and open LMDB's part again, after a failed commit. The locks stay."""
        self._lmdb_lock.alone(self._reopen)

    def _reopen(self) -> None:
        try:
            self._close_lmdb()
            if not self._closed:
                self._lmdb = self._open_lmdb()
                self._open_tables()
                self._can_write = self._writable
        except BaseException:
            self._close_lmdb()
            self._writable = False
            raise

    def _close_lmdb(self) -> None:
        self._can_write = False
        if self._lmdb is not None:
            self._lmdb.close()
            self._lmdb = None

    def last_transaction(self) -> int:
        """Return the number of the last commit, of any process, that a read sees now.

        LMDB's `info()` reports a commit before readers see it, so it is not used.
        """
        return self.read(lambda txn: txn.id())

    def newest_transaction(self) -> int:
        """Return the number of the last commit in the file, whether or not it was published to readers."""
        env = self._lmdb or self._raw()
        return int(env.info()["last_txnid"])

    def check_readers(self) -> int:
        """Free the reader slots of dead processes, which would keep old pages alive; return how many."""
        return self._raw().reader_check()

    def _raw(self) -> lmdb.Environment:
        if self._lmdb is None:
            raise ClosedError(str(self.root))
        return self._lmdb

    # -- fork ------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Stop: no transaction may be open while the child closes what it inherits. May be called again.

        The child's close frees the reader slots of its parent, and would leave a reader of
        the parent without protection. It cannot stop from within a transaction of this thread.
        """
        if self._is_still or self._forks or self.thread == threading.get_ident() or self._lmdb_lock.is_mine():
            return
        self._forks = True
        if self.write_gate.acquire(timeout=limits.WAIT_S):
            self._is_still = self._lmdb_lock.close(_FORK_WAIT_S)

    def after_fork_in_parent(self) -> None:
        """Continue, also after an exception in between. May be called again."""
        if self._forks:
            self._lmdb_lock.open()
            while self.write_gate._is_owned():  # noqa: SLF001 - as `threading.Condition` does
                self.write_gate.release()
            self._forks = self._is_still = False

    def after_fork_in_child(self) -> None:
        """Close what was inherited; the parent keeps its locks. May be called again."""
        if self._is_still and self._lmdb is not None:
            self._lmdb.close()
        self._lmdb = None
        self.journal.forget()
        if self._hold is not None:
            self._hold.close()


def _table(env: lmdb.Environment, name: bytes, *, dup: bool = False) -> Any:  # noqa: ANN401 - lmdb hides the class
    try:
        return env.open_db(name, create=False, dupsort=dup, dupfixed=dup)
    except lmdb.NotFoundError:
        return None
