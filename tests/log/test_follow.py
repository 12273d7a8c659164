from __future__ import annotations

import threading

from tests.log.facts import exposure, grade
from tests.log.memory import MemoryRecorder

from rightful.log.follow import Following
from rightful.log.log import Log
from rightful.log.rows import Recorded


class Reader(threading.Thread):
    """Reads all that a following gives."""

    def __init__(self, following: Following) -> None:
        super().__init__(daemon=True)
        self.following = following
        self.seen: list[Recorded] = []
        self.arrived = threading.Semaphore(0)

    def run(self) -> None:
        for one in self.following:
            self.seen.append(one)
            self.arrived.release()

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.arrived.acquire(timeout=10)

    def positions(self) -> list[int]:
        return [one.position for one in self.seen]


def test_what_stands_comes_first_and_then_what_is_added_without_a_gap(log: Log, recorder: MemoryRecorder) -> None:
    log.append([grade("a"), grade("b")])
    reader = Reader(log.follow())
    reader.start()
    reader.wait_for(2)

    for key in "cde":
        log.append([grade(key)])
    reader.wait_for(3)
    reader.following.stop()
    recorder.wake()
    reader.join(10)

    assert not reader.is_alive()
    assert reader.positions() == [1, 2, 3, 4, 5]


def test_following_resumes_behind_a_position(log: Log) -> None:
    log.append([grade(key) for key in "abcd"])
    following = log.follow(timeout_s=0)
    assert [next(following).position, next(following).position] == [1, 2]

    resumed = log.follow(following.position, timeout_s=0)

    assert [one.position for one in resumed] == [3, 4]


def test_position_is_passed_even_if_no_wanted_row_was_there(log: Log) -> None:
    log.append([grade("a"), exposure("b"), exposure("c")])
    following = log.follow(types=["grade.recorded"], timeout_s=0)

    assert [one.position for one in following] == [1]
    assert following.position == 3


def test_following_can_be_of_a_session_and_of_types(log: Log) -> None:
    log.append([grade("a"), grade("b", session="t:b"), exposure("c", session="t:b")])

    assert [one.position for one in log.follow(session="t:b", timeout_s=0)] == [2, 3]
    assert [one.position for one in log.follow(session="t:b", types=["grade.recorded"], timeout_s=0)] == [2]


def test_it_ends_when_nothing_was_added_for_so_long(log: Log) -> None:
    assert list(log.follow(timeout_s=0)) == []
    assert list(log.follow(timeout_s=0.001)) == []


def test_stopping_ends_it_between_two_events_of_a_page(log: Log) -> None:
    log.append([grade(key) for key in "abc"])
    with log.follow() as following:
        assert next(following).position == 1
        following.stop()
        assert list(following) == []
        assert following.position == 1


def test_leaving_its_block_stops_it(log: Log) -> None:
    log.append([grade("a"), grade("b")])
    with log.follow() as following:
        next(following)

    assert list(following) == []
