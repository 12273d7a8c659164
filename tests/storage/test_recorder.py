"""A ledger's store: each record is an envelope, and the payload stands apart from it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from eventsourcing.persistence import ProgrammingError
from tests.contracts.support import PATIENCE_S
from tests.storage.turns import writer_of

from rightful import limits
from rightful.encoding import envelope
from rightful.encoding.merkle import EMPTY_ROOT, Frontier, leaf_hash
from rightful.errors import DamagedRowError, OutcomeUnknownError, ReadOnlyStoreError
from rightful.storage.port import LedgerEvent, Row, View
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.query import read_page
from rightful.storage.tables.store_tables import pack_position

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


MIB = 1024 * 1024


@pytest.mark.parametrize(("short", "rows"), [(0, 2), (1, 3)], ids=["its value", "one past it"])
def test_a_page_ends_with_the_row_whose_payload_fills_it(recorder: LMDBRecorder, short: int, rows: int) -> None:
    assert limits.PAGE_BYTES == 8 * MIB
    wanted = [b"a" * (4 * MIB - short), b"b" * 4 * MIB, b"c", b"d"]
    recorder.append([row(n, payload=payload) for n, payload in enumerate(wanted)])

    assert recorder.columns(0)[1] == wanted[:rows]
    assert [each.position for each in recorder.rows(1)] == [2, 3, 4]
    assert [getattr(each.event, "payload", None) for each in recorder.read()] == wanted


@pytest.mark.parametrize("query", [None, tagged("session:t:s")], ids=["all", "tag"])
@pytest.mark.parametrize("size", [5_000, 1_000], ids=["more than a page of LMDB", "less than half of one"])
@pytest.mark.parametrize(("more", "sizes"), [(0, [2, 2, 2, 1]), (1, [3, 3, 1])], ids=["its value", "one past it"])
def test_each_read_transaction_takes_one_page(
    recorder: LMDBRecorder,
    monkeypatch: pytest.MonkeyPatch,
    query: DCBQuery | None,
    size: int,
    more: int,
    sizes: list[int],
) -> None:
    events = [row(n, payload=b"%d" % n * size) for n in range(7)]
    recorder.append(events)
    data = 0 if query is None else len(events[0].data)
    monkeypatch.setattr(limits, "PAGE_BYTES", 2 * (size + data) + more)
    found, after = list[int](), 0
    while (page := read_page(recorder.tables(), query, after, None, 100)).events:
        found.append(len(page.events))
        after = page.through

    assert found == sizes
    assert [each.event for each in recorder.read(query)] == events
    assert [each.position for each in recorder.read(query, limit=5)] == [1, 2, 3, 4, 5]


def test_row_larger_than_a_page_is_a_page_of_its_own(recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [b"x" * 5_000, None, b"", b"y" * 5_000, None]
    recorder.append([row(n, payload=payload) for n, payload in enumerate(wanted)])
    monkeypatch.setattr(limits, "PAGE_BYTES", 4_000)

    assert [recorder.columns(after)[1] for after in (0, 1, 4, 5)] == [wanted[:1], wanted[1:4], wanted[4:], []]
    assert [each.position for each in recorder.read()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("size", [1, 100_000], ids=["pages of one row", "one page"])
def test_a_row_that_is_missing_is_damage_whatever_fills_a_page(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_COMMIT_BYTES", 0)
    recorder.append([row(n, payload=b"x" * 5_000) for n in range(3)])
    env = recorder.tables().env
    with env.begin_write() as txn:
        txn.delete(pack_position(3), db=env.tables["rows"])
    monkeypatch.setattr(limits, "PAGE_BYTES", size)

    with pytest.raises(DamagedRowError, match="position 3"):
        recorder.columns(0 if size > 1 else 2)
    if size == 1:
        assert len(recorder.columns(1)[0]) == 1


def test_whatever_ends_a_turn_reaches_its_caller_and_the_thread_writes_on(
    recorder: LMDBRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        release()
        raise OSError("odd")

    write_lock = writer_of(recorder)._write_lock
    release = write_lock.release
    with monkeypatch.context() as patch:
        patch.setattr(write_lock, "release", fails)
        with pytest.raises(OutcomeUnknownError, match="OSError: odd"):
            recorder.decide(lambda _: [row(1)], timeout_s=PATIENCE_S)

    assert recorder.decide(lambda _: [row(2)], timeout_s=PATIENCE_S) == 2
