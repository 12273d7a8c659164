"""The forms in which tools keep a bandit's state: what each reader takes, refuses and keeps.

Four readers, four forms (docs/reference/cli.md, `backfill`). What a file holds beyond the
numbers is kept where its reader passes over it; where its reader would fall over it, the file
is a *mix* of forms, and that is said. Facts: gptme-contrib aabb1db1 (thompson_sampling.py,
match-lessons.py, pm_bandit.py) and gptme d27f98d3 (HybridLessonMatcher).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from rightful.errors import TargetError
from rightful.importers.shared.foreign_fields import digest

Entry = dict[str, Any]

SIX = ("arm_id", "alpha", "beta", "total_selections", "total_rewards", "last_updated")
"""The keys of an arm that `gptme_sessions` takes; it takes no other and misses none."""

THREE = ("alpha", "beta", "total_selections")
"""The keys of an arm of pm-dispatch."""

JUDGE = ("helpful", "harmful", "false_positive", "noop")
"""A judge's counters, which gptme's hybrid matcher reads beside alpha and beta."""

PM = "pm-model:"
"""How the arms of pm-dispatch begin; no other reader has such arms."""

_BELIEF = ("alpha", "beta", "total_selections", "total_rewards")
_OLD_ID = "lesson_path"  # `arm_id` in files of before
_TOP = ("arms", "total_sessions", "created", "last_updated", "contextual_arms")
_LARGEST = 1e15
_New = TypeVar("_New")


class Number(NamedTuple):
    """What is written of an arm, or of an arm in a context.

    Attributes:
        alpha: As a tool has it, prior included.
        beta: Likewise.
        n: Credits, undecayed.
        rewards: How many of them were above 0.5.
        last_updated: When the last one came; ISO 8601.
    """

    alpha: float
    beta: float
    n: int
    rewards: int
    last_updated: str


class Numbers(NamedTuple):
    """All that is written.

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
    """What a file holds, as it stands there.

    Attributes:
        top: The whole object.
        arms: The entries by arm; empty where there is no file.
        contexts: The entries by arm and context.
    """

    top: Entry
    arms: dict[str, Entry]
    contexts: dict[str, dict[str, Entry]]

    def numbers(self, arm: str) -> tuple[float, float] | None:
        """Return alpha and beta of an arm; None where the file has none."""
        entry = self.arms.get(arm, {})
        return (float(entry["alpha"]), float(entry["beta"])) if {"alpha", "beta"} <= entry.keys() else None

    @property
    def beliefs_sha256(self) -> str:
        """SHA-256 of what the file says of each arm, and arm in a context, that a belief is made of."""
        every = [(arm, "", entry) for arm, entry in self.arms.items()]
        every += [(arm, key, entry) for arm, inside in self.contexts.items() for key, entry in inside.items()]
        rows = [[arm, key, *(entry.get(name) for name in _BELIEF)] for arm, key, entry in every]
        return digest(sorted(row for row in rows if any(number is not None for number in row[2:])))


NOTHING = State({}, {}, {})
"""The state of a file that does not exist."""


