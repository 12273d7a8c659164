"""Completeness: what is proven to be whole, which holes there are, and where nobody can say."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.log.memory import MemoryRecorder

from rightful.errors import IncompleteTranscriptError
from rightful.identity import event_id
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.facts.completeness import (
    Completeness,
    Hole,
    completeness_of,
    gaps_in,
    ranges,
    require_complete,
    words,
)

AT = "2026-08-01T10:15:00Z"


def rows_of(*events: dict[str, Any]) -> list[Stored]:
    """Return the rows that the ledger keeps of some events of one session."""
    log = Log(MemoryRecorder(), path="here", entropy=bytes)
    receipts = log.append([{"producer": "runner", "session": "t:a", "at": AT} | event for event in events])
    assert [one.reason for one in receipts if one.outcome == "invalid"] == []
    return [row for page in log.scan() for row in page]


def said(index: int | None, turn: str | None = "1", **fields: Any) -> dict[str, Any]:
    key = f"{turn}/{index}"
    return {
        "type": "message.recorded",
        "key": key,
        "role": "user",
        "content": key,
        "turn": turn,
        "index": index,
    } | fields


def end(turn: str = "1", **fields: Any) -> dict[str, Any]:
    return {"type": "turn.ended", "key": f"end {turn}", "turn": turn} | fields


def found(*events: dict[str, Any]) -> Completeness:
    return completeness_of(rows_of(*events))


def test_a_turn_with_every_index_and_an_end_that_counts_them_is_complete() -> None:
    assert found(said(0), said(1), end(event_count=2)) == Completeness("complete")


def test_an_end_with_an_index_of_its_own_counts_the_turn() -> None:
    assert found(said(0), said(1), end(index=2)) == Completeness("complete")
    assert found(said(0), end(index=2)).holes == (Hole("1", "missing", ((1, 1),), 1),)


def test_an_end_may_count_itself_or_not_when_it_has_an_index() -> None:
    assert found(said(0), end(index=1, event_count=1)) == Completeness("complete")
    assert found(said(0), end(index=1, event_count=2)) == Completeness("complete")


def test_an_empty_turn_that_says_so_is_complete() -> None:
    assert found(end(event_count=0)) == Completeness("complete")


def test_a_gap_says_which_indexes_are_missing() -> None:
    whole = found(said(1), said(4), said(6), end(event_count=9))

    assert whole.state == "incomplete"
    assert whole.holes == (Hole("1", "missing", ((0, 0), (2, 3), (5, 5), (7, 8)), 6),)


def test_a_lost_tail_is_seen_by_the_count() -> None:
    assert found(said(0), end(event_count=3)).holes == (Hole("1", "missing", ((1, 2),), 2),)


def test_all_lost_but_the_end_is_seen_by_the_count() -> None:
    assert found(end(event_count=2)).holes == (Hole("1", "missing", ((0, 1),), 2),)


def test_a_count_beyond_reason_is_one_range() -> None:
    last = 2**53 - 2

    assert found(said(0), end(event_count=last + 1)).holes == (Hole("1", "missing", ((1, last),), last),)


def test_a_turn_that_nothing_closed_is_open() -> None:
    whole = found(said(0), said(1))

    assert whole == Completeness("incomplete", (Hole("1", "open"),))


def test_an_open_turn_also_says_which_indexes_are_missing() -> None:
    assert found(said(0), said(2)).holes == (Hole("1", "missing", ((1, 1),), 1), Hole("1", "open"))


def test_loss_reported_by_the_producer_is_a_hole_without_a_missing_index() -> None:
    assert found(said(0), end(event_count=1, dropped_count=3)).holes == (Hole("1", "dropped", (), 3),)


def test_an_index_beyond_the_count_is_late_and_its_rows_are_named() -> None:
    whole = found(said(0), end(index=1), said(2))

    assert whole == Completeness("incomplete", (Hole("1", "late", ((2, 2),), 1),), late=frozenset({3}))


def test_an_index_below_the_count_is_not_late_when_it_comes_after_the_end() -> None:
    """Records may arrive out of the order of their indexes: tool slots are written when the turn ends."""
    assert found(said(1), end(index=2), said(0)) == Completeness("complete")


def test_of_two_ends_the_first_closes_and_the_second_is_not_late_itself() -> None:
    twice = [said(0), end(index=1), end(index=2) | {"key": "again"}]

    assert found(*twice) == Completeness("complete")
    assert found(*twice, said(3)).holes == (Hole("1", "late", ((3, 3),), 1),)


def test_without_a_count_what_stands_behind_the_end_is_late() -> None:
    whole = found(said(0), end(), said(1))

    assert (whole.holes, whole.late) == ((Hole("1", "late", ((1, 1),), 1),), frozenset({3}))


def test_end_without_a_count_leaves_it_unknown_as_a_lost_tail_is_hidden() -> None:
    whole = found(said(0), end())

    assert whole == Completeness("unknown", why="its turns end without a count, so a lost tail would not show")


def test_an_end_that_counts_nothing_does_not_hide_a_gap() -> None:
    assert found(said(0), said(2), end()).holes == (Hole("1", "missing", ((1, 1),), 1),)


def test_a_previous_turn_that_was_never_seen_is_missing_whole() -> None:
    assert found(said(0, "2"), end("2", event_count=1, previous="1")).holes == (Hole("1", "missing"),)


def test_a_previous_turn_that_is_there_is_no_hole() -> None:
    both = [said(0, "2"), end("2", event_count=1, previous="1"), said(0), end(event_count=1)]

    assert found(*both) == Completeness("complete")


def test_every_delivery_fills_its_own_index_whatever_became_of_it() -> None:
    """Refined, stale and quarantined revisions of one id, each with an index of its own."""
    grown = [said(0, key="k", content="he"), said(1, key="k", content="hello")]
    more = [said(2, key="k", content="h"), said(3, key="k", content="other"), end(event_count=4)]
    rows = rows_of(*grown, *more)

    assert [row.envelope.outcome for row in rows] == ["appended", "refined", "stale", "conflict", "appended"]
    assert completeness_of(rows) == Completeness("complete")


def test_event_of_another_kind_fills_its_producers_index() -> None:
    shown = {"type": "exposure.recorded", "key": "e", "arms": [{"arm": "l.md"}], "turn": "1", "index": 1}

    assert found(said(0), shown, end(event_count=2)) == Completeness("complete")


def test_a_session_without_a_transcript_is_unknown() -> None:
    started = {"type": "session.started", "key": "s"}

    assert completeness_of([]) == Completeness("unknown", why="no transcript of it is recorded")
    assert found(started) == Completeness("unknown", why="no transcript of it is recorded")


def test_session_known_by_its_history_only_is_not_without_transcript() -> None:
    history = {"type": "history.appended", "key": "h", "items": [{"role": "user", "content": "hi"}]}

    assert found(history) == Completeness("unknown", why="its history does not count what was said")


def test_without_an_index_it_is_unknown_and_no_hole_is_made_up() -> None:
    assert found(said(None), end()) == Completeness(
        "unknown", why="its events are not numbered, so a gap would not show"
    )
    assert found(said(None)) == Completeness("unknown", why="its events are not numbered, so a gap would not show")


def test_without_a_turn_it_is_unknown() -> None:
    assert found(said(0, None)) == Completeness("unknown", why="it was recorded without turns, so a gap would not show")


def test_a_count_shows_a_loss_where_there_are_no_indexes() -> None:
    assert found(said(None), end(event_count=3)).holes == (Hole("1", "missing", (), 2),)
    assert found(said(None), end(event_count=1)).state == "unknown"


def test_an_event_without_an_index_may_be_one_that_seems_to_be_missing() -> None:
    mixed = [said(0), said(None), said(2), end(event_count=3)]

    assert found(*mixed) == Completeness("unknown", why="its events are not numbered, so a gap would not show")
    assert found(*mixed, end(event_count=4) | {"key": "again"}).holes == (Hole("1", "missing", (), 1),)


def test_a_gap_in_what_a_store_that_overwrites_kept_proves_nothing() -> None:
    """Agenta's upsert keeps the first index of a row and never stores that of the repair."""
    says = {"type": "data.recorded", "key": "store", "name": "overwriting-store"}

    whole = found(says, said(0), said(2), end(index=3))

    assert whole == Completeness("unknown", why="it comes from a store that overwrites, where a gap proves nothing")
    overwritten = (
        "its records come from a store that overwrites: earlier snapshots are unknown, and their order is that of the "
        "last write"
    )
    assert found(says, said(0), said(1), end(index=2)) == Completeness("unknown", why=overwritten)
    assert found(says, said(0), said(1)).holes == (Hole("1", "open"),)


