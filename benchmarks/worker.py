"""A process of its own for a benchmark: `append` writes, `replay` answers from nothing."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Self

from benchmarks.generator import events

import rightful


def append(path: str, seed: int, count: int) -> dict[str, float]:
    """Append one event a commit once told to go; return begin, end and the worst wait, in seconds."""
    wires = list(events(count, seed))
    with rightful.open(path) as ledger:
        print("ready", flush=True)
        sys.stdin.readline()
        times = [time.perf_counter()]
        for wire in wires:
            (receipt,) = ledger.append([wire])
            times.append(time.perf_counter())
            assert receipt.outcome == "appended", receipt
    waits = [after - before for before, after in pairwise(times)]
    return {"begin": times[0], "end": times[-1], "worst_s": max(waits)}


def replay(path: str) -> dict[str, float]:
    """Replay from the first row and store it; return seconds, arms and the peak of anonymous memory in MB."""
    peak = Peak()
    with peak:
        begin = time.perf_counter()
        with rightful.open(path) as ledger:
            found = ledger.posteriors()
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "arms": len(found.arms), "anonymous_mb": peak.kb * 1024 / 1e6}


def transcripts(path: str, folder: str) -> dict[str, float]:
    """Import a folder of Claude Code's transcripts; return seconds, counts and the peaks of memory in MB.

    Resident memory counts the pages of the store's map too, of which an import gives back what is over a limit.
    """
    from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
    from rightful.importers.engine.formats import kinds
    from rightful.importers.engine.loop import Import

    begin, peak = time.perf_counter(), Peak()
    with peak, rightful.open(path) as ledger:
        kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        found = Import(ledger.log, kinds("claude-code"), ledger.log.head(), None, kept).path(folder)
        reports = [report for report in found if report.is_read]
    return {
        "seconds": time.perf_counter() - begin,
        "appended": sum(report.appended for report in reports),
        "lost": sum(report.lost for report in reports),
        "files": len(reports),
        "anonymous_mb": peak.kb * 1024 / 1e6,
        "rss_mb": resident_kb() * 1024 / 1e6,
    }


def handing(way: str, place: str, me: str) -> None:
    """Put and take as told, one step a line; say whose what was taken is: `own`, `other` or `none`."""
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(rightful.open(place)) if way == "ledger" else None
        for line in sys.stdin:
            act, number = line.split()
            mine = {"session": me, "number": number}
            if act == "put":
                _put(ledger, Path(place), me, mine)
            said = "put" if act == "put" else _whose(ledger, Path(place), me, mine)
            print(said, flush=True)


def _put(ledger: rightful.Ledger | None, file: Path, me: str, mine: dict[str, str]) -> None:
    if ledger is None:
        file.write_text(json.dumps(mine))
    else:
        ledger.put_handoff("meta", mine, session=me)


def _whose(ledger: rightful.Ledger | None, file: Path, me: str, mine: dict[str, str]) -> str:
    try:
        found = json.loads(file.read_text()) if ledger is None else ledger.take_handoff("meta", session=me).payload
    except ValueError:  # cut short: another one is writing it
        return "none"
    return "own" if found == mine else "other"


class Peak:
    """The highest anonymous memory of this process while it is entered; kB, from /proc."""

    def __init__(self) -> None:
        self.kb = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        self.kb = anonymous_kb()
        while not self._over.wait(0.02):
            self.kb = max(self.kb, anonymous_kb())
        self.kb = max(self.kb, anonymous_kb())


def resident_kb() -> int:
    """Return the peak of the resident memory of this process; kB. `getrusage` would count the one that started it."""
    return _status("VmHWM:")


def anonymous_kb() -> int:
    """Return the anonymous memory of this process; kB. Pages of the store's map do not count."""
    return _status("RssAnon:")  # smaps would look at each page, fifty times a second


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text("utf-8", "replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["append", path, seed, count]:
            answer = append(path, int(seed), int(count))
        case ["replay", path]:
            answer = replay(path)
        case ["transcripts", path, folder]:
            answer = transcripts(path, folder)
        case ["handing", way, place, me]:
            handing(way, place, me)
            sys.exit(0)
        case ["converse"]:
            from benchmarks.conversations import converse

            converse()
            sys.exit(0)
        case ["start-up", way, place, name]:
            from benchmarks.conversations import start_up

            answer = start_up(way, place, name)
        case words:
            sys.exit(f"there is no work {words}")
    print(json.dumps(answer))
