"""What every recorder promises those who write."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery
from eventsourcing.persistence import IntegrityError, ProgrammingError
from tests.contracts.base import Opened, event, found, query, tagged
from tests.contracts.support import (
    PATIENCE_S,
    Other,
    Place,
    append_all,
    append_for_ever,
    others,
    together,
)

from rightful.errors import ClosedError
from rightful.storage.port import LedgerRecorder


class Writing(Opened):
    """Positions, conditions, decisions, crashes."""

    def test_positions_of_many_threads_have_no_gap_and_no_double(self, recorder: LedgerRecorder) -> None:
        def write() -> list[int]:
            return [recorder.append([event()]) for _ in range(25)]

        positions = together(*[write] * 8)

        assert sorted(position for each in positions for position in each) == list(range(1, 201))
        assert found(recorder) == list(range(1, 201))

    def test_positions_of_many_processes_have_no_gap_and_no_double(self, place: Place) -> None:
        place.open().close()
        heard = []
        with others(append_all, *[(place, [[event(f"{who}.{n}")] for n in range(30)]) for who in range(3)]) as running:
            for other in running:
                assert other.hear() == "ready"
            for other in running:
                other.tell("go")
            for other in running:
                heard += list(iter(other.hear, None))

        assert sorted(heard) == list(range(1, 91))
        with place.open() as recorder:  # type: ignore[attr-defined]  # each of ours is a context
            assert found(recorder) == list(range(1, 91))

    def test_events_of_one_append_stand_together_under_concurrent_writers(self, recorder: LedgerRecorder) -> None:
        def write(who: int) -> None:
            for n in range(10):
                recorder.append([event(f"{who}.{n}.{at}") for at in range(5)])

        together(*[partial(write, who) for who in range(6)])

        data = [each.event.data.decode().rsplit(".", 1) for each in recorder.read()]
        groups = [data[at : at + 5] for at in range(0, len(data), 5)]
        assert all(group == [[group[0][0], str(at)] for at in range(5)] for group in groups)
        assert len({group[0][0] for group in groups}) == 60

    def test_of_many_threads_with_one_condition_exactly_one_appends(self, recorder: LedgerRecorder) -> None:
        condition = DCBAppendCondition(tagged("seat:1"))
        results = together(*[partial(recorder.append, [event(tags=("seat:1",))], condition)] * 8)

        assert [result for result in results if not isinstance(result, IntegrityError)] == [1]
        assert found(recorder) == [1]

    def test_failed_conditions_burn_no_positions(self, recorder: LedgerRecorder) -> None:
        recorder.append([event()])
        for _ in range(5):
            with pytest.raises(IntegrityError):
                recorder.append([event(), event()], DCBAppendCondition())

        assert recorder.append([event()]) == 2

    def test_an_append_of_nothing_is_refused(self, recorder: LedgerRecorder) -> None:
        with pytest.raises(ProgrammingError):
            recorder.append([])

    def test_what_was_acknowledged_before_a_kill_is_there_after_it(self, place: Place) -> None:
        place.open().close()
        other = Other(append_for_ever, place, [event("one"), event("two")])
        acknowledged = [other.hear() for _ in range(20)]
        other.kill()

        recorder = place.open()
        positions = found(recorder)

        assert positions == list(range(1, len(positions) + 1))
        assert acknowledged == list(range(2, 41, 2))
        assert len(positions) >= 40
        assert len(positions) % 2 == 0, "half an append was stored"
        assert recorder.append([event()]) == len(positions) + 1
        recorder.close()

    def test_a_retried_decision_writes_nothing_twice(self, recorder: LedgerRecorder) -> None:
        new = event(tags=("id:1",))

        def once(view: Any) -> list[DCBEvent]:
            return [] if view.matches(tagged("id:1"), None) else [new]

        assert [recorder.decide(once) for _ in range(3)] == [1, 1, 1]
        assert found(recorder) == [1]

    def test_a_store_that_is_opened_again_goes_on_where_it_was(self, place: Place) -> None:
        first = place.open()
        first.append([event("a", tags=("t",)), event("b")])
        first.close()

        again = place.open()
        assert again.head() == 2
        assert found(again, tagged("t")) == [1]
        assert again.append([event("c")]) == 3
        again.close()

    def test_a_decision_sees_all_that_stands_before_it(self, recorder: LedgerRecorder) -> None:
        recorder.append([event("a", tags=("t",)), event("b", kind="other"), event("c", tags=("t",))])
        seen: list[Any] = []

        def look(view: Any) -> list[DCBEvent]:
            seen.append((view.head, view.last().data, [(at, row.data) for at, row in view.tagged("t")]))
            seen.append((view.tagged("none"), view.matches(query((("other",), ())), None)))
            seen.append((view.matches(query((("other",), ())), 2), view.matches(DCBQuery(), 3)))
            return []

        assert recorder.decide(look) == 3
        assert seen == [(3, b"c", [(1, b"a"), (3, b"c")]), ([], True), (False, False)]

    def test_a_decision_on_an_empty_store_sees_nothing(self, recorder: LedgerRecorder) -> None:
        def look(view: Any) -> list[DCBEvent]:
            assert (view.head, view.last(), view.tagged("t"), view.matches(DCBQuery(), None)) == (0, None, [], False)
            return []

        assert recorder.decide(look) == 0

    def test_decisions_of_one_commit_see_each_other_and_fail_alone(self, recorder: LedgerRecorder) -> None:
        """The first holds the writer until the others wait, so that one commit takes them all."""
        begun, go = threading.Event(), threading.Event()

        def hold(view: Any) -> list[DCBEvent]:
            begun.set()
            assert go.wait(PATIENCE_S)
            return []

        def count(view: Any) -> list[DCBEvent]:
            return [event(str(view.head))]

        def fail(view: Any) -> list[DCBEvent]:
            raise ZeroDivisionError

        def release() -> None:
            assert begun.wait(PATIENCE_S)
            go.set()

        results = together(
            partial(recorder.decide, hold),
            release,
            partial(recorder.decide, fail),
            *[partial(recorder.decide, count)] * 6,
        )

        assert isinstance(results[2], ZeroDivisionError)
        assert sorted(results[3:]) == [1, 2, 3, 4, 5, 6]
        assert [each.event.data for each in recorder.read()] == [str(n).encode() for n in range(6)]

    def test_rows_come_in_pages_without_a_gap(self, recorder: LedgerRecorder) -> None:
        recorder.append([event(str(n)) for n in range(7)])

        assert [row.position for row in recorder.rows(0, 3)] == [1, 2, 3]
        assert [row.position for row in recorder.rows(3, 100)] == [4, 5, 6, 7]
        assert recorder.rows(7, 100) == []
        assert recorder.rows(0, 0) == []

    def test_waiting_ends_with_a_row_with_time_or_with_stop(self, recorder: LedgerRecorder) -> None:
        recorder.append([event()])
        assert recorder.wait_beyond(0, 0) == 1
        assert recorder.wait_beyond(1, 0.01) == 1
        stop = threading.Event()
        stop.set()
        assert recorder.wait_beyond(1, None, stop) == 1
        assert together(partial(recorder.wait_beyond, 1, PATIENCE_S), partial(recorder.append, [event()])) == [2, 2]

    def test_a_closed_recorder_says_so_and_closes_again(self, place: Place) -> None:
        recorder = place.open()
        kept = place.open()
        recorder.close()
        recorder.close()

        for use in (recorder.head, partial(recorder.append, [event()]), partial(recorder.rows, 0, 1), recorder.read):
            with pytest.raises(ClosedError):
                use()
        assert kept.append([event()]) == 1
        kept.close()
