"""Convert an event to stored bytes and back.

A row is an *envelope* (the permanent facts: id, type, session, times, outcome,
commitment) and a *payload* (32 bytes of salt and the canonical body). They are stored separately, so a
payload can be erased while the Merkle tree over the envelopes stays unchanged. The commitment
is `SHA-256(salt + body)`: without the salt a guess cannot be confirmed.

The canonical body is msgspec JSON of the fields that are not in the envelope, in the order
in which the struct defines them, defaults omitted, dict keys sorted.
"""

from __future__ import annotations

import hashlib
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from rightful import content, limits, times
from rightful.errors import InvalidEventError, UpgradeError
from rightful.events import TYPES, Event, EventWithdrawn

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
"""Version of the envelope's own format."""

SALT_BYTES = 32
"""Length of the salt before the body; bytes."""

HEAD_FIELDS = frozenset({"producer", "at", "key", "id", "at_basis", "session", "turn", "index"})
"""The fields of an event that are in the envelope; the others are the body."""

OUTCOMES = ("appended", "refined", "reemitted", "stale", "conflict")
"""The outcomes under which a row is stored."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The permanent record of an event. Its bytes are the leaf of the tree.

    Attributes:
        v: The envelope's own version.
        id: The event id; UUID text.
        revision: The number of the row among those of this id, from 1.
        type: The event's type.
        schema: The version of the type's body.
        producer: Who wrote it.
        session: The session's name, if the type has one.
        turn: The session's turn.
        index: The place in the turn, as the producer counts.
        at_us: When it happened; microseconds since 1970, UTC.
        at_basis: `file` if that is a file's time.
        recorded_at_us: When the ledger wrote it; never earlier than the row before it.
        outcome: How the row was classified.
        first: The position of the id's first row; 0 if it is this one.
        body_bytes: Size of the canonical body; bytes.
        escaped: Whether some of its content is stored as an escape (`content.restore`).
        commitment: SHA-256 of salt and body, in hexadecimal.
    """

    v: int = VERSION
    id: str
    revision: int
    type: str
    schema: int
    producer: str
    session: str | None = None
    turn: str | None = None
    index: int | None = None
    at_us: int
    at_basis: str | None = None
    recorded_at_us: int
    outcome: str
    first: int = 0
    body_bytes: int
    escaped: bool = False
    commitment: str


SCHEMAS: dict[str, int] = dict.fromkeys(TYPES, 1)
"""The newest version of each type's body."""

