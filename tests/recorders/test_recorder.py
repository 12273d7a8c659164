"""A ledger's store: each record is an envelope, and the payload stands apart from it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from eventsourcing.persistence import ProgrammingError

from rightful import envelope
from rightful.errors import ReadOnlyStoreError
from rightful.recorders.port import LedgerEvent, Row, View
from rightful.recorders.recorder import LMDBRecorder
from rightful.tree import EMPTY_ROOT, Frontier, leaf_hash

IDS = [f"00000000-0000-5000-8000-{n:012}" for n in range(10)]


def row(n: int, *, session: str | None = "t:s", payload: bytes | None = b"p") -> LedgerEvent:
    made = envelope.Envelope(
        id=IDS[n],
        revision=1,
        type="session.started",
        schema=1,
        producer="p",
        session=session,
        at_us=n,
        recorded_at_us=n,
        outcome="appended",
        body_bytes=2,
        commitment="c",
    )
    return LedgerEvent(
        type=made.type, data=envelope.encode(made), tags=envelope.tags_of(made.id, session), payload=payload
    )


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "l", create=True) as recorder:
        yield recorder


def tagged(*tags: str) -> DCBQuery:
    return DCBQuery(items=[DCBQueryItem(tags=list(tags))])


def test_type_and_tags_of_a_row_are_read_from_its_envelope(recorder: LMDBRecorder) -> None:
    events = [row(1), row(2, session=None, payload=None)]
    recorder.append(events)

    assert [each.event for each in recorder.read()] == events
    assert [each.position for each in recorder.read(tagged("session:t:s"))] == [1]
    assert [each.position for each in recorder.read(tagged(f"id:{IDS[2]}"))] == [2]
    assert recorder.rows(0, 10) == [Row(1, events[0].data, b"p"), Row(2, events[1].data, None)]


def test_a_decision_sees_the_rows_of_an_id_with_their_payloads(recorder: LMDBRecorder) -> None:
    recorder.append([row(1, payload=b"first"), row(2), row(1, payload=b"second")])
    seen: list[list[tuple[int, LedgerEvent]]] = []

    def look(view: View) -> list[DCBEvent]:
        seen.append(view.tagged(f"id:{IDS[1]}"))
        return []

    recorder.decide(look)

    assert [(position, each.payload) for position, each in seen[0]] == [(1, b"first"), (3, b"second")]


def test_a_ledger_takes_no_events_without_an_envelope(recorder: LMDBRecorder) -> None:
    with pytest.raises(ProgrammingError, match=r"use Ledger\.append"):
        recorder.append([DCBEvent(type="t", data=b"", tags=[])])
    assert recorder.head() == 0


def test_the_root_in_the_store_is_that_of_the_envelopes(recorder: LMDBRecorder) -> None:
    assert recorder.tree_head() == (0, EMPTY_ROOT)
    events = [row(n) for n in range(7)]
    recorder.append(events[:1])
    recorder.append(events[1:6])
    recorder.append(events[6:])

    tree = Frontier()
    tree.extend([leaf_hash(each.data) for each in events])
    assert recorder.tree_head() == (7, tree.root())


def test_a_recorder_says_where_it_is_and_what_it_holds(recorder: LMDBRecorder, tmp_path: Path) -> None:
    assert recorder.path == str(tmp_path / "l")
    assert recorder.kind == "ledger"
    assert len(recorder.ledger_id) == 36


def test_a_handle_for_reading_refuses_to_write_and_its_error_pickles(recorder: LMDBRecorder, tmp_path: Path) -> None:
    with LMDBRecorder(tmp_path / "l", readonly=True) as reader, pytest.raises(ReadOnlyStoreError) as caught:
        reader.append([row(1)])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_decisions_of_one_handle_and_of_another_share_the_store(recorder: LMDBRecorder, tmp_path: Path) -> None:
    with LMDBRecorder(tmp_path / "l") as other:
        assert [recorder.append([row(1)]), other.append([row(2)]), recorder.append([row(3)])] == [1, 2, 3]
        assert other.tree_head() == recorder.tree_head()
