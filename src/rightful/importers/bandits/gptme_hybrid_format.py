"""The file of gptme's hybrid matcher: beliefs, or a judge's counters, or both; each entry keeps its keys and order."""

from __future__ import annotations

from collections.abc import Iterator

from rightful.importers.bandits import bandit_file
from rightful.importers.bandits.bandit_file import JUDGE, Entry, Format, Number, Numbers, State


def _recognise(keys: frozenset[str]) -> str | None:
    judged = not keys.isdisjoint(JUDGE)
    return "hybrid-matcher" if judged or keys.isdisjoint({"arm_id", "lesson_path", "total_selections"}) else None


def _mix(state: State) -> Iterator[str]:
    yield from bandit_file.arms_of_others(state, pm=False)


def _write(state: State, numbers: Numbers) -> Entry:
    arms: dict[str, Entry] = {}
    for arm, entry in state.arms.items():
        if arm in numbers.arms:
            arms[arm] = _updated(arm, entry, numbers.arms[arm])
        elif kept := bandit_file.kept_keys(entry):
            arms[arm] = kept  # a judge's counters are not part of the belief
    for arm, number in numbers.arms.items():
        arms.setdefault(arm, {"alpha": number.alpha, "beta": number.beta})
    top: Entry = {"arms": arms}
    known = {"total_sessions": numbers.sessions, "last_updated": numbers.last_updated}
    for key, value in state.top.items():
        if key not in ("arms", "contextual_arms"):
            top[key] = known.get(key, value)
    every = [*state.arms.values(), *(entry for inside in state.contexts.values() for entry in inside.values())]
    if any("last_updated" in entry for entry in every):  # else its time would be lost with the arm that has the newest
        top.setdefault("last_updated", numbers.last_updated)
    if "contextual_arms" in state.top and numbers.contexts:
        top["contextual_arms"] = bandit_file.document_of(state, numbers, extras=True)["contextual_arms"]
    return top


def _updated(arm: str, entry: Entry, number: Number) -> Entry:
    new = bandit_file.entry_of(arm, number)
    beliefs = {key: new[key] for key in ("alpha", "beta")}
    return {key: new.get(key, value) for key, value in entry.items() if key != "lesson_path"} | beliefs


GPTME_HYBRID = Format(
    "gptme-hybrid", _recognise, _mix, _write, lambda _: True, "a lesson by its id, path or file name",
    makes_folder=True,
)  # fmt: skip
