"""The line: each call of a session begins when the one before it has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from rightful import limits
from rightful.integrations.openai_agents import call_queue as lines
from rightful.integrations.openai_agents.call_queue import CallQueue, wait_unless_cancelled, wait_until_done

WAIT_S = 5


def test_a_call_is_made_at_once_where_none_is_before_it() -> None:
    line, here = CallQueue(), threading.current_thread()

    assert line.now(threading.current_thread) is here
    assert line.put(threading.current_thread).result() is not here
    assert line.now(threading.current_thread) is here


def test_no_call_is_made_at_once_while_another_is_at_work() -> None:
    line, begun, go = CallQueue(), threading.Event(), threading.Event()

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
    line, order = CallQueue(), list[str]()

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
    line, go, told, found = CallQueue(), threading.Event(), threading.Event(), list[str | None]()

    def tell() -> None:
        found.append(line.now(lambda: "at once"))
        told.set()

    first = line.put(go.wait)
    first.add_callback(tell)
    go.set()
    assert told.wait(60)
    assert found == ["at once"]


def test_what_was_told_is_not_kept_while_the_next_call_is_made() -> None:
    line, go, made = CallQueue(), threading.Event(), list[weakref.ref[set[str]]]()

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
    line = CallQueue()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        line.now(fails)
    assert line.put(lambda: 1).result() == 1
    assert line.now(lambda: 2) == 2


def test_a_thread_that_comes_late_waits_for_a_call_that_is_made_at_once() -> None:
    line, order = CallQueue(), list[str]()
    late = threading.Thread(target=line._run_calls)

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


def test_a_call_that_is_withdrawn_before_it_begins_is_left_out_and_one_that_has_begun_is_made() -> None:
    line, begun, go, made = CallQueue(), threading.Event(), threading.Event(), list[str]()

    def work() -> str:
        begun.set()
        go.wait(60)
        made.append("first")
        return "first"

    first, second, third = line.put(work), line.put(lambda: made.append("second")), line.put(lambda: "third")
    assert begun.wait(60)
    first.withdraw()
    second.withdraw()
    go.set()

    assert (first.result(60), third.result(60), made) == ("first", "third", ["first"])
    with pytest.raises(asyncio.CancelledError):
        second.result(60)


def test_a_read_that_is_cancelled_before_it_begins_is_left_out() -> None:
    line, go, made = CallQueue(), threading.Event(), list[str]()

    async def play() -> None:
        line.put(lambda: go.wait(60))
        reading = asyncio.ensure_future(wait_unless_cancelled(line.put(lambda: made.append("read"))))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go.set()

    asyncio.run(play())
    line.put(lambda: None).result(60)
    assert made == []


def test_who_waits_for_an_outcome_gives_up_when_the_time_is_over_and_may_ask_again() -> None:
    line, go = CallQueue(), threading.Event()
    call = line.put(lambda: go.wait(60))

    with pytest.raises(TimeoutError):
        call.result(0.01)
    assert not call.is_done
    go.set()

    assert call.result(60) is True
    assert call.is_done
    assert call.result(0) is True


def test_what_is_to_be_told_of_a_call_that_has_an_outcome_is_told_at_once() -> None:
    call, told = CallQueue().put(lambda: 1), list[int]()
    call.result(60)
    call.add_callback(lambda: told.append(call.result()))
    assert told == [1]


def test_what_a_call_raised_is_raised_to_everyone_who_asks() -> None:
    call = CallQueue().put(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            call.result(60)


def test_sessions_one_after_the_other_share_one_thread_which_ends_with_the_interpreter() -> None:
    threads, seen = lines._Threads(), set[threading.Thread]()
    for _ in range(20):
        threads.start(lambda: seen.add(threading.current_thread()))
        while not threads._free:
            pass  # it says that it is free after the work
    threads.end()

    assert [thread.is_alive() for thread in seen] == [False]
    with pytest.raises(RuntimeError, match="the interpreter is shutting down"):
        threads.start(lambda: None)


def test_where_the_system_gives_no_more_threads_those_that_are_there_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the event loop of who calls would do it itself, and stand still meanwhile."""
    threads, go, done = lines._Threads(), threading.Event(), threading.Semaphore(0)
    made: list[int] = []

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def work() -> None:
        made.append(threading.get_ident())
        done.release()

    def first() -> None:
        go.wait(60)
        work()

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.start(work)
    threads.start(first)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        threads.start(work)
    go.set()
    assert all(done.acquire(timeout=60) for _ in range(2))
    threads.end()

    assert made == [threads._all[0].ident] * 2


