"""Convert a bandit file into the fields of `balance.opened`, and back without loss.

Four tools write such files (background: `agent-tool-formats` 2), with different keys of an arm:

| form | of an arm |
|---|---|
| `gptme-sessions` | `arm_id`, `alpha`, `beta`, `total_selections`, `total_rewards`, `last_updated`; `contextual_arms` |
| `lesson-path` | an older form of the same, with `lesson_path` instead of `arm_id` |
| `lesson-thompson` | the same with more, such as `confounded` |
| `hybrid-matcher` | a judge's counters `helpful`, `harmful`, `false_positive`, `noop`, or `alpha` and `beta`, or both |
| `pm-dispatch` | `alpha`, `beta`, `total_selections` |

Nothing is lost: keys without an event field are in `extra`, and `document` returns the file's JSON.

| in `extra` | what |
|---|---|
| `form` | the name of the form |
| `named_by` | the key under which arms repeat their own name, if any |
| `document` | the file's other keys |
| `arms`, `contexts` | by arm (and the text of its context): its other keys; all keys if it could not be opened |
| `absent` | by arm: keys of its form that it does not have |
| `keys` | the text of a context if it differs from that of Python's `json.dumps` |
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rightful.content import json_type
from rightful.errors import InvalidEventError
from rightful.events import BalanceOpened
from rightful.field_types import BalanceArm, BalanceContext, Count, Positive
from rightful.importers.bandits.bandit_file import IDS, JUDGE, NUMBERS, context_of
from rightful.importers.bandits.bandit_formats import form_of
from rightful.importers.shared.foreign_fields import is_utf8, shaped, unfit

_COMPUTED = NUMBERS[:3]

Json = Any  # a JSON value of a file


class _State(Struct):
    alpha: Positive
    beta: Positive
    total_selections: Count | UnsetType = UNSET


class ParsedState:
    """The content of a bandit file.

    Attributes:
        arms: The state by arm, in wire form.
        contexts: The state by arm and context, in wire form.
        judge: The judge's counters by arm.
        sessions: The file's session total.
        extra: Everything else; see above.
        problems: The entries that could not be opened, with their places.
        uncounted: The number of arms without a selection count.
    """

    def __init__(self, document: Mapping[str, Json]) -> None:
        self.arms: dict[str, dict[str, Json]] = {}
        self.contexts: list[dict[str, Json]] = []
        self.judge: dict[str, dict[str, int]] = {}
        self.problems: list[InvalidEventError] = []
        self.uncounted = 0
        self._name_key = _name_key(document)
        self._rest: dict[str, dict[str, Json]] = {"document": {}, "arms": {}, "contexts": {}, "keys": {}, "absent": {}}
        self.sessions = _count(document.get("total_sessions"))
        for name, value in document.items():
            self._read_field(name, value)
        named_by = {} if self._name_key is None else {"named_by": self._name_key}
        rest = {name: value for name, value in self._rest.items() if value}
        self.extra: dict[str, Json] = {"form": form_of(document), **named_by, **rest}

    def _read_field(self, name: str, value: Json) -> None:
        match name, value:
            case "arms", dict():
                for arm, raw in value.items():
                    self._read_arm(arm, raw)
            case "contextual_arms", dict() if value:
                for arm, raw in value.items():
                    self._read_contexts(arm, raw)
            case "total_sessions", int() if self.sessions is not None:
                pass
            case _:
                self._rest["document"][name] = value
                if name == "arms" or (name == "contextual_arms" and value != {}):
                    self._add_problem(f"Expected `object`, got `{json_type(value)}`", f"$.{name}")

    def _add_problem(self, what: str, place: str) -> None:
        self.problems.append(InvalidEventError(what, place))

    def _read_arm(self, arm: str, raw: Json) -> None:
        place = f"$.arms[{arm!r}]"
        state = judged = None
        if (why := unfit(arm)) is not None:
            self._add_problem(why, place)
        elif not isinstance(raw, dict):
            self._add_problem(f"Expected `object`, got `{json_type(raw)}`", place)
        else:
            judged = self._judge_counters(raw, place)
            if judged is None or "alpha" in raw or "beta" in raw:
                state = self._read_state(raw, place)
        if state is not None:
            self.arms[arm] = state
        if judged:
            self.judge[arm] = judged
        base = _file_entry(arm, state, judged, self._name_key)
        self._store_rest("arms", (arm,), raw, base)

    def _judge_counters(self, raw: Mapping[str, Json], place: str) -> dict[str, int] | None:
        """Return a judge's counters; None if there are none, valid or not."""
        if not any(name in raw for name in JUDGE):
            return None
        counters = {name: raw[name] for name in JUDGE if name in raw}
        for name, value in counters.items():
            if _count(value) is None:
                self._add_problem(f"Expected a count, got `{json_type(value)}`", f"{place}.{name}")
        return {name: count for name, value in counters.items() if (count := _count(value)) is not None}

    def _read_state(self, raw: Mapping[str, Json], place: str) -> dict[str, Json] | None:
        for name in _COMPUTED:
            if isinstance(number := raw.get(name), float) and not math.isfinite(number):
                self._add_problem(f"Expected a finite number, got {number}", f"{place}.{name}")
                return None
        try:
            state: _State = shaped({name: _integral(value) for name, value in raw.items() if name in _COMPUTED}, _State)
        except InvalidEventError as error:
            self._add_problem(error.what, f"{place}{error.place.removeprefix('$')}")
            return None
        self.uncounted += state.total_selections is UNSET
        n = 0 if state.total_selections is UNSET else state.total_selections
        wire: dict[str, Json] = {"alpha": state.alpha, "beta": state.beta, "n": n}
        if (rewards := _count(raw.get("total_rewards"))) is not None:
            wire["rewards"] = rewards
        if isinstance(updated := raw.get("last_updated"), str) and is_utf8(updated):
            wire["last_updated"] = updated
        return wire

    def _read_contexts(self, arm: str, per: Json) -> None:
        place = f"$.contextual_arms[{arm!r}]"
        why = unfit(arm) or (None if isinstance(per, dict) else f"Expected `object`, got `{json_type(per)}`")
        if why is not None or not per:
            self._rest["contexts"][arm] = per
            if why is not None:
                self._add_problem(why, place)
            return
        seen: set[str] = set()
        for text, raw in per.items():
            self._read_context(arm, text, raw, f"{place}[{text!r}]", seen)

    def _read_context(self, arm: str, text: str, raw: Json, place: str, seen: set[str]) -> None:
        state, context = None, context_of(text)
        canonical = json.dumps(context)
        if context is None:
            self._add_problem("Expected a JSON array of text or null as the key of a context", place)
        elif canonical in seen:
            self._add_problem("Expected each context of an arm once", place)
        elif not isinstance(raw, dict):
            self._add_problem(f"Expected `object`, got `{json_type(raw)}`", place)
        elif (state := self._read_state(raw, place)) is not None:
            seen.add(canonical)
            self.contexts.append({"arm": arm, "context": list(context), **state})
            if text != canonical:
                self._rest["keys"].setdefault(arm, {})[canonical] = text
        self._store_rest("contexts", (arm, text), raw, _file_entry(arm, state, None, self._name_key))

    def _store_rest(self, where: str, path: tuple[str, ...], raw: Json, base: dict[str, Json]) -> None:
        """Store in `extra` the other keys of an arm, and the names of those that are missing."""
        rest, absent = raw, []
        if isinstance(raw, dict):
            rest = {name: value for name, value in raw.items() if name not in base or not _is_same(base[name], value)}
            absent = [name for name in base if name not in raw]
        if rest or not base:
            _set_nested(self._rest[where], path, rest)
        if absent:
            _set_nested(self._rest["absent"], (where, *path), absent)


