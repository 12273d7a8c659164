"""Appending: durable commits of one event and of a thousand, from one writer and from sixteen."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from benchmarks.generator import Wire, events
from benchmarks.harness import Result, Setting, in_turn, start, watch
from benchmarks.stores import Twin, append, append_each

import rightful
from rightful.encoding.merkle import HASH_BYTES, Frontier
from rightful.ledger import Ledger
from rightful.storage import commit
from rightful.storage.tables import store_tables

WRITERS = 16
BATCH = 1_000
WORST_WAIT_S = 1.0


def one_event(setting: Setting) -> Iterator[Result]:
    """Durable append, one event a commit, beside bare puts of the same rows."""
    turn = setting.events(1_000, 50)
    wires = events(turn * (setting.pairs + 1))
    with Twin(setting.folder) as twin:
        pairs = in_turn(
            lambda: turn / append_each(twin.ledger, list(islice(wires, turn))),
            lambda: turn / twin.put_each(twin.news(1)),
            setting.pairs,
        )
        twin.check()
    yield Result("append-one", "bare puts of the same rows in the same tables", "events/s", 0.6, turn, pairs)


def batches(setting: Setting) -> Iterator[Result]:
    """Durable append, a thousand events a commit, beside bare putmulti of the same rows."""
    turn = setting.events(20_000, 2_000)
    wires = events(turn * (setting.pairs + 1))
    with Twin(setting.folder) as twin:
        pairs = in_turn(
            lambda: turn / append_batches(twin.ledger, list(islice(wires, turn))),
            lambda: turn / twin.put_many(twin.news(BATCH)),
            setting.pairs,
        )
        twin.check()
    yield Result("append-batches", "bare putmulti of the same rows, synced", "events/s", 0.25, turn, pairs)


def append_batches(ledger: Ledger, wires: Sequence[Wire]) -> float:
    """Append by thousands and return the seconds."""
    return sum(append(ledger, wires[at : at + BATCH]) for at in range(0, len(wires), BATCH))


def threads(setting: Setting) -> Iterator[Result]:
    """Sixteen threads that append one event a commit, beside one."""
    turn = setting.events(4_000, 160) // WRITERS * WRITERS
    wires = events(2 * turn * (setting.pairs + 1))
    with rightful.open(setting.folder / "ledger", create=True) as ledger:
        pairs = in_turn(
            lambda: turn / _together(ledger, list(islice(wires, turn))),
            lambda: turn / append_each(ledger, list(islice(wires, turn))),
            setting.pairs,
        )
        assert ledger.log.head() == 2 * turn * (setting.pairs + 1)
    yield Result("append-16-threads", "one writer", "events/s", 4, turn, pairs)


def _together(ledger: Ledger, wires: list[Wire]) -> float:
    gate = threading.Barrier(WRITERS + 1)

    def write(mine: list[Wire]) -> None:
        gate.wait()
        append_each(ledger, mine)

    workers = [threading.Thread(target=write, args=(wires[first::WRITERS],)) for first in range(WRITERS)]
    for worker in workers:
        worker.start()
    gate.wait()
    with watch() as taken:
        for worker in workers:
            worker.join()
    return taken.seconds


def processes(setting: Setting) -> Iterator[Result]:
    """Sixteen processes that append one event a commit, beside one; and the worst wait of all."""
    turn = setting.events(4_000, 160) // WRITERS * WRITERS
    path = setting.folder / "ledger"
    rightful.open(path, create=True).close()
    run = _Processes(path)
    pairs = in_turn(lambda: run.rate(WRITERS, turn), lambda: run.rate(1, turn), setting.pairs)
    with rightful.open(path) as ledger:
        assert ledger.log.head() == 2 * turn * (setting.pairs + 1)
    yield Result(
        "append-16-processes",
        "one writer",
        "events/s",
        0.9,
        turn,
        pairs,
        ok=run.worst_s <= WORST_WAIT_S,
        detail={"worst_wait_s": round(run.worst_s, 4), "worst_wait_budget": f"<= {WORST_WAIT_S:g} s"},
    )


class _Processes:
    """Runs writers and keeps the worst wait of those that had company."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.worst_s = 0.0
        self._seed = 0

    def rate(self, writers: int, turn: int) -> float:
        """Return events a second from the first begin to the last end."""
        workers = []
        for _ in range(writers):
            self._seed += 1
            workers.append(start("append", str(self.path), str(self._seed), str(turn // writers)))
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        answers = []
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            answers.append(json.loads(worker.communicate()[0]))
            assert worker.returncode == 0
        if writers > 1:
            self.worst_s = max(self.worst_s, *(answer["worst_s"] for answer in answers))
        seconds = max(answer["end"] for answer in answers) - min(answer["begin"] for answer in answers)
        return turn / float(seconds)


def tree(setting: Setting) -> Iterator[Result]:
    """Batches with the tree, beside batches without leaf hashes, frontier and root."""
    turn = setting.events(20_000, 2_000)
    wires = events(2 * turn * (setting.pairs + 1))
    with (
        rightful.open(setting.folder / "with", create=True) as whole,
        rightful.open(setting.folder / "without", create=True) as bare,
    ):

        def without() -> float:
            with no_tree():
                return append_batches(bare, list(islice(wires, turn))) / turn * 1e6

        pairs = in_turn(lambda: append_batches(whole, list(islice(wires, turn))) / turn * 1e6, without, setting.pairs)
        assert whole.log.head() == bare.log.head() == turn * (setting.pairs + 1)
    yield Result("tree", "the same without leaf hashes, frontier and root", "us/event", 1.2, turn, pairs, at_most=True)


@contextmanager
def no_tree() -> Iterator[None]:
    """Append without a tree: rows get no leaf hash, and only the size is kept."""

    def grow(frontier: Frontier, leaves: list[bytes]) -> None:
        frontier.size += len(leaves)

    def no_hash(_: bytes) -> SimpleNamespace:
        return blank  # a mock would cost more than the hash does

    blank = SimpleNamespace(digest=lambda: bytes(HASH_BYTES))
    with (
        mock.patch.object(commit, "sha256", no_hash),
        mock.patch.object(Frontier, "extend", grow),
        mock.patch.object(Frontier, "root", return_value=bytes(HASH_BYTES)),
        mock.patch.object(store_tables.Tables, "checked", lambda _, __, value: value[HASH_BYTES:]),
    ):
        yield
