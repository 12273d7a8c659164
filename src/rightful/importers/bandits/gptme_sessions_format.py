"""The file of gptme-sessions: exactly six keys of an arm. It deletes all history if an arm has another key."""

from __future__ import annotations

from collections.abc import Iterator

from rightful.importers.bandits import bandit_file
from rightful.importers.bandits.bandit_file import IDS, NUMBERS, Entry, Format, Numbers, State


def _recognise(keys: frozenset[str]) -> str | None:
    if "arm_id" in keys:
        return "gptme-sessions" if keys <= {*IDS, *NUMBERS} else None
    return "lesson-path" if "lesson_path" in keys else None


def _mix(state: State) -> Iterator[str]:
    yield from bandit_file.arms_of_others(state, pm=False)
    yield from bandit_file.other_keys(state, (*IDS, *NUMBERS))


def _write(state: State, numbers: Numbers) -> Entry:
    return bandit_file.document_of(state, numbers, extras=False)


GPTME_SESSIONS = Format("gptme-sessions", _recognise, _mix, _write, lambda _: True, "any arm")