def test_only_the_name_says_that_a_store_overwrites() -> None:
    other = {"type": "data.recorded", "key": "x", "name": "title", "data": {"name": "overwriting-store"}}

    assert found(other, said(1), end(index=2)).state == "incomplete"


def test_each_producer_is_judged_and_the_worst_counts() -> None:
    whole = [said(0), end(event_count=1)]
    unknown = said(None, None, producer="importer", key="i")
    broken = said(0, "9", producer="other", key="o")

    assert found(*whole, unknown) == Completeness(
        "unknown", why="it was recorded without turns, so a gap would not show"
    )
    assert found(*whole, unknown, broken) == Completeness("incomplete", (Hole("9", "open"),))


def test_a_producer_of_no_transcript_is_not_judged() -> None:
    shown = {"type": "exposure.recorded", "producer": "hook", "key": "e", "arms": [{"arm": "l.md"}], "turn": "7"}

    assert found(said(0), end(event_count=1), shown, shown | {"key": "f", "index": 3}) == Completeness("complete")


def test_an_erased_end_still_counts_by_its_index_and_no_more() -> None:
    rows = rows_of(said(0), said(1), end(index=2, event_count=5, dropped_count=1, previous="0"))
    erased = [*rows[:2], rows[2]._replace(payload=None)]

    assert completeness_of(erased) == Completeness("complete")


