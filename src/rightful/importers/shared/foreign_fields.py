"""Strict reading of fields in files of other programs: session ids, arms, times and digests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from rightful import limits, times
from rightful.errors import InvalidEventError
from rightful.field_types import Arm
from rightful.identity import NOT_A_SESSION, composite_key, is_session

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WORDS_FOR_NONE = frozenset({"none", "null", "undefined", "unknown"})  # of Python, JSON, JavaScript, and English
_PLACED = re.compile(r"(?P<what>.*) - at `(?P<place>[^`]*)`\Z", re.DOTALL)


def shaped(value: Mapping[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401 - the struct that was asked for
    """Return an object as a struct; fields that the struct does not have are ignored.

    Raises:
        InvalidEventError: It does not have that shape; the place says where.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PLACED.match(text)
        raise InvalidEventError(found["what"], found["place"]) if found else InvalidEventError(text) from None
    except UnicodeEncodeError:  # a key with a lone surrogate
        raise InvalidEventError("Expected keys in UTF-8, got other bytes") from None


def unfit(arm: str) -> str | None:
    """Return why a text is not valid as an arm's name; None if it is valid."""
    try:
        msgspec.convert(arm, Arm)
    except msgspec.ValidationError as error:
        return str(error)
    if _CONTROL.search(arm):
        return "Expected an arm without control characters"
    return None if is_utf8(arm) else "Expected text in UTF-8, got other bytes"


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def arm_of(value: object, place: str) -> str:
    """Return an arm's name.

    Args:
        value: The value at the place of the name.
        place: The place.

    Raises:
        InvalidEventError: The value is not a valid name.
    """
    try:
        arm = msgspec.convert(value, str)
    except msgspec.ValidationError as error:
        raise InvalidEventError(str(error), place) from None
    if (why := unfit(arm)) is not None:
        raise InvalidEventError(why, place)
    return arm


def below(place: str, error: InvalidEventError) -> InvalidEventError:
    """Return an error of a part as an error of the whole that has the part at this place."""
    return InvalidEventError(error.what, f"{place}{error.place.removeprefix('$')}")


def session_of(namespace: str, value: str, place: str, *, suffix: str = "") -> str:
    """Return the session name of a tool's id.

    Args:
        namespace: The namespace of the tool.
        value: The id, exactly as the tool wrote it.
        place: Where it is.
        suffix: A suffix that makes a reusable id unique.

    Raises:
        InvalidEventError: The id is a placeholder, or not valid in a session name.
    """
    if value in NOT_A_SESSION or not value.strip():
        raise InvalidEventError(f"Expected a session id, got {value!r}, which names no session", place)
    name = f"{namespace}:{value}{suffix}"
    if not is_session(name):
        raise InvalidEventError(f"Expected a session id, got {value[:64]!r}, which is not a valid name", place)
    return name


def doubt_of(value: str, place: str) -> str | None:
    """Return a note on a session id that looks like a placeholder, such as `none`; None for other ids."""
    if value.strip().lower() not in _WORDS_FOR_NONE:
        return None
    return f"{value[:64]!r} looks like a placeholder for an unknown session; it was kept - at `{place}`"


def key_of(*parts: str | int | None) -> str:
    """Return a key of several parts.

    Raises:
        InvalidEventError: A part has bytes that were not UTF-8, so no other program could compute the key.
    """
    try:
        return composite_key(*parts)
    except InvalidEventError:
        raise InvalidEventError("Expected text in UTF-8, got other bytes") from None


def epoch_us(seconds: float, place: str) -> int:
    """Return seconds since 1970 as microseconds.

    Raises:
        InvalidEventError: They are not a time from 1970 to 2200.
    """
    if not limits.AT_MIN_US <= seconds * 1_000_000 <= limits.AT_MAX_US:
        raise InvalidEventError(f"Expected seconds since 1970, got {seconds}", place)
    return round(seconds * 1_000_000)


def moment_us(text: str, place: str) -> tuple[int, bool]:
    """Return an ISO 8601 time as microseconds since 1970, and whether it had an offset.

    A time without offset is read as UTC, as gptme-sessions writes it.

    Raises:
        InvalidEventError: It is not a time, or not one from 1970 to 2200.
    """
    try:
        at = datetime.fromisoformat(text)
        aware = at.tzinfo is not None
        at_us = times.us_of(at if aware else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidEventError(f"Expected a time, got {text[:64]!r}", place) from None
    return within(at_us, text, place), aware


def within(at_us: int, text: str, place: str) -> int:
    """Return a time if it is valid in an event.

    Args:
        at_us: The time; microseconds since 1970, UTC.
        text: The time, as written.
        place: Where it is.

    Raises:
        InvalidEventError: It is not from 1970 to 2200.
    """
    if not limits.AT_MIN_US <= at_us <= limits.AT_MAX_US:
        raise InvalidEventError(f"Expected a time from 1970 to 2200, got {text[:64]!r}", place)
    return at_us


def digest(value: object) -> str:
    """Return SHA-256 of JSON content in one canonical form, in hexadecimal.

    Line ends, spacing, the order of keys and the encoding of the file make no difference.

    Raises:
        InvalidEventError: It is nested too deep.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise InvalidEventError(f"Expected JSON nested at most {limits.NESTING_DEPTH} levels deep") from None
    return hashlib.sha256(text.encode()).hexdigest()
