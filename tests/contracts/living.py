"""What every recorder promises those who wait, and those who fork."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBSequencedEvent
from eventsourcing.persistence import ProgrammingError
from tests.contracts.base import Opened, event, found, tagged
from tests.contracts.support import (
    PATIENCE_S,
    Place,
    append_all,
    in_fork,
    others,
    together,
)

from rightful.errors import ForkedError
from rightful.storage.port import LedgerRecorder


class Living(Opened):
    """Subscriptions and forks."""

    @pytest.mark.parametrize("wanted", [None, tagged("even")], ids=["all", "query"])
    def test_a_subscription_misses_nothing_of_concurrent_writers(
        self, recorder: LedgerRecorder, wanted: DCBQuery | None
    ) -> None:
        def write(who: int) -> None:
            for n in range(40):
                recorder.append([event(f"{who}.{n}", tags=("even",) if n % 2 == 0 else ())])

        count = 160 if wanted is None else 80

        def follow() -> list[DCBSequencedEvent]:
            with recorder.subscribe(wanted) as subscription:
                return [next(subscription) for _ in range(count)]

        *_, received = together(*[partial(write, who) for who in range(4)], follow)

        assert [each.position for each in received] == found(recorder, wanted)
        assert len(received) == count

    def test_a_subscription_receives_what_another_process_appends(self, place: Place, recorder: LedgerRecorder) -> None:
        with others(append_all, (place, [[event(f"{n}")] for n in range(20)])) as (other,):
            other.hear()
            with recorder.subscribe() as subscription:
                other.tell("go")
                received = [next(subscription).position for _ in range(20)]
            assert list(iter(other.hear, None)) == received == list(range(1, 21))

    def test_rows_acknowledged_to_another_process_are_seen_by_every_query(
        self, place: Place, recorder: LedgerRecorder
    ) -> None:
        """And what it appends after that is not: each answer is of one moment that is not before the answer."""
        seen: list[Any] = []

        def look(view: Any) -> list[DCBEvent]:
            tags = [position for position, _ in view.tagged("every")]
            seen[:] = view.head, view.last().data, tags, view.matches(tagged(f"nr:{view.head}"), view.head - 1)
            return []

        events = [[event(f"{n}", tags=("every", f"nr:{n}"))] for n in range(1, 31)]
        with others(append_all, (place, events)) as (other,):
            other.hear()
            other.tell("go")
            for answered in iter(other.hear, None):
                assert recorder.head() >= answered
                assert found(recorder, tagged(f"nr:{answered}")) == [answered]
                assert f"nr:{answered}" in recorder.tags_like("nr:", 100)
                assert [row.position for row in recorder.rows(answered - 1, 1)] == [answered]
                last = recorder.decide(look)
                assert seen == [last, str(last).encode(), list(range(1, last + 1)), True]
                assert last >= answered

    def test_reader_during_appends_sees_a_growing_prefix_without_gaps(
        self, place: Place, recorder: LedgerRecorder
    ) -> None:
        before: list[tuple[int, bytes]] = []
        events = [[event(f"{n}.{at}") for at in range(1 + n % 3)] for n in range(40)]
        with others(append_all, *[(place, events)] * 2) as running:
            for other in running:
                other.hear()
                other.tell("go")
            while len(before) < 2 * sum(map(len, events)):
                now = [(each.position, each.event.data) for each in recorder.read()]
                assert now[: len(before)] == before
                assert [position for position, _ in now] == list(range(1, len(now) + 1))
                before = now

    def test_stop_wakes_a_subscription_that_waits(self, recorder: LedgerRecorder) -> None:
        subscription = recorder.subscribe()
        waiting = threading.Event()
        ended: list[list[DCBSequencedEvent]] = []

        def iterate() -> None:
            waiting.set()
            ended.append(list(subscription))

        thread = threading.Thread(target=iterate)
        thread.start()
        assert waiting.wait(PATIENCE_S)
        subscription.stop()
        thread.join(PATIENCE_S)

        assert ended == [[]]
        with pytest.raises(StopIteration):
            next(subscription)

    def test_a_subscription_is_entered_once(self, recorder: LedgerRecorder) -> None:
        subscription = recorder.subscribe()
        with pytest.raises(ProgrammingError):
            subscription.__exit__(None, None, None)
        with subscription, pytest.raises(ProgrammingError):
            subscription.__enter__()

    def test_a_child_may_not_use_its_parents_recorder(self, recorder: LedgerRecorder) -> None:
        recorder.append([event()])
        uses = (recorder.head, partial(recorder.append, [event()]), partial(found, recorder), recorder.close)

        assert [type(in_fork(use)) for use in uses] == [ForkedError, ForkedError, ForkedError, type(None)]
        assert recorder.append([event()]) == 2

    def test_a_child_may_open_the_store_again(self, place: Place, recorder: LedgerRecorder) -> None:
        recorder.append([event("parent")])

        def child() -> tuple[int, list[int]]:
            mine = place.open()
            position = mine.append([event("child")])
            positions = found(mine)
            mine.close()
            return position, positions

        assert in_fork(child) == (2, [1, 2])
        assert recorder.append([event("parent")]) == 3
        assert [each.event.data for each in recorder.read()] == [b"parent", b"child", b"parent"]

    def test_forks_under_writers_and_readers_leave_parent_and_children_whole(
        self, place: Place, recorder: LedgerRecorder
    ) -> None:
        over = threading.Event()

        def write() -> int:
            count = 0
            while not over.is_set():
                recorder.append([event(tags=("parent",))])
                count += 1
            return count

        def read() -> None:
            while not over.is_set():
                positions = found(recorder)
                assert positions == list(range(1, len(positions) + 1))

        def child() -> int:
            mine = place.open()
            return mine.append([event(tags=("child",))])

        def fork() -> list[Any]:
            try:
                return [in_fork(child) for _ in range(10)]
            finally:
                over.set()

        wrote, _, forked = together(write, read, fork)

        assert found(recorder, tagged("child")) == forked
        assert len(found(recorder, tagged("parent"))) == wrote
        assert recorder.head() == wrote + 10
