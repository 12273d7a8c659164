"""A log in memory, fast: the rows that projections scan, and the same rows as the oracle takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.oracle_facts import Line

from rightful import times
from rightful.encoding import wire
from rightful.encoding.envelope import SALT_BYTES, Envelope, commitment, encode_body
from rightful.errors import InvalidEventError
from rightful.log.rows import Page, Recorded, Stored


class FakeLog:
    """Classifies repeats as the ledger does for the types that attribution reads.

    A row is recorded when it happened, and never before the row before it.

    Args:
        page: How many rows a page of `scan` has.
    """

    path = "the fake"

    def __init__(self, page: int = 1_024) -> None:
        self.stored: list[Stored] = []
        self.lines: list[Line] = []
        self.page = page
        self._of_id: dict[str, list[tuple[int, tuple[Any, ...], bytes]]] = {}

    def head(self) -> int:
        return len(self.stored)

    def scan(self, after: int = 0, until: int | None = None) -> Iterator[list[Stored]]:
        until = len(self.stored) if until is None else until
        for start in range(after, until, self.page):
            yield self.stored[start : min(start + self.page, until)]

    def pages(self, after: int = 0, until: int | None = None) -> Iterator[Page]:
        for rows in self.scan(after, until):
            yield Page(rows[0].position - 1, [row.envelope for row in rows], [row.payload for row in rows])

    def of_type(self, kind: str, after: int = 0, until: int | None = None) -> Iterator[list[Stored]]:
        yield [row for row in self.stored[after:until] if row.envelope.type == kind]

    def of_session(
        self, session: str, types: Iterable[str] | None = None, after: int = 0, until: int | None = None
    ) -> Iterator[list[Stored]]:
        rows = [row for row in self.stored[after:until] if row.envelope.session == session]
        yield [row for row in rows if types is None or row.envelope.type in types]

    def of_id(self, event_id: str) -> list[Stored]:
        return [row for row in self.stored if row.envelope.id == event_id]

    def read(
        self,
        *,
        session: str | None = None,
        types: Iterable[str] | None = None,
        after: int = 0,
        until: int | None = None,
    ) -> Iterator[Recorded]:
        wanted = None if types is None else frozenset(types)
        for row in (line.row for line in self.lines[after:until]):
            if session in {None, row.session} and (wanted is None or row.type in wanted):
                yield row

    def append(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Append wire objects; return their outcomes."""
        return [self._one(event) for event in events]

    def _one(self, proposed: Mapping[str, Any]) -> str:
        try:
            checked = wire.check(proposed)
        except InvalidEventError:
            return "invalid"
        event, body = checked.event, encode_body(checked.event)
        kind, session = str(event.__struct_config__.tag), getattr(event, "session", None)
        rows = self._of_id.setdefault(checked.id, [])
        if any((kind, session, event.turn, body) == (*heads, said) for _, heads, said in rows):
            return "duplicate"
        outcome = "appended"
        if rows:
            alike = rows[0][1][:2] == (kind, session) and rows[0][2] == body
            outcome = "reemitted" if alike else "conflict"
        position = len(self.stored) + 1
        rows.append((position, (kind, session, event.turn), body))
        first = rows[0][0]
        before_us = self.stored[-1].envelope.recorded_at_us if self.stored else 0
        recorded_at_us = max(before_us, checked.at_us)
        envelope = Envelope(
            id=checked.id,
            revision=len(rows),
            type=kind,
            schema=1,
            producer=event.producer,
            session=session,
            turn=event.turn,
            at_us=checked.at_us,
            at_basis=event.at_basis,
            recorded_at_us=recorded_at_us,
            outcome=outcome,
            first=0 if first == position else first,
            body_bytes=len(body),
            commitment=commitment(position.to_bytes(SALT_BYTES), body),
        )
        self.stored.append(Stored(position, envelope, position.to_bytes(SALT_BYTES) + body))
        row = Recorded(
            position=position,
            recorded_at=times.at_of(recorded_at_us),
            outcome=outcome,
            event=event,
            revision=len(rows),
            first=first,
            id=checked.id,
            type=kind,
            session=session,
        )
        self.lines.append(Line(row, checked.at_us, event.producer))
        return outcome

    def erase(self, position: int) -> None:
        """Remove a row's payload."""
        row, line = self.stored[position - 1], self.lines[position - 1]
        self.stored[position - 1] = row._replace(payload=None)
        fields = {name: getattr(line.row, name) for name in line.row.__struct_fields__}
        self.lines[position - 1] = Line(Recorded(**fields | {"event": None}), line.at, line.producer)
