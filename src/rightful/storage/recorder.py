"""The recorder on LMDB: implements `LedgerRecorder` on one machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery
from eventsourcing.persistence import IntegrityError, ProgrammingError

from rightful import limits
from rightful.encoding.merkle import HASH_BYTES, LEAF
from rightful.errors import ClosedError, ReadOnlyStoreError
from rightful.storage import open_stores
from rightful.storage.commit import RowCommitter
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.port import Decision, LedgerRecorder, Row, View
from rightful.storage.tables.query import raw_rows, words_like
from rightful.storage.tables.snapshot import read_snapshot
from rightful.storage.tables.store_tables import KINDS, Tables
from rightful.storage.writer import Writer

if TYPE_CHECKING:
    from rightful.storage.eventsourcing.subscription import Response, Subscription


class LMDBRecorder(LedgerRecorder):
    """A handle on a store in a folder. Threads may share it; a forked child may not.

    Args:
        path: The folder that holds `store/` and the locks.
        kind: `ledger`, whose records are envelopes, or `plain`, for any events.
        create: Create an empty store if it does not exist.
        readonly: Never write. A read-only folder can only be opened this way.

    Raises:
        LedgerNotFoundError: The store does not exist, and `create` is false.
        ForeignStoreError: The folder is not a complete store of this kind.
        InUseError: It is being compacted, repaired or restored.
        StorageError: It cannot be opened.
    """

    _handle: object = None  # until `__init__` sets one

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kind: str = "ledger",
        create: bool = False,
        readonly: bool = False,
    ) -> None:
        self._handle = object()
        self._store: open_stores.Store | None = None
        self._writer: Writer | None = None  # if it may write
        try:
            self._store = open_stores.acquire(
                self._handle, path, KINDS[kind], RowCommitter, create=create, readonly=readonly
            )
            self._writer = None if readonly else self._store.writer
            self._tables = Tables(self._store.env)
            self._path = str(self._store.env.root)
        except BaseException:
            open_stores.release(self._handle)
            raise

    @property
    def path(self) -> str:
        """The folder, resolved."""
        return self._path

    @property
    def ledger_id(self) -> str:
        """The store's own UUID, as text; a copy of the store keeps it."""
        return self._open().env.about.id

    @property
    def kind(self) -> str:
        """`ledger` or `plain`."""
        return self._open().env.about.kind

    # -- writing ---------------------------------------------------------------------------

    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        """As `LedgerRecorder.decide`."""
        writer = self._writer
        if writer is None:
            self._open()
            raise ReadOnlyStoreError(self._path)
        position: int = writer.submit(decision, timeout_s, inline=inline)
        return position

    def append(self, events: Sequence[DCBEvent], condition: DCBAppendCondition | None = None) -> int:
        """Write events unless the condition fails; return the position of the last.

        Raises:
            IntegrityError: Events match the condition's query. Nothing was written.
            ProgrammingError: There are no events.
            StorageError: As `decide`.
        """
        if not events:
            msg = "There are no events to append. Nothing was written."
            raise ProgrammingError(msg)

        def unless_matched(view: View) -> Sequence[DCBEvent]:
            if condition is not None and view.matches(condition.fail_if_events_match, condition.after):
                raise IntegrityError(condition)
            return events

        return self.decide(unless_matched)

    # -- reading ---------------------------------------------------------------------------

    def tables(self) -> Tables:
        """Return the tables, for the reads of this package.

        Raises:
            ClosedError: The recorder was closed.
        """
        self._open()
        return self._tables

    def read(self, query: DCBQuery | None = None, *, after: int | None = None, limit: int | None = None) -> Response:
        """Return the matching events, ascending; as `DCBRecorder.read`.

        Raises:
            DamagedRowError: A row does not match its checksum; raised by the iteration.
        """
        from rightful.storage.eventsourcing.subscription import Response

        return Response(self.tables, self.head(), query, after or 0, limit)

    def subscribe(self, query: DCBQuery | None = None, *, after: int | None = None) -> Subscription[LMDBRecorder]:
        """Return the matching events as they are written; as `DCBRecorder.subscribe`."""
        from rightful.storage.eventsourcing.subscription import Subscription

        self._open()
        return Subscription(self, self.tables, query, after)

    def rows(self, after: int, limit: int = limits.PAGE_ROWS) -> list[Row]:
        """As `LedgerRecorder.rows`."""
        records, payloads = self.columns(after, limit)
        return list(map(Row, range(after + 1, after + 1 + len(records)), records, payloads))

    def columns(self, after: int, limit: int = limits.PAGE_ROWS) -> tuple[list[bytes], list[bytes | None]]:
        """As `LedgerRecorder.columns`."""
        tables = self.tables()
        values, payloads = read_snapshot(tables, lambda snapshot: raw_rows(snapshot, after, limit))
        records = [value[HASH_BYTES:] for value in values]
        leaves = [sha256(LEAF + record).digest() for record in records]
        if leaves != [value[:HASH_BYTES] for value in values]:
            for position, value in enumerate(values, after + 1):
                tables.checked(position, value)
        return records, payloads

    def tags_like(self, start: str, limit: int) -> list[str]:
        """As `LedgerRecorder.tags_like`, from the index."""
        return read_snapshot(self.tables(), lambda snapshot: words_like(snapshot, start, limit))

    def head(self) -> int:
        """Return the last position; 0 if the store is empty."""
        return read_snapshot(self.tables(), lambda snapshot: snapshot.head)

    def tree_head(self) -> tuple[int, bytes]:
        """Return the number of rows and the root over their leaves, both from one transaction."""
        return read_snapshot(self.tables(), lambda snapshot: (snapshot.head, snapshot.tree()[:HASH_BYTES]))

    def wait_beyond(self, position: int, timeout_s: float | None = None, stop: threading.Event | None = None) -> int:
        """As `LedgerRecorder.wait_beyond`."""
        self._open().wait_until(lambda: self.head() > position, timeout_s, stop)
        head = self.head()
        if head > position:
            self.sync()
        return head

    def sync(self) -> None:
        """Sync the rows returned so far. Commits are visible before they are synced: call it to store a position.

        Raises:
            StorageError: The system failed.
        """
        try:
            env = self._open().env
            self._tables.sync(env.last_transaction())
            env.journal.sync()
        except OSError as error:
            raise storage_error(Path(self._path), error) from error

    def rest(self) -> None:
        """As `LedgerRecorder.rest`, for the pages of the memory map."""
        from rightful.storage.environment.resident_pages import give_back

        give_back(self._open().env.data)

    # -- end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the store; the last handle of the process closes it."""
        self._store = self._writer = None
        if self._handle is not None:
            open_stores.release(self._handle)  # the child of a fork has no entry for its parent's handle
            self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        try:
            self.close()
        except (AttributeError, TypeError):  # at shutdown its globals may be gone; the system releases the rest
            if not ends():
                raise

    def _open(self) -> open_stores.Store:
        if self._store is None:
            raise ClosedError(self._path)
        return self._store