def document(event: BalanceOpened) -> dict[str, Json]:
    """Return the JSON object that an opening balance was derived from.

    Only an event of the producer `bandit-state` has all of it.
    """
    extra = event.extra or {}
    named_by, absent = extra.get("named_by"), extra.get("absent", {})
    arms: dict[str, Json] = {}
    kept = extra.get("arms", {})
    for arm in dict.fromkeys([*event.arms, *(event.judge or {}), *kept]):
        base = _file_entry(arm, _wire_state(event.arms.get(arm)), (event.judge or {}).get(arm), named_by)
        arms[arm] = _restored_entry(base, kept.get(arm, {}), absent.get("arms", {}).get(arm, ()))
    sessions = {} if event.sessions is None else {"total_sessions": event.sessions}
    contexts = _restored_contexts(event, extra, named_by)
    rest: dict[str, Json] = extra.get("document", {})
    return {"arms": arms, **sessions, **({"contextual_arms": contexts} if contexts else {}), **rest}


def _name_key(document: Mapping[str, Json]) -> str | None:
    groups = [document.get("arms"), *_values(document.get("contextual_arms"))]
    states = (state for group in groups for state in _values(group) if isinstance(state, dict))
    return next((key for state in states for key in IDS if key in state), None)


def _values(value: Json) -> list[Json]:
    return list(value.values()) if isinstance(value, dict) else []


