"""The opening of a target's balance: what its file holds before it is first written, as an event."""

from __future__ import annotations

from typing import Any

from rightful import times
from rightful.errors import InvalidEventError, TargetError
from rightful.identity import composite_key
from rightful.producers.fields import moment_us
from rightful.reports import tool_forms
from rightful.reports.target import sha256

Wire = dict[str, Any]


def opening_of(source: str, data: bytes, mtime_us: int) -> Wire:
    """Return the `balance.opened` of a bandit file, the same that importing the file gives.

    Args:
        source: The file's real path.
        data: Its bytes.
        mtime_us: When it was last written; microseconds since 1970, UTC.

    Raises:
        TargetError: It cannot be read as a bandit state.
    """
    state = tool_forms.read(source, data)
    digest = sha256(data)
    through = _through(state)
    wire: Wire = {
        "type": "balance.opened",
        "producer": "bandit-state",
        "key": composite_key(source, digest),
        "at": times.text_of(mtime_us if through is None else through),
        "arms": {arm: _amounts(entry) for arm, entry in state.arms.items() if {"alpha", "beta"} & entry.keys()},
        "contexts": [
            {"arm": arm, "context": tool_forms.context_of(key), **_amounts(entry)}
            for arm, inside in state.contexts.items()
            for key, entry in inside.items()
        ],
        "source": source,
        "sha256": digest,
    }
    judge = {arm: {key: entry[key] for key in tool_forms.JUDGE if key in entry} for arm, entry in state.arms.items()}
    more = {
        "judge": {arm: counters for arm, counters in judge.items() if counters} or None,
        "sessions": state.top.get("total_sessions"),
        "through": None if through is None else times.text_of(through),
        "at_basis": "file" if through is None else None,
    }
    return wire | {name: value for name, value in more.items() if value is not None}


def _amounts(entry: Wire) -> Wire:
    n = int(entry.get("total_selections", 0))
    found = {"alpha": entry.get("alpha", 1.0), "beta": entry.get("beta", 1.0), "n": n}
    if "total_rewards" in entry:
        found["rewards"] = int(entry["total_rewards"])
    if isinstance(entry.get("last_updated"), str):
        found["last_updated"] = entry["last_updated"]
    return found


def _through(state: tool_forms.State) -> int | None:
    """Return the state's `last_updated`, else that of its newest arm; None where it gives no time."""
    said = [state.top.get("last_updated")]
    entries = [*state.arms.values(), *(one for inside in state.contexts.values() for one in inside.values())]
    for texts in (said, [entry.get("last_updated") for entry in entries]):
        times_us = [us for text in texts if isinstance(text, str) and (us := _us(text)) is not None]
        if times_us:
            return max(times_us)
    return None


def _us(text: str) -> int | None:
    try:
        return moment_us(text, "$.last_updated")[0]
    except InvalidEventError:
        return None


def refused(source: str, error: InvalidEventError) -> TargetError:
    """Return the error of a file whose numbers fit no event."""
    return TargetError(source, f"its balance cannot be opened ({error})")
