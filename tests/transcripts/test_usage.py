"""What a session used: the last number of each name, and nothing counted twice."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from tests.log.facts import fact
from tests.transcripts.folding import folded


def used(
    key: str, producer: str = "p", of: str | None = None, turn: str | None = None, **counts: Any
) -> dict[str, Any]:
    more = ({"of": of} if of else {}) | ({"turn": turn} if turn else {})
    return fact("usage.recorded", key, producer=producer, counts=counts, **more)


def total(*events: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = folded(events).as_dict()["usage"]["total"]
    return found


def test_the_last_number_of_each_name_counts_for_a_response() -> None:
    events = [
        used("1", of="r", input=10, output=1),
        used("2", of="r", output=5, input=None, cost=None),
        used("3", of="s", input=1),
    ]
    entries = folded(events).entries

    assert [(one.of, one.counts) for one in entries] == [
        ("r", {"input": 10, "output": 5, "cost": None}),
        ("s", {"input": 1}),
    ]
    assert total(*events) == {"input": 11, "output": 5}


def test_largest_number_counts_without_an_index_in_any_order() -> None:
    """A stream log that was imported first tells the last count of an answer before its transcript tells the others."""
    events = [used(str(n), of="r", output=n, cost=None if n == 61 else 0.5) for n in (3, 9, 61)]
    since = [used(f"s{n}", output=n) | {"cumulative": True} for n in (10, 25)]

    for one in permutations(events):
        assert total(*one) == {"output": 61, "cost": 0.5}
    for two in permutations(since):
        assert folded(two).as_dict()["usage"]["cumulative"] == {"output": 25}


def test_where_an_index_tells_which_is_the_last_number_that_one_counts() -> None:
    events = [used(str(n), of="r", turn="1", output=10 - n) | {"index": n} for n in (0, 1)]

    assert total(*events) == total(*reversed(events)) == {"output": 9}


def test_a_turn_that_is_counted_as_a_whole_is_not_added_to_its_responses() -> None:
    events = [
        used("1", of="r", turn="1", input=10, output=5),
        used("2", turn="1", input=12),
        used("3", of="s", turn="2", input=1),
    ]

    assert total(*events) == {"input": 13, "output": 5}


def test_what_counts_since_the_session_began_is_no_part_of_a_sum() -> None:
    events = [
        used("1", input=10) | {"cumulative": True},
        used("2", input=25) | {"cumulative": True},
        used("3", of="r", input=15),
    ]
    usage = folded(events).as_dict()["usage"]

    assert usage == {"total": {"input": 15}, "cumulative": {"input": 25}}


def test_of_several_producers_only_ones_numbers_are_added_up() -> None:
    message = fact("message.recorded", "m", role="user", content="a", producer="q")
    events = [used("1", "p", of="a", input=10), used("2", "q", of="b", input=11), message]

    assert total(*events) == {"input": 11}
    assert total(*events[:2]) == {"input": 10}


def test_a_response_that_two_producers_count_is_one() -> None:
    events = [
        used("1", "p", of="a", input=10),
        used("2", "q", of="a", input=10, output=3),
        used("3", "p", of="b", input=1),
    ]

    assert len(folded(events).entries) == 2
    assert total(*events) == {"input": 11, "output": 3}


def test_without_a_turn_or_a_response_each_counts_for_itself() -> None:
    assert total(used("1", input=1), used("2", input=2)) == {"input": 3}


def test_only_numbers_are_added_up_and_exactly() -> None:
    events = [used(str(n), of=str(n), cost=0.1, ok=True, model="m", n=1) for n in range(10)]

    assert total(*events) == {"cost": 1.0, "n": 10}
    assert total(used("1", of="a", x=float("inf")), used("2", of="b", x=float("-inf"))) == {"x": {"$float": "nan"}}
