"""A hole is marked at its place, and how a session began and ended is told by the best that is known."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from tests.log.facts import fact
from tests.transcripts.folding import folded

Wire = dict[str, Any]


def said(index: int, turn: str = "1", **more: Any) -> Wire:
    return fact("message.recorded", f"{turn}/{index}", role="user", content=str(index), turn=turn, index=index, **more)


def places(*events: Wire) -> list[Any]:
    """Return texts and kinds in order, and between them what is missing."""
    found: list[Any] = []
    for one in folded(events).as_dict()["entries"]:
        found += [(hole["kind"], hole["turn"], *hole["indexes"]) for hole in one.get("holes_before", ())]
        found.append(one.get("text", one["kind"]))
        found += [(hole["kind"], hole["turn"], *hole["indexes"]) for hole in one.get("holes_behind", ())]
    return found


def test_each_missing_range_is_marked_where_it_is() -> None:
    end = fact("turn.ended", "e", turn="1", event_count=9)

    assert places(said(0), said(3), said(5), end) == [
        "0", ("missing", "1", [1, 2]), "3", ("missing", "1", [4, 4]), "5", ("missing", "1", [6, 8]), "turn_ended",
    ]  # fmt: skip


def test_what_a_turn_lacks_at_its_end_stands_there() -> None:
    other = said(0, "2")

    assert places(said(1), other) == [("missing", "1", [0, 0]), "1", ("open", "1"), "0", ("open", "2")]
    lost = fact("turn.ended", "e", turn="1", index=1, dropped_count=3)
    assert places(said(0), lost) == ["0", ("dropped", "1"), "turn_ended"]


def test_a_turn_that_is_not_there_is_missed_before_the_one_that_names_it() -> None:
    end = fact("turn.ended", "e", turn="3", index=1, previous="2")

    assert places(fact("turn.ended", "f", turn="1", index=1), said(0), said(0, "3"), end) == [
        "0", "turn_ended", ("missing", "2"), "0", "turn_ended",
    ]  # fmt: skip


STARTS = [
    fact("session.started", "1", at="2026-11-01T00:00:00Z", at_basis="file", harness="a"),
    fact("session.started", "2", at="2026-08-01T10:15:00Z", model="m"),
    fact("session.started", "3", at="2026-08-01T10:16:00Z", cwd="/w"),
    fact("session.started", "4", at="2026-07-01T00:00:00Z", at_basis="file"),
]
ENDS = [
    fact("session.ended", "5", at="2026-11-01T00:00:00Z", at_basis="file", turns=9),
    fact("session.ended", "6", at="2026-08-01T10:15:00Z", turns=1),
    fact("session.ended", "7", at="2026-08-01T10:16:00Z", turns=2),
]


def test_a_start_and_an_end_are_the_best_known_in_whatever_order_they_came() -> None:
    for starts in permutations(STARTS):
        found = folded(starts).as_dict()["started"]
        assert found == {"at": "2026-08-01T10:15:00Z", "harness": "a", "model": "m", "cwd": "/w"}
    for ends in permutations(ENDS):
        assert folded(ends).as_dict()["ended"] == {"at": "2026-08-01T10:16:00Z", "turns": 2}


@pytest.mark.parametrize("events", [STARTS[::3], STARTS[::-3]])
def test_where_only_bounds_are_known_that_is_said(events: list[Wire]) -> None:
    found = folded(events).as_dict()["started"]

    assert found == {"at": "2026-07-01T00:00:00Z", "at_basis": "file", "harness": "a"}
    assert folded(ENDS[:1]).as_dict()["ended"] == {"at": "2026-11-01T00:00:00Z", "at_basis": "file", "turns": 9}
