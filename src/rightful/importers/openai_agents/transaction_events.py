"""The events of one session of a database, appended on condition that no other writer changed its history."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import content, limits, times
from rightful.encoding import wire
from rightful.errors import ConditionFailedError, InvalidEventError
from rightful.identity import event_id
from rightful.importers.engine.formats import Plan, Reader
from rightful.importers.openai_agents.known_rows import HISTORY, NAMESPACE, PRODUCER, ItemKey
from rightful.importers.shared.foreign_fields import key_of, moment_us

if TYPE_CHECKING:
    from rightful.importers.engine.file_import import FileImport
    from rightful.importers.engine.formats import Wire
    from rightful.importers.openai_agents.sdk_tables import Message, Row
    from rightful.importers.sources.text_files import Found, Problem
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

_POP_COUNT = 10_000  # items per pop event; about a megabyte


class EventWriter(Reader):
    """Creates and appends the events of one session, computed from its history through the position `head`.

    An event without a valid time gets `file_at`, an upper bound of all times in the database.
    """

    def __init__(self, run: FileImport, session: str, head: int, table: str, file_at: Wire) -> None:
        self._run = run
        self._session = session
        self._table = table
        self._file_at = file_at
        self._planned: Sequence[Wire] | None = None
        self._bytes = 0
        self.head = head

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Yield nothing: a database has no lines."""
        del found
        return ()

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the events, on condition that the session's history did not change since it was read.

        Raises:
            ConditionFailedError: It changed; the events must be computed again.
        """
        del log
        if self._planned is events:
            raise ConditionFailedError(self.head)
        self._planned = events
        theirs = DCBQueryItem(types=list(HISTORY), tags=[f"session:{self._session}"])
        return Plan(events, DCBQuery(items=[theirs]), self.head)

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Update the position up to which the session is known."""
        del log, events
        self.head = max([self.head, *(receipt.position or 0 for receipt in receipts)])
        return []

    def put(self, row: int, event: Wire, size: int = 0) -> None:
        """Add an event of a row (0 for none) and of about this size in bytes. Append the pending ones if many."""
        self._run.waiting.append((row, event))
        self._bytes += size
        if len(self._run.waiting) >= limits.IMPORT_EVENTS or self._bytes >= limits.IMPORT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Append the pending events."""
        self._run.flush(self)
        self._bytes = 0

    def started(self, created: object, source: str, facts: dict[str, Any], times_before: int) -> None:
        """Record that the session's view follows this database from now on, after having left it `times_before`."""
        extra = {"source": source, "table": self._table} | facts
        key = key_of(self._session, "started", source, self._table, *([times_before] if times_before else ()))
        self.put(0, self._wire("session.started", key, created) | {"harness": NAMESPACE, "extra": extra})

    def forked(self, parent: str, through: int) -> None:
        """Begin the session with the view of another one."""
        key = key_of(self._session, "forked", parent, through)
        self.put(0, self._wire("history.forked", key, None) | {"of": parent, "through": through})

    def popped(self, items: Sequence[ItemKey]) -> None:
        """Pop items that are no longer in the database."""
        for start in range(0, len(items), _POP_COUNT):
            part = [list(item) for item in items[start : start + _POP_COUNT]]
            key = key_of(self._session, "popped", hashlib.sha256(msgspec.json.encode(part)).hexdigest())
            self.put(0, self._wire("history.popped", key, None) | {"items": part})

    def event(self, message: Message, times_before: int = 0) -> Wire:
        """Return the event of one message, which was imported and deleted `times_before`.

        Raises:
            InvalidEventError: The message is not valid as an event.
        """
        if message.data is None:
            raise InvalidEventError(f"longer than {limits.EVENT_BYTES} bytes")
        row = message.row
        event = self._wire("history.appended", self._key(row, times_before), message.created)
        event["items"] = [content.parse_line(message.data)]
        return event | {"extra": {"table": self._table, "row": row.id, "sha256": row.sha256}}

    def _key(self, row: Row, times_before: int) -> str:
        return key_of(self._session, row.id, row.sha256, times_before)

    def is_among(self, ids: Container[str], row: Row, times_before: int) -> bool:
        """Return whether any of these events may be one of a row that was imported this often before."""
        return any(event_id(PRODUCER, self._key(row, count)) in ids for count in range(times_before + 1))

    def invalid_reason(self, message: Message) -> str | None:
        """Return why a message cannot be imported; None if it can."""
        try:
            wire.check(self.event(message))
        except InvalidEventError as error:
            return error.what  # the place is omitted: it may be as deep as the message
        return None

    def used(self, turn: object, counts: dict[str, Any]) -> None:
        """Record the usage of a turn."""
        parsed = {name: _count(count) for name, count in counts.items()}
        digest = hashlib.sha256(msgspec.json.encode(parsed, order="deterministic")).hexdigest()
        event = self._wire("usage.recorded", key_of(self._session, "usage", str(turn), digest), None)
        self.put(0, event | {"turn": str(turn), "counts": parsed})

    def _wire(self, kind: str, key: str, created: object) -> Wire:
        at = self._file_at
        try:
            at_us, _ = moment_us(created.decode() if isinstance(created, bytes) else "", "$.created_at")
            at = {"at": times.text_of(at_us)}
        except (InvalidEventError, UnicodeDecodeError):
            pass
        return {"type": kind, "producer": PRODUCER, "key": key, "session": self._session} | at


def _count(value: object) -> Any:  # noqa: ANN401 - content
    """Return a count unchanged; details, which are stored as JSON text, are parsed."""
    if not isinstance(value, bytes):
        return value
    try:
        return content.parse_json(value)
    except InvalidEventError:
        return value.decode("utf-8", "replace")
