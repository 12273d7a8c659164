"""Who looks at the journal while others write it sees what stands, wherever their steps fall between his reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.storage.journals import Disk

from rightful import limits
from rightful.storage.journal import journal as module
from rightful.storage.journal.journal import Journal
from rightful.storage.journal.journal_records import END_BYTES, START, TablesState
from rightful.storage.journal.journal_rows import StoredRow
from rightful.storage.tables.row_codec import PlainCodec

FILE_BYTES = START + 6_000
_pwrite = os.pwrite


class Turn(NamedTuple):
    """One commit of a process: how many rows of which size, and whether it dies at a step of it."""

    writer: int
    rows: int
    row_bytes: int
    large: bool
    cut: float  # how much of its record is written at first
    dies: bool
    synced: bool


class World:
    """A file, the tables, two processes that write in turns, and two that read. What stands is known here."""

    def __init__(self, folder: Path, turns: list[Turn], pauses: list[int], patch: pytest.MonkeyPatch) -> None:
        self.disk = Disk(folder / "journal", FILE_BYTES)
        self.stands: list[bytes] = []
        self.trees: dict[int, bytes] = {0: b""}
        self.fds: list[int] = []
        self.pending: list[tuple[int, bytes, int]] | None = None
        patch.setattr(module, "_write", self.write)
        patch.setattr(os, "fdatasync", lambda _: None)
        patch.setattr(limits, "JOURNAL_ROWS", 8)
        self.writers = [self.opened(), self.opened()]
        self.readers = [Reader(self, cycle(pauses or [0])) for _ in range(2)]
        self.steps = (step for turn in turns for step in self.turn(turn))

    def fd(self) -> int:
        self.fds.append(os.open(self.disk.path, os.O_RDWR))
        return self.fds[-1]

    @property
    def tabled(self) -> int:
        return self.disk.tables.size

    def opened(self) -> Journal:
        return Journal(self.disk.path.parent, self.fd(), PlainCodec(), self.disk.tabled, self.disk.key)

    def write(self, fd: int, data: bytes, at: int) -> None:
        if self.pending is None or at < START:
            _pwrite(fd, data, at)
        else:
            self.pending.append((fd, data, at))

    def turn(self, turn: Turn) -> Iterator[None]:
        """Do what the appender does, a step at a time."""
        journal = self.writers[turn.writer]
        journal.begin_turn()
        yield
        tail, last, _ = journal.read_state()
        head = max(last, self.tabled)
        assert head == len(self.stands), "a writer does not see all that stands"
        if head == self.tabled and (tail.rows or tail.start != head):
            journal.invalidate(head)
            journal.read_state()
        tail, rows = journal._tail, self.new_rows(turn)
        tail.grow(rows, [])
        yield
        if turn.large or not journal.has_room(rows):
            if journal.closing() is not None:
                journal.sync(journal.answered())
            self.stand(rows)
            tables = self.disk.take(journal, len(self.stands))
            yield
            if turn.dies:  # before it began the next round
                self.writers[turn.writer] = self.opened()
                return
            journal.emptied(tables)
        else:
            yield from self.written(journal, rows, turn)
        if turn.dies:
            self.writers[turn.writer] = self.opened()
        elif turn.synced:
            journal.sync(journal.answered())
        yield

    def written(self, journal: Journal, rows: list[StoredRow], turn: Turn) -> Iterator[None]:
        self.pending = []
        journal.write(rows, f"tree of {len(self.stands) + len(rows)}".encode())
        ((fd, data, at),) = self.pending  # the anchor of a round was written, and synced
        self.pending = None
        cut = int(len(data) * turn.cut)
        _pwrite(fd, data[:cut], at)
        record = data[:-END_BYTES]
        whole = os.pread(fd, len(record), at) == record  # what is missing may stand there since an earlier round
        if whole:
            self.stand(rows)
        yield
        if not whole and not turn.dies:
            _pwrite(fd, data[cut:], at + cut)
            self.stand(rows)

    def new_rows(self, turn: Turn) -> list[StoredRow]:
        first = len(self.stands) + 1
        words = (f"{at} {os.urandom(4).hex()} ".encode() for at in range(first, first + turn.rows))
        return [StoredRow(word.ljust(40 + turn.row_bytes, b"."), None) for word in words]

    def stand(self, rows: list[StoredRow]) -> None:
        self.stands += [row.value or b"" for row in rows]
        self.trees[len(self.stands)] = f"tree of {len(self.stands)}".encode()

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Reader(Journal):
    """A process that only reads, and stops before each of its reads for some steps of the others."""

    def __init__(self, world: World, pauses: Iterator[int]) -> None:
        self.world, self.pauses, self.saw = world, pauses, 0
        super().__init__(world.disk.path.parent, world.fd(), PlainCodec(), self.tables, world.disk.key)

    def pause(self) -> None:
        for _ in range(next(self.pauses)):
            next(self.world.steps, None)

    def tables(self) -> TablesState:
        self.pause()
        return self.world.disk.tables

    def _read(self, at: int, count: int) -> bytes:
        self.pause()
        return super()._read(at, count)

    def look(self) -> None:
        """Look as a moment does: first here, then at the tables."""
        world = self.world
        before = max(len(world.stands), self.saw)
        tail, last, tree = self.read_state()
        tabled = self.tables().size
        self.saw = max(last, tabled)
        assert before <= self.saw <= len(world.stands), "what was seen before is gone, or what is not there was seen"
        assert self.saw in world.trees, "half a commit was seen"
        rows = [tail.row(position).value for position in range(tabled + 1, last + 1)]
        assert rows == world.stands[tabled:last]
        assert last <= tabled or tree == world.trees[last]


_turns = st.builds(
    Turn,
    writer=st.integers(0, 1),
    rows=st.integers(1, 3),
    row_bytes=st.sampled_from([0, 0, 100, 700]),
    large=st.integers(0, 2).map(lambda drawn: drawn == 0),
    cut=st.floats(0, 1),
    dies=st.integers(0, 4).map(lambda drawn: drawn == 0),
    synced=st.booleans(),
)


@example(  # looked at its beginning before a new round began there, and read on after two records of that
    turns=[Turn(0, 1, 0, large=at < 4, cut=0.0, dies=at < 4, synced=False) for at in range(6)],
    pauses=[2, 4],
)
@example(  # nothing but the first two bytes of the first record were written
    turns=[Turn(0, 1, 0, large=False, cut=0.015625, dies=True, synced=False)],
    pauses=[],
)
@example(  # read when half of it is there, and judged when two later ones say that it was durable
    turns=[Turn(at % 2, 1, 0, large=False, cut=0.5, dies=False, synced=True) for at in range(4)],
    pauses=[0, 0, 3, 0, 5, 2, 6],
)
@given(turns=st.lists(_turns, max_size=32), pauses=st.lists(st.sampled_from([0, 0, 0, 1, 2, 4, 9]), max_size=24))
@settings(max_examples=examples(400), deadline=None)
def test_a_look_sees_what_stands_whatever_is_written_during_it(turns: list[Turn], pauses: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), turns, pauses, patch)
        try:
            for _ in range(12):
                for reader in world.readers:
                    reader.look()
            for _ in world.steps:
                pass
            world.readers.append(Reader(world, cycle([0])))
            for reader in world.readers:
                reader.look()
                assert reader.saw == len(world.stands)
        finally:
            world.close()
