"""Importing transcripts, beside decoding the same lines; and the memory that it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.harness import Pair, Result, Setting, in_turn, start, watch
from benchmarks.sessions import write

import rightful

MEGABYTES = 1_000
MEMORY_MB = 200


def transcripts(setting: Setting) -> Iterator[Result]:
    """Import Claude Code's transcripts into a new ledger, in a process of its own, beside decoding their lines."""
    folder = setting.folder / "projects"
    size = write(folder, setting.events(MEGABYTES, 4))
    files = sorted(folder.glob("*.jsonl"))
    lines = _decoded(files)[1]
    peaks: list[tuple[float, float]] = []
    numbers = count()

    def ours() -> float:
        path = setting.folder / f"ledger-{next(numbers)}"
        rightful.open(path, create=True).close()
        worker = start("transcripts", str(path), str(folder))
        answer = json.loads(worker.communicate()[0])
        assert worker.returncode == 0
        assert (answer["lost"], answer["files"]) == (0, len(files)), answer
        assert answer["appended"] > lines, "a line gives an event or more"
        peaks.append((answer["anonymous_mb"], answer["rss_mb"]))
        shutil.rmtree(path)
        return size / 1e6 / float(answer["seconds"])

    pairs = in_turn(ours, lambda: size / 1e6 / _decoded(files)[0], min(setting.pairs, 3), warm=0)
    detail: dict[str, Any] = {"megabytes": round(size / 1e6), "lines": lines}
    yield Result("import-transcripts", "reading and decoding the same lines", "MB/s", 0.3, lines, pairs, detail=detail)
    memory = [Pair(anonymous, MEMORY_MB) for anonymous, _ in peaks]
    detail["rss_mb"] = [round(resident) for _, resident in peaks]
    against = f"{MEMORY_MB} MB"
    yield Result("import-memory", against, "MB anonymous at most", 1, lines, memory, at_most=True, detail=detail)


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
