"""Handoffs: payloads that a step of a session leaves for its next step, or for another session.

The name of a handoff is local to its session. So two sessions that use the same name do not collide, as
they would with a file at a fixed path. A put replaces an earlier put under the same name. Only the last put
is handed out, to one taker, once.

Put and take both store the facts found about their caller (`facts_of`). They distinguish two runs that use
the same session name, and neither run receives the other's payload.

A key makes a call repeatable. The same put is stored once, and the same take returns the same payload again,
so a step that crashed after its take can be run again. This ends with the next put under the name: a repeated
take of an older put raises an error, so that it is never mistaken for the new one.

| event | key |
|---|---|
| `handoff.written` | session, `put`, name, the caller's key or a random one |
| `handoff.taken` | `taken`, the id of the written event: only one take can succeed |

A payload is text, bytes or a JSON value; `extra.form` says which. Bytes are stored in base64.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import content, times
from rightful.errors import ConditionFailedError, HandoffMismatchError, NothingToTakeError, UsageError
from rightful.handoffs import handoff_rows
from rightful.handoffs.writer_identity import SameRun, check_caller, check_session, facts_of, proof_of_other_run
from rightful.identity import event_id
from rightful.importers.shared.foreign_fields import key_of
from rightful.importers.shared.regrades import ATTEMPTS
from rightful.log.log import Clock, Log, now_us
from rightful.log.rows import Receipt, valid

_OWN_STEP = "Pass the session that this step runs in. Two runs must not share a session name."
_OTHER_KEY = "Pass another key, or none. A key always belongs to one handoff."


class Handoff(NamedTuple):
    """A handoff that was taken.

    Attributes:
        id: The event id of the put.
        name: The handoff's name.
        session: The session that put it.
        payload: The text, bytes or JSON value that was put.
        put_at: When it was put, by the writer's clock.
        position: The position of the put in the ledger.
        taken_id: The event id of the take.
        repeated: Whether the same take already returned it before.
    """

    id: str
    name: str
    session: str
    payload: Any
    put_at: datetime
    position: int
    taken_id: str
    repeated: bool


class HandoffSummary(NamedTuple):
    """A handoff in a list.

    Attributes:
        id: The event id of the put.
        name: The handoff's name.
        put_at: When it was put.
        position: The position of the put in the ledger.
        form: `text`, `bytes` or `json`.
        state: `waits`, `taken`, or `replaced` by a later put under the same name before it was taken.
        taken_by: The session that took it.
        taken_at: When it was taken.
    """

    id: str
    name: str
    put_at: datetime
    position: int
    form: str
    state: str
    taken_by: str | None
    taken_at: datetime | None


class Handoffs:
    """Puts and takes handoffs of one ledger, on behalf of one caller.

    Args:
        log: The ledger's log.
        clock: Returns the time of a put or take; microseconds since 1970, UTC.
        environ: The caller's environment; that of this process if None.
        cwd: The caller's working folder; that of this process if None.
        same_run: Looks up the ledger's links. If None, links are not used.
    """

    def __init__(
        self,
        log: Log,
        *,
        clock: Clock = now_us,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        same_run: SameRun | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._facts = facts_of(os.environ if environ is None else environ, _cwd() if cwd is None else cwd)
        self._same_run = same_run or (lambda first, second: True if first == second else None)

    def put(self, name: str, payload: Any, *, session: str, key: str | None = None) -> Receipt:  # noqa: ANN401 - content
        """Store a payload under a name. It replaces an earlier put under that name.

        Args:
            name: The handoff's name.
            payload: Text, bytes or a JSON value.
            session: The session that the caller runs in. It owns the handoff.
            key: A key of the caller's. Repeating the put with the same key stores nothing.

        Raises:
            UsageError: The session name is not valid.
            InvalidEventError: The payload is not a JSON value, or is too long.
            HandoffMismatchError: The caller runs in another session, another run's handoff waits under
                that name, or the key was already used for another payload, or for a put that is not the
                last one any more. Nothing was put.
        """
        self._check(name, session, key)
        head = 0
        form, stored = stored_payload(payload)
        event = self._event(handoff_rows.WRITTEN, session, name) | {"payload": stored}
        event["extra"] = {"form": form} | self._facts.extra()
        event["key"] = key_of(session, "put", name, key or uuid.uuid4().hex)
        for _ in range(ATTEMPTS):
            head = self._log.head()
            last = handoff_rows.last_put(self._log, session, name, head)
            if last is not None:
                if (again := self._put_again(event, name, session, last)) is not None:
                    return again
                self._check_waiting(last, name, session)
            try:
                return self._append(event, _query(session), head)
            except ConditionFailedError:
                continue
        raise ConditionFailedError(head)

    def take(self, name: str, *, session: str, put_by: str | None = None, key: str | None = None) -> Handoff:
        """Take the last put under a name. Only one taker gets it.

        Args:
            name: The handoff's name.
            session: The session that the caller runs in.
            put_by: The session that put it, if it is another one.
            key: A key of the caller's. Repeating the take with the same key returns the same handoff.

        Raises:
            UsageError: A session name is not valid.
            NothingToTakeError: No handoff waits under that name.
            HandoffMismatchError: The caller runs in another session, another run's handoff waits under
                that name, or the handoff taken with the key is older than the last put. Nothing was taken.
        """
        self._check(name, session, key)
        head = 0
        owner = session if put_by is None else put_by
        check_session(owner)
        mark = key or uuid.uuid4().hex
        for _ in range(ATTEMPTS):
            head = self._log.head()
            if key is not None and (again := self._taken_before(owner, name, session, key, head)) is not None:
                return again
            try:
                last = self._waiting(owner, name, head)
            except NothingToTakeError:  # perhaps the same take in another process got it meanwhile
                if key is not None and (again := self._taken_before(owner, name, session, key, head)) is not None:
                    return again
                raise
            if owner == session:
                self._check_same(last, name, session, "was put")
            event = self._event(handoff_rows.TAKEN, session, name)
            event |= {"key": key_of("taken", last.row.id), "written_id": last.row.id}
            event["extra"] = {"key": mark} | self._facts.extra()
            try:
                receipt = self._append(event, _query(owner, handoff_rows.taken_id(last.row.id)), head)
            except ConditionFailedError:
                continue
            return _handoff(last, receipt.id or "", repeated=receipt.outcome == "duplicate")
        raise ConditionFailedError(head)

    def listed(self, session: str) -> list[HandoffSummary]:
        """Return the handoffs that a session put, by ascending position."""
        puts = list(handoff_rows.puts(self._log, session, None, self._log.head()))
        last = {put.event.name: put.row.id for put in puts}
        return [self._listed(put, is_last=last[put.event.name] == put.row.id) for put in puts]

    def _listed(self, put: handoff_rows.Row, *, is_last: bool) -> HandoffSummary:
        taken = self._taken(put)
        by, at = (None, None) if taken is None else (taken.row.session, taken.event.at)
        state = "taken" if taken is not None else "waits" if is_last else "replaced"
        return HandoffSummary(put.row.id, put.event.name, put.event.at, put.row.position, put.form, state, by, at)

    # -- stored handoffs ---------------------------------------------------------------------

    def _taken(self, put: handoff_rows.Row) -> handoff_rows.Row | None:
        return handoff_rows.by_id(self._log, handoff_rows.taken_id(put.row.id))

    def _waiting(self, owner: str, name: str, until: int) -> handoff_rows.Row:
        """Return the waiting put. Only the last put under a name can be waiting.

        Raises:
            NothingToTakeError: There is no put, or the last one was taken. Earlier puts do not count.
        """
        last = handoff_rows.last_put(self._log, owner, name, until)
        if last is None:
            near = self._similar_name(owner, name)
            raise NothingToTakeError(name, owner, f"that session put nothing under this name{near}")
        taken = self._taken(last)
        if taken is None or taken.row.position > until:  # a later take fails the append condition
            return last
        when = f"at {_time(taken.event.at)} by {taken.row.session} (position {taken.row.position})"
        why = f"the last put, at {_time(last.event.at)} (position {last.row.position}), was taken {when}"
        is_only = next(handoff_rows.puts(self._log, owner, name, until)).row.id == last.row.id
        raise NothingToTakeError(name, owner, why + ("" if is_only else "; earlier puts are never handed out"))

    def _similar_name(self, owner: str, name: str) -> str:
        """Return a waiting handoff with a similar name, as the end of an error message; else an empty string."""
        from difflib import get_close_matches  # imported late: only needed after a mistyped name

        near = get_close_matches(name, [handoff.name for handoff in self.listed(owner) if handoff.state == "waits"], 1)
        return f", but {near[0]!r} waits" if near else ""

    def _taken_before(self, owner: str, name: str, session: str, key: str, head: int) -> Handoff | None:
        """Return the handoff that the same take returned before; None if it was not taken before."""
        for taken in handoff_rows.takes(self._log, session, name, key):
            put = handoff_rows.by_id(self._log, taken.event.written_id)
            if put is not None and put.row.session == owner:
                self._check_same(taken, name, session, "was taken with this key")
                self._check_last(put, handoff_rows.last_put(self._log, owner, name, head), name, owner)
                return _handoff(put, taken.row.id, repeated=True)
        return None

    # -- consistency checks ------------------------------------------------------------------

    def _check(self, name: str, session: str, key: str | None) -> None:
        if key is not None and not key.strip():
            raise UsageError("The key is empty. Nothing was handed over. Pass a key, or omit it.")
        check_caller(name, session, self._facts, self._same_run)

    def _check_same(self, other: handoff_rows.Row, name: str, session: str, what: str) -> None:
        why = proof_of_other_run(self._facts, other.facts, self._same_run)
        if why is not None:
            where = f"at {_time(other.event.at)} (position {other.row.position})"
            raise HandoffMismatchError(name, session, f"it {what} {where} by a step {why}", _OWN_STEP)

    def _check_waiting(self, last: handoff_rows.Row, name: str, session: str) -> None:
        """Refuse to replace another run's handoff that was not taken yet."""
        if self._taken(last) is None:
            self._check_same(last, name, session, "waits already, and was put")

    def _check_last(self, put: handoff_rows.Row, last: handoff_rows.Row | None, name: str, owner: str) -> None:
        """Refuse to repeat a call for a put that is not the last: the caller would mistake it for the new one."""
        if last is not None and last.row.position > put.row.position:
            older, newer = (f"at {_time(row.event.at)} (position {row.row.position})" for row in (put, last))
            why = f"the handoff of this key was put {older}, before the last put, {newer}"
            raise HandoffMismatchError(name, owner, why, _OTHER_KEY)

    def _put_again(self, event: Mapping[str, Any], name: str, session: str, last: handoff_rows.Row) -> Receipt | None:
        """Return the receipt of an earlier put with the same key; None if there is none.

        Raises:
            HandoffMismatchError: It had another payload, another run made it, or another put followed.
        """
        before = handoff_rows.by_id(self._log, event_id(handoff_rows.PRODUCER, event["key"]))
        if before is None:
            return None
        self._check_same(before, name, session, "was put with this key")
        if before.form != event["extra"]["form"] or not _equal(before.event.payload, event["payload"]):
            why = f"another payload was put with this key at position {before.row.position}"
            raise HandoffMismatchError(name, session, why, _OTHER_KEY)
        self._check_last(before, last, name, session)
        return Receipt(before.row.id, "duplicate", before.row.position, before.row.first)

    # -- writing -----------------------------------------------------------------------------

    def _event(self, kind: str, session: str, name: str) -> dict[str, Any]:
        at = times.at_of(self._clock())
        common = {"type": kind, "producer": handoff_rows.PRODUCER, "session": session, "at": at}
        return common | {"name": name, "found": self._facts.found()}

    def _append(self, event: Mapping[str, Any], unless: DCBQuery, after: int) -> Receipt:
        [receipt] = self._log.append([event], unless=unless, after=after)
        return valid(receipt)


