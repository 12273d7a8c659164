"""No exception at any line of a read, an append or a journal emptying leaves state half noted or a lock taken."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.base import event, tagged
from tests.contracts.support import Other
from tests.faults.interrupting import each_line
from tests.storage.turns import served

from rightful import limits
from rightful.encoding.merkle import LEAF, Frontier
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.row_codec import PlainCodec

WAIT_S = 5
NEWEST, ALL_EVERY = 3, 20
MEMORY = Path("/dev/shm")


def _live(pipe: Connection, folder: Path) -> None:
    """Write and read the store in a process of its own, as it is told."""
    with LMDBRecorder(folder, kind="plain") as recorder:
        eye = Eye(recorder)
        while (told := pipe.recv()) is not None:
            events, limits.JOURNAL_COMMIT_BYTES = told
            if events:
                recorder.append(events)
            pipe.send(eye.look())


class Neighbour:
    """Another process that has the store open all the time."""

    def __init__(self, folder: Path) -> None:
        self._other = Other(_live, folder)

    def append(self, *events: DCBEvent, into_tables: bool = False) -> Any:
        """Append events and return what it sees then; into the tables, so that the journal is empty, or at its end."""
        self._other.tell((list(events), 0 if into_tables else limits.JOURNAL_COMMIT_BYTES))
        return self._other.hear()

    def end(self) -> None:
        self._other.tell(None)
        self._other.end()


class Eye:
    """What a store shows: the data of its rows, and where the tags of the last ones lead.

    The root is compared with the rows. Those that were seen before are read again now and then.
    """

    def __init__(self, recorder: LMDBRecorder) -> None:
        self.recorder = recorder
        self._data: list[bytes] = []
        self._frontier = Frontier()
        self._looks = 0

    def look(self) -> Any:
        self._looks += 1
        if self._looks % ALL_EVERY == 0:
            self._data, self._frontier = [], Frontier()
        while rows := self.recorder.rows(len(self._data)):
            self._data += [PlainCodec().unpack(row.envelope, None).data for row in rows]
            self._frontier.extend([sha256(LEAF + row.envelope).digest() for row in rows])
        assert self.recorder.tree_head() == (self._frontier.size, self._frontier.root()), "the root is not of the rows"
        newest = [f"tag-{data.decode()}" for data in self._data[-NEWEST:]]
        return list(self._data), [[each.position for each in self.recorder.read(tagged(tag))] for tag in newest]


class Written:
    """What is in a store by all that was acknowledged, and what may be besides."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.next = 0

    def new(self) -> DCBEvent:
        self.next += 1
        return event(f"{self.next}", tags=(f"tag-{self.next}", "all"))

    def check(self, seen: Any, may: list[DCBEvent], place: object) -> None:
        data, found = seen
        more = data[len(self.data) :]
        assert data[: len(self.data)] == self.data, place
        assert more in ([], [each.data for each in may]), place
        assert found == [[position] for position in range(1, len(data) + 1)][-NEWEST:], place
        self.data = data


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """Return a store in memory, where there is such a place: no power is cut here, and there are many syncs."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        LMDBRecorder(Path(folder) / "s", kind="plain", create=True).close()
        yield Path(folder) / "s"


@pytest.fixture
def neighbour(store: Path) -> Iterator[Neighbour]:
    neighbour = Neighbour(store)
    yield neighbour
    neighbour.end()


@pytest.mark.parametrize("error", [KeyboardInterrupt])
@pytest.mark.parametrize("into_tables", [False, True], ids=["journal", "tables"])
@pytest.mark.parametrize("reading", ["read", "tagged", "head"])
def test_read(
    store: Path, neighbour: Neighbour, error: type[BaseException], reading: str, *, into_tables: bool
) -> None:
    """Of what another process has just written at the journal's end, or into the tables."""
    written = Written()
    reads: dict[str, Callable[[int], object]] = {
        "read": lambda last: list(recorder.read(after=last)),
        "tagged": lambda _: list(recorder.read(tagged(f"tag-{written.next}"))),
        "head": lambda last: (recorder.tree_head(), recorder.rows(last), recorder.wait_beyond(0)),
    }
    with LMDBRecorder(store, kind="plain") as recorder:
        eye = Eye(recorder)
        for interruption in each_line(error, room="storage"):
            last, event = len(written.data), written.new()
            theirs = neighbour.append(event, into_tables=into_tables)
            interruption.run(partial(reads[reading], last))
            seen = eye.look()
            written.check(seen, [event], interruption.place)
            assert seen == theirs, interruption.place
            appended(recorder, eye, written, interruption.place)


def appended(recorder: LMDBRecorder, eye: Eye, written: Written, place: object) -> None:
    """See that an append succeeds."""
    event = written.new()
    assert recorder.decide(lambda _: [event], timeout_s=WAIT_S) == len(written.data) + 1, place
    written.check(eye.look(), [event], place)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("emptying", [False, True], ids=["journal", "emptying"])
@pytest.mark.parametrize("where", ["caller", "writer", "served"])
def test_append(
    store: Path,
    neighbour: Neighbour,
    error: type[BaseException],
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    emptying: bool,
) -> None:
    """At the journal's end, or with all that the journal has into the tables; by each thread that takes part."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # a thread that is ended so need not say it
    written, eye = Written(), None
    for interruption in each_line(error, room="storage", here=where == "caller"):
        with interruption.watching(), LMDBRecorder(store, kind="plain") as recorder, monkeypatch.context() as patch:
            eye = eye or Eye(recorder)
            eye.recorder = recorder
            appended(recorder, eye, written, "before")
            if emptying:
                patch.setattr(limits, "JOURNAL_ROWS", 1)
            event = written.new()

            def append(event: DCBEvent = event, recorder: LMDBRecorder = recorder) -> int:
                return recorder.decide(lambda _: [event], timeout_s=WAIT_S, inline=where == "served")

            eye.look()
            before = len(written.data)
            said = interruption.run((lambda: served(append)) if where == "served" else append)
            recorder.decide(lambda _: [], timeout_s=WAIT_S)  # an interrupted caller may have left its own in the queue
            written.check(eye.look(), [event], interruption.place)
            if isinstance(said, int):
                assert said == len(written.data) == before + 1, interruption.place
            else:
                assert interruption.place, said
            appended(recorder, eye, written, interruption.place)
            theirs = written.new()
            written.check(neighbour.append(theirs, into_tables=True), [theirs], interruption.place)
            assert eye.look()[0] == written.data, interruption.place
