"""Times: integer microseconds UTC inside, RFC 3339 outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from rightful.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000
_FARTHEST_S = 62_135_596_800  # back to the year 1, where calendars end, and as far ahead
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_FIRST_US = -_FARTHEST_S * 1_000_000
_LAST_US = 253_402_300_799_999_999  # the end of the year 9999, where calendars end


def us_of(at: datetime) -> int:
    """Return an aware time as microseconds since 1970, UTC; exact."""
    since = at - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def at_of(at_us: int) -> datetime:
    """Return microseconds since 1970 as an aware UTC time; exact."""
    return EPOCH + timedelta(microseconds=at_us)


def text_of(at_us: int) -> str:
    """Return microseconds since 1970 as RFC 3339 text in UTC."""
    return (EPOCH + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


def us_from(value: datetime | str | float) -> int:
    """Convert a time given by a person or a caller to microseconds since 1970, UTC.

    Args:
        value: An aware datetime, RFC 3339 text with an offset, a date (its midnight, UTC), or a number of seconds
            since 1970.

    Raises:
        UsageError: It is of another form, or is outside the years 1 to 9999 in UTC. Write it as
            `2026-08-01T10:15:00Z`.
    """
    if isinstance(value, str):
        try:
            value = msgspec.convert(f"{value}T00:00:00Z" if _DATE.fullmatch(value) else value, datetime)
        except (msgspec.ValidationError, UnicodeEncodeError):  # UnicodeEncodeError: a lone surrogate
            raise UsageError(f"Invalid time {value!r}. Write it as 2026-08-01T10:15:00Z.") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UsageError(f"{value.isoformat()} has no UTC offset. Write it as 2026-08-01T10:15:00Z.")
        if not _FIRST_US <= (at_us := us_of(value)) <= _LAST_US:  # the offset may lead out of the calendar
            raise UsageError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC. Use another time.")
        return at_us
    number: Any = value
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= _FARTHEST_S:
        raise UsageError(f"Invalid time {number!r}. Write it as 2026-08-01T10:15:00Z.")
    return round(number * 1_000_000)
