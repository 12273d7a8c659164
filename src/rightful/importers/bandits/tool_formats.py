"""The forms of the bandit states of tools: what each reader accepts, rejects and keeps.

Four readers, four forms (docs/reference/cli.md, `backfill`). Other content of a file is kept if its reader ignores
it. If its reader would fail on it, the file is a *mix* of forms, and that is reported. Facts: gptme-contrib aabb1db1
(thompson_sampling.py, match-lessons.py, pm_bandit.py) and gptme d27f98d3 (HybridLessonMatcher).
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
"""The keys of an arm in `gptme_sessions`; it accepts no others and requires none."""

THREE = ("alpha", "beta", "total_selections")
"""The keys of an arm of pm-dispatch."""

JUDGE = ("helpful", "harmful", "false_positive", "noop")
"""A judge's counters, which gptme's hybrid matcher reads in addition to alpha and beta."""

PM = "pm-model:"
"""The prefix of the arms of pm-dispatch; no other reader has such arms."""

_BELIEF = ("alpha", "beta", "total_selections", "total_rewards")
_OLD_ID = "lesson_path"  # `arm_id` in older files
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
        rows = [[arm, key, *(entry.get(name) for name in _BELIEF)] for arm, key, entry in every]
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
    """Return the context of a key in `contextual_arms`; None if it is not valid."""
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
        name: Its name in `--reader`.
        mix: Yields each entry of a state that the reader does not accept.
        write: Returns the document from the existing content and the numbers.
        looks_up: Returns whether the reader ever looks up an arm of that name.
        asks_for: The names that it looks up, in words.
        makes_folder: Whether the reader's file is in a folder that no other program creates.
    """

    name: str
    mix: Callable[[State], Iterator[str]]
    write: Callable[[State, Numbers], Entry]
    looks_up: Callable[[str], bool]
    asks_for: str
    makes_folder: bool = False

    def takes(self, arm: str) -> bool:
        """Return whether an arm of the ledger belongs into this form."""
        return arm.startswith(PM) == (self.name == "pm-dispatch")

    def bytes_of(self, state: State, numbers: Numbers) -> bytes:
        """Return the file's bytes, exactly as the tools write them."""
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
    """Return the document in the form of `gptme_sessions`; with `extras`, each arm keeps its other keys."""
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
    """Yield the entries in the order of the file, then the new ones."""
    for name in dict.fromkeys([*old, *new]):
        if name in new:
            yield name, new[name]


def _write_sessions(state: State, numbers: Numbers) -> Entry:
    return _document(state, numbers, extras=False)


def _write_hook(state: State, numbers: Numbers) -> Entry:
    return _document(state, numbers, extras=True)


def _write_hybrid(state: State, numbers: Numbers) -> Entry:
    """Return the document; each entry keeps its keys and their order, and the six numeric keys are updated."""
    arms: dict[str, Entry] = {}
    for arm, entry in state.arms.items():
        if arm in numbers.arms:
            arms[arm] = _updated(arm, entry, numbers.arms[arm])
        elif kept := _kept(entry):
            arms[arm] = kept  # a judge's counters are not part of the belief
    for arm, number in numbers.arms.items():
        arms.setdefault(arm, {"alpha": number.alpha, "beta": number.beta})
    top: Entry = {"arms": arms}
    known = {"total_sessions": numbers.sessions, "last_updated": numbers.last_updated}
    for key, value in state.top.items():
        if key not in ("arms", "contextual_arms"):
            top[key] = known.get(key, value)
    every = [*state.arms.values(), *(entry for inside in state.contexts.values() for entry in inside.values())]
    if any("last_updated" in entry for entry in every):
        top.setdefault(
            "last_updated", numbers.last_updated
        )  # otherwise its time would be lost with the arm that has the newest
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
