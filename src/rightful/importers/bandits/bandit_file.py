"""The state file of a bandit: its content, the numbers to write, and what a format of one tool defines.

Four tools write such files, in a format each (docs/reference/cli.md, `backfill`): `bandit_formats` lists them. Other
content of a file is kept if its reader ignores it. If its reader would fail on it, the file is a *mix* of formats, and
that is reported. Facts: gptme-contrib aabb1db1 (thompson_sampling.py, match-lessons.py, pm_bandit.py) and gptme
d27f98d3 (HybridLessonMatcher).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from rightful.errors import TargetError
from rightful.field_types import Context
from rightful.importers.shared.foreign_fields import digest, is_utf8

Entry = dict[str, Any]

NUMBERS = ("alpha", "beta", "total_selections", "total_rewards", "last_updated")
"""The numeric keys of an arm; a format has all of them, or the first three."""

IDS = ("arm_id", "lesson_path")
"""The keys under which an arm repeats its name; the second in older files."""

JUDGE = ("helpful", "harmful", "false_positive", "noop")
"""A judge's counters, which gptme's hybrid matcher reads in addition to alpha and beta."""

ARM_KEYS = frozenset({*IDS, *NUMBERS, *JUDGE})
"""Every key of an arm that a tool is known to write."""

PM = "pm-model:"
"""The prefix of the arms of pm-dispatch; no other reader has such arms."""

_TOP = ("arms", "total_sessions", "created", "last_updated", "contextual_arms")
_LARGEST = 1e15
_New = TypeVar("_New")


class Number(NamedTuple):
    """The numbers of an arm, or of an arm in a context.

    Attributes:
        alpha: Alpha, including the prior.
        beta: Beta, including the prior.
        n: The number of credits, undecayed.
        rewards: The number of credits above 0.5.
        last_updated: The time of the last credit; ISO 8601.
    """

    alpha: float
    beta: float
    n: int
    rewards: int
    last_updated: str


class Numbers(NamedTuple):
    """All numbers to write.

    Attributes:
        arms: By arm.
        contexts: By arm, then by context as JSON text.
        sessions: How many sessions the state has seen.
        created: When the state began; ISO 8601.
        last_updated: When it was last updated; ISO 8601.
    """

    arms: dict[str, Number]
    contexts: dict[str, dict[str, Number]]
    sessions: int
    created: str
    last_updated: str


class State(NamedTuple):
    """The content of a file, unchanged.

    Attributes:
        top: The whole object.
        arms: The entries by arm; empty if there is no file.
        contexts: The entries by arm and context.
    """

    top: Entry
    arms: dict[str, Entry]
    contexts: dict[str, dict[str, Entry]]

    def numbers(self, arm: str) -> tuple[float, float] | None:
        """Return alpha and beta of an arm; None if the file has none."""
        entry = self.arms.get(arm, {})
        return (float(entry["alpha"]), float(entry["beta"])) if {"alpha", "beta"} <= entry.keys() else None

    @property
    def beliefs_sha256(self) -> str:
        """SHA-256 of the numbers of all arms, and arms in a context, that make up the beliefs."""
        every = [(arm, "", entry) for arm, entry in self.arms.items()]
        every += [(arm, key, entry) for arm, inside in self.contexts.items() for key, entry in inside.items()]
        rows = [[arm, key, *(entry.get(name) for name in NUMBERS[:4])] for arm, key, entry in every]
        return digest(sorted(row for row in rows if any(number is not None for number in row[2:])))


NOTHING = State({}, {}, {})
"""The state of a file that does not exist."""


def read(path: str, data: bytes) -> State:
    """Return the content of a bandit file.

    Raises:
        TargetError: It is incomplete, is not a bandit state, or has a number that is not valid in a posterior.
    """
    try:
        top = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        why = "it is not a complete JSON document; a tool may be writing it now"
        raise TargetError(path, why) from None
    arms = top.get("arms", {}) if isinstance(top, dict) else None
    contexts = top.get("contextual_arms", {}) if isinstance(top, dict) else None
    if not isinstance(arms, dict) or not isinstance(contexts, dict) or "arms" not in top:
        raise TargetError(path, "it has no object `arms`, so it is not a bandit state")
    state = State(top, arms, contexts)
    for place, entry in _entries(state):
        if (wrong := _problem_of(entry)) is not None:
            raise TargetError(path, f"{wrong} - at `{place}`")
    return state


def _entries(state: State) -> Iterator[tuple[str, object]]:
    yield from ((f"$.arms[{arm!r}]", entry) for arm, entry in state.arms.items())
    for arm, inside in state.contexts.items():
        place = f"$.contextual_arms[{arm!r}]"
        if not isinstance(inside, dict):
            yield place, inside
            continue
        for key, entry in inside.items():
            yield f"{place}[{key!r}]", entry if context_of(key) is not None else None


def context_of(key: str) -> Context | None:
    """Return the context of a key in `contextual_arms`; None if it is not valid."""
    try:
        return msgspec.convert(json.loads(key), Context) if is_utf8(key) else None
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors too
        return None


def _problem_of(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "Expected an object of numbers, or a context as a JSON list"
    for key in ("alpha", "beta"):
        value = entry.get(key, 1.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
            return f"Expected `{key}` as a number above 0, got {value!r}"
    for key in ("total_selections", "total_rewards"):
        value = entry.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
            return f"Expected `{key}` as a count, got {value!r}"
        if not math.isclose(value, int(value), abs_tol=0.0, rel_tol=0.0):
            return f"Expected `{key}` as a whole number, got {value!r}"
    return None


class Format(NamedTuple):
    """The format of one tool's file.

    Attributes:
        name: Its name in `--reader`.
        recognise: Returns the name that an opening balance stores for a file whose arms have these keys, such as an
            older name of the format; None if it is a file of another format.
        mix: Yields each entry of a state that the reader does not accept.
        write: Returns the document from the existing content and the numbers.
        looks_up: Returns whether the reader ever looks up an arm of that name.
        asks_for: The names that it looks up, in words.
        makes_folder: Whether the reader's file is in a folder that no other program creates.
        keeps_backup: Whether the tool locks the file, and keeps the one before it as `.bak`.
    """

    name: str
    recognise: Callable[[frozenset[str]], str | None]
    mix: Callable[[State], Iterator[str]]
    write: Callable[[State, Numbers], Entry]
    looks_up: Callable[[str], bool]
    asks_for: str
    makes_folder: bool = False
    keeps_backup: bool = False

    def takes(self, arm: str) -> bool:
        """Return whether an arm of the ledger belongs into this format."""
        return arm.startswith(PM) == (self.name == "pm-dispatch")

    def bytes_of(self, state: State, numbers: Numbers) -> bytes:
        """Return the file's bytes, exactly as the tools write them."""
        return (json.dumps(self.write(state, numbers), indent=2) + "\n").encode("ascii")


