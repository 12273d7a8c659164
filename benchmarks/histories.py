"""Histories beside the Agents SDK's SQLiteSession: appending by one process and by several, reading, size."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.conversations import WAYS, Item, Work, disk_bytes, fill, items, place, read, session
from benchmarks.harness import ROOT, Pair, Result, Setting, environment, in_turn, start, watch

import rightful

Crew = Sequence[subprocess.Popen[str]]
"""Processes that append as they are told."""

PEER = "the SDK's SQLiteSession"
NAME = "bench"
SECONDS = 0.75
"""How long the processes of one turn append: some hundred calls of the slowest, more than a thousand of most."""

LONG, CALL = 10_000, 10
"""Items of a long history, and of each call that made it."""

TAIL = 50
KEPT = 100
"""Items that a compaction leaves as they are; what it puts for the others is one item."""


# -- appending ---------------------------------------------------------------------------------


def append(setting: Setting) -> Iterator[Result]:
    """Appending of 1 and of 10 items a call, by 1, 2 and 8 processes, to one session and to one each."""
    if setting.quick:  # each process imports the SDK, which takes seconds
        turns = [(1, 1, False), (10, 2, False)]
    else:
        turns = [one for one in product((1, 10), (1, 2, 8), (False, True)) if one[1:] != (1, True)]
    with crew(max(processes for _, processes, _ in turns)) as workers:
        for size, processes, own in turns:
            yield _append(setting, size, workers[:processes], own=own)


def _append(setting: Setting, size: int, workers: Crew, *, own: bool) -> Result:
    runs = {way: Race(setting.folder, way, size, workers, own=own) for way in WAYS}
    seconds = 0.1 if setting.quick else SECONDS
    ours, peer = (partial(runs[way].rate, seconds) for way in WAYS)
    pairs = in_turn(ours, peer, setting.pairs, setting.warm)
    p99 = [round(median(runs[way].p99_ms[-setting.pairs :]), 3) for way in WAYS]
    return Result(
        f"history-append-{size}-by-{len(workers)}{'-own' if own else ''}",
        PEER,
        "calls/s",
        1,
        size,
        pairs,
        ok=p99[0] <= p99[1],
        detail={"p99_ms": p99, "worst_ms": [round(max(runs[way].worst_ms), 1) for way in WAYS]},
    )


@contextmanager
def crew(count: int) -> Iterator[Crew]:
    """Start processes that append when they are told to; all turns use the same, since each imports the SDK."""
    workers = [start("converse") for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.communicate()  # nothing more to do, so it ends


class Race:
    """Processes that append to one store at once, each as fast as it can; each turn has a new store.

    Attributes:
        p99_ms: Of each turn, how long 99 of 100 calls took at most.
        worst_ms: Of each turn, how long the slowest call took.
    """

    def __init__(self, folder: Path, way: str, size: int, workers: Crew, *, own: bool) -> None:
        self._folder = folder / f"race-{size}-{len(workers)}-{own}"
        self._way, self._size, self._workers = way, size, workers
        self._names = [f"{NAME}-{number}" if own else NAME for number in range(len(workers))]
        self.p99_ms: list[float] = []
        self.worst_ms: list[float] = []

    def rate(self, seconds: float) -> float:
        """Return the calls a second of all processes together."""
        path = place(self._folder, self._way)
        session(self._way, path, NAME).close()  # the peer's first openers race for its tables
        waits = self._waits(path, seconds)
        asyncio.run(self._check(path, [len(mine) for mine in waits]))
        shutil.rmtree(path.parent)
        ordered = sorted(wait for mine in waits for wait in mine)
        self.p99_ms.append(ordered[int(0.99 * len(ordered))] * 1e3)
        self.worst_ms.append(ordered[-1] * 1e3)
        return len(ordered) / seconds

    def _waits(self, path: Path, seconds: float) -> list[list[float]]:
        works = [Work(self._way, str(path), name, at, self._size, seconds) for at, name in enumerate(self._names)]
        for worker, work in zip(self._workers, works, strict=True):
            _tell(worker, json.dumps(work))
        assert [_said(worker) for worker in self._workers] == ["ready"] * len(works)
        for worker in self._workers:
            _tell(worker, "go")
        return [json.loads(_said(worker)) for worker in self._workers]

    async def _check(self, path: Path, calls: list[int]) -> None:
        """All that was acknowledged is there, once, and of each process in its order."""
        shown = [one for name in dict.fromkeys(self._names) for one in await read(self._way, path, name)]
        for writer, count in enumerate(calls):
            mine = [one for one in shown if one["content"].startswith(f"{writer:02} ")]
            assert mine == [one for call in range(count + 1) for one in items(writer, call, self._size)]
        assert len(shown) == self._size * (sum(calls) + len(calls))


def _tell(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(f"{line}\n")
    worker.stdin.flush()


def _said(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().rstrip("\n")


# -- reading -----------------------------------------------------------------------------------


def reads(setting: Setting) -> Iterator[Result]:
    """Reading all and the last of a long history, in a process that reads it again and again; then compacted."""
    count = setting.events(LONG, 400)
    both, put = _filled(setting.folder, count)
    yield _size("history-size", count, both)
    yield from _cold(setting, both, count)
    yield _read(setting, "history-read-all", both, None, 3, put)
    yield _read(setting, f"history-read-{TAIL}", both, TAIL, 2, put[-TAIL:])
    left = compact(both, put)
    yield _size("history-size-compacted", count, both)
    yield _read(setting, "history-read-all-compacted", both, None, 1, left)
    yield _read(setting, f"history-read-{TAIL}-compacted", both, TAIL, 2, left[-TAIL:])
    yield from _after_appends(setting, count)


def _filled(folder: Path, count: int) -> tuple[dict[str, Path], list[Item]]:
    """Return where both stores are, with one long history, and its items."""
    both = {way: place(folder, way) for way in WAYS}
    ours, peer = (asyncio.run(fill(way, path, NAME, count // CALL, CALL)) for way, path in both.items())
    assert ours == peer
    return both, ours


def _after_appends(setting: Setting, count: int) -> Iterator[Result]:
    """Reading when something was appended since the last read, as between two runs of an agent."""
    both, put = _filled(setting.folder / "growing", count)
    sides = [(session(way, path, NAME), put.copy()) for way, path in both.items()]
    for bench, limit, budget in (("all", None, 3), (str(TAIL), TAIL, 2)):
        calls = 2 if setting.quick else 10 if limit is None else 200
        ours, peer = (partial(_milliseconds_after, *side, limit, calls) for side in sides)
        pairs = in_turn(ours, peer, setting.pairs)
        yield Result(f"history-read-{bench}-appended", PEER, "ms", budget, limit or count, pairs, inverse=True)
    for one, _ in sides:
        one.close()


def _milliseconds_after(one: Any, put: list[Item], limit: int | None, calls: int) -> float:  # noqa: ANN401 - a session
    return asyncio.run(_append_and_read(one, put, limit, calls))


async def _append_and_read(one: Any, put: list[Item], limit: int | None, calls: int) -> float:  # noqa: ANN401 - a session
    """Return the milliseconds of one read; before each, an item is appended, whose time does not count.

    Args:
        one: The session.
        put: What it has; what is appended is put behind it.
        limit: How many to read; all if None.
        calls: How many reads.
    """
    seconds = 0.0
    for _ in range(calls):
        put += items(1, len(put), 1)
        await one.add_items(put[-1:])
        with watch() as taken:
            found = await one.get_items(limit)
        seconds += taken.seconds
        assert found == put[-(limit or 0) :]
    return seconds / calls * 1e3


def _read(setting: Setting, bench: str, both: dict[str, Path], limit: int | None, budget: float, want: Any) -> Result:  # noqa: ANN401 - items
    calls = 2 if setting.quick else 10 if limit is None and len(want) >= LONG else 200
    sessions = [session(way, path, NAME) for way, path in both.items()]
    ours, peer = (partial(_milliseconds, one, limit, calls, want) for one in sessions)
    pairs = in_turn(ours, peer, setting.pairs)
    for one in sessions:
        one.close()
    return Result(bench, PEER, "ms", budget, len(want), pairs, inverse=True)


def _milliseconds(one: Any, limit: int | None, calls: int, want: list[Item]) -> float:  # noqa: ANN401 - a session
    return asyncio.run(_read_often(one, limit, calls, want))


async def _read_often(one: Any, limit: int | None, calls: int, want: list[Item]) -> float:  # noqa: ANN401 - a session
    """Return the milliseconds of one read. What was read last is kept until the next is there, as in a program."""
    found: list[Item] = []
    with watch() as taken:
        for _ in range(calls):
            found = await one.get_items(limit)
    assert found == want
    return taken.seconds / calls * 1e3


def compact(both: dict[str, Path], all_items: list[Item]) -> list[Item]:
    """Compact both histories to one item for most of it and the last ones; return what is left.

    Ours by one event that deletes nothing; the peer's as the SDK's own wrapper does it: clear, then add.
    """
    summary: Item = {"type": "compaction", "encrypted_content": "y" * 2_000}
    left = [summary, *all_items[-KEPT:]]
    name = f"openai-agents:{NAME}"
    with rightful.open(both["ledger"]) as ledger:
        found = ledger.history(name)
        ledger.compact(found.token, [summary], found.ids[:-KEPT])

    async def replace() -> None:
        one = session("sqlite", both["sqlite"], NAME)
        await one.clear_session()
        await one.add_items(left)
        one.close()

    asyncio.run(replace())
    for way, path in both.items():
        assert asyncio.run(read(way, path, NAME)) == left
    return left


# -- start and size ----------------------------------------------------------------------------


def _size(bench: str, count: int, both: dict[str, Path]) -> Result:
    mega = [disk_bytes(path) / 1e6 for path in both.values()]
    return Result(bench, PEER, "MB", 5, count, [Pair(*mega)], at_most=True)


def _cold(setting: Setting, both: dict[str, Path], count: int) -> Iterator[Result]:
    """A new process up to its first answer: all of it, and what it does once its imports are done."""
    told: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}

    def whole(way: str) -> float:
        words = [sys.executable, "-m", "benchmarks.worker", "start-up", way, str(both[way]), NAME]
        with watch() as taken:
            done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environment(), check=True)
        told[way].append(json.loads(done.stdout))
        assert told[way][-1]["items"] == count
        return taken.seconds

    pairs = in_turn(partial(whole, WAYS[0]), partial(whole, WAYS[1]), setting.pairs, setting.warm)
    told = {way: ones[-setting.pairs :] for way, ones in told.items()}
    yield Result("history-cold-start", PEER, "s", 1.1, count, pairs, at_most=True, detail=_steps(told))
    firsts = [Pair(*(one["read_s"] * 1e3 for one in ones)) for ones in zip(*told.values(), strict=True)]
    yield Result("history-first-read", PEER, "ms", 1, count, firsts, inverse=True)


def _steps(told: dict[str, list[dict[str, Any]]]) -> dict[str, list[float]]:
    def mid(step: Callable[[dict[str, Any]], float], way: str) -> float:
        return round(median(step(one) for one in told[way]), 4)

    steps = ("import_s", "open_s", "read_s")
    return {step: [mid(lambda one, step=step: one[step], way) for way in WAYS] for step in steps}  # type: ignore[misc]
