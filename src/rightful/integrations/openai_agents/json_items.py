"""Conversion of items to JSON values, and of limits, with the same results as the SDK's own stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agents.memory import SessionSettings

from rightful import content
from rightful.errors import NotJsonError, UsageError


def as_json(items: Iterable[Any]) -> list[Any]:
    """Return items as decoded from their JSON encoding: keys become strings, tuples become lists.

    Items that are JSON values already are not copied. The caller must not change them before the append ends.

    Raises:
        NotJsonError: An item is not a JSON value. Nothing was written.
        UsageError: The argument is a single item and not a list. Nothing was written.
    """
    if isinstance(items, str | bytes | Mapping):
        raise UsageError("Expected a list of items, got one item. Nothing was written. Put the item in a list.")
    return [item if content.is_plain(item) else _through_json(at, item) for at, item in enumerate(items)]


def settings_of(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    """Convert settings with the SDK's own function, which refuses unknown fields.

    Raises:
        TypeError: The settings are not valid for the SDK.
    """
    return given if isinstance(given, SessionSettings) else SessionSettings().resolve(given)


def count_of(limit: int | None, settings: SessionSettings | dict[str, Any] | None) -> int | None:
    """Return the number of last items to read, by default that of the settings; None for all.

    A negative limit means all items, as in SQLite.
    """
    wanted = settings_of(settings).limit if limit is None else limit
    return None if wanted is None or wanted < 0 else wanted


def _through_json(at: int, item: object) -> Any:  # noqa: ANN401 - content
    try:
        return json.loads(json.dumps(item))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJsonError(at, str(error)) from error
