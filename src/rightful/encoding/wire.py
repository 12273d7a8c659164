"""Check incoming facts: convert a wire object or a struct to a checked event with an id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import msgspec
from msgspec import Struct, structs

from rightful import content, limits, times
from rightful.allowed_values import explained
from rightful.errors import InvalidEventError
from rightful.events import (
    TYPES,
    BalanceOpened,
    BanditPruned,
    Event,
    EventWithdrawn,
    ExposureRecorded,
    GradeRecorded,
    HandoffTaken,
    HandoffWritten,
    HistoryAppended,
    HistoryCompacted,
    HistoryPopped,
    SessionEvent,
    SessionLinked,
    SessionUnlinked,
)
from rightful.field_types import Rubric, Sha256, Uri, Uuid
from rightful.identity import NOT_A_SESSION, PRODUCER, SESSION, canonical_id, event_id, has_control, split_session

_PLACE = r"(?s)(?P<what>.*) - at (?:`key` in )?`(?P<place>[^`]*)`\Z"  # compiled when an error is explained
_FORMS = {
    SESSION: "Expected `namespace:value`, such as `claude-code:7fbe4341`, without control characters",
    PRODUCER: "Expected a producer's name: 1 to 128 letters, digits and `._/:@-`, first a letter or a digit",
    get_args(Rubric)[1].pattern: "Expected a rubric without `/` and control characters",
    get_args(Sha256)[1].pattern: "Expected 64 hexadecimal digits, lower case",
    get_args(Uuid)[1].pattern: "Expected `uuid`, lower case with hyphens",
    get_args(Uri)[1].pattern: "Expected a URI such as `file:///a%20b`, in ASCII",
}
"""Descriptions of forms for people, in place of their regular expressions."""
_FIELD = r"field `(?P<name>[^`]*)`\Z"


NESTED: dict[type[Event], tuple[str, ...]] = {
    ExposureRecorded: ("arms", "withheld"),
    BanditPruned: ("contexts",),
    BalanceOpened: ("arms", "contexts"),
    HistoryAppended: ("read",),
    HistoryCompacted: ("covers",),
    HistoryPopped: ("items",),
    HandoffWritten: ("found",),
    HandoffTaken: ("found",),
}
"""The fields that contain structs. msgspec accepts a struct unchecked, so they are converted to dicts first."""


_NAMING = frozenset({ExposureRecorded, GradeRecorded, BanditPruned, BalanceOpened, SessionLinked, SessionUnlinked})
"""The types that name arms or other sessions."""


class Checked(Struct, frozen=True, gc=False):
    """A checked fact, ready for the ledger.

    Attributes:
        id: Its event id, UUID text.
        event: The event.
        at_us: When it happened; microseconds since 1970, UTC.
        escaped: Whether some of its content is stored as an escape (`content.escape`).
    """

    id: str
    event: Event
    at_us: int
    escaped: bool


def check(proposed: Event | Mapping[str, Any]) -> Checked:
    """Check a proposed event, and return it with its id.

    Args:
        proposed: A struct of `rightful.events`, or a wire object (a dict as parsed from JSON).

    Raises:
        InvalidEventError: It does not fit its type; `place` names the field. Fix it and send it again;
            the other events are not affected.
    """
    if isinstance(proposed, Event):
        wire = _wire_of(proposed)
    elif type(proposed) is dict or isinstance(proposed, Mapping):  # the second checks an ABC, which is slow
        wire = dict(proposed)
    else:
        raise InvalidEventError(f"Expected `object`, got `{content.json_type(proposed)}`")
    event, escaped = _convert(wire)
    if type(event) is EventWithdrawn:
        event = structs.replace(event, id=canonical_id(event.id))
        return Checked(event_id(event.producer, event.key), event, _check_rules(event), escaped)
    return Checked(_identify(event), event, _check_rules(event), escaped)


def _wire_of(event: Event) -> dict[str, Any]:
    kind = type(event)
    names, wire = kind.__struct_encode_fields__, structs.asdict(event)
    if names != kind.__struct_fields__:
        wire = dict(zip(names, wire.values(), strict=True))
    wire["type"] = kind.__struct_config__.tag
    return wire


def _convert(wire: dict[str, Any]) -> tuple[Event, bool]:
    name = wire.get("type")
    if not isinstance(name, str):
        raise InvalidEventError(
            "Object missing required field `type`"
            if name is None
            else f"Expected `str`, got `{content.json_type(name)}`",
            "$.type",
        )
    kind = TYPES.get(name)
    if kind is None:
        allowed = ", ".join(f"`{tag}`" for tag in TYPES)
        raise InvalidEventError(f"Invalid value {name[:64]!r}; there are {allowed}", "$.type")
    escaped = False
    for field in kind.CONTENT:
        if wire.get(field) is not None:
            wire[field], hit = content.escape(wire[field], f"$.{field}")
            escaped = escaped or hit
    for field in NESTED.get(kind, ()):
        if field in wire:
            wire[field] = _plain(wire[field], f"$.{field}")
    try:
        return msgspec.convert(wire, kind), escaped
    except msgspec.ValidationError as error:
        raise _placed(explained(str(error), kind)) from None
    except (RecursionError, OverflowError, UnicodeError) as error:
        raise InvalidEventError(f"Expected a plain event: {content.json_type(error)}") from None


def _plain(value: object, place: str) -> object:
    match value:
        case list() | tuple():
            return [structs.asdict(item) if isinstance(item, Struct) else item for item in value]
        case dict():
            return {key: structs.asdict(item) if isinstance(item, Struct) else item for key, item in value.items()}
        case Struct():
            fields = structs.asdict(value)
            return fields | {"covered": _plain(fields["covered"], place)} if "covered" in fields else fields
        case None:
            return value
        case _:
            raise InvalidEventError(f"Expected `array` or `object`, got `{content.json_type(value)}`", place)


def _placed(text: str) -> InvalidEventError:
    if found := re.match(_PLACE, text):
        what, place = found["what"], found["place"]
    else:
        what, place = text, "$"
    what = _in_words(what)
    if "field `" in what and (name := re.search(_FIELD, what)):
        place = f"{place}.{name['name']}"
    return InvalidEventError(what, place)


def _in_words(what: str) -> str:
    """Return msgspec's message with the form of a name or a time in a person's terms."""
    if what.endswith("with a timezone component"):
        return f"{what}, such as 2026-08-01T10:15:00Z"
    if what.startswith("Expected `str` matching regex "):
        return next((words for form, words in _FORMS.items() if what.endswith(repr(form))), what)
    return what


def _identify(event: Event) -> str:
    if event.key is None:
        if event.id is None:
            raise InvalidEventError("Expected `key` or `id`", "$.key")
        return canonical_id(event.id)
    derived = event_id(event.producer, event.key)
    if event.id is not None and canonical_id(event.id) != derived:
        raise InvalidEventError(f"Expected `id` {derived}, derived from `producer` and `key`", "$.id")
    return derived


def _check_rules(event: Event) -> int:
    at_us = times.us_of(event.at)
    if not limits.AT_MIN_US <= at_us <= limits.AT_MAX_US:
        raise InvalidEventError("Expected a time from 1970 to 2200", "$.at")
    if event.turn is not None:
        _check_text(event.turn, "$.turn")
    if isinstance(event, SessionEvent):
        _check_session(event.session, "$.session")
    if type(event) in _NAMING:
        _check_names(event)
    return at_us


def _check_names(event: Event) -> None:
    match event:
        case ExposureRecorded():
            _check_arms([shown.arm for shown in event.arms], "$.arms[{}].arm")
            if event.withheld:
                _check_arms([withheld.arm for withheld in event.withheld], "$.withheld[{}].arm")
        case GradeRecorded():
            _check_grade(event)
        case BanditPruned():
            _check_arms(event.arms, "$.arms[{}]")
            _check_arms([context.arm for context in event.contexts], "$.contexts[{}].arm")
        case BalanceOpened():
            _check_arms([*event.arms], "$.arms[...]")
            _check_arms([context.arm for context in event.contexts], "$.contexts[{}].arm")
        case SessionLinked() | SessionUnlinked():
            _check_session(event.other, "$.other")
            if event.other == event.session:
                raise InvalidEventError("Expected another session than `session`", "$.other")
        case _:
            pass


def _check_grade(event: GradeRecorded) -> None:
    if event.reward is None and event.outcome is None:
        raise InvalidEventError("Expected `reward` or `outcome`", "$.reward")
    if event.per_arm is not None:
        _check_arms([*event.per_arm], "$.per_arm[...]")
    if event.salience is not None:
        _check_arms([*event.salience], "$.salience[...]")
    if event.exposure_session is not None:
        _check_session(event.exposure_session, "$.exposure_session")


def _check_arms(arms: Sequence[str], place: str) -> None:
    if has_control("".join(arms)):
        at = next(at for at, arm in enumerate(arms) if has_control(arm))
        raise InvalidEventError("Expected an arm without control characters", place.format(at))


def _check_session(name: str, place: str) -> None:
    if split_session(name)[1] in NOT_A_SESSION:
        raise InvalidEventError(f"Expected a session, got {name!r}, which names no session", place)
    if _check_text(name, place) > limits.SESSION_BYTES:
        raise InvalidEventError(f"Expected a session of at most {limits.SESSION_BYTES} bytes", place)


def _check_text(text: str, place: str) -> int:
    """Check a name; return its size in bytes of UTF-8."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidEventError("Expected a name without lone surrogates", place) from None


def from_wire(wire: Mapping[str, Any] | bytes | str) -> Event:
    """Return the event of a wire object or of one JSON line, checked for an append.

    Raises:
        InvalidEventError: It does not fit its type; `place` names the field.
    """
    if isinstance(wire, bytes | str):
        wire = cast("Mapping[str, Any]", content.parse_line(wire))
    checked = check(wire)
    if not checked.escaped:
        return checked.event
    kept = {field: content.restore(getattr(checked.event, field)) for field in checked.event.CONTENT}
    return structs.replace(checked.event, **kept)
