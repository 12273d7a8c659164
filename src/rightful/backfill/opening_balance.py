"""The opening of a target's balance: what its file holds before it is first written, as an event."""

from __future__ import annotations

import json
from typing import Any

from rightful.backfill.target_file import sha256
from rightful.errors import InvalidEventError, TargetError
from rightful.importers.bandits.bandit_state import BanditState
from rightful.importers.engine.loop import End, Origin
from rightful.importers.sources.text_files import Found, Problem

Wire = dict[str, Any]


def opening_of(source: str, data: bytes, mtime_us: int, until: str | None = None) -> Wire:
    """Return the `balance.opened` of a bandit file, the same that importing the file gives.

    Args:
        source: The file's real path.
        data: Its bytes, which are one JSON object.
        mtime_us: When it was last written; microseconds since 1970, UTC.
        until: Up to when the grades go that were published to it; for a file that gives no time.

    Raises:
        TargetError: Not all of it can be opened.
    """
    reader = BanditState().reader(Origin(source, mtime_us))
    try:
        reader.events(Found(1, json.loads(data)))
        said = list(reader.finish(End(sha256(data), is_whole=True)))
    except InvalidEventError as error:
        raise refused(source, error) from None
    for result in said:
        if isinstance(result, Problem) and result.lost:
            raise TargetError(source, f"its balance cannot be opened ({result.what})")
    event = next(result for result in said if not isinstance(result, Problem))
    return event if until is None else {"through": until, **event}


def refused(source: str, error: InvalidEventError) -> TargetError:
    """Return the error of a file whose numbers fit no event."""
    return TargetError(source, f"its balance cannot be opened ({error})")
