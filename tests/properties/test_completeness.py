"""Any loss of a closed turn is reported as exactly what is lost, whatever the order, the batches and the repeats."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.log.memory import MemoryRecorder

from rightful.log.log import Log
from rightful.projections.facts.completeness import Completeness, Hole, completeness_of

AT = "2026-08-01T10:15:00Z"


def turn(name: str, size: int, *, previous: str | None = None, has_index: bool = True) -> list[dict[str, Any]]:
    """Return a whole turn: so many messages, and an end that counts them."""
    common = {"producer": "runner", "session": "t:a", "at": AT, "turn": name}
    said = [
        common | {"type": "message.recorded", "role": "user", "content": at, "key": f"{name} {at}", "index": at}
        for at in range(size)
    ]
    end = common | {"type": "turn.ended", "key": f"{name} end", "event_count": size, "previous": previous}
    return [*said, end | ({"index": size, "event_count": size + 1} if has_index else {})]


def told(batches: list[list[dict[str, Any]]]) -> Completeness:
    log = Log(MemoryRecorder(), path="here", entropy=bytes)
    for batch in batches:
        log.append(batch)
    return completeness_of(row for page in log.scan() for row in page)


def lost_of(found: Completeness, name: str) -> list[int]:
    return [
        index
        for hole in found.holes
        if (hole.turn, hole.kind) == (name, "missing")
        for first, last in hole.indexes
        for index in range(first, last + 1)
    ]


@given(st.data())
def test_any_loss_of_a_closed_turn_is_reported_as_exactly_those_indexes(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 12), "size")
    lost = data.draw(st.sets(st.integers(0, max(size - 1, 0)), max_size=size), "lost")
    whole = turn("1", size, has_index=data.draw(st.booleans(), "the end has an index"))
    kept = [event for at, event in enumerate(whole) if at not in lost or event["type"] == "turn.ended"]
    order = data.draw(st.permutations(kept), "order")
    repeated = data.draw(st.lists(st.sampled_from(kept), max_size=4), "repeated")
    cut = data.draw(st.integers(0, len(order)), "cut")

    found = told([order[:cut], order[cut:], repeated])

    assert lost_of(found, "1") == sorted(lost)
    assert found.state == ("incomplete" if lost else "complete")
    assert [hole.count for hole in found.holes] == ([len(lost)] if lost else [])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_lost_end_and_a_lost_turn_are_told_of_the_turn_that_lacks_them(sizes: list[int], data: st.DataObject) -> None:
    turns = [turn(str(at), size, previous=str(at - 1) if at else None) for at, size in enumerate(sizes)]
    gone = data.draw(st.sets(st.integers(0, len(sizes) - 2)) if len(sizes) > 1 else st.just(set()), "lost turns")
    opened = data.draw(st.sets(st.sampled_from(range(len(sizes)))), "lost ends")
    kept = [
        event
        for at, events in enumerate(turns)
        if at not in gone
        for event in (events[:-1] if at in opened else events)
    ]

    found = told([kept])

    lacking = {at for at in gone if at + 1 not in gone | opened}
    assert {hole.turn for hole in found.holes if hole == Hole(hole.turn, "missing")} == {str(at) for at in lacking}
    assert {hole.turn for hole in found.holes if hole.kind == "open"} == {str(at) for at in opened - gone}
    assert len(found.holes) == len(lacking) + len(opened - gone)


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 2**32))
def test_what_comes_after_the_end_is_late_in_any_order(size: int, more: int, seed: int) -> None:
    late = [event | {"key": f"late {at}", "index": size + 1 + at} for at, event in enumerate(turn("1", more)[:-1])]
    events = [*turn("1", size), *late]
    random.Random(seed).shuffle(events)

    found = told([events])

    assert found.holes == ((Hole("1", "late", ((size + 1, size + more),), more),) if more else ())
    assert found.late == {at for at, event in enumerate(events, 1) if event["key"].startswith("late")}