def _cwd() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed
        return None


def stored_payload(payload: object) -> tuple[str, object]:
    """Return a payload's form (`text`, `bytes` or `json`), and the JSON value that it is stored as."""
    match payload:
        case bytes() | bytearray() | memoryview():
            return "bytes", base64.b64encode(payload).decode()
        case str():
            return "text", payload
        case _:
            return "json", payload


def _equal(first: object, second: object) -> bool:
    """Return whether two payloads are stored as the same bytes, also with NaN or tuples."""
    return bool(content.escape(first)[0] == content.escape(second)[0])


def _handoff(put: handoff_rows.Row, taken_id: str, *, repeated: bool) -> Handoff:
    event = put.event
    payload = event.payload
    if put.form == "bytes":
        payload = base64.b64decode(payload)
    return Handoff(put.row.id, event.name, event.session, payload, event.at, put.row.position, taken_id, repeated)


def _query(session: str, taken_id: str | None = None) -> DCBQuery:
    """Return the append condition: no new put of the session, and no take with that id by any caller."""
    items = [DCBQueryItem(types=[handoff_rows.WRITTEN], tags=[f"session:{session}"])]
    if taken_id is not None:
        items.append(DCBQueryItem(types=[handoff_rows.TAKEN], tags=[f"id:{taken_id}"]))
    return DCBQuery(items=items)


def _time(at: datetime) -> str:
    return times.text_of(times.us_of(at))
