"""The base structs of all events."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from rightful.field_types import Index, Producer, Session, Time, Turn


class Event(Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """One immutable fact, in the past tense, written once by a producer.

    Attributes:
        producer: Who wrote the event.
        at: When it happened, by the producer's clock; with an offset.
        key: The producer's stable key of the fact; the event id is derived from it.
        id: The event id, for a producer that has a UUID of its own. One of `key` and `id` is required.
        at_basis: `file` when `at` is a file's time: only an upper bound, never evidence.
        turn: The turn of the session.
        index: Its place in the turn as the producer counts, from 0.
        alias: The session name was read from a sanitised form, so it never matches exactly.
        extra: Data that this version does not model; stored as content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra",)

    producer: Producer
    at: Time
    key: str | None = None
    id: str | None = None
    at_basis: Literal["file"] | None = None
    turn: Turn | None = None
    index: Index | None = None
    alias: bool = False
    extra: dict[str, Any] | None = None


class SessionEvent(Event, frozen=True, kw_only=True):
    """A fact of one session.

    Attributes:
        session: The session's name, `namespace:value`, exactly as its writer knows it.
    """

    session: Session
