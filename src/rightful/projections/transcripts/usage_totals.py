"""What a session used: one number of each name, each response and turn counted once.

Usage comes in parts, and again: of one response, or of one turn, the last number of each name counts. Which is
the last, only an index tells. Where there is none, rows stand as they were recorded, and two files of one session
may be imported in any order: there the largest number counts, since what was used only grows. In a
turn that is counted as a whole the responses are not added to it. Where several producers count, only one's
numbers are added up: who tells the messages too, else the first; of those whose batches make one history, all.
What counts since the session began (`cumulative`) is not part of that sum. A tool whose process counts for itself says
which stretch of the session a number is of (`stretch` in `extra`): of one stretch the largest counts, and the stretches
of a producer are added up. What names no stretch is one stretch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from rightful.projections.transcripts.entries import Usage
from rightful.projections.transcripts.entry_parts import Part


class UsageGroup:
    """What one response used, or one turn: its first part, and all its parts."""

    __slots__ = ("part", "parts")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.parts: list[Part] = []

    @property
    def cumulative(self) -> bool:
        """Whether it counts since the session began."""
        return bool(self.part.fields.get("cumulative"))

    @property
    def counts(self) -> dict[str, Any]:
        """The counts of all its parts."""
        is_ordered = all(part.fact.turn is not None and part.fact.index is not None for part in self.parts)
        return _counted((part.fields.get("counts") or {} for part in self.parts), is_ordered=is_ordered)


def _counted(counts_of_parts: Iterable[Mapping[str, Any]], *, is_ordered: bool) -> dict[str, Any]:
    """Return of each name the last value that is one, or the largest number where no order is known."""
    counts: dict[str, Any] = {}
    for counts_of_part in counts_of_parts:
        for name, value in counts_of_part.items():
            before = counts.get(name)
            is_less = not is_ordered and _is_number(value) and _is_number(before) and value < before
            if before is None or not (value is None or is_less):
                counts[name] = value
    return counts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def usage_groups(parts: Iterable[Part]) -> list[UsageGroup]:
    """Return the usage in parts of the kind `usage`, in order of the first of each; other parts are skipped."""
    found: dict[object, UsageGroup] = {}
    for part in parts:
        if part.kind == "usage":
            found.setdefault(_key(part), UsageGroup(part)).parts.append(part)
    return list(found.values())


def _key(part: Part) -> object:
    fields, turn = part.fields, part.turn
    if not fields or part.fact.withdrawn:
        return part.at
    if fields["of"] is not None:
        return fields["cumulative"], fields["of"], fields.get("run")  # some models give all their responses one id
    if turn is not None:
        return fields["cumulative"], None, part.fact.producer, turn, stretch_of(part)
    return part.at


def stretch_of(part: Part) -> str | None:
    """Return the stretch of a session that a cumulative usage counts; None where it names none."""
    extra = getattr(part.fact.body, "extra", None)
    stretch = extra.get("stretch") if isinstance(extra, dict) else None
    return stretch if isinstance(stretch, str) and part.fields.get("cumulative") else None


def total(groups: Iterable[UsageGroup], shows_messages: Callable[[str], bool], together: Collection[str] = ()) -> Usage:
    """Return what a session used in all."""
    known = [group for group in groups if not group.part.fact.withdrawn]
    added = [group for group in known if not group.cumulative]
    producers = list(dict.fromkeys(part.fact.producer for group in added for part in group.parts))
    lead = next((producer for producer in producers if shows_messages(producer)), producers[0] if producers else None)
    leads = together if lead in together else (lead,)
    mine = [group for group in added if any(part.fact.producer in leads for part in group.parts)]
    wholes: dict[str | None, Mapping[str, Any]] = {
        group.part.turn: group.counts
        for group in mine
        if group.part.fields.get("of") is None and group.part.turn is not None
    }
    amounts: dict[str, list[float]] = {}
    for group in mine:
        whole = wholes.get(group.part.turn, {}) if group.part.fields.get("of") is not None else {}
        for name, value in group.counts.items():
            if name not in whole and _is_number(value):
                amounts.setdefault(name, []).append(value)
    latest = _since_begun([group for group in known if group.cumulative])
    return Usage(total={name: summed(values) for name, values in amounts.items()}, cumulative=latest)


def _since_begun(groups: list[UsageGroup]) -> dict[str, Any]:
    """Return what cumulative usages come to: the sum of the stretches of each producer, the largest of these sums."""
    is_ordered = all(group.part.fact.turn is not None and group.part.fact.index is not None for group in groups)
    stretches: dict[str, dict[str | None, list[UsageGroup]]] = {}
    for group in groups:
        of_producer = stretches.setdefault(group.part.fact.producer, {})
        of_producer.setdefault(stretch_of(group.part), []).append(group)
    sums: list[dict[str, Any]] = []
    for of_producer in stretches.values():
        counts = [
            _counted((group.counts for group in of_stretch), is_ordered=is_ordered)
            for of_stretch in of_producer.values()
        ]
        sums.append(counts[0] if len(counts) == 1 else _added(counts))
    return _counted(sums, is_ordered=is_ordered)


def _added(counts: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for usage in counts for name in usage)
    numbers = {name: [usage[name] for usage in counts if _is_number(usage.get(name))] for name in names}
    return {name: summed(values) for name, values in numbers.items() if values}


def summed(values: list[float]) -> float:
    """Return the sum of some numbers: exact for integers, the nearest float otherwise."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # infinities of both signs, or beyond all floats
        return math.nan
