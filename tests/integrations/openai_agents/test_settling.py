"""Calls keep their order, and whoever is cancelled is told only when the outcome is known."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.openai_agents.gated import Gate, lose_answers
from tests.integrations.openai_agents.providers import user

import rightful
from rightful import limits
from rightful.errors import OutcomeUnknownError, StorageError
from rightful.integrations.openai_agents import LedgerSession
from rightful.integrations.openai_agents.call_queue import CallQueue
from rightful.ledger import Ledger
from rightful.storage.recorder import LMDBRecorder

WRITES: dict[str, tuple[str, Callable[[LedgerSession], Awaitable[Any]], list[str]]] = {
    "add": ("extend", lambda session: session.add_items([user("b")]), ["a", "b"]),
    "pop": ("pop", lambda session: session.pop_item(), []),
    "clear": ("clear", lambda session: session.clear_session(), []),
    "fork": ("fork", lambda session: session.fork(session_id="branch"), ["a"]),
}


def texts(items: list[Any]) -> list[str]:
    return [item["content"] for item in items]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("write", list(WRITES))
def test_a_cancelled_write_ends_when_its_outcome_is_known(
    write: str, times: int, session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the event loop is free; afterwards it stands, whole, as if nobody had cancelled."""
    method, call, left = WRITES[write]

    async def play() -> None:
        await session.add_items([user("a")])
        gate = Gate(monkeypatch, session.ledger, method)
        task = asyncio.ensure_future(call(session))
        await gate.reached()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert session.ledger.log.head() == 2
        assert texts(await session.get_items()) == left

    asyncio.run(play())


def test_a_cancelled_write_that_fails_is_a_cancellation_all_the_same(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise StorageError("the disk is full")

    async def play() -> None:
        monkeypatch.setattr(session.ledger.histories(), "extend", fails)
        gate = Gate(monkeypatch, session.ledger, "extend")
        task = asyncio.ensure_future(session.add_items([user("a")]))
        await gate.reached()
        task.cancel()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StorageError, match="the disk is full"):
            await session.add_items([user("a")])

    asyncio.run(play())


