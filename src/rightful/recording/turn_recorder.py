"""The turn recorder: records one turn of a session while it happens, by any runner and from any thread.

    with producer.turn("runner:7f3a", "turn-1") as turn:
        turn.message("user", "list the files")
        turn.tool_call("c1", name="bash", arguments={"command": "ls"})
        turn.tool_result("c1", "README.md", complete=True)

Each event gets the next index of the turn. Leaving the block closes the turn with a `turn.ended` that
contains their count. So a reader can detect a lost tail, a hole and a lost turn
(`projections/completeness.py`). A call returns as soon as the event is queued. It returns a
`concurrent.futures.Future`, which contains the receipt once the event is durable. `flush()` waits for all.

No event is dropped: a caller that writes faster than the disk waits for room. Events that could not be
written stay queued with their ids. The error is raised by the next call that flushes, closes, or finds no
room. `close(drop=True)` drops these events and counts them in `dropped_count`.

A turn that is recorded again under the same name, after a crash, is the same turn. Use another name for
another attempt.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from msgspec import structs

from rightful import limits, times
from rightful.content import restore
from rightful.encoding import wire
from rightful.encoding.envelope import body_kind, encode_body
from rightful.errors import RightfulError, UsageError
from rightful.events.base import Event
from rightful.identity import composite_key
from rightful.log.log import Clock, Log
from rightful.recording.outbox import Answer, Outbox

_SET_BY_TURN = ("type", "producer", "id", "key", "session", "turn", "index")


class TurnRecorder:
    """Records one turn. Get one from `Producer.turn`; use it in a `with` statement.

    Every method accepts `at`, the time of the fact (aware; now if None), and `extra`, an object for fields
    that the type does not define. It copies its arguments. It raises `InvalidEventError` if they are not
    valid for the type, `BacklogError` if there was no room for `timeout_s`, and the storage error if there is
    no room because writing fails. In each case the event was not queued and used no index.

    Args:
        log: The ledger's log.
        producer: The producer's name.
        session: The session's name.
        turn: The turn's name, unique in its session.
        previous: The name of the turn before it, so that readers can detect its loss.
        timeout_s: How long a call waits for room; seconds. None waits without a limit.
        clock: Returns the default for `at`; microseconds since 1970, UTC.

    Attributes:
        session: The session's name.
        turn: The turn's name.
    """

    def __init__(
        self,
        log: Log,
        producer: str,
        session: str,
        turn: str,
        *,
        previous: str | None = None,
        timeout_s: float | None = None,
        clock: Clock,
    ) -> None:
        self.session = session
        self.turn = turn
        self._common = {"producer": producer, "session": session, "turn": turn}
        self._end = {"type": "turn.ended", "key": composite_key(session, "turn_ended", turn), "previous": previous}
        self._timeout_s = timeout_s
        self._clock = clock
        self._next = 0
        self._dropped_count = 0
        self._states: dict[str, dict[bytes, Answer]] = {}
        self._is_closing = self._is_closed = False
        self._checked(self._end | {"at": times.at_of(clock())})
        self._outbox = Outbox(log)
        self._stop = weakref.finalize(self, self._outbox.stop, wait=False)
        self._stop.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._outbox.is_ours:
            return  # the turn is the parent's, and this is the child of a fork
        if error is None:
            self.close()
            return
        try:
            self.close(f"exception: {type(error).__name__}")
        except RightfulError as lost:
            error.add_note(f"Turn {self.turn} of {self.session} was not closed: {lost}")

    # -- the events of a turn ----------------------------------------------------------------

    def message(self, role: str, content: Any, *, key: str | None = None, **common: Any) -> Answer:  # noqa: ANN401 - content
        """Record a message.

        Args:
            role: `user`, `assistant`, `system` …
            content: Text, or a list of parts.
            key: A key of your own. A longer text with the same key replaces a shorter one.
            common: `at`, `extra`.
        """
        return self._add("message.recorded", key, ("message",), role=role, content=content, **common)

    def thought(self, content: Any, *, key: str | None = None, **common: Any) -> Answer:  # noqa: ANN401 - content
        """Record a thought of the model. A longer text with the same key replaces a shorter one."""
        return self._add("thought.recorded", key, ("thought",), content=content, **common)

    def tool_call(self, call: str, **fields: Any) -> Answer:  # noqa: ANN401 - content, checked by the type
        """Record one state of a tool call; call it again as the call grows.

        Args:
            call: The call's own id, unique in its turn.
            fields: `name`, `arguments`, `complete`, `at`, `extra`.
        """
        return self._add("tool_call.snapshotted", None, ("tool_call", call), call=call, **fields)

    def tool_result(self, call: str, output: Any = None, **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record one state of a tool's result; call it again as it grows.

        Args:
            call: The id of the call that it answers.
            output: The part that has arrived so far.
            fields: `is_error`, `complete`, `at`, `extra`.
        """
        return self._add("tool_result.snapshotted", None, ("tool_result", call), call=call, output=output, **fields)

    def usage(self, counts: Mapping[str, Any], **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record the token usage of the turn or of one response.

        Args:
            counts: Numbers by name (`input_tokens` …).
            fields: `of`, `cumulative`, `at`, `extra`.
        """
        return self._add("usage.recorded", None, ("usage",), counts=dict(counts), **fields)

    def error(self, message: str, **common: Any) -> Answer:  # noqa: ANN401 - as above
        """Record an error."""
        return self._add("error.recorded", None, ("error",), message=message, **common)

    def requested(self, interaction: str, payload: Any = None, **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record a request of the session: for an approval, an input or a tool.

        Args:
            interaction: The request's own id.
            payload: The content of the request.
            fields: `kind`, `at`, `extra`.
        """
        names = ("requested", interaction)
        return self._add("interaction.requested", None, names, interaction=interaction, payload=payload, **fields)

    def answered(self, interaction: str, payload: Any = None, **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record the answer to a request. The arguments are those of `requested`."""
        names = ("answered", interaction)
        return self._add("interaction.answered", None, names, interaction=interaction, payload=payload, **fields)

    def data(self, name: str, data: Any = None, **common: Any) -> Answer:  # noqa: ANN401 - as above
        """Record data that is not part of the conversation, under a name of your choice."""
        return self._add("data.recorded", None, ("data",), name=name, data=data, **common)

    # -- flushing and closing ------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> None:
        """Return once all events queued so far are durable.

        Args:
            timeout_s: How long to wait; seconds. None waits without a limit.

        Raises:
            BacklogError: The timeout passed. The events are still being written.
            StorageError: Events could not be written. They stay queued with their ids; flush again to retry.
        """
        self._outbox.check()
        self._outbox.flush(timeout_s)

    def dropped(self, count: int = 1) -> None:
        """Report events of this turn that you lost, so that the turn's end counts them.

        Args:
            count: The number of lost events.

        Raises:
            UsageError: The number is not valid, or the turn is closed and its end was already written.
        """
        self._outbox.check()
        if type(count) is not int or not 0 <= count <= limits.SEQ_MAX:
            raise UsageError(f"Invalid number of events {count!r}. Nothing was counted. Pass an integer, 0 or more.")
        with self._outbox.lock:
            if self._is_closing:
                raise UsageError(f"Turn {self.turn} is closed. Its end does not count these {count} events.")
            self._dropped_count += count

    def close(self, stop_reason: str | None = None, *, drop: bool = False, timeout_s: float | None = None) -> None:
        """Write the queued events and then the end of the turn. Closing a closed turn does nothing.

        Args:
            stop_reason: Why the turn ended.
            drop: Drop events that cannot be written, and count them in `dropped_count`.
            timeout_s: How long to wait; seconds. None waits without a limit.

        Raises:
            BacklogError: The timeout passed before all events were written. Close the turn again.
            StorageError: Events could not be written. None is lost. Close the turn again, or with `drop`.
        """
        self._outbox.check()
        if self._is_closed:
            return
        if drop:
            self._drop(timeout_s)
        if not self._is_closing:
            self._close(stop_reason)
        self._outbox.flush(timeout_s)
        self._is_closed = True
        self._outbox.stop(wait=True)

    def _drop(self, timeout_s: float | None) -> None:
        try:
            self._outbox.flush(timeout_s)
        except RightfulError:
            lost = self._outbox.drop_queued(timeout_s)
            self._is_closing = False  # the end is created again
            self.dropped(sum(waiting.event.index != self._next for waiting in lost))

    def _close(self, stop_reason: str | None) -> None:
        with self._outbox.lock:
            fields = {
                "at": times.at_of(self._clock()),
                "index": self._next,
                "stop_reason": stop_reason,
                "event_count": self._next + 1,
                "dropped_count": self._dropped_count + self._outbox.refused_count,
            }
            event, body = self._checked(self._end | fields)
            self._outbox.put(event, len(body))
            self._is_closing = True

    def _add(
        self,
        kind: str,
        key: str | None,
        names: tuple[str, ...],
        /,
        *,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - content, checked by the type
    ) -> Answer:
        self._outbox.check()
        parts = (self.session, names[0], self.turn, *names[1:])
        shared = key if key is not None or len(names) == 1 else composite_key(*parts)
        if not fields.keys().isdisjoint(_SET_BY_TURN):
            raise UsageError(f"The turn sets {', '.join(_SET_BY_TURN)} itself. Nothing was recorded. Omit them.")
        fields |= {"type": kind, "at": times.at_of(self._clock()) if at is None else at}
        event, body = self._checked(fields | {"key": shared or composite_key(*parts, 0)})
        digest = hashlib.sha256(body).digest()
        with self._outbox.room(len(body), self._timeout_s):
            if self._is_closing:
                raise UsageError(f"Turn {self.turn} is closed. The event was not recorded. Record it in another turn.")
            states = {} if shared is None else self._states.setdefault(f"{kind} {shared}", {})
            if digest in states:
                return states[digest]
            event = structs.replace(event, index=self._next, key=shared or composite_key(*parts, self._next))
            states[digest] = self._outbox.put(event, len(body))
            self._next += 1
            return states[digest]

    def _checked(self, fields: dict[str, Any]) -> tuple[Event, bytes]:
        """Return the checked event, with its own copy of the content, and the encoded body."""
        checked = wire.check(self._common | fields)
        body = encode_body(checked.event)
        copy = body_kind(type(checked.event)).decode(body)  # the caller may change its objects later
        copied = {name: getattr(copy, name) for name in checked.event.CONTENT}
        if checked.escaped:
            copied = {name: restore(value) for name, value in copied.items()}
        return structs.replace(checked.event, **copied), body