UPCASTERS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For (type, version): converts a body of that version to the next one."""

_encoder = msgspec.json.Encoder(order="deterministic")


class _Head(msgspec.Struct):
    id: str
    type: str
    session: str | None = None


_heads = msgspec.json.Decoder(_Head)


class BodyKind(msgspec.Struct, frozen=True):  # a named tuple takes four times as long to define
    """How the body of one event type is encoded and decoded.

    Attributes:
        struct: The struct of its fields, which projections fold.
        of: Returns the body's fields of an event, in order.
        decode: Decodes canonical bytes into `struct`.
    """

    struct: type[msgspec.Struct]
    of: Callable[[Event], tuple[Any, ...]]
    decode: Callable[[bytes], Any]


@cache
def body_kind(kind: type[Event]) -> BodyKind:
    """Return how the body of an event type is encoded and decoded."""
    head = HEAD_FIELDS - {"id"} if kind is EventWithdrawn else HEAD_FIELDS
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in head]
    struct = msgspec.defstruct(
        f"{kind.__name__}Body",
        [_definition(field) for field in fields],
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        gc=False,  # decoded from JSON, so it is in no cycle
        module=__name__,
    )
    names = [field.name for field in fields]
    getter = attrgetter(*names) if len(names) > 1 else (lambda event, get=attrgetter(names[0]): (get(event),))
    return BodyKind(struct, getter, msgspec.json.Decoder(struct).decode)


def _definition(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.required:
        return (field.name, field.type, msgspec.field(name=field.encode_name))
    if field.default_factory is not msgspec.NODEFAULT:
        return (field.name, field.type, msgspec.field(name=field.encode_name, default_factory=field.default_factory))
    return (field.name, field.type, msgspec.field(name=field.encode_name, default=field.default))


def encode_body(event: Event) -> bytes:
    """Return an event's canonical body.

    Raises:
        InvalidEventError: A name contains a lone surrogate, or the body is larger than
            `limits.EVENT_BYTES`.
    """
    kind = body_kind(type(event))
    fields = kind.struct.__struct_fields__
    values = kind.of(event)
    try:
        body = _encoder.encode(kind.struct(**dict(zip(fields, values, strict=True))))
    except UnicodeEncodeError:
        raise InvalidEventError("Expected names without lone surrogates", _surrogate_place(fields, values)) from None
    if len(body) > limits.EVENT_BYTES:
        raise InvalidEventError(f"Expected a body of at most {limits.EVENT_BYTES} bytes, got {len(body)}")
    return body


def _surrogate_place(fields: tuple[str, ...], values: tuple[Any, ...]) -> str:
    for field, value in zip(fields, values, strict=True):
        try:
            _encoder.encode(value)
        except UnicodeEncodeError:
            return f"$.{field}"
    return "$"


def commitment(salt: bytes, body: bytes) -> str:
    """Return SHA-256 of salt and body, in hexadecimal."""
    return hashlib.sha256(salt + body).hexdigest()


def encode(envelope: Envelope) -> bytes:
    """Return an envelope's stored bytes.

    Raises:
        InvalidEventError: They exceed `limits.ENVELOPE_BYTES`.
    """
    data = _encoder.encode(envelope)
    if len(data) > limits.ENVELOPE_BYTES:
        raise InvalidEventError(f"Expected an envelope of at most {limits.ENVELOPE_BYTES} bytes, got {len(data)}")
    return data


def decode(data: bytes) -> Envelope:
    """Return the envelope of stored bytes; unknown fields of a newer version are ignored.

    Raises:
        msgspec.DecodeError: The bytes are not an envelope; the row is damaged.
    """
    return decoder()(data)


@cache
def decoder() -> Callable[[bytes], Envelope]:
    """Return `decode` for many envelopes; created on first use, since most calls of a hook read none."""
    return msgspec.json.Decoder(Envelope).decode


def tags_of(event_id: str, session: str | None) -> list[str]:
    """Return the tags of a row of the ledger."""
    return [f"id:{event_id}"] if session is None else [f"id:{event_id}", f"session:{session}"]


def read_head(data: bytes) -> tuple[str, list[str]]:
    """Return the type and the tags of a stored envelope."""
    head = _heads.decode(data)
    return head.type, tags_of(head.id, head.session)


def body_of(envelope: Envelope, body: bytes, position: int) -> Any:  # noqa: ANN401 - one struct a type
    """Return a stored body as the struct of its type, upgraded to the newest version.

    Raises:
        UpgradeError: The type or its version is newer than this program.
    """
    kind = TYPES.get(envelope.type)
    newest = SCHEMAS.get(envelope.type, 0)
    if kind is None or envelope.schema > newest or envelope.v > VERSION:
        raise UpgradeError(position, envelope.type, envelope.schema)
    if envelope.schema == newest:
        return body_kind(kind).decode(body)
    fields = msgspec.json.decode(body)
    for version in range(envelope.schema, newest):
        fields = UPCASTERS[envelope.type, version](fields)
    return msgspec.convert(fields, body_kind(kind).struct)


def event_of(envelope: Envelope, body: bytes, position: int) -> Event:
    """Return the event of a stored row.

    Raises:
        UpgradeError: The type or its version is newer than this program.
    """
    fields = body_of(envelope, body, position)
    kind = TYPES[envelope.type]
    values: dict[str, Any] = {name: getattr(fields, name) for name in fields.__struct_fields__}
    if envelope.escaped:
        values.update({name: content.restore(values[name]) for name in kind.CONTENT if name in values})
    values.setdefault("id", envelope.id)
    if envelope.session is not None:
        values["session"] = envelope.session
    if kind is EventWithdrawn:
        values["key"] = ""
    return kind(
        producer=envelope.producer,
        at=times.at_of(envelope.at_us),
        at_basis=envelope.at_basis,  # type: ignore[arg-type]
        turn=envelope.turn,
        index=envelope.index,
        **values,
    )
