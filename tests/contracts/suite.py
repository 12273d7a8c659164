"""The suite that every recorder passes, beyond the library's own `DCBRecorderTestCase`.

A new recorder gets a class of its own that derives from `RecorderSuite` and gives a `place`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery, DCBQueryItem, DCBSequencedEvent
from eventsourcing.persistence import IntegrityError, ProgrammingError
from tests.contracts.support import (
    PATIENCE_S,
    Other,
    Place,
    append_all,
    append_for_ever,
    in_fork,
    others,
    together,
)

from rightful import limits
from rightful.errors import ClosedError, ForkedError
from rightful.recorders.port import LedgerRecorder

LONG = "x" * limits.TAG_KEY_BYTES


def event(data: str = "data", kind: str = "type", tags: tuple[str, ...] = ()) -> DCBEvent:
    return DCBEvent(type=kind, data=data.encode(), tags=list(tags))


def query(*items: tuple[tuple[str, ...], tuple[str, ...]]) -> DCBQuery:
    return DCBQuery(items=[DCBQueryItem(types=list(types), tags=list(tags)) for types, tags in items])


def tagged(*tags: str) -> DCBQuery:
    return query(((), tags))


def found(recorder: LedgerRecorder, wanted: DCBQuery | None = None, **options: Any) -> list[int]:
    return [each.position for each in recorder.read(wanted, **options)]


class RecorderSuite:
    """Facts about any recorder that stores plain events."""

    @pytest.fixture
    def recorder(self, place: Place) -> Iterator[LedgerRecorder]:
        recorder = place.open()
        yield recorder
        recorder.close()

    # -- writers ---------------------------------------------------------------------------

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

    # -- crash and retry -------------------------------------------------------------------

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

    # -- tags, types, sizes ----------------------------------------------------------------

    @pytest.mark.parametrize(
        "tags",
        [
            [],
            [""],
            ["a", "a"],
            ["b", "a", "b"],
            ["Ωμέγα 🜁", "\0", "\n", " "],
            [LONG, LONG + "y", LONG + "z", LONG * 20],
        ],
        ids=["none", "empty", "double", "order", "unicode", "long"],
    )
    def test_tags_come_back_as_they_were_given_and_are_found(self, recorder: LedgerRecorder, tags: list[str]) -> None:
        recorder.append([DCBEvent(type="t", data=b"", tags=tags), event()])

        assert next(recorder.read()).event.tags == tags
        for tag in tags:
            assert found(recorder, tagged(tag)) == [1]
            assert found(recorder, tagged(tag, tag)) == [1]
            assert found(recorder, tagged(tag, "another")) == []
            with pytest.raises(IntegrityError):
                recorder.append([event()], DCBAppendCondition(tagged(tag)))

    def test_tags_that_differ_beyond_the_index_key_are_different(self, recorder: LedgerRecorder) -> None:
        recorder.append([event(tags=(LONG + "1",)), event(tags=(LONG + "2",)), event(tags=(LONG,))])

        assert found(recorder, tagged(LONG + "1")) == [1]
        assert found(recorder, tagged(LONG + "2")) == [2]
        assert found(recorder, tagged(LONG)) == [3]

    def test_a_tag_that_is_no_text_is_refused_and_hurts_nobody(self, recorder: LedgerRecorder) -> None:
        with pytest.raises(UnicodeEncodeError):
            recorder.append([event(tags=("\ud800",))])
        with pytest.raises(UnicodeEncodeError):
            recorder.append([event(), event(tags=("\ud800",))])

        assert recorder.append([event()]) == 1

    def test_several_types_without_tags_are_one_query(self, recorder: LedgerRecorder) -> None:
        recorder.append([event(kind=f"kind{n % 10}") for n in range(50)])

        assert found(recorder, query((("kind3", "kind1", "kind7"), ()))) == [
            n + 1 for n in range(50) if n % 10 in {1, 3, 7}
        ]

    def test_items_of_any_shape_mix(self, recorder: LedgerRecorder) -> None:
        recorder.append(
            [
                event(kind="a", tags=("x",)),
                event(kind="b", tags=("x", "y")),
                event(kind="c", tags=("y",)),
                event(kind="d"),
                event(kind="a", tags=("z",)),
            ]
        )

        assert found(recorder, query((("d",), ()), ((), ("x", "y")), (("a",), ("z",)))) == [2, 4, 5]
        assert found(recorder, query((("a",), ()), ((), ("x",)))) == [1, 2, 5]
        assert found(recorder, query((("nothing",), ()), ((), ()))) == [1, 2, 3, 4, 5]
        assert found(recorder, query((("c", "d"), ("y",)))) == [3]
        assert found(recorder, query(((), ("x",)), ((), ("y",))), after=1, limit=1) == [2]

    def test_an_event_of_megabytes_comes_back_whole(self, recorder: LedgerRecorder) -> None:
        data = bytes(range(256)) * (20 * 1024)
        recorder.append([DCBEvent(type="big", data=data, tags=["big"])])

        assert next(recorder.read(tagged("big"))).event.data == data

    # -- reading ---------------------------------------------------------------------------

    def test_a_read_ends_at_the_head_it_began_with(self, recorder: LedgerRecorder) -> None:
        recorder.append([event() for _ in range(limits.PAGE_ROWS + 10)])
        response = recorder.read()
        first = next(response)
        recorder.append([event("later")])

        positions = [first.position, *(each.position for each in response)]

        assert response.head == limits.PAGE_ROWS + 10
        assert positions == list(range(1, limits.PAGE_ROWS + 11))

    @pytest.mark.parametrize("wanted", [None, tagged("every"), query((("type",), ()))], ids=["all", "tag", "type"])
    def test_a_read_of_several_pages_is_complete(self, recorder: LedgerRecorder, wanted: DCBQuery | None) -> None:
        count = 2 * limits.PAGE_ROWS + 5
        recorder.append([event(tags=("every",)) for _ in range(count)])

        assert found(recorder, wanted) == list(range(1, count + 1))
        assert found(recorder, wanted, limit=limits.PAGE_ROWS + 1) == list(range(1, limits.PAGE_ROWS + 2))

    def test_a_rare_fit_among_many_that_do_not_is_found(self, recorder: LedgerRecorder) -> None:
        """The rarest tag is on all rows, so each is looked at, in more than one transaction."""
        count = 17 * limits.PAGE_ROWS
        recorder.append([event(kind="hay", tags=("all",)) for _ in range(count)])
        recorder.append([event(kind="needle", tags=("all",))])

        response = recorder.read(query((("needle",), ("all",))))
        assert [each.position for each in response] == [count + 1]
        assert response.head == count + 1

    def test_with_a_limit_the_head_is_known_before_and_after_iterating(self, recorder: LedgerRecorder) -> None:
        recorder.append([event() for _ in range(5)])
        response = recorder.read(limit=3)

        assert response.head == 3
        assert [each.position for each in response] == [1, 2, 3]
        assert recorder.read(limit=3, after=5).head is None
        assert recorder.read(after=9).head == 5

    # -- subscriptions ---------------------------------------------------------------------

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

    # -- the ledger's part of the port -----------------------------------------------------

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

    def test_decisions_that_share_a_commit_see_each_other_and_one_failure_hurts_no_other(
        self, recorder: LedgerRecorder
    ) -> None:
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

    # -- forks -----------------------------------------------------------------------------

    def test_a_child_may_not_use_its_parents_recorder(self, recorder: LedgerRecorder) -> None:
        recorder.append([event()])
        uses = (recorder.head, partial(recorder.append, [event()]), partial(found, recorder), recorder.close)

        assert [type(in_fork(use)) for use in uses] == [ForkedError, ForkedError, ForkedError, type(None)]
        assert recorder.append([event()]) == 2

    def test_a_child_may_open_the_store_anew(self, place: Place, recorder: LedgerRecorder) -> None:
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
