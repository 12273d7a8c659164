"""What a session used: the last number of each name, each response and turn counted once.

Usage comes in parts, and again: of one response, or of one turn, the last number of each name counts. In a
turn that is counted as a whole the responses are not added to it. Where several producers count, only one's
numbers are added up: who tells the messages too, else the first. What counts since the session began is no
part of a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rightful.projections.transcripts.entries import Usage
from rightful.projections.transcripts.parts import Part


class Used:
    """What one response used, or one turn.

    Attributes:
        part: What told it first.
        parts: All that told it.
        counts: The last number of each name.
    """

    __slots__ = ("counts", "part", "parts")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.parts: list[Part] = []
        self.counts: dict[str, Any] = {}

    @property
    def cumulative(self) -> bool:
        """Whether it counts since the session began."""
        return bool(self.part.said.get("cumulative"))

    def take(self, part: Part) -> None:
        """Take what is counted later."""
        self.parts.append(part)
        for name, value in (part.said.get("counts") or {}).items():
            if value is not None or name not in self.counts:
                self.counts[name] = value


def used(parts: Iterable[Part]) -> list[Used]:
    """Return what parts of the kind `usage` tell, in order of the first of each; the others are passed over."""
    found: dict[object, Used] = {}
    for part in parts:
        if part.kind == "usage":
            found.setdefault(_key(part), Used(part)).take(part)
    return list(found.values())


def _key(part: Part) -> object:
    said, turn = part.said, part.turn
    if not said:
        return part.at
    if said["of"] is not None:
        return said["cumulative"], said["of"]
    if turn is not None:
        return said["cumulative"], None, part.fact.producer, turn
    return part.at


def total(groups: Iterable[Used], tells_messages: Callable[[str], bool]) -> Usage:
    """Return what a session used in all."""
    known = list(groups)
    added = [one for one in known if not one.cumulative]
    producers = list(dict.fromkeys(part.fact.producer for one in added for part in one.parts))
    lead = next((one for one in producers if tells_messages(one)), producers[0] if producers else None)
    mine = [one for one in added if any(part.fact.producer == lead for part in one.parts)]
    wholes: dict[str | None, Mapping[str, Any]] = {
        one.part.turn: one.counts for one in mine if one.part.said.get("of") is None and one.part.turn is not None
    }
    amounts: dict[str, list[float]] = {}
    for one in mine:
        whole = wholes.get(one.part.turn, {}) if one.part.said.get("of") is not None else {}
        for name, value in one.counts.items():
            if name not in whole and isinstance(value, int | float) and not isinstance(value, bool):
                amounts.setdefault(name, []).append(value)
    latest: dict[str, Any] = {}
    for one in known:
        if one.cumulative:
            latest |= {name: value for name, value in one.counts.items() if value is not None or name not in latest}
    return Usage(total={name: _sum(values) for name, values in amounts.items()}, cumulative=latest)


def _sum(values: list[float]) -> float:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # infinities of both signs, or beyond all floats
        return math.nan
