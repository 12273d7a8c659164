"""Items as JSON makes them, and how many: what the SDK's own stores take is taken, and comes back as from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agents.memory import SessionSettings

from rightful import content
from rightful.errors import NotJsonError, UsageError


def as_json(items: Iterable[Any]) -> list[Any]:
    """Return items as they come back from JSON: keys are texts, tuples are lists.

    What JSON knows is the item itself; a caller does not change it while it waits for the append.

    Raises:
        NotJsonError: One of them is not a JSON value. Nothing was written.
        UsageError: They are one item outside a list. Nothing was written.
    """
    if isinstance(items, str | bytes | Mapping):
        raise UsageError("Expected a list of items, got one item. Nothing was written. Put the item in a list.")
    return [item if content.is_plain(item) else _through_json(at, item) for at, item in enumerate(items)]


def settings_of(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    """Return settings as the SDK reads them; what it does not know it refuses.

    Raises:
        TypeError: They are no settings of the SDK.
    """
    return given if isinstance(given, SessionSettings) else SessionSettings().resolve(given)


def count_of(limit: int | None, settings: SessionSettings | dict[str, Any] | None) -> int | None:
    """Return how many of the last items are read: by the settings if no limit is given; None for all.

    Less than no item is all of them, as in SQLite.
    """
    wanted = settings_of(settings).limit if limit is None else limit
    return None if wanted is None or wanted < 0 else wanted


def _through_json(at: int, item: object) -> Any:  # noqa: ANN401 - content
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJsonError(at, str(error)) from error
