"""Importing transcripts, beside decoding the same lines and beside bare puts of the rows; and what memory it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from benchmarks.harness import Pair, Result, Setting, in_turn, start, watch
from benchmarks.sessions import write
from benchmarks.stores import Twin

import rightful
from rightful import limits

MEGABYTES = 1_000
MEMORY_MB = 200
AT_ONCE = 50
"""Commits of the bare store that are read back from the ledger at a time."""


def transcripts(setting: Setting) -> Iterator[Result]:
    """Import Claude Code's transcripts into a new ledger, in a process of its own, beside decoding their lines."""
    folder = setting.folder / "projects"
    size = write(folder, setting.events(MEGABYTES, 4))
    files = sorted(folder.glob("*.jsonl"))
    lines = _decoded(files)[1]
    peaks: list[tuple[float, float]] = []
    bare: list[float] = []
    numbers = count()

    def ours() -> float:
        path = setting.folder / f"ledger-{next(numbers)}"
        twin = Twin(setting.folder / f"twin-{path.name}", _made(path))
        worker = start("transcripts", str(path), str(folder))
        answer = json.loads(worker.communicate()[0])
        assert worker.returncode == 0
        assert (answer["lost"], answer["files"]) == (0, len(files)), answer
        assert answer["appended"] > lines, "a line gives an event or more"
        peaks.append((answer["anonymous_mb"], answer["rss_mb"]))
        bare.append(size / 1e6 / _put(twin))
        shutil.rmtree(path)
        return size / 1e6 / float(answer["seconds"])

    pairs = in_turn(ours, lambda: size / 1e6 / _decoded(files)[0], min(setting.pairs, 3), warm=0)
    detail: dict[str, Any] = {"megabytes": round(size / 1e6), "lines": lines}
    detail_of_puts = {
        "bare_puts_mb_s": round(median(bare)),
        "ratio_bare_puts": round(median(pair.ours / put for pair, put in zip(pairs, bare, strict=True)), 4),
    }
    yield Result(
        "import-transcripts",
        "reading and decoding the same lines",
        "MB/s",
        0.3,
        lines,
        pairs,
        detail=detail | detail_of_puts,
    )
    memory = [Pair(anonymous, MEMORY_MB) for anonymous, _ in peaks]
    detail["rss_mb"] = [round(resident) for _, resident in peaks]
    ok = max(resident for _, resident in peaks) <= MEMORY_MB
    against = f"{MEMORY_MB} MB"
    yield Result("import-memory", against, "MB anonymous at most", 1, lines, memory, at_most=True, ok=ok, detail=detail)


def _made(path: Path) -> Path:
    rightful.open(path, create=True).close()
    return path


def _put(twin: Twin) -> float:
    """Put what was imported into bare LMDB, as many rows in one transaction as an import; return the seconds."""
    seconds = 0.0
    with twin:
        while commits := twin.news(limits.IMPORT_EVENTS, most=AT_ONCE):
            seconds += twin.put_many(commits)
        twin.check()
    shutil.rmtree(twin.folder)
    return seconds


def _decoded(files: list[Path]) -> tuple[float, int]:
    """Decode every line with msgspec and forget it; return the seconds and how many they were."""
    decode = msgspec.json.Decoder().decode
    lines = 0
    with watch() as taken:
        for path in files:
            with path.open("rb") as file:
                for line in file:
                    decode(line)
                    lines += 1
    return taken.seconds, lines
