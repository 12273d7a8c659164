"""Eight processes append, read, query and follow at once, and the journal begins anew after every few rows."""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.contracts.base import tagged
from tests.contracts.support import others
from tests.faults.support import event, filled, opened

from rightful import limits
from rightful.storage.recorder import LMDBRecorder

PROCESSES, APPENDS = 8, 12
ROWS = PROCESSES * sum(1 + number % 3 for number in range(APPENDS))


def rows_of(recorder: LMDBRecorder, after: int = 0) -> list[tuple[int, str]]:
    return [(each.position, each.event.data.decode()) for each in recorder.read(after=after)]


def follow(recorder: LMDBRecorder, got: list[tuple[int, str]]) -> None:
    with recorder.subscribe() as following:
        got += [(each.position, each.event.data.decode()) for _, each in zip(range(ROWS), following, strict=False)]


def live(pipe: Connection, folder: Path, who: int) -> None:
    """Append, and look after each append; say what was answered, seen wrongly and followed."""
    limits.JOURNAL_ROWS = 4
    wrong: list[Any] = []
    answered: list[tuple[int, str]] = []
    got: list[tuple[int, str]] = []
    before: list[tuple[int, str]] = []
    with opened(folder) as recorder:
        following = threading.Thread(target=follow, args=(recorder, got))
        following.start()
        pipe.send("ready")
        pipe.recv()
        for number in range(APPENDS):
            words = [f"{who}.{number}.{at}" for at in range(1 + number % 3)]
            last = recorder.append([event(word, tags=(f"by:{who}", word)) for word in words])
            answered += zip(range(last - len(words) + 1, last + 1), words, strict=True)
            now = rows_of(recorder)
            mine = [(each.position, each.event.data.decode()) for each in recorder.read(tagged(f"by:{who}"))]
            good = now[: len(before)] == before and [at for at, _ in now] == list(range(1, len(now) + 1))
            if not good or mine != answered or recorder.decide(lambda _: []) < len(now):
                wrong.append((number, before, now, mine, answered))
            before = now
        following.join()
    pipe.send((answered, wrong, got))


def test_every_acknowledged_row_is_stored_once_and_seen_in_order(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s", 0)
    with others(live, *[(folder, who) for who in range(PROCESSES)]) as running:
        for other in running:
            assert other.hear() == "ready"
        for other in running:
            other.tell("go")
        said = [other.hear() for other in running]

    with opened(folder) as recorder:
        stands = rows_of(recorder)
    assert [wrong for _, wrong, _ in said] == [[]] * PROCESSES
    assert sorted(row for answered, _, _ in said for row in answered) == stands
    assert [at for at, _ in stands] == list(range(1, ROWS + 1))
    assert [got for _, _, got in said] == [stands] * PROCESSES
