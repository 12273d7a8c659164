"""The file of the lesson hook: that of gptme-sessions, and other keys of an arm, such as `confounded`, are kept."""

from __future__ import annotations

from collections.abc import Iterator

from rightful.importers.bandits import bandit_file
from rightful.importers.bandits.bandit_file import Entry, Format, Numbers, State


def _recognise(keys: frozenset[str]) -> str | None:
    return "lesson-thompson" if "arm_id" in keys else None


def _mix(state: State) -> Iterator[str]:
    yield from bandit_file.arms_of_others(state, pm=False)
    for arm, entry in state.arms.items():
        if not {"alpha", "beta"} <= entry.keys():
            yield f"{arm} has no `alpha` and `beta`"


def _write(state: State, numbers: Numbers) -> Entry:
    return bandit_file.document_of(state, numbers, extras=True)


LESSON_HOOK = Format(
    "lesson-hook", _recognise, _mix, _write, lambda arm: arm.startswith("/"), "a lesson by its absolute path"
)
