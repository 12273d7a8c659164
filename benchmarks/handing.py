"""Handoffs: sessions that hand metadata to their own next step under one name, and what a handoff costs.

The race is that of a skill which keeps such metadata in a file with a fixed path: every session
writes before any of them reads, as it happens whenever two of them run at once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.harness import Pair, Result, Setting, in_turn, start, watch

import rightful

ROUNDS, SESSIONS, COSTS = 50, (2, 4, 8), 300
"""Rounds of a race, how many sessions it has, and handoffs of a turn."""

SESSION = "bench:cost"


def handoff(setting: Setting) -> Iterator[Result]:
    """Whose metadata each session reads, beside a shared file; and put and take beside a file of its own."""
    rounds = 3 if setting.quick else ROUNDS
    path = setting.folder / "ledger"
    rightful.open(path, create=True).close()
    for sessions in SESSIONS:
        ours, file = _Race("ledger", path, sessions), _Race("file", setting.folder / "meta.json", sessions)
        pairs = [Pair(ours.own_reads(rounds), file.own_reads(rounds)) for _ in range(setting.pairs)]
        detail = {"wrong_owner": ours.said["other"], "wrong_owner_of_file": file.said["other"]}
        yield Result(
            f"handoff-race-{sessions}",
            "one file that all sessions write and read",
            "own reads of all",
            1,
            rounds * sessions,
            pairs,
            ok=ours.said.keys() == {"own"} and file.said["other"] > 0,
            detail=detail,
        )
    yield _cost(setting, path)


class _Race:
    """Sessions in processes of their own, each with steps that go in pace with those of the others."""

    def __init__(self, way: str, place: Path, sessions: int) -> None:
        self._calls = [("handing", way, str(place), f"race-{sessions}:{number}") for number in range(sessions)]
        self.said: Counter[str] = Counter()

    def own_reads(self, rounds: int) -> float:
        """Return which part of the reads got what the reader's own session wrote."""
        workers = [start(*call) for call in self._calls]
        said = Counter[str]()
        for number in range(rounds):
            _ask(workers, f"put {number}")
            said.update(_ask(workers, f"take {number}"))
        for worker in workers:
            worker.communicate()
            assert worker.returncode == 0
        self.said += said
        return said["own"] / said.total()


def _ask(workers: Sequence[subprocess.Popen[str]], what: str) -> list[str]:
    """Let all do one step at once, and return what each says."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(f"{what}\n")
        worker.stdin.flush()
    said = []
    for worker in workers:
        assert worker.stdout is not None
        said.append(worker.stdout.readline().strip())
    return said


def _cost(setting: Setting, path: Path) -> Result:
    handoffs = 20 if setting.quick else COSTS
    numbers = count()
    with rightful.open(path) as ledger:

        def ours() -> float:
            session = f"{SESSION}-{next(numbers)}"
            with watch() as taken:
                for number in range(handoffs):
                    ledger.put_handoff("meta", {"pr": number}, session=session)
                    assert ledger.take_handoff("meta", session=session).payload == {"pr": number}
            return handoffs / taken.seconds

        pairs = in_turn(ours, partial(_by_file, setting.folder / "own.json", handoffs), setting.pairs)
        assert len(ledger.handoffs().listed(f"{SESSION}-0")) == handoffs
    against = "a file of its own: written, synced, renamed, read and removed"
    return Result("handoff-cost", against, "handoffs/s", 0.1, handoffs, pairs)


def _by_file(path: Path, handoffs: int) -> float:
    with watch() as taken:
        for number in range(handoffs):
            new = path.with_suffix(".new")
            with new.open("w") as file:
                json.dump({"pr": number}, file)
                file.flush()
                os.fsync(file.fileno())
            new.rename(path)
            assert json.loads(path.read_text()) == {"pr": number}
            path.unlink()
    return handoffs / taken.seconds
