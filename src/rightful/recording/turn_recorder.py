"""The turn recorder: one turn of a session, recorded as it goes, by any runner and from any thread.

    with producer.turn("runner:7f3a", "turn-1") as turn:
        turn.message("user", "list the files")
        turn.tool_call("c1", name="bash", arguments={"command": "ls"})
        turn.tool_result("c1", "README.md", complete=True)

Each event gets the next index of the turn, and leaving the block closes the turn with a
`turn.ended` that counts them: so a reader can tell a lost tail, a hole and a lost turn
(`projections/completeness.py`). A call returns as soon as the event is taken; its answer, a
`concurrent.futures.Future`, holds the receipt once it is durable. `flush()` waits for all of them.

Nothing is dropped: who writes faster than the disk waits for room. What could not be written stays
with its id, and the error reaches who flushes, closes, or finds no room. `close(drop=True)` gives it
up and says so in `dropped_count`.

The same turn under the same name, recorded again after a crash, is the same turn: give another
attempt another name.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from msgspec import structs

from rightful import content, limits, times
from rightful.encoding import wire
from rightful.encoding.envelope import body_kind, encode_body
from rightful.errors import RightfulError, UsageError
from rightful.events.base import Event
from rightful.identity import composite_key
from rightful.log.log import Clock, Log
from rightful.recording.outbox import Answer, Outbox

_OURS = ("type", "producer", "id", "key", "session", "turn", "index")


class TurnRecorder:
    """Records one turn. Get one from `Producer.turn`; use it in a `with` statement.

    Every method takes `at`, when it happened (aware; now if None), and `extra`, what is not modelled. It
    copies what it is given, and raises `InvalidEventError` when that does not fit its type: the event was
    not taken then, and has no index. It raises `BacklogError` when there was no room for `timeout_s`, and
    the storage error when there is none because nothing can be written; the event was not taken either.

    Args:
        log: The ledger's log.
        producer: The producer's name.
        session: The session's name.
        turn: The turn's name; each turn of a session has its own.
        previous: The turn before it, so that its loss can be told.
        timeout_s: How long a call waits for room; seconds. None waits for ever.
        clock: Tells `at` where a caller does not; microseconds since 1970, UTC.

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
        self._made(self._end | {"at": times.at_of(clock())})
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

    # -- what a turn holds -------------------------------------------------------------------

    def message(self, role: str, said: Any, *, key: str | None = None, **common: Any) -> Answer:  # noqa: ANN401 - content
        """Record what somebody said.

        Args:
            role: `user`, `assistant`, `system` …
            said: Text, or a list of parts.
            key: A key of your own, under which a longer text refines a shorter one.
            common: `at`, `extra`.
        """
        return self._add("message.recorded", key, ("message",), role=role, content=said, **common)

    def thought(self, said: Any, *, key: str | None = None, **common: Any) -> Answer:  # noqa: ANN401 - content
        """Record what the model thought aloud; a longer text under the same key refines it."""
        return self._add("thought.recorded", key, ("thought",), content=said, **common)

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
            output: What has arrived of it.
            fields: `is_error`, `complete`, `at`, `extra`.
        """
        return self._add("tool_result.snapshotted", None, ("tool_result", call), call=call, output=output, **fields)

    def usage(self, counts: Mapping[str, Any], **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record what the turn or one response used.

        Args:
            counts: Numbers by name (`input_tokens` …).
            fields: `of`, `cumulative`, `at`, `extra`.
        """
        return self._add("usage.recorded", None, ("usage",), counts=dict(counts), **fields)

    def error(self, message: str, **common: Any) -> Answer:  # noqa: ANN401 - as above
        """Record that something went wrong."""
        return self._add("error.recorded", None, ("error",), message=message, **common)

    def requested(self, interaction: str, payload: Any = None, **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record that the session asked somebody: for an approval, an input or a tool.

        Args:
            interaction: The request's own id.
            payload: What was asked.
            fields: `kind`, `at`, `extra`.
        """
        names = ("requested", interaction)
        return self._add("interaction.requested", None, names, interaction=interaction, payload=payload, **fields)

    def answered(self, interaction: str, payload: Any = None, **fields: Any) -> Answer:  # noqa: ANN401 - as above
        """Record the answer to what was asked; arguments as of `requested`."""
        names = ("answered", interaction)
        return self._add("interaction.answered", None, names, interaction=interaction, payload=payload, **fields)

    def data(self, name: str, data: Any = None, **common: Any) -> Answer:  # noqa: ANN401 - as above
        """Record something that is no part of the conversation, under a name of yours."""
        return self._add("data.recorded", None, ("data",), name=name, data=data, **common)

    # -- what becomes of it --------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> None:
        """Return once all that was taken so far is durable.

        Args:
            timeout_s: How long to wait; seconds. None waits for ever.

        Raises:
            BacklogError: It is not, after so long. It is still being written.
            StorageError: It could not be written. It stays, with its ids; flush again to try again.
        """
        self._outbox.check()
        self._outbox.flush(timeout_s)

    def dropped(self, count: int = 1) -> None:
        """Say that events of this turn are lost to you, so that its end counts them.

        Args:
            count: How many.

        Raises:
            UsageError: It is no number of events, or the turn is closed: its end has counted already.
        """
        self._outbox.check()
        if type(count) is not int or not 0 <= count <= limits.SEQ_MAX:
            raise UsageError(f"Invalid number of events {count!r}. Nothing was counted. Pass an integer, 0 or more.")
        with self._outbox.alone():
            if self._is_closing:
                raise UsageError(f"Turn {self.turn} is closed. Its end does not count these {count} events.")
            self._dropped_count += count

    def close(self, stop_reason: str | None = None, *, drop: bool = False, timeout_s: float | None = None) -> None:
        """Write what waits and then the end of the turn. Closing twice is nothing.

        Args:
            stop_reason: Why it ended.
            drop: Give up what cannot be written, and count it as dropped.
            timeout_s: How long to wait; seconds. None waits for ever.

        Raises:
            BacklogError: It is not written after so long. Close it again.
            StorageError: It could not be written. Nothing is lost; close it again, or with `drop`.
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
            lost = self._outbox.give_up(timeout_s)
            self._is_closing = False  # the end itself is made anew
            self.dropped(sum(waiting.event.index != self._next for waiting in lost))

    def _close(self, stop_reason: str | None) -> None:
        with self._outbox.alone():
            fields = {
                "at": times.at_of(self._clock()),
                "index": self._next,
                "stop_reason": stop_reason,
                "event_count": self._next + 1,
                "dropped_count": self._dropped_count + self._outbox.refused_count,
            }
            event, body = self._made(self._end | fields)
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
        if not fields.keys().isdisjoint(_OURS):
            raise UsageError(f"The turn sets {', '.join(_OURS)} itself. Nothing was recorded. Omit them.")
        told = {"type": kind, "at": times.at_of(self._clock()) if at is None else at} | fields
        event, body = self._made(told | {"key": shared or composite_key(*parts, 0)})
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

    def _made(self, told: dict[str, Any]) -> tuple[Event, bytes]:
        """Return an event as it can be appended, a copy of what was told, and its body."""
        checked = wire.check(self._common | told)
        body = encode_body(checked.event)
        said = body_kind(type(checked.event)).decode(body)  # what was given may change before it is written
        kept = {name: getattr(said, name) for name in checked.event.CONTENT}
        if checked.escaped:
            kept = {name: content.restore(value) for name, value in kept.items()}
        return structs.replace(checked.event, **kept), body
