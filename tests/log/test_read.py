from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.log.conftest import START_US
from tests.log.facts import call, exposure, grade
from tests.log.memory import MemoryRecorder

from rightful import limits
from rightful.errors import DamagedRowError
from rightful.events import GradeRecorded, ToolCallSnapshotted
from rightful.identity import event_id
from rightful.log.log import Log
from rightful.log.rows import RawEvent
from rightful.storage.port import size_of
from rightful.times import at_of


def change(recorder: MemoryRecorder, position: int, **fields: object) -> None:
    event = recorder.events[position - 1]
    event.data = msgspec.json.encode(msgspec.json.decode(event.data) | fields)


@pytest.fixture
def filled(log: Log) -> Log:
    log.append([exposure("1"), grade("2"), grade("3", session="t:b")])
    log.append([exposure("4"), grade("2", reward=0.1), exposure("5", session="t:b")])
    return log


def positions(log: Log, **asked: object) -> list[int]:
    return [row.position for row in log.read(**asked)]  # type: ignore[arg-type]


def test_a_recorded_event_says_where_when_and_how_it_stands(filled: Log) -> None:
    second, fifth = (row for row in filled.read() if row.position in {2, 5})

    assert second.event == GradeRecorded(
        producer="hook",
        id=event_id("hook", "2"),
        session="t:a",
        at=at_of(1_785_579_300_000_000),
        reward=0.8,
        seq=1,
    )
    assert (second.recorded_at, second.outcome, second.revision, second.first) == (at_of(START_US), "appended", 1, 2)
    assert (fifth.outcome, fifth.revision, fifth.first, fifth.id) == ("conflict", 2, 2, second.id)
    assert (fifth.type, fifth.session) == ("grade.recorded", "t:a")


def test_all_is_read_in_order(filled: Log) -> None:
    assert positions(filled) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("after", [0, 1, 5, 6, 7])
def test_reading_begins_behind_a_position(filled: Log, after: int) -> None:
    assert positions(filled, after=after) == list(range(after + 1, 7))
    assert positions(filled, after=after, session="t:a") == [at for at in (1, 2, 4, 5) if at > after]


@pytest.mark.parametrize("until", [0, 1, 5, 6, 7])
def test_reading_ends_with_a_position(filled: Log, until: int) -> None:
    assert positions(filled, until=until) == list(range(1, min(until, 6) + 1))
    assert positions(filled, until=until, session="t:b") == [at for at in (3, 6) if at <= until]


def test_reading_can_be_of_types_and_of_a_session(filled: Log) -> None:
    assert positions(filled, types=["grade.recorded"]) == [2, 3, 5]
    assert positions(filled, types=(name for name in ["grade.recorded"]), session="t:a") == [2, 5]
    assert positions(filled, types=[]) == []
    assert positions(filled, session="t:c") == []


def test_a_session_is_read_by_its_index_and_not_by_a_scan(filled: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryRecorder, "rows")

    assert positions(filled, session="t:b") == [3, 6]


@pytest.mark.parametrize("session", [None, "t:a"])
def test_pages_follow_each_other_without_gap_or_overlap(
    log: Log, recorder: MemoryRecorder, monkeypatch: pytest.MonkeyPatch, session: str | None
) -> None:
    monkeypatch.setattr(limits, "PAGE_ROWS", 4)
    for count in range(10):
        log.append([grade(f"{count}")])
        assert positions(log, session=session) == list(range(1, count + 2))
    assert positions(log, session=session, after=3, until=9) == [4, 5, 6, 7, 8, 9]
    assert [len(page) for page in log.scan()] == [4, 4, 2]
    assert [len(page) for page in log.scan(1, 6)] == [4, 1]


