"""The line: each call of a session begins when the one before it has ended."""

from __future__ import annotations

import threading
import weakref

import pytest

from rightful.producers.openai_agents.line import Line


def test_a_call_is_made_at_once_where_none_is_before_it() -> None:
    line, here = Line(), threading.current_thread()

    assert line.now(threading.current_thread) is here
    assert line.put(threading.current_thread).result() is not here
    assert line.now(threading.current_thread) is here


def test_no_call_is_made_at_once_while_another_is_at_work() -> None:
    line, begun, go = Line(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go.wait()
        return "first"

    first = line.put(work)
    begun.wait()
    assert line.now(lambda: "second") is None
    go.set()
    assert first.result() == "first"


def test_calls_that_come_while_one_is_made_at_once_wait_for_it() -> None:
    line, order = Line(), list[str]()

    def work() -> object:
        later = line.put(lambda: order.append("later"))
        assert line.now(lambda: "inside") is None
        order.append("now")
        return later

    later = line.now(work)

    assert later is not None
    later.result()  # type: ignore[attr-defined]
    assert order == ["now", "later"]


def test_who_is_told_of_an_outcome_finds_the_line_free() -> None:
    line, go, told, found = Line(), threading.Event(), threading.Event(), list[str | None]()

    def tell(_: object) -> None:
        found.append(line.now(lambda: "at once"))
        told.set()

    first = line.put(go.wait)
    first.add_done_callback(tell)
    go.set()
    assert told.wait(60)
    assert found == ["at once"]


def test_what_was_told_is_not_kept_while_the_next_call_is_made() -> None:
    line, go, made = Line(), threading.Event(), list[weakref.ref[set[str]]]()

    def work() -> set[str]:
        go.wait()
        result = {"much"}
        made.append(weakref.ref(result))
        return result

    first, second = line.put(work), line.put(lambda: [one() for one in made])
    del first
    go.set()
    assert second.result(60) == [None]


def test_a_call_made_at_once_that_fails_leaves_the_line_to_the_next() -> None:
    line = Line()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        line.now(fails)
    assert line.put(lambda: 1).result() == 1
    assert line.now(lambda: 2) == 2


def test_a_thread_that_comes_late_waits_for_a_call_that_is_made_at_once() -> None:
    line, order = Line(), list[str]()
    late = threading.Thread(target=line._work_off)

    def work() -> object:
        later = line.put(lambda: order.append("later"))
        late.start()
        late.join(0.01)
        order.append("now")
        return later

    later = line.now(work)
    late.join(60)

    assert later is not None
    later.result(60)  # type: ignore[attr-defined]
    assert order == ["now", "later"]
