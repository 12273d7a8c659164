"""Import each conversation of a database, by comparing its rows with those imported before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rightful import content
from rightful.events import SessionStarted
from rightful.importers.openai_agents import sdk_tables
from rightful.importers.openai_agents.known_rows import NAMESPACE, PRODUCER, fork_of, stored_session
from rightful.importers.openai_agents.transaction_events import EventWriter
from rightful.importers.shared.stored_rows import rows_of
from rightful.importers.sources.text_files import Problem

if TYPE_CHECKING:
    from rightful.importers.engine.file_import import FileImport
    from rightful.importers.engine.formats import Wire
    from rightful.importers.openai_agents.conversations import Conversation
    from rightful.importers.openai_agents.known_rows import ItemKey, StoredSession
    from rightful.importers.openai_agents.sdk_tables import Message, Row, Store
    from rightful.log.log import Log

    Change = tuple[list[ItemKey], list[Row]]  # since the last import: the items to pop, and the rows to append


class DatabaseImport:
    """One import of one database, whose path is `source`, and which was last written at `file_at`."""

    def __init__(
        self, run: FileImport, log: Log, connection: sqlite3.Connection, source: str, file_at: Wire, prefix: str
    ) -> None:
        self._run = run
        self._log = log
        self._connection = connection
        self._source = source
        self._file_at = file_at
        self._prefix = prefix
        self._parents: dict[str, StoredSession | None] = {}
        self._refused: set[str] = set()
        self._related: dict[tuple[str, str], bool] = {}

    def import_conversation(self, conversation: Conversation) -> None:
        """Import one conversation; its problems do not affect the others."""
        if conversation.base in self._refused:
            return
        stored = stored_session(self._log, conversation.name)
        writer = EventWriter(self._run, conversation.name, stored.head, conversation.store.messages, self._file_at)
        try:
            rows, erased = self._rows(conversation, stored, writer)
        except sqlite3.DatabaseError as error:
            self._problem(f"{conversation.name}: SQLite cannot read it ({error}); nothing was imported from it")
            return
        if self._is_from_elsewhere(conversation, stored, rows, erased):
            return
        facts = {} if conversation.branch is None else {"branch": conversation.branch}
        facts |= {"of": conversation.parent} if conversation.parent else {}
        facts |= {"session_prefix": self._prefix} if self._prefix else {}
        count = stored.sources.count(self._source)
        if count:
            self._run.report.duplicate += 1
        else:
            writer.started(conversation.created, self._source, facts, 0)
            writer.flush()
        stored = self._fork_from_parent(conversation, stored, rows, writer)
        change = self._change(conversation, stored, rows)
        if count and stored.sources[-1] != self._source and any(change):
            writer.started(conversation.created, self._source, facts, count)
        self._write(conversation, stored, change, writer)
        self._parents[conversation.name] = None

    def _rows(self, conversation: Conversation, stored: StoredSession, writer: EventWriter) -> tuple[list[Row], int]:
        """Return the rows that can be imported, and how many were erased from the ledger; report the others."""
        rows: list[Row] = []
        sealed = erased = 0
        for message in sdk_tables.messages_of(
            self._connection, conversation.store, conversation.session_id, conversation.branch
        ):
            if stored.erased and writer.is_among(stored.erased, message.row, stored.times[message.row]):
                erased += 1
            elif message.row in stored.times or (why := writer.invalid_reason(message)) is None:
                rows.append(message.row)
                sealed += _is_sealed(message)
            else:
                self._problem(f"row {message.row.id} of `{conversation.store.messages}`: {why}", message.row.id)
        if erased:
            self._note(f"{conversation.name}: {_many(erased, 'row')} erased from the ledger; not imported again")
        if sealed:
            items = _many(sealed, "item")
            self._note(f"{conversation.name}: {items} of EncryptedSession; imported in encrypted form")
        if conversation.branch == sdk_tables.MAIN:
            self._report_unbranched(conversation)
        return rows, erased

    def _report_unbranched(self, conversation: Conversation) -> None:
        if lost := sdk_tables.unbranched_of(self._connection, conversation.store, conversation.session_id):
            rows = f"{_many(len(lost), 'row')} of `{conversation.store.messages}`"
            what = f"{conversation.name}: {rows} in no branch (first: {lost[0]})"
            self._problem(f"{what}; AdvancedSQLiteSession does not show them, and they were not imported", lost[0])

    def _is_from_elsewhere(
        self, conversation: Conversation, stored: StoredSession, rows: Sequence[Row], erased: int
    ) -> bool:
        """Return whether the ledger has the session from another source, so that it must not be imported."""
        if rows and stored.is_continued and not stored.is_ours:
            what = "has a history in the ledger that was not started by an import; its rows would follow newer items"
            what = f"{conversation.name} {what}, so nothing was imported from it"
            self._problem(f"{what}. Import a database before you continue its sessions in the ledger")
            return True
        is_new = not (stored.times or stored.erased)
        if is_new or stored.sources[-1:] in ([], [self._source]):  # the source of an erased start is unknown
            return False
        if not erased and self._is_another(conversation, stored, rows):
            if rows or stored.alive:
                self._refuse(conversation, stored)
            return True
        if self._is_newer(conversation, stored, rows):
            return False
        what = "is an older copy of what was imported"
        self._note(f"{conversation.name} {what} from {stored.sources[-1]}; nothing was undone")
        self._run.report.duplicate += len(rows)
        return True

    def _is_another(self, conversation: Conversation, stored: StoredSession, rows: Sequence[Row]) -> bool:
        """Return whether this database is proven to be another one than the session was imported from, or may be.

        A copied or moved database has a row of the session. If the session was cleared, the database has a row of
        another session with the same source; the ids of new rows are then above all ids used before.
        """
        if any(row in stored.times for row in rows):
            return False
        newest = _newest(stored.times)
        if conversation.store.last_row is not None and any(row.id <= newest for row in rows):
            return True
        return self._source not in stored.row_sources and not self._has_rows_of(stored.sources[-1], conversation.store)

    def _has_rows_of(self, source: str, store: Store) -> bool:
        """Return whether a table of this database has a row that was imported from another, in the same session."""
        if (source, store.messages) not in self._related:
            starts = [event for event in self._starts() if (event.extra or {}).get("source") == source]
            self._related[source, store.messages] = any(
                self._is_stored(store, row, event)
                for event in starts
                for row in stored_session(self._log, event.session).times
            )
        return self._related[source, store.messages]

    def _is_stored(self, store: Store, row: Row, start: SessionStarted) -> bool:
        """Return whether the database has a row of a session; an equal greeting in another session proves nothing."""
        try:
            if sdk_tables.message_of(self._connection, store, row.id).row != row:
                return False
        except sqlite3.DatabaseError:
            return False
        prefix = (start.extra or {}).get("session_prefix", "")
        name = f"{NAMESPACE}:{prefix}{sdk_tables.session_of(self._connection, store, row.id)}"
        return start.session == name or start.session.startswith(f"{name}/branch/")

    def _refuse(self, conversation: Conversation, stored: StoredSession) -> None:
        """Report another conversation under the session's id. Its branches are skipped as well."""
        self._refused.add(conversation.name)
        others = ", ".join(sorted({*stored.sources} - {self._source}))
        what = f"was imported from {others}, and this database has a different conversation under that id"
        fix = "Import this database with --session-prefix, such as --session-prefix app2/"
        self._problem(f"{conversation.name} {what}; nothing was imported from it. {fix}")

    def _is_newer(self, conversation: Conversation, stored: StoredSession, rows: Sequence[Row]) -> bool:
        """Return whether a database is newer than the one that the view follows, or equal to it.

        It is newer if it has a row that was never imported, or if it lacks rows of the other and has none that was
        deleted before. If a table may reuse row ids, the latter cannot be distinguished from an older copy.
        """
        shown = list(stored.alive.values())
        if rows == shown or not all(row in stored.times for row in rows):
            return True
        return _last_row(conversation.store) >= _newest(stored.times) and set(rows) <= set(shown)

    def _fork_from_parent(
        self, conversation: Conversation, stored: StoredSession, rows: Sequence[Row], writer: EventWriter
    ) -> StoredSession:
        """Fork a new branch from the branch whose beginning it shares, if any; return its stored state."""
        if conversation.parent is None or stored.times or stored.is_continued or not rows:
            return stored
        fork = fork_of(self._earlier_branches(conversation.parent), rows)
        if fork is None:
            return stored
        writer.forked(*fork)
        writer.flush()
        return stored_session(self._log, conversation.name)

    def _earlier_branches(self, parent: str) -> Iterator[tuple[str, StoredSession]]:
        """Yield a session and its branches that were imported so far, with their stored state."""
        for name, found in self._parents.items():
            if name == parent or name.startswith(f"{parent}/branch/"):
                known_now = self._parents[name] = found or stored_session(self._log, name)
                yield name, known_now

    def _change(self, conversation: Conversation, stored: StoredSession, rows: Sequence[Row]) -> Change:
        wanted = set(rows)
        kept = [(item, row) for item, row in stored.alive.items() if row in wanted]
        lost = len(stored.alive) - len(kept)
        if stored.is_continued:
            there = set(stored.alive.values())
            new = [row for row in rows if row not in there]
            if lost:
                what = f"{conversation.name}: {_many(lost, 'row')} deleted from the database"
                self._note(f"{what}; kept, since the session continued in the ledger")
            if new:
                what = f"{_many(len(new), 'row')} written to the database after the session continued in the ledger"
                self._note(f"{conversation.name}: {what}; imported after the newer items")
            return [], new
        agree = 0
        while agree < min(len(kept), len(rows)) and kept[agree][1] == rows[agree]:
            agree += 1
        stay = {item for item, _ in kept[:agree]}
        if lost:
            self._note_removed(conversation.name, lost)
        return [item for item in stored.alive if item not in stay], list(rows[agree:])

    def _write(self, conversation: Conversation, stored: StoredSession, change: Change, writer: EventWriter) -> None:
        removed, new = change
        self._run.report.duplicate += len(stored.alive.keys() - stored.inherited - set(removed))
        writer.popped(removed)
        times = stored.times.copy()
        for row in new:
            message = sdk_tables.message_of(self._connection, conversation.store, row.id)
            writer.put(row.id, writer.event(message, times[row]), len(message.data or b""))
            times[row] += 1
        if conversation.store.usage and conversation.branch is not None:
            for turn, counts in sdk_tables.usage_of(self._connection, conversation.session_id, conversation.branch):
                writer.used(turn, counts)
        writer.flush()

    def remove_missing(self, found: set[str], stores: Sequence[Store]) -> None:
        """Pop the imported items of sessions that are no longer in the database."""
        tables = {store.messages: store for store in stores}
        for event in self._starts():
            extra = event.extra or {}
            is_its = extra.get("source") == self._source and extra.get("session_prefix", "") == self._prefix
            if is_its and event.session not in found and (store := tables.get(str(extra.get("table")))) is not None:
                found = found | {event.session}
                facts = {name: value for name, value in extra.items() if name in ("branch", "of", "session_prefix")}
                self._remove_session(event.session, store, facts)

    def _starts(self) -> Iterator[SessionStarted]:
        for recorded in rows_of(self._log, "session.started"):
            if isinstance(recorded.event, SessionStarted) and recorded.event.producer == PRODUCER:
                yield recorded.event

    def _remove_session(self, session: str, store: Store, facts: Wire) -> None:
        stored = stored_session(self._log, session)
        if not stored.alive:
            return
        if stored.is_continued:
            what = "is no longer in the database; it continued in the ledger, so its history is unchanged"
            self._note(f"{session} {what}")
            return
        leads = stored.sources[-1:] == [self._source]
        newest = _newest(stored.alive.values() if leads else stored.times)
        if (store.last_row is not None or not leads) and _last_row(store) < newest:
            what = "is not in this database, which is not the one it was imported from; nothing was undone"
            self._note(f"{session} {what}")
            return
        self._note_removed(session, len(stored.alive))
        writer = EventWriter(self._run, session, stored.head, store.messages, self._file_at)
        if not leads:
            writer.started(None, self._source, facts, stored.sources.count(self._source))
        writer.popped(list(stored.alive))
        writer.flush()

    def _note_removed(self, session: str, count: int) -> None:
        what = f"{_many(count, 'item')} of an earlier import deleted from the database"
        self._note(f"{session}: {what}; removed from its view, kept in its full history")

    def _note(self, what: str) -> None:
        self._run.report.add_problem(Problem(None, what, lost=False))

    def _problem(self, what: str, row: int | None = None) -> None:
        self._run.report.add_problem(Problem(row, what))


def _last_row(store: Store) -> int:
    """Return the highest row id that a table ever used; -1 if it may reuse row ids."""
    return -1 if store.last_row is None else store.last_row


def _newest(rows: Iterable[Row]) -> int:
    return max((row.id for row in rows), default=0)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _is_sealed(message: Message) -> bool:
    """Return whether a message is an envelope of EncryptedSession."""
    if b"__enc__" not in (message.data or b"")[:64]:
        return False
    value = content.parse_line(message.data or b"")
    return isinstance(value, dict) and value.get("__enc__") == 1 and {"v", "kid", "payload"} <= value.keys()