def test_write_cancelled_while_queued_is_still_made_in_order(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        gate = Gate(monkeypatch, session.ledger, "extend")
        first = asyncio.ensure_future(session.add_items([user("a")]))
        await gate.reached()
        second = asyncio.ensure_future(session.add_items([user("b")]))
        await asyncio.sleep(0)
        second.cancel()
        gate.open.set()
        await first
        with pytest.raises(asyncio.CancelledError):
            await second
        assert texts(await session.get_items()) == ["a", "b"]

    asyncio.run(play())


def test_loop_closed_before_the_outcome_does_not_block_the_next_call(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for the first call any more; it is made all the same, without a complaint, and the next one too."""
    gate = Gate(monkeypatch, session.ledger, "extend")
    loop = asyncio.new_event_loop()
    task = loop.create_task(session.add_items([user("a")]))
    loop.run_until_complete(gate.reached())
    loop.close()
    gate.open.set()

    asyncio.run(session.add_items([user("b")]))
    assert texts(asyncio.run(session.get_items())) == ["a", "b"]
    assert not [record for record in caplog.records if "callback" in record.getMessage()]
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it never ends, as it should


def test_a_cancelled_read_is_over_at_once_and_blocks_nothing(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        gate = Gate(monkeypatch, session.ledger, "extend")
        adding = asyncio.ensure_future(session.add_items([user("a")]))
        await gate.reached()
        reading = asyncio.ensure_future(session.get_items())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not adding.done()
        gate.open.set()
        await adding

        assert texts(await session.get_items()) == ["a"]

    asyncio.run(play())


def test_calls_made_at_once_keep_their_order(session: LedgerSession) -> None:
    async def play() -> None:
        calls = [session.add_items([user(str(at))]) for at in range(20)]
        await asyncio.gather(*calls)

        assert texts(await session.get_items()) == [str(at) for at in range(20)]

    asyncio.run(play())


def test_event_loops_and_threads_share_a_session_and_sessions_a_ledger(ledger: Ledger) -> None:
    shared = LedgerSession("chat", ledger)
    begin = threading.Barrier(4)

    def one_loop(who: int) -> None:
        async def play() -> None:
            session = shared if who % 2 else LedgerSession("chat", ledger)
            for at in range(5):
                await session.add_items([user(f"{who}-{at}")])

        begin.wait(60)
        asyncio.run(play())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one_loop, range(4)))
    found = texts(asyncio.run(shared.get_items()))

    assert sorted(found) == [f"{who}-{at}" for who in range(4) for at in range(5)]
    for who in range(4):
        assert [text for text in found if text.startswith(str(who))] == [f"{who}-{at}" for at in range(5)]


def test_a_session_closes_its_ledger_after_what_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = LedgerSession("chat", tmp_path / "ledger")
    reached, order = threading.Event(), []
    histories = session.ledger.histories()
    extend, close, put = histories.extend, session.ledger.close, session._queue.put

    def told(what: str, real: Callable[..., Any], *args: Any) -> Any:
        done = real(*args)
        order.append(what)
        reached.set()
        return done

    async def play() -> None:
        monkeypatch.setattr(
            histories, "extend", lambda *args, **options: told("added", partial(extend, **options), *args)
        )
        monkeypatch.setattr(session.ledger, "close", lambda: told("closed", close))
        gate = Gate(monkeypatch, session.ledger, "extend")
        adding = asyncio.ensure_future(session.add_items([user("a")]))
        await gate.reached()
        monkeypatch.setattr(session._queue, "put", lambda work: told("asked", put, work))
        closing = asyncio.ensure_future(session.aclose())
        assert await asyncio.to_thread(reached.wait, 60)
        gate.open.set()
        await asyncio.gather(adding, closing)

    asyncio.run(play())
    assert order == ["asked", "added", "closed"]


def test_a_line_goes_on_after_a_call_that_failed() -> None:
    line = CallQueue()
    bad, good = line.put(lambda: 1 // 0), line.put(lambda: "next")

    assert good.result(60) == "next"
    with pytest.raises(ZeroDivisionError):
        bad.result(60)


def test_sessions_up_to_the_thread_limit_wait_at_once_and_the_next_later() -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def wait() -> bool:
        begun.release()
        return go.wait(60)

    waiting = [CallQueue().put(wait) for _ in range(limits.SESSION_THREADS)]
    assert all(begun.acquire(timeout=60) for _ in waiting)
    late = CallQueue().put(lambda: "late")
    assert not late.is_done
    go.set()

    assert [one.result(60) for one in waiting] == [True] * limits.SESSION_THREADS
    assert late.result(60) == "late"


def test_a_session_writes_without_the_thread_that_writes_for_others(session: LedgerSession) -> None:
    recorder = session.ledger.log.recorder
    assert isinstance(recorder, LMDBRecorder)
    assert recorder._store is not None
    assert recorder._store.writer is not None

    asyncio.run(session.add_items([user("a")]))
    assert recorder._store.writer._thread is None
    session.ledger.extend(session.name, [user("b")])
    assert recorder._store.writer._thread is not None


def test_append_with_a_lost_answer_is_repeated_and_stored_once(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, session.ledger, times=2)

    asyncio.run(session.add_items([user("a")]))

    assert texts(asyncio.run(session.get_items())) == ["a"]


@pytest.mark.parametrize("then", ["a", "b"])
def test_an_append_that_stays_unknown_can_be_sent_again_or_left(
    then: str, session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, session.ledger, times=3)
    with pytest.raises(OutcomeUnknownError):
        asyncio.run(session.add_items([user("a")]))

    asyncio.run(session.add_items([user(then)]))

    assert texts(asyncio.run(session.get_items())) == sorted({"a", then})


def test_a_pop_that_stays_unknown_is_settled_by_calling_it_again(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(session.add_items([user("a"), user("b")]))
    lose_answers(monkeypatch, session.ledger, times=3)
    with pytest.raises(OutcomeUnknownError):
        asyncio.run(session.pop_item())

    assert asyncio.run(session.pop_item()) == user("b")
    assert texts(asyncio.run(session.get_items())) == ["a"]


FORKED = """
import asyncio, os, sys
from rightful.integrations.openai_agents import LedgerSession

def add(text):
    async def play():
        async with LedgerSession("chat", sys.argv[1]) as session:
            await session.add_items([{"role": "user", "content": text}])
            return [item["content"] for item in await session.get_items()]
    return asyncio.run(play())

add("parent")
if child := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert add("again") == ["parent", "child", "again"]
else:
    os._exit(0 if add("child") == ["parent", "child"] else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_the_child_of_a_fork_has_threads_of_its_own(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "ledger")]

    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")


AT_EXIT = """
import asyncio, atexit, sys
from rightful.integrations.openai_agents import LedgerSession

session = LedgerSession("chat", sys.argv[1])
add = lambda text: asyncio.run(session.add_items([{"role": "user", "content": text}]))
add("a")
atexit.register(session.close)
atexit.register(add, "b")
"""


def test_a_session_can_be_used_and_closed_when_the_interpreter_ends(tmp_path: Path) -> None:
    """No thread is begun any more by then."""
    words = [sys.executable, "-c", AT_EXIT, str(tmp_path / "ledger")]

    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    with rightful.open(tmp_path / "ledger", readonly=True) as ledger:
        assert texts(ledger.history("openai-agents:chat").items) == ["a", "b"]


def test_thread_that_starts_despite_an_error_works_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    line, done, threads = CallQueue(), [], []

    def start(work: Callable[[], None]) -> None:
        threads.append(threading.Thread(target=work))
        raise RuntimeError("can't start new thread")

    def first() -> None:
        threads[0].start()
        line.put(lambda: done.append("second"))
        threads[0].join(0.01)
        done.append("first")

    monkeypatch.setattr("rightful.integrations.openai_agents.call_queue._threads.start", start)
    line.put(first).result(60)
    threads[0].join(60)

    assert done == ["first", "second"]


UNCLOSED = """
import asyncio, json, sys
from rightful.integrations.openai_agents import LedgerSession

for module in (json, asyncio, sys):
    module.kept = LedgerSession("chat", sys.argv[1])
    asyncio.run(module.kept.add_items([{"role": "user", "content": module.__name__}]))
"""


def test_unclosed_sessions_end_silently_with_the_interpreter(tmp_path: Path) -> None:
    """Their modules may be gone before them."""
    words = [sys.executable, "-c", UNCLOSED, str(tmp_path / "ledger")]

    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    with rightful.open(tmp_path / "ledger", readonly=True) as ledger:
        assert texts(ledger.history("openai-agents:chat").items) == ["json", "asyncio", "sys"]


BUSY_FORK = """
import asyncio, os, sys, threading
from rightful.errors import ForkedError
from rightful.integrations.openai_agents import LedgerSession

session = LedgerSession("chat", sys.argv[1])
entered, go = threading.Event(), threading.Event()
busy = session._queue.put(lambda: (entered.set(), go.wait()))
entered.wait()
if child := os.fork():
    go.set()
    busy.result()
    session.close()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    asyncio.run(session.get_items())
except ForkedError:
    session.close()
    os._exit(0)
os._exit(1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_session_that_was_at_work_in_the_parent_keeps_no_child_waiting(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", BUSY_FORK, str(tmp_path / "ledger")]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
