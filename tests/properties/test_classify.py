"""What holds for every sequence of snapshots, in whatever order and batches they come."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.log.facts import fact
from tests.log.memory import MemoryRecorder

from rightful.encoding import wire
from rightful.encoding.envelope import encode_body
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.refine import PLACEHOLDERS, refines
from rightful.log.rows import Receipt


def merged(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    return fact(kind, **fields)


TEXT = st.text("ab\x00\ud83d\ude00\x1a", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(allow_nan=True) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "$int"]), inner, max_size=2),
    max_leaves=4,
)
COMMON = {
    "turn": st.sampled_from(["1", "2"]),
    "index": st.none() | st.integers(0, 2),
    "session": st.sampled_from(["t:a", "t:a", "t:b"]),
}
CALLS = st.fixed_dictionaries(
    {
        "call": st.sampled_from(["c", "c", "d"]),
        "name": st.sampled_from([None, "", "bash"]),
        "arguments": JSON,
        "complete": st.booleans(),
        **COMMON,
    }
).map(functools.partial(merged, "tool_call.snapshotted"))
RESULTS = st.fixed_dictionaries(
    {"call": st.just("c"), "output": JSON | st.sampled_from(PLACEHOLDERS), "is_error": st.booleans(), **COMMON}
).map(functools.partial(merged, "tool_result.snapshotted"))
GRADES = st.fixed_dictionaries({"reward": st.sampled_from([0.0, 0.5, 1.0]), "seq": st.just(1), **COMMON}).map(
    functools.partial(merged, "grade.recorded")
)
EVENTS = st.lists(CALLS | RESULTS | GRADES, max_size=8)


def sent(batches: list[list[dict[str, Any]]], calls: int = 1) -> tuple[Log, list[Receipt]]:
    log = Log(MemoryRecorder(calls), clock=lambda: 0, entropy=bytes)
    return log, [receipt for batch in batches for receipt in log.append(batch)]


@given(EVENTS)
def test_one_batch_or_many_gives_the_same_receipts(events: list[dict[str, Any]]) -> None:
    assert sent([events])[1] == sent([[event] for event in events])[1]


@given(EVENTS)
def test_a_decision_that_is_made_again_decides_the_same(events: list[dict[str, Any]]) -> None:
    assert sent([events], calls=3)[1] == sent([events])[1]


@given(EVENTS)
def test_sending_all_again_writes_nothing_and_answers_the_same_positions(events: list[dict[str, Any]]) -> None:
    log, first = sent([events])
    head = log.head()

    again = log.append(events)

    assert log.head() == head
    assert [receipt.position for receipt in again] == [receipt.position for receipt in first]
    accepted = ACCEPTED | {"duplicate"}
    assert [receipt.outcome in accepted for receipt in again] == [receipt.outcome in accepted for receipt in first]


@given(EVENTS)
def test_rows_are_gapless_with_revisions_from_one_and_one_first_row(events: list[dict[str, Any]]) -> None:
    log, receipts = sent([events])
    rows = list(log.read())

    assert [row.position for row in rows] == list(range(1, len(rows) + 1))
    assert [row.revision for row in rows] == list(range(1, len(rows) + 1))  # all have one id
    assert [row.first for row in rows] == [1] * len(rows)
    assert [row.outcome == "appended" for row in rows] == [row.position == 1 for row in rows]
    assert [row.outcome for row in rows] == [
        receipt.outcome
        for at, receipt in enumerate(receipts)
        if receipt.outcome != "duplicate" and receipt.position not in {one.position for one in receipts[:at]}
    ]


@given(EVENTS)
def test_nothing_that_was_sent_is_lost(events: list[dict[str, Any]]) -> None:
    log, receipts = sent([events])
    rows = {row.position: row for page in log.scan() for row in page}

    for event, receipt in zip(events, receipts, strict=True):
        row = rows[receipt.position or 0]
        assert row.body == encode_body(wire.check(event).event)
        assert (row.envelope.type, row.envelope.session, row.envelope.turn) == (
            event["type"],
            event["session"],
            event["turn"],
        )


@given(CALLS, CALLS)
def test_of_two_calls_at_most_one_refines_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = (encode_body(wire.check(event).event) for event in (one, other))

    assert not (refines("tool_call.snapshotted", first, second) and refines("tool_call.snapshotted", second, first))


@given(RESULTS, RESULTS, RESULTS)
def test_of_results_what_refines_a_refinement_refines_its_base(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    a, b, c = (encode_body(wire.check(event).event) for event in (one, two, three))
    kind = "tool_result.snapshotted"

    if refines(kind, b, a) and refines(kind, c, b):
        assert refines(kind, c, a)