def test_nothing_is_read_beyond_the_position_to_end_with(
    log: Log, recorder: MemoryRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PAGE_ROWS", 4)
    log.append([grade(f"{count}") for count in range(20)])
    asked: list[int | None] = []
    read = recorder.read

    def counted(*query: Any, after: int | None, limit: int | None) -> Any:
        asked.append(after)
        return read(*query, after=after, limit=limit)

    monkeypatch.setattr(recorder, "read", counted)

    assert positions(log, session="t:a", until=6) == [1, 2, 3, 4, 5, 6]
    assert asked == [0, 4]


def test_no_read_transaction_takes_more_than_a_page(log: Log, recorder: MemoryRecorder) -> None:
    """PAGE_ROWS in one, and what is one past it in the next."""
    log.append([grade(f"{count}") for count in range(limits.PAGE_ROWS)])
    assert [len(page) for page in log.scan()] == [limits.PAGE_ROWS]

    log.append([grade("one more")])
    assert [len(page) for page in log.scan()] == [limits.PAGE_ROWS, 1]


def test_what_is_appended_while_reading_is_read_too(log: Log) -> None:
    log.append([grade("a")])
    rows = log.read()
    assert next(rows).position == 1

    log.append([grade("b")])

    assert [row.position for row in rows] == [2]


def test_content_comes_back_as_it_was_sent(log: Log) -> None:
    arguments = {"a": "\x00\ud800", "$float": [2**80, -0.0, None], "b": {"c": "\x1a"}}
    log.append([call(arguments)])

    [row] = log.read()

    assert isinstance(row.event, ToolCallSnapshotted)
    assert row.event.arguments == arguments


def test_an_erased_row_reads_as_no_event_and_still_says_what_it_was(filled: Log, recorder: MemoryRecorder) -> None:
    recorder.erase(2)

    row = next(row for row in filled.read() if row.position == 2)

    assert row.event is None
    assert (row.type, row.session, row.id) == ("grade.recorded", "t:a", event_id("hook", "2"))
    assert [one.body for page in filled.scan(1, 2) for one in page] == [None]


@pytest.mark.parametrize("newer", [{"type": "run.dreamt"}, {"schema": 2}, {"v": 2}])
def test_a_row_that_is_newer_than_the_program_reads_raw(
    filled: Log, recorder: MemoryRecorder, newer: dict[str, object]
) -> None:
    change(recorder, 2, **newer)

    row = next(row for row in filled.read() if row.position == 2)

    assert row.event == RawEvent(
        str(newer.get("type", "grade.recorded")), int(str(newer.get("schema", 1))), b'{"reward":0.8,"seq":1}'
    )


# -- damage ------------------------------------------------------------------------------------


def flip(recorder: MemoryRecorder, position: int, at: int) -> None:
    payload = bytearray(recorder.events[position - 1].payload or b"")
    payload[at] ^= 1
    recorder.events[position - 1].payload = bytes(payload)


@pytest.mark.parametrize("at", [0, 31, 32, -1])
def test_a_payload_that_does_not_fit_its_commitment_is_never_shown(
    filled: Log, recorder: MemoryRecorder, at: int
) -> None:
    flip(recorder, 2, at)
    reads: list[Callable[[], object]] = [
        lambda: list(filled.read()),
        lambda: list(filled.read(session="t:a")),
        lambda: list(filled.scan()),
    ]

    for read in reads:
        with pytest.raises(DamagedRowError, match="position 2 of here is damaged: its payload does not match"):
            read()


def test_an_envelope_that_cannot_be_read_names_its_position(filled: Log, recorder: MemoryRecorder) -> None:
    recorder.events[3].data = b'{"v":1'

    with pytest.raises(DamagedRowError, match="position 4 of here is damaged: its envelope cannot be read"):
        list(filled.scan())


def test_a_body_that_is_not_of_its_type_names_its_position(filled: Log, recorder: MemoryRecorder) -> None:
    change(recorder, 1, type="grade.recorded")

    with pytest.raises(DamagedRowError, match=r"position 1 of here .* its body is not a valid grade\.recorded"):
        next(filled.read())


def test_a_payload_that_is_missing_is_damage_and_no_erasure(filled: Log, recorder: MemoryRecorder) -> None:
    """Nothing says that it was erased, so nothing is computed without it."""
    recorder.events[1].payload = None

    with pytest.raises(DamagedRowError, match="its payload is missing without an erasure") as damaged:
        list(filled.read())

    assert damaged.value.position == 2


def test_all_rows_of_an_id_are_found_by_it(filled: Log) -> None:
    found = filled.of_id(event_id("hook", "2"))

    assert [(row.position, row.envelope.outcome, row.envelope.revision) for row in found] == [
        (2, "appended", 1),
        (5, "conflict", 2),
    ]
    assert found[0].body == b'{"reward":0.8,"seq":1}'
    assert filled.of_id(event_id("hook", "nothing")) == []


def test_ids_are_found_by_how_they_begin(filled: Log) -> None:
    ids = sorted(event_id("hook", str(key)) for key in range(1, 6))

    assert filled.ids_like("", 10) == ids
    assert filled.ids_like("", 2) == ids[:2]
    assert filled.ids_like(ids[3][:8], 10) == [ids[3]]
    assert filled.ids_like("zz", 10) == []


def test_a_session_is_read_by_type_from_the_index(filled: Log) -> None:
    assert [row.position for row in filled.read(session="t:b", types=["exposure.recorded"])] == [6]
    assert [row.position for row in filled.read(session="t:b", types=[])] == []


@pytest.mark.parametrize(("more", "sizes"), [(0, [3, 3, 3, 1]), (1, [4, 4, 2])], ids=["its value", "one past it"])
def test_a_page_of_a_session_ends_with_the_row_that_fills_it(
    log: Log, recorder: MemoryRecorder, monkeypatch: pytest.MonkeyPatch, more: int, sizes: list[int]
) -> None:
    log.append([grade(f"{at}") for at in range(10)])
    size = {size_of(one) for one in recorder.events}
    assert len(size) == 1
    monkeypatch.setattr(limits, "PAGE_BYTES", 3 * size.pop() + more)

    assert [len(page) for page in log.of_session("t:a")] == sizes
    assert positions(log, session="t:a", after=2, until=9) == [3, 4, 5, 6, 7, 8, 9]
    assert [len(page) for page in log.of_session("t:a", until=8)][-1] == 2 + (2 * more)


def test_a_row_that_alone_is_more_than_a_page_is_one(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([grade(f"{at}") for at in range(3)])
    monkeypatch.setattr(limits, "PAGE_BYTES", 1)

    assert [len(page) for page in log.of_session("t:a")] == [1, 1, 1]
    assert positions(log, session="t:a") == positions(log) == [1, 2, 3]