def test_gaps_and_ranges_have_both_ends() -> None:
    assert gaps_in([(1, 1), (2, 2), (5, 5)], 8) == gaps_in([(1, 2), (2, 2), (5, 5)], 8) == ((0, 0), (3, 4), (6, 7))
    assert gaps_in([], 0) == ()
    assert ranges([1, 2, 5]) == ((1, 2), (5, 5))


def test_holes_have_words() -> None:
    holes = [
        Hole("1", "missing", ((2, 2),), 1), Hole("1", "missing", ((0, 0), (2, 4)), 4), Hole("1", "missing", (), 2),
        Hole("1", "missing"), Hole("1", "dropped", (), 3), Hole("1", "open"), Hole("1", "late", ((5, 6),), 2),
    ]  # fmt: skip

    assert [words(hole) for hole in holes] == [
        "turn 1 lacks index 2",
        "turn 1 lacks indexes 0, 2 to 4",
        "turn 1 lacks 2 of its events",
        "turn 1 is not there",
        "turn 1 lost 3 by its producer's word",
        "turn 1 was not closed",
        "turn 1 was closed before indexes 5 to 6 came",
    ]


def test_whole_transcript_is_refused_unless_it_is_known_to_be_whole() -> None:
    require_complete("t:a", Completeness("complete"))
    with pytest.raises(IncompleteTranscriptError) as refused:
        require_complete("t:a", found(said(0), said(2)))

    error = refused.value
    assert (error.session, error.state, error.exit_code) == ("t:a", "incomplete", 1)
    assert error.why == ("turn 1 lacks index 1", "turn 1 was not closed")
    assert str(error).startswith("The transcript of t:a is incomplete: turn 1 lacks index 1; turn 1 was not closed. ")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_unknown_one_is_refused_with_the_reason() -> None:
    with pytest.raises(
        IncompleteTranscriptError, match="may be incomplete: its events are not numbered, so a gap would not show"
    ):
        require_complete("t:a", found(said(None)))


def test_of_two_ends_what_stands_between_them_is_late() -> None:
    """A watchdog closed the turn, and its runner went on and closed it again."""
    found_ = found(said(0), end(index=1), said(2), end(index=3) | {"key": "again"})

    assert found_.holes == (Hole("1", "late", ((2, 2),), 1),)


def withdrawn(key: str, revision: int) -> dict[str, Any]:
    return {"type": "event.withdrawn", "key": f"w {key}", "id": event_id("runner", key), "revision": revision}


def test_what_an_end_says_counts_for_nothing_once_it_was_withdrawn() -> None:
    """A wrong count, settled: neither its holes nor its losses stay."""
    wrong = end(event_count=100, dropped_count=3, previous="0")

    assert found(said(0), wrong, end(event_count=1), withdrawn("end 1", 1)) == Completeness("complete")
    assert found(said(0), end(event_count=1), wrong, withdrawn("end 1", 2)) == Completeness("complete")
    assert found(said(0), end(event_count=1), withdrawn("end 1", 1)).holes == (Hole("1", "open"),)
    assert found(said(0), wrong, end(event_count=1)).state == "incomplete"


def test_the_index_of_a_withdrawn_end_is_filled_and_asks_for_none_below_it() -> None:
    ends = end(index=1), end(index=2) | {"stop_reason": "later"}

    assert found(said(0), *ends, withdrawn("end 1", 1)) == Completeness("complete")
    assert found(said(0), end(index=9), end(index=1) | {"stop_reason": "x"}, withdrawn("end 1", 1)).holes == ()
