"""Files of agent tools that are not imported, told by their shape so that a person learns what was passed over.

The shapes are those that the tools write (background: `agent-tool-formats`). A list, and an
object whose keys are lessons, show nothing of themselves; there the file's name tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Shape = Callable[[Mapping[str, Any]], bool]


def described(name: str, values: Iterable[Mapping[str, Any]]) -> str | None:
    """Return what a file is, with its article; None where nobody can tell.

    Args:
        name: The file's own name.
        values: Its first objects.
    """
    for value in values:
        for what, fits in _SHAPES:
            if fits(value):
                return what
    return _NAMES.get(name)


def _has(*keys: str) -> Shape:
    wanted = frozenset(keys)
    return lambda value: wanted <= value.keys()


def _typed(types: str, *keys: str) -> Shape:
    """Say of an object whether its `type` fits wholly, and whether it has one of these keys, if any are given."""
    form = re.compile(types)

    def fits(value: Mapping[str, Any]) -> bool:
        kind = value.get("type")
        return isinstance(kind, str) and bool(form.fullmatch(kind)) and (not keys or not value.keys().isdisjoint(keys))

    return fits


_SHAPES: tuple[tuple[str, Shape], ...] = (
    ("a prediction model of the lesson hook", _has("model_version", "co_occurrence")),
    ("results of leaving lessons out one by one", lambda value: _is_loo(value.get("results"))),
    ("a log of credited sessions (lesson-thompson)", _has("session_id", "base_reward", "lessons")),
    ("the statistics of gptme's lesson tracker", _has("lesson_stats")),
    ("events of a ledger, for `rightful ingest`", lambda value: _typed(r"\w+\.\w+")(value) and "producer" in value),
)

_NAMES = {"loo-results.json": "results of leaving lessons out one by one"}


def _is_loo(results: object) -> bool:
    return isinstance(results, list) and all(isinstance(one, dict) and "delta" in one for one in results)
