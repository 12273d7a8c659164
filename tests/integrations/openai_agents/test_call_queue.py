"""The call queue: each call of a session begins when the call before it has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from rightful import limits
from rightful.integrations.openai_agents import call_queue
from rightful.integrations.openai_agents.call_queue import CallQueue, wait_unless_cancelled, wait_until_done

WAIT_S = 5


def test_call_on_an_empty_queue_is_made_at_once() -> None:
    queue, here = CallQueue(), threading.current_thread()

    assert queue.now(threading.current_thread) is here
    assert queue.put(threading.current_thread).result() is not here
    assert queue.now(threading.current_thread) is here


def test_no_call_is_made_at_once_while_another_is_in_progress() -> None:
    queue, begun, go = CallQueue(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go.wait()
        return "first"

    first = queue.put(work)
    begun.wait()
    assert queue.now(lambda: "second") is None
    go.set()
    assert first.result() == "first"


def test_later_calls_wait_for_a_call_that_is_made_at_once() -> None:
    queue, order = CallQueue(), list[str]()

    def work() -> object:
        later = queue.put(lambda: order.append("later"))
        assert queue.now(lambda: "inside") is None
        order.append("now")
        return later

    later = queue.now(work)

    assert later is not None
    later.result()  # type: ignore[attr-defined]
    assert order == ["now", "later"]


def test_callback_finds_the_queue_free() -> None:
    queue, go, called, found = CallQueue(), threading.Event(), threading.Event(), list[str | None]()

    def note() -> None:
        found.append(queue.now(lambda: "at once"))
        called.set()

    first = queue.put(go.wait)
    first.add_callback(note)
    go.set()
    assert called.wait(60)
    assert found == ["at once"]


def test_result_is_released_before_the_next_call_is_made() -> None:
    queue, go, made = CallQueue(), threading.Event(), list[weakref.ref[set[str]]]()

    def work() -> set[str]:
        go.wait()
        result = {"much"}
        made.append(weakref.ref(result))
        return result

    first, second = queue.put(work), queue.put(lambda: [reference() for reference in made])
    del first
    go.set()
    assert second.result(60) == [None]


def test_failing_call_made_at_once_does_not_block_the_next() -> None:
    queue = CallQueue()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        queue.now(fails)
    assert queue.put(lambda: 1).result() == 1
    assert queue.now(lambda: 2) == 2


def test_late_thread_waits_for_a_call_that_is_made_at_once() -> None:
    queue, order = CallQueue(), list[str]()
    late = threading.Thread(target=queue._run_calls)

    def work() -> object:
        later = queue.put(lambda: order.append("later"))
        late.start()
        late.join(0.01)
        order.append("now")
        return later

    later = queue.now(work)
    late.join(60)

    assert later is not None
    later.result(60)  # type: ignore[attr-defined]
    assert order == ["now", "later"]


def test_withdrawn_call_is_skipped_unless_it_has_begun() -> None:
    queue, begun, go, made = CallQueue(), threading.Event(), threading.Event(), list[str]()

    def work() -> str:
        begun.set()
        go.wait(60)
        made.append("first")
        return "first"

    first, second, third = queue.put(work), queue.put(lambda: made.append("second")), queue.put(lambda: "third")
    assert begun.wait(60)
    first.withdraw()
    second.withdraw()
    go.set()

    assert (first.result(60), third.result(60), made) == ("first", "third", ["first"])
    with pytest.raises(asyncio.CancelledError):
        second.result(60)


def test_read_cancelled_before_it_begins_is_skipped() -> None:
    queue, go, made = CallQueue(), threading.Event(), list[str]()

    async def play() -> None:
        queue.put(lambda: go.wait(60))
        reading = asyncio.ensure_future(wait_unless_cancelled(queue.put(lambda: made.append("read"))))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go.set()

    asyncio.run(play())
    queue.put(lambda: None).result(60)
    assert made == []


def test_waiting_for_a_result_times_out_and_can_be_repeated() -> None:
    queue, go = CallQueue(), threading.Event()
    call = queue.put(lambda: go.wait(60))

    with pytest.raises(TimeoutError):
        call.result(0.01)
    assert not call.is_done
    go.set()

    assert call.result(60) is True
    assert call.is_done
    assert call.result(0) is True


def test_callback_of_a_finished_call_is_called_at_once() -> None:
    call, called = CallQueue().put(lambda: 1), list[int]()
    call.result(60)
    call.add_callback(lambda: called.append(call.result()))
    assert called == [1]


def test_exception_of_a_call_is_raised_to_each_caller() -> None:
    call = CallQueue().put(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            call.result(60)


def test_sequential_sessions_share_one_thread_that_ends_at_exit() -> None:
    threads, seen = call_queue._Threads(), set[threading.Thread]()
    for _ in range(20):
        threads.start(lambda: seen.add(threading.current_thread()))
        while not threads._free:
            pass  # it says that it is free after the work
    threads.end()

    assert [thread.is_alive() for thread in seen] == [False]
    with pytest.raises(RuntimeError, match="the interpreter is shutting down"):
        threads.start(lambda: None)


def test_existing_threads_do_the_work_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the caller's event loop would do the work itself, and block meanwhile."""
    threads, go, done = call_queue._Threads(), threading.Event(), threading.Semaphore(0)
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


def test_begun_calls_end_before_the_interpreter_exits() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12499997500000\n", "")


def test_failing_callback_does_not_block_other_callbacks() -> None:
    queue, go, called = CallQueue(), threading.Event(), threading.Event()

    def fails() -> None:
        raise OSError("a loop that cannot be woken")

    first = queue.put(lambda: go.wait(60))
    first.add_callback(fails)
    first.add_callback(called.set)
    go.set()

    assert called.wait(60)
    assert queue.put(lambda: 2).result(60) == 2


def test_thread_limit_makes_further_work_wait_for_a_thread() -> None:
    threads, go, more = call_queue._Threads(), threading.Event(), 3
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


def test_cancelled_caller_gets_no_second_outcome() -> None:
    queue, begun, go, errors = CallQueue(), threading.Event(), threading.Event(), list[dict[str, Any]]()

    def work() -> bool:
        begun.set()
        return go.wait(60)

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        first = queue.put(work)
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
    queue, others = CallQueue(), list[call_queue.Call[str]]()

    def interrupted() -> None:
        monkeypatch.undo()
        others.append(queue.put(lambda: "other"))
        raise KeyboardInterrupt

    monkeypatch.setattr(queue, "_start", interrupted)
    made = list[str]()
    with pytest.raises(KeyboardInterrupt):
        queue.put(lambda: made.append("interrupted"))

    assert others[0].result(WAIT_S) == "other"
    assert queue.put(lambda: "later").result(WAIT_S) == "later"
    assert made == []


def test_threads_end_after_the_start_of_one_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while `Thread.start` waits: the thread runs, and is in no list."""
    threads, start = call_queue._Threads(), threading.Thread.start
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
