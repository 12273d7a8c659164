"""The rows behind the tables: where they are found, and what of them a reader may see."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery
from tests.contracts.base import event, query, tagged

from rightful import limits
from rightful.storage.journal.journal_rows import JournalTail, StoredRow
from rightful.storage.tables.row_codec import PlainCodec

CODEC = PlainCodec()
EVENTS = [
    event("1", "a", ("x",)),
    event("2", "b", ("x", "y", "x")),
    event("3", "a"),
    event("4", "c", ("", "xy")),
]


def rows(events: Sequence[DCBEvent]) -> list[StoredRow]:
    return [StoredRow(bytes(32) + CODEC.pack(each), None) for each in events]


def read() -> JournalTail:
    """Return a tail as who reads a journal has it: the events are in the rows only."""
    tail = JournalTail(10, CODEC)
    tail.rows += rows(EVENTS)
    return tail


def grown() -> JournalTail:
    """Return a tail as its writer has it."""
    tail = JournalTail(10, CODEC)
    tail.grow(rows(EVENTS[:1]), EVENTS[:1])
    tail.grow(rows(EVENTS[1:]), EVENTS[1:])
    return tail


def mixed() -> JournalTail:
    """Return one that read on, was asked, and then grew."""
    tail = JournalTail(10, CODEC)
    tail.rows += rows(EVENTS[:1])
    tail.grow(rows(EVENTS[1:2]), EVENTS[1:2])
    assert list(tail.tagged("x")) == [11, 12]
    tail.grow(rows(EVENTS[2:]), EVENTS[2:])
    return tail


@pytest.fixture(params=[read, grown, mixed])
def tail(request: pytest.FixtureRequest) -> JournalTail:
    made: JournalTail = request.param()
    return made


def test_its_rows_are_found_by_position(tail: JournalTail) -> None:
    assert tail.last == 14
    assert [tail.words(tail.row(at)) for at in range(11, 15)] == [(each.type, each.tags) for each in EVENTS]
    assert [tail.after(after, until) for after, until in ((10, 14), (0, 12), (12, 13), (14, 20), (3, 5), (8, 12))] == [
        tail.rows,
        tail.rows[:2],
        tail.rows[2:3],
        [],
        [],
        tail.rows[:2],
    ]


def test_a_tag_names_its_rows_once_each(tail: JournalTail) -> None:
    found = {tag: list(tail.tagged(tag)) for tag in ("x", "y", "", "xy", "z")}
    assert found == {"x": [11, 12], "y": [12], "": [14], "xy": [14], "z": []}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (tagged("x"), [11, 12]),
        (tagged("x", "y"), [12]),
        (tagged("y", "xy"), []),
        (tagged(""), [14]),
        (query((("a",), ())), [11, 13]),
        (query((("a", "c"), ())), [11, 13, 14]),
        (query((("a",), ("x",))), [11]),
        (query((("d",), ())), []),
        (query((("c",), ()), ((), ("y",)), (("b",), ("x",))), [12, 14]),
    ],
)
def test_rows_that_fit_a_query_are_found_between_two_positions(
    tail: JournalTail, wanted: DCBQuery, expected: list[int]
) -> None:
    assert tail.matching(wanted, 0, 14) == expected
    assert tail.matching(wanted, 11, 13) == [position for position in expected if 11 < position <= 13]
    assert tail.matching(wanted, 0, 10) == []


def test_tags_are_found_by_prefix_once_a_visible_row_has_them(tail: JournalTail) -> None:
    assert sorted(tail.tags_like("x", 14)) == ["x", "xy"]
    assert sorted(tail.tags_like("x", 13)) == ["x"]
    assert sorted(tail.tags_like("y", 11)) == []


def test_what_is_cut_is_found_no_more_and_what_comes_in_its_place_is(tail: JournalTail) -> None:
    kept, (tags, _) = tail.tagged("x"), tail._words()
    tail.cut(11)

    assert (tail.last, list(tail.tagged("x")), list(tail.tagged("xy"))) == (11, [11], [])
    assert (list(kept), tags["xy"]) == ([11, 12], 14), "who had looked before minds where his moment ends"
    tail.grow(rows([event("other", "b", ("xy",))]), [event("other", "b", ("xy",))])
    assert (list(tail.tagged("x")), list(tail.tagged("xy")), tail.matching(query((("b",), ())), 0, 12)) == (
        [11],
        [12],
        [12],
    )


def test_a_cut_where_nothing_stands_takes_nothing(tail: JournalTail) -> None:
    tail.cut(14)
    assert (tail.last, list(tail.tagged("xy"))) == (14, [14])


@pytest.mark.parametrize("more", [0, 1])
def test_only_rows_that_the_journal_may_keep_are_indexed_when_added(more: int) -> None:
    """A batch goes into the tables, so an index of it would mostly be built for nothing."""
    events = [event(f"{n}", "a", (f"t{n}",)) for n in range(limits.JOURNAL_ROWS + more)]
    tail = JournalTail(10, CODEC)
    tail.grow(rows(events), events)

    assert bool(tail._index[0]) == (not more)
    assert [list(tail.tagged(tag)) for tag in ("t0", "t511", "t1000")] == [[11], [522], []]
    assert len(tail.matching(query((("a",), ())), 0, tail.last)) == len(events)


def test_a_damaged_row_is_under_no_tag_and_its_neighbours_are() -> None:
    tail = JournalTail(0, CODEC)
    tail.rows += [*rows(EVENTS[:1]), StoredRow(None, None), StoredRow(bytes(32) + b"\xc1", None), *rows(EVENTS[:1])]

    assert list(tail.tagged("x")) == [1, 4]
    nothing, first = (None, ()), (EVENTS[0].type, EVENTS[0].tags)
    assert [tail.words(row) for row in tail.rows] == [first, nothing, nothing, first]