def read(path: str, data: bytes) -> State:
    """Return what a bandit file holds.

    Raises:
        TargetError: It is torn, is no bandit state, or holds a number that no posterior has.
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
        if (wrong := _wrong(entry)) is not None:
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


def context_of(key: str) -> tuple[str | None, ...] | None:
    """Return the context that a key of `contextual_arms` says; None where it says none."""
    try:
        parts = json.loads(key)
    except ValueError:
        return None
    fits = isinstance(parts, list) and all(part is None or isinstance(part, str) for part in parts)
    return tuple(parts) if fits else None


def _wrong(entry: object) -> str | None:
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


class Form(NamedTuple):
    """One reader's form.

    Attributes:
        name: What `--reader` calls it.
        mix: Says what of a state the reader cannot take, one thing each.
        write: Gives the document from what stands there and the numbers.
        looks_up: Says whether the reader ever asks for an arm of that name.
        asks_for: What it asks for, in words.
        makes_folder: Whether the reader's own place is a folder that nothing else makes.
    """

    name: str
    mix: Callable[[State], Iterator[str]]
    write: Callable[[State, Numbers], Entry]
    looks_up: Callable[[str], bool]
    asks_for: str
    makes_folder: bool = False

    def takes(self, arm: str) -> bool:
        """Say whether an arm of the ledger belongs into this form at all."""
        return arm.startswith(PM) == (self.name == "pm-dispatch")

    def bytes_of(self, state: State, numbers: Numbers) -> bytes:
        """Return the file, byte for byte as the tools write it."""
        return (json.dumps(self.write(state, numbers), indent=2) + "\n").encode("ascii")


def _foreign(state: State, *, pm: bool) -> Iterator[str]:
    for arm in state.arms:
        if arm.startswith(PM) != pm:
            whose = "an arm of pm-dispatch" if not pm else "not an arm of pm-dispatch"
            yield f"{arm} is {whose}"


def _beyond(state: State, keys: tuple[str, ...]) -> Iterator[str]:
    every = [*state.arms.items(), *((arm, entry) for arm, of in state.contexts.items() for entry in of.values())]
    for arm, entry in every:
        if more := [key for key in entry if key not in keys]:
            yield f"{arm} has {', '.join(f'`{key}`' for key in more)}"


def _mix_sessions(state: State) -> Iterator[str]:
    yield from _foreign(state, pm=False)
    yield from _beyond(state, (*SIX, _OLD_ID))


def _mix_hook(state: State) -> Iterator[str]:
    yield from _foreign(state, pm=False)
    for arm, entry in state.arms.items():
        if not {"alpha", "beta"} <= entry.keys():
            yield f"{arm} has no `alpha` and `beta`"


def _mix_hybrid(state: State) -> Iterator[str]:
    yield from _foreign(state, pm=False)


def _mix_pm(state: State) -> Iterator[str]:
    yield from _foreign(state, pm=True)
    yield from _beyond(state, THREE)
    if state.contexts:
        yield "it has `contextual_arms`"


def _six(arm: str, number: Number) -> Entry:
    return dict(zip(SIX, (arm, number.alpha, number.beta, number.n, number.rewards, number.last_updated), strict=True))


def _kept(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key not in (*SIX, _OLD_ID)}


def _document(state: State, numbers: Numbers, *, extras: bool) -> Entry:
    """The form of `gptme_sessions`; where `extras` may stand, each arm keeps what it had beyond the six."""
    top: Entry = {
        "arms": {
            arm: _six(arm, one) | (_kept(state.arms.get(arm, {})) if extras else {})
            for arm, one in _in_order(state.arms, numbers.arms)
        },
        "total_sessions": numbers.sessions,
        "created": numbers.created,
        "last_updated": numbers.last_updated,
    }
    if numbers.contexts:
        old = state.contexts
        top["contextual_arms"] = {
            arm: {
                key: _six(arm, one) | (_kept(old.get(arm, {}).get(key, {})) if extras else {})
                for key, one in _in_order(old.get(arm, {}), inside)
            }
            for arm, inside in _in_order(old, numbers.contexts)
        }
    return top | {key: value for key, value in state.top.items() if key not in _TOP}


def _in_order(old: Mapping[str, object], new: Mapping[str, _New]) -> Iterator[tuple[str, _New]]:
    """Yield what is written in the order in which the file has it, then what is new to it."""
    for name in dict.fromkeys([*old, *new]):
        if name in new:
            yield name, new[name]


def _write_sessions(state: State, numbers: Numbers) -> Entry:
    return _document(state, numbers, extras=False)


def _write_hook(state: State, numbers: Numbers) -> Entry:
    return _document(state, numbers, extras=True)


def _write_hybrid(state: State, numbers: Numbers) -> Entry:
    """Each entry keeps its own keys and their order; those of the six that it has are brought up to date."""
    arms: dict[str, Entry] = {}
    for arm, entry in state.arms.items():
        if arm in numbers.arms:
            arms[arm] = _updated(arm, entry, numbers.arms[arm])
        elif kept := _kept(entry):
            arms[arm] = kept  # a judge's counters are no part of the belief
    for arm, number in numbers.arms.items():
        arms.setdefault(arm, {"alpha": number.alpha, "beta": number.beta})
    top: Entry = {"arms": arms}
    known = {"total_sessions": numbers.sessions, "last_updated": numbers.last_updated}
    for key, value in state.top.items():
        if key not in ("arms", "contextual_arms"):
            top[key] = known.get(key, value)
    every = [*state.arms.values(), *(entry for inside in state.contexts.values() for entry in inside.values())]
    if any("last_updated" in entry for entry in every):
        top.setdefault("last_updated", numbers.last_updated)  # or its time goes with the arm that has the newest
    if "contextual_arms" in state.top and numbers.contexts:
        top["contextual_arms"] = _document(state, numbers, extras=True)["contextual_arms"]
    return top


def _updated(arm: str, entry: Entry, one: Number) -> Entry:
    new = _six(arm, one)
    beliefs = {key: new[key] for key in ("alpha", "beta")}
    return {key: new.get(key, value) for key, value in entry.items() if key != _OLD_ID} | beliefs


def _write_pm(state: State, numbers: Numbers) -> Entry:
    every = _in_order(state.arms, numbers.arms)
    arms = {arm: {"alpha": number.alpha, "beta": number.beta, "total_selections": number.n} for arm, number in every}
    return {"arms": arms} | {key: value for key, value in state.top.items() if key not in ("arms", "contextual_arms")}


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form("gptme-sessions", _mix_sessions, _write_sessions, lambda _: True, "any arm"),
        Form(
            "lesson-hook", _mix_hook, _write_hook, lambda arm: arm.startswith("/"),
            "a lesson by its absolute path",
        ),
        Form(
            "gptme-hybrid", _mix_hybrid, _write_hybrid, lambda _: True, "a lesson by its id, path or file name",
            makes_folder=True,
        ),
        Form("pm-dispatch", _mix_pm, _write_pm, lambda arm: arm.count(":") > 1, f"{PM}WORK_TYPE:MODEL"),
    )
}  # fmt: skip
"""The forms, by the name of their reader."""