def _restored_contexts(event: BalanceOpened, extra: Mapping[str, Json], named_by: str | None) -> dict[str, Json]:
    contexts: dict[str, Json] = {}
    for entry in event.contexts:
        canonical = json.dumps(list(entry.context))
        text = extra.get("keys", {}).get(entry.arm, {}).get(canonical, canonical)
        absent = extra.get("absent", {}).get("contexts", {}).get(entry.arm, {}).get(text, ())
        contexts.setdefault(entry.arm, {})[text] = _restored_entry(
            _file_entry(entry.arm, _wire_state(entry), None, named_by), {}, absent
        )
    for arm, per in extra.get("contexts", {}).items():
        if not isinstance(per, dict) or arm not in contexts:
            contexts[arm] = per
            continue
        for text, rest in per.items():
            contexts[arm][text] = _restored_entry(contexts[arm].get(text, {}), rest, ())
    return contexts


def _restored_entry(base: dict[str, Json], rest: Json, absent: object) -> Json:
    if not isinstance(rest, dict):
        return rest
    gone = frozenset(absent) if isinstance(absent, list | tuple) else frozenset[str]()
    return {name: value for name, value in base.items() if name not in gone} | rest


def _wire_state(state: BalanceArm | BalanceContext | None) -> dict[str, Json] | None:
    return None if state is None else msgspec.to_builtins(state)


def _file_entry(
    arm: str, state: Mapping[str, Json] | None, judged: Mapping[str, int] | None, named_by: str | None
) -> dict[str, Json]:
    """Return the file's entry of an arm from its fields in the event."""
    written: dict[str, Json] = {}
    if state is not None:
        written = {} if named_by is None else {named_by: arm}
        names = {"alpha": "alpha", "beta": "beta", "n": "total_selections"}
        names |= {"rewards": "total_rewards", "last_updated": "last_updated"}
        written |= {name: state[field] for field, name in names.items() if field in state}
    return written | dict(judged or {})


def _set_nested(into: dict[str, Json], path: tuple[str, ...], value: Json) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _is_same(written: Json, value: Json) -> bool:
    """Return whether a value is restored exactly as in the file; a count written as a float is not."""
    return bool(written == value) and not (isinstance(written, int) and isinstance(value, float))


def _integral(value: Json) -> Json:
    """Return a float without a fraction as an integer; some writers have no integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _count(value: Json) -> int | None:
    try:
        return msgspec.convert(_integral(value), Count)
    except (msgspec.ValidationError, UnicodeEncodeError):  # the second: a lone surrogate
        return None
