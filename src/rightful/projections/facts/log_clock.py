"""Prefixes of the log: which position a time means, and the largest event time up to a position."""

from __future__ import annotations

from rightful.log.log import Log
from rightful.projections.facts.facts import CLOCK_ROWS, Facts
from rightful.projections.facts.fold import event_time_us


def position_at(log: Log, head: int, at_us: int) -> int:
    """Return the last position of the longest prefix whose every row was recorded at or before a time.

    Recorded times never decrease, so a binary search finds it.
    """
    low, high = 0, head
    while low < high:
        middle = (low + high + 1) // 2
        row = next(iter(log.scan(middle - 1, middle)))[0]
        if row.envelope.recorded_at_us <= at_us:
            low = middle
        else:
            high = middle - 1
    return low


def latest_at_us(log: Log, facts: Facts, through: int) -> int:
    """Return the largest event time up to a position, publications apart; microseconds since 1970, 0 for none."""
    whole, rest = divmod(through, CLOCK_ROWS)
    if through == facts.watermark:
        return facts.clock[-1] if facts.clock else 0
    latest = facts.clock[whole - 1] if whole else 0
    if rest:
        start = whole * CLOCK_ROWS
        latest = max(latest, *(event_time_us(row.envelope) for page in log.scan(start, through) for row in page))
    return latest
