"""Growth: appending and replaying a large ledger, and the memory that a replay takes.

What is compared is the ratio to the floor at the large size with the same ratio at 100,000
events, so that what the disk and the tree of LMDB cost at that size is not ours.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.appends import BATCH, append_batches
from benchmarks.generator import MAX_EVENTS, Wire, events
from benchmarks.harness import Pair, Result, Setting, in_turn, start
from benchmarks.replays import cold, scan
from benchmarks.stores import Twin, build

import rightful
from rightful.ledger import Ledger

SMALL = 100_000
BASE_MB = 100
SESSION_BYTES = 300


def growth(setting: Setting) -> Iterator[Result]:
    """Append and replay at the large size, as parts of the floor, beside the same at 100,000."""
    large = setting.events(MAX_EVENTS, 8_000)
    small, turn = (2_000, 1_000) if setting.quick else (SMALL, 10_000)
    path = setting.folder / "ledger"
    wires = _Counted(events(large))
    build(path, islice(wires, small))
    replays_small = _replays(path, small, setting.pairs)
    appends_small = _appends(setting, path, wires, turn)
    build(path, islice(wires, large - small - 2 * turn * (setting.pairs + 1)))
    size = large - turn * (setting.pairs + 1)
    replays_large = _replays(path, size, min(setting.pairs, 3))
    yield _memory(path, size, wires.sessions)
    yield _result("growth-replay", "the same at 100,000, both by bare scan", size, replays_large, replays_small)
    appends_large = _appends(setting, path, wires, turn)
    yield _result("growth-append", "the same at 100,000, both by putmulti", size, appends_large, appends_small)


class _Counted:
    """Passes events on and counts the session names they bring."""

    def __init__(self, wires: Iterator[Wire]) -> None:
        self._wires = wires
        self._seen: set[int] = set()

    def __iter__(self) -> Iterator[Wire]:
        return self

    def __next__(self) -> Wire:
        wire = next(self._wires)
        self._seen.add(hash(wire["session"]))
        return wire

    @property
    def sessions(self) -> int:
        return len(self._seen)


def _result(name: str, against: str, size: int, large: list[Pair], small: list[Pair]) -> Result:
    pairs = [Pair(far.ours / far.floor, near.ours / near.floor) for far, near in zip(large, small, strict=False)]
    return Result(
        name,
        against,
        "part of the floor",
        0.8,
        size,
        pairs,
        detail={
            "ours_per_s": [round(pair.ours) for pair in large],
            "floor_per_s": [round(pair.floor) for pair in large],
        },
    )


def _replays(path: Path, size: int, pairs: int) -> list[Pair]:
    def ours() -> float:
        seconds, found = cold(path)
        assert found.through == size
        return size / seconds

    def floor() -> float:
        seconds, seen = scan(path)
        assert seen.rows == size
        return size / seconds

    return in_turn(ours, floor, pairs)


def _appends(setting: Setting, path: Path, wires: Iterator[Wire], turn: int) -> list[Pair]:
    folder = setting.folder / "twin"
    with Twin(folder, path) as twin:
        pairs = in_turn(
            lambda: turn / _append(twin.ledger, list(islice(wires, turn))),
            lambda: turn / twin.put_many(twin.news(BATCH)),
            setting.pairs,
        )
        twin.check()
    shutil.rmtree(folder)
    return pairs


def _append(ledger: Ledger, wires: list[Wire]) -> float:
    before = ledger.log.head()
    seconds = append_batches(ledger, wires)
    assert ledger.log.head() == before + len(wires)
    return seconds


def _memory(path: Path, size: int, sessions: int) -> Result:
    shutil.rmtree(path / "projections", ignore_errors=True)
    worker = start("replay", str(path))
    answer = json.loads(worker.communicate()[0])
    assert worker.returncode == 0
    with rightful.open(path, readonly=True) as ledger:
        assert len(ledger.posteriors().arms) == answer["arms"]
    allowed = BASE_MB + SESSION_BYTES * sessions / 1e6
    return Result(
        "growth-memory",
        f"{BASE_MB} MB and {SESSION_BYTES} B a session",
        "MB anonymous at most",
        1,
        size,
        [Pair(answer["anonymous_mb"], allowed)],
        at_most=True,
        detail={"sessions": sessions, "seconds": round(answer["seconds"], 2)},
    )
