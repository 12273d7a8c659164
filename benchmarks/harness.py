"""How a benchmark is run and what it prints.

Ours and the floor run in turn in one process of one run (A B A B …), so that what else the
machine does meets both. The ratio of each neighbouring pair is taken; the median counts, and
all of them are printed.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import lmdb

ROOT = Path(__file__).parents[1]

_NOT_FOR_CHILDREN = {"RIGHTFUL_LEDGER", "PYTHONDONTWRITEBYTECODE"}

PAIRS = 5
"""Pairs that count, after one that warms up."""


class Setting(NamedTuple):
    """What a benchmark is run with.

    Attributes:
        folder: Where it may put its stores; on the disk that is to be measured.
        size: Events in the ledger; None for the benchmark's own size.
        quick: Small sizes and one pair, to see that it runs.
    """

    folder: Path
    size: int | None = None
    quick: bool = False

    @property
    def pairs(self) -> int:
        return 1 if self.quick else PAIRS

    @property
    def warm(self) -> int:
        return 0 if self.quick else 1

    def events(self, usual: int, quick: int) -> int:
        """Return how many events to use."""
        return self.size or (quick if self.quick else usual)


class Pair(NamedTuple):
    """What ours and the floor did in one turn each; in `unit` of the result."""

    ours: float
    floor: float


class Result(NamedTuple):
    """One line of output.

    Attributes:
        bench: The benchmark's name.
        against: What the floor is, in words.
        unit: Of the two sides.
        budget: The bound of the ratio, a lower one.
        n: Work of one turn, such as events.
        pairs: The turns.
        at_most: The bound is an upper one.
        inverse: The ratio is the floor by ours, not ours by the floor: how many times faster.
        ok: Whatever else must hold, such as a worst wait.
        detail: More numbers.
    """

    bench: str
    against: str
    unit: str
    budget: float
    n: int
    pairs: list[Pair]
    at_most: bool = False
    inverse: bool = False
    ok: bool = True
    detail: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @property
    def ratios(self) -> list[float]:
        return [pair.floor / pair.ours if self.inverse else pair.ours / pair.floor for pair in self.pairs]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def met(self) -> bool:
        within = self.ratio <= self.budget if self.at_most else self.ratio >= self.budget
        return within and self.ok

    def line(self) -> str:
        """Return the JSON line."""
        return json.dumps(
            {
                "bench": self.bench,
                "against": self.against,
                "ratio": _short(self.ratio),
                "ratios": [_short(one) for one in self.ratios],
                "budget": f"{'<=' if self.at_most else '>='} {self.budget:g}",
                "met": self.met,
                "ours": {"median": _short(median(pair.ours for pair in self.pairs)), "unit": self.unit},
                "floor": {"median": _short(median(pair.floor for pair in self.pairs)), "unit": self.unit},
                "n": self.n,
                **self.detail,
                **where(),
            }
        )


Benchmark = Callable[[Setting], Iterator[Result]]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def in_turn(ours: Callable[[], float], floor: Callable[[], float], pairs: int, warm: int = 1) -> list[Pair]:
    """Run both in turn and return what they measured, without the turns that warm up."""
    done = []
    for _ in range(warm + pairs):
        gc.collect()
        first = ours()
        gc.collect()
        done.append(Pair(first, floor()))
    return done[warm:]


class Watch:
    """How long a block took; seconds."""

    seconds = 0.0


@contextmanager
def watch() -> Iterator[Watch]:
    """Take the time of a block."""
    taken = Watch()
    start = time.perf_counter()
    try:
        yield taken
    finally:
        taken.seconds = time.perf_counter() - start


def where() -> dict[str, Any]:
    """Return what was measured on."""
    return {
        "machine": f"{os.cpu_count()} x {_processor()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "lmdb": lmdb.__version__,
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def environment() -> dict[str, str]:
    """Return the environment of a child that uses the same source as this process, compiled once."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CHILDREN}
    return kept | {"PYTHONPATH": path}


def start(*words: str) -> subprocess.Popen[str]:
    """Start a worker of `benchmarks.worker`, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
