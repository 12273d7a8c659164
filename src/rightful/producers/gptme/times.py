"""The times of gptme's messages: of its machine's clock, without an offset."""

from __future__ import annotations

from datetime import datetime

from rightful import times
from rightful.errors import InvalidEventError
from rightful.producers.fields import within


def local_us(text: str) -> tuple[int, str | None]:
    """Return a time as microseconds since 1970, and the zone of this machine where it was read as local.

    Raises:
        InvalidEventError: It is no time, or none from 1970 to 2200.
    """
    try:
        at = datetime.fromisoformat(text)
        local = at.astimezone()
    except (ValueError, OverflowError, OSError):
        raise InvalidEventError(f"Expected a time, got {text[:64]!r}", "$.timestamp") from None
    return within(times.us_of(local), text, "$.timestamp"), local.tzname() if at.tzinfo is None else None
