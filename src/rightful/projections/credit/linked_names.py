"""Whether links prove of two session names that they are of one run, or of two."""

from __future__ import annotations

import numpy as np

from rightful.projections.credit.runs import Runs, quarantine_of, runs_of
from rightful.projections.facts.facts import Facts


def same_run(facts: Facts, session: str, other: str) -> bool | None:
    """Return whether links join two names into one run.

    Returns:
        True if they do; False if they join the second one into a run without the first;
        None where the links do not say so: a name is unknown, in no link, or ambiguous.
    """
    if session == other:
        return True
    numbers = [facts.names.texts.find(name) for name in (session, other)]
    if None in numbers:
        number = numbers[1]
        return False if number is not None and _is_joined(facts, number) else None
    first, second = (number for number in numbers if number is not None)
    runs = _runs_among(facts, first, second)
    if runs.of[first] == runs.of[second]:
        return True
    return False if runs.is_linked()[second] else None


def names_of_run(facts: Facts, session: str) -> list[str]:
    """Return all names of a session's run; none where the session or its run is unknown."""
    number = facts.names.texts.find(session)
    if number is None:
        return []
    runs = _runs_among(facts, number)
    if runs.ambiguous[number]:
        return []
    return [facts.names.text(name) for name in facts.names.closure([number]) if runs.of[name] == runs.of[number]]


def _is_joined(facts: Facts, number: int) -> bool:
    runs = _runs_among(facts, number)
    return bool(runs.is_linked()[number])


def _runs_among(facts: Facts, *numbers: int) -> Runs:
    among = np.zeros(len(facts.names), np.bool_)
    among[facts.names.closure(list(numbers))] = True
    through = facts.watermark
    return runs_of(facts, through, quarantine_of(facts, through), among)
