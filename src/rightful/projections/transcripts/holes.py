"""Where in a transcript something is missing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, structs

from rightful.projections.facts.completeness import Hole
from rightful.projections.transcripts.entries import Entry
from rightful.projections.transcripts.entry_parts import Part

EntryWithParts = tuple[Entry, list[Part]]


def put_holes(entries_with_parts: Iterable[EntryWithParts], holes: Iterable[Hole]) -> None:
    """Set each hole on the neighbouring entries; a hole whose turn has no entry has no place."""
    turns: dict[str, list[EntryWithParts]] = {}
    following: dict[str, Entry] = {}
    for entry, parts in entries_with_parts:
        if entry.turn is not UNSET:
            turns.setdefault(entry.turn, []).append((entry, parts))
            if entry.previous is not UNSET:
                following.setdefault(entry.previous, turns[entry.turn][0][0])
    for hole in holes:
        if hole.kind == "missing" and hole.turn not in turns:
            if (entry_behind := following.get(hole.turn)) is not None:
                _put_before(entry_behind, hole)
        elif hole.kind != "late" and hole.turn in turns:
            for part in _contiguous_parts(hole):
                _put(turns[hole.turn], part)


def _contiguous_parts(hole: Hole) -> Iterable[Hole]:
    if not hole.indexes:
        return [hole]
    return [structs.replace(hole, indexes=((first, last),), count=last - first + 1) for first, last in hole.indexes]


def _put(turn: list[EntryWithParts], hole: Hole) -> None:
    for entry, parts in turn if hole.kind != "open" else ():
        indexes = [part.fact.index for part in parts if part.fact.turn == hole.turn and part.fact.index is not None]
        is_behind = bool(hole.indexes) and any(index > hole.indexes[0][1] for index in indexes)
        if is_behind or entry.kind == "turn_ended":
            _put_before(entry, hole)
            return
    last = turn[-1][0]
    last.holes_behind = [*(last.holes_behind or ()), hole]


def _put_before(entry: Entry, hole: Hole) -> None:
    entry.holes_before = [*(entry.holes_before or ()), hole]
