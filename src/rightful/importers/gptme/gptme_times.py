"""Times without a UTC offset, which gptme writes in the local time of its machine.

gptme-sessions copies such a time into its records, and computes durations between two local times. So a duration is
added before the zone is applied. Then a session that spans a clock change ends at the time of its last message.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import within


def local_us(text: str, place: str = "$.timestamp", *, plus_s: float = 0) -> tuple[int, str | None]:
    """Return a time as microseconds since 1970, and the zone of this machine if it was read as local time.

    Of an hour that occurs twice because the clock is set back, the first is used.

    Args:
        text: The time, ISO 8601.
        place: Where it is.
        plus_s: Seconds to add to it.

    Raises:
        InvalidEventError: It is not a time, or not one from 1970 to 2200.
    """
    try:
        at = datetime.fromisoformat(text) + timedelta(seconds=plus_s)
        aware = at.astimezone() if at.tzinfo is None else at
    except (ValueError, OverflowError, OSError):
        raise InvalidEventError(f"Expected a time, got {text[:64]!r}", place) from None
    return within(times.us_of(aware), text, place), aware.tzname() if at.tzinfo is None else None
