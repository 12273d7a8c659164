"""The state files of bandits, read as beliefs: gptme-sessions, the lesson hook, gptme's matcher, pm-dispatch.

All four are an object with `arms` by name; one also has `contextual_arms` by name and by a JSON
list. What an arm has beside alpha and beta differs, and is taken where it is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from rightful import content, times
from rightful.errors import InvalidEventError, UsageError
from rightful.projections.sums import Key

_MOST = 1e15  # as in a balance


class Believed(NamedTuple):
    """What a file says of one arm; selections and successes where it counts them."""

    alpha: float
    beta: float
    n: int | None
    rewards: int | None


class State(NamedTuple):
    """What a state file says.

    Attributes:
        beliefs: By arm, and by arm and context.
        last_us: Its newest time, its own or an arm's; microseconds since 1970, UTC. None without one.
        notes: What was passed over; sentences.
    """

    beliefs: dict[Key, Believed]
    last_us: int | None
    notes: list[str]


def recorded_beliefs(data: bytes) -> dict[Key, tuple[float, float, int | None, int | None]]:
    """Return the beliefs of a state file: alpha, beta, selections and successes by arm and context.

    Raises:
        UsageError: It is no bandit's state.
    """
    return dict(state_of(data).beliefs)


def state_of(data: bytes) -> State:
    """Return what a state file says.

    Raises:
        UsageError: It is no bandit's state.
    """
    try:
        document = content.parse_json(data)
    except InvalidEventError as error:
        raise UsageError(f"the file is no bandit's state: {error.what}; nothing was compared.") from None
    if not isinstance(document, dict) or not isinstance(document.get("arms"), dict):
        raise UsageError("the file is no bandit's state: it has no object `arms`; nothing was compared.")
    beliefs: dict[Key, Believed] = {}
    held, judged, unread = [document], 0, 0
    for key, one in _entries(document):
        if key is None or not isinstance(one, dict):
            unread += 1
            continue
        held.append(one)
        found = _believed(one)
        if found is not None:
            beliefs[key] = found
        elif "alpha" not in one and "beta" not in one:
            judged += 1
        else:
            unread += 1
    last_us = max((at for at in map(_time, held) if at is not None), default=None)
    return State(beliefs, last_us, [*_notes(judged, unread, last_us)])


def _entries(document: dict[str, Any]) -> Iterator[tuple[Key | None, Any]]:
    for arm, one in document["arms"].items():
        yield (arm, None), one
    contextual = document.get("contextual_arms")
    for arm, contexts in contextual.items() if isinstance(contextual, dict) else ():
        for text, one in contexts.items() if isinstance(contexts, dict) else ():
            context = _context(text)
            yield (None if context is None else (arm, context)), one


def _context(text: str) -> tuple[str | None, ...] | None:
    try:
        parts = json.loads(text)
    except ValueError:
        return None
    if isinstance(parts, list) and all(part is None or isinstance(part, str) for part in parts):
        return tuple(parts)
    return None


def _believed(one: dict[str, Any]) -> Believed | None:
    alpha, beta = (_number(one.get(name)) for name in ("alpha", "beta"))
    if alpha is None or beta is None:
        return None
    return Believed(alpha, beta, _count(one.get("total_selections")), _count(one.get("total_rewards")))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0.0 < value <= _MOST else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _time(one: dict[str, Any]) -> int | None:
    """Return a file's own time, where it is one; without an offset it is none that can be compared."""
    text = one.get("last_updated")
    try:
        return times.us_from(text) if isinstance(text, str) and text else None
    except UsageError:
        return None


def _notes(judged: int, unread: int, last_us: int | None) -> Iterator[str]:
    if judged:
        yield f"{judged:,} of its arms have only a judge's counts, which are no belief, and were passed over."
    if unread:
        yield f"{unread:,} of its arms could not be read (alpha and beta are numbers above 0), and were passed over."
    if last_us is None:
        yield "The file does not say when it was last updated, so all of the log is held against it."