LEFT = """
import atexit, threading
from rightful.integrations.openai_agents.call_queue import CallQueue

begun, go = threading.Event(), threading.Event()
CallQueue().put(lambda: (begun.set(), go.wait(60), print(sum(range(5_000_000)))))
begun.wait(60)
atexit.register(go.set)
"""


def test_what_was_begun_ends_before_the_interpreter_does() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12499997500000\n", "")


def test_who_cannot_be_told_of_an_outcome_keeps_no_other_waiting() -> None:
    line, go, told = CallQueue(), threading.Event(), threading.Event()

    def fails() -> None:
        raise OSError("a loop that cannot be woken")

    first = line.put(lambda: go.wait(60))
    first.add_callback(fails)
    first.add_callback(told.set)
    go.set()

    assert told.wait(60)
    assert line.put(lambda: 2).result(60) == 2


def test_so_many_threads_are_begun_at_most_and_what_is_more_waits_for_one() -> None:
    threads, go, more = lines._Threads(), threading.Event(), 3
    begun, ended = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        go.wait(60)
        ended.release()

    for _ in range(limits.SESSION_THREADS + more):
        threads.start(work)
    for _ in range(limits.SESSION_THREADS):
        assert begun.acquire(timeout=60)

    assert (len(threads._all), threads._free, threads._work.qsize()) == (limits.SESSION_THREADS, -more, more)
    go.set()
    for _ in range(limits.SESSION_THREADS + more):
        assert ended.acquire(timeout=60)
    threads.end()
    assert threads._free == limits.SESSION_THREADS


def test_who_was_cancelled_is_not_told_of_the_outcome() -> None:
    line, begun, go, errors = CallQueue(), threading.Event(), threading.Event(), list[dict[str, Any]]()

    def work() -> bool:
        begun.set()
        return go.wait(60)

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        first = line.put(work)
        assert begun.wait(60)
        reading = asyncio.ensure_future(wait_unless_cancelled(first))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go.set()
        await wait_until_done(first)
        await asyncio.sleep(0)

    asyncio.run(play())
    assert errors == []


def test_interrupted_put_leaves_no_call_of_another_thread_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other call relies on the thread that the interrupted call did not start."""
    line, others = CallQueue(), list[lines.Call[str]]()

    def interrupted() -> None:
        monkeypatch.undo()
        others.append(line.put(lambda: "other"))
        raise KeyboardInterrupt

    monkeypatch.setattr(line, "_start", interrupted)
    made = list[str]()
    with pytest.raises(KeyboardInterrupt):
        line.put(lambda: made.append("interrupted"))

    assert others[0].result(WAIT_S) == "other"
    assert line.put(lambda: "later").result(WAIT_S) == "later"
    assert made == []


def test_threads_end_after_the_start_of_one_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while `Thread.start` waits: the thread runs, and is in no list."""
    threads, start = lines._Threads(), threading.Thread.start
    done = threading.Semaphore(0)

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.undo()
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.start(lambda: None)
    threads.start(done.release)
    assert done.acquire(timeout=WAIT_S)

    end = threading.Thread(target=threads.end, daemon=True)
    end.start()
    end.join(WAIT_S)
    assert not end.is_alive()
