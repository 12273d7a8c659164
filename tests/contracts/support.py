"""What the recorder suites share: places that pickle, processes that speak through pipes, forks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from eventsourcing.dcb.api import DCBEvent

from rightful.storage.port import LedgerRecorder
from rightful.storage.recorder import LMDBRecorder

PATIENCE_S = 60
"""How long a test waits for what must come; only a broken program takes that long."""

SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Place:
    """Where a recorder stands; other processes open it too."""

    folder: Path
    kind: str

    def open(self) -> LedgerRecorder:
        return LMDBRecorder(self.folder, kind=self.kind, create=True)


def together(*works: Callable[[], object]) -> list[Any]:
    """Run the works in threads that begin at once; return their results or errors, in order."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(at: int) -> None:
        barrier.wait(PATIENCE_S)
        try:
            results[at] = works[at]()
        except BaseException as error:  # noqa: BLE001 - it is the result
            results[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    return results


class Other:
    """Another process, whose function gets a pipe to us as its first argument."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=work, args=(theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        assert self.pipe.poll(PATIENCE_S), "the other process says nothing"
        return self.pipe.recv()

    def tell(self, what: object) -> None:
        self.pipe.send(what)

    def end(self) -> None:
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None
        self.pipe.close()

    def kill(self) -> None:
        self.process.kill()
        self.end()


@contextmanager
def others(work: Callable[..., None], *args: Sequence[object]) -> Iterator[list[Other]]:
    """Run one process for each tuple of arguments, and see all of them end."""
    running = [Other(work, *each) for each in args]
    try:
        yield running
        for other in running:
            other.end()
    finally:
        for other in running:
            other.process.kill()


def in_fork(work: Callable[[], object]) -> Any:
    """Return what the work returns or raises in a forked child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is the result
            result = error
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def append_all(pipe: Connection, place: Place, events: list[list[DCBEvent]]) -> None:
    """Append each list when told to begin; say each position, then None."""
    recorder = place.open()
    pipe.send("ready")
    pipe.recv()
    for each in events:
        pipe.send(recorder.append(each))
    recorder.close()
    pipe.send(None)


def append_for_ever(pipe: Connection, place: Place, events: list[DCBEvent]) -> None:
    """Append without end, saying each position after it was acknowledged."""
    recorder = place.open()
    while True:
        pipe.send(recorder.append(events))