def arms_of_others(state: State, *, pm: bool) -> Iterator[str]:
    """Yield the arms that belong into the file of another tool."""
    for arm in state.arms:
        if arm.startswith(PM) != pm:
            yield f"{arm} is {'not ' if pm else ''}an arm of pm-dispatch"


def other_keys(state: State, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the arms that have keys other than these."""
    every = [*state.arms.items(), *((arm, entry) for arm, of in state.contexts.items() for entry in of.values())]
    for arm, entry in every:
        if more := [key for key in entry if key not in keys]:
            yield f"{arm} has {', '.join(f'`{key}`' for key in more)}"


def entry_of(arm: str, number: Number) -> Entry:
    """Return the six keys of an arm, in the order in which gptme_sessions writes them."""
    return {"arm_id": arm, **dict(zip(NUMBERS, number, strict=True))}


def kept_keys(entry: Entry) -> Entry:
    """Return the keys of an arm that no belief is made of."""
    return {key: value for key, value in entry.items() if key not in (*IDS, *NUMBERS)}


def document_of(state: State, numbers: Numbers, *, extras: bool) -> Entry:
    """Return the document as gptme_sessions writes it; with `extras`, each arm keeps its other keys."""

    def entries(old: Mapping[str, Entry], new: Mapping[str, Number], arm: str | None = None) -> Entry:
        return {
            name: entry_of(arm or name, number) | (kept_keys(old.get(name, {})) if extras else {})
            for name, number in in_order(old, new)
        }

    top: Entry = {
        "arms": entries(state.arms, numbers.arms),
        "total_sessions": numbers.sessions,
        "created": numbers.created,
        "last_updated": numbers.last_updated,
    }
    if numbers.contexts:
        old = state.contexts
        in_contexts = in_order(old, numbers.contexts)
        top["contextual_arms"] = {arm: entries(old.get(arm, {}), inside, arm) for arm, inside in in_contexts}
    return top | {key: value for key, value in state.top.items() if key not in _TOP}


def in_order(old: Mapping[str, object], new: Mapping[str, _New]) -> Iterator[tuple[str, _New]]:
    """Yield the entries in the order of the file, then the new ones."""
    for name in dict.fromkeys([*old, *new]):
        if name in new:
            yield name, new[name]
