"""`python -m benchmarks [NAME…]`: run benchmarks and print one JSON line for each."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import appends, growth, handing, histories, imports, peers, replays, starts
from benchmarks.harness import Benchmark, Setting

BENCHMARKS: dict[str, Benchmark] = {
    "append-one": appends.one_event,
    "append-threads": appends.threads,
    "append-processes": appends.processes,
    "append-batches": appends.batches,
    "tree": appends.tree,
    "replay": replays.replay,
    "another-policy": replays.another_policy,
    "what-if": replays.what_if,
    "new-events": replays.new_events,
    "peer": peers.peer,
    "ingest": starts.ingest,
    "hook": starts.hook,
    "handoff": handing.handoff,
    "import-transcripts": imports.transcripts,
    "history-append": histories.append,
    "history-read": histories.reads,
    "growth": growth.growth,
}
"""In the order of the budgets; growth, which takes longest, comes last."""


def main(words: list[str] | None = None) -> int:
    """Run what was asked for; 1 when a budget is not met, and 0 for small sizes, which tell nothing of it."""
    parser = _parser()
    args = parser.parse_args(words)
    if unknown := [name for name in args.name if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if args.table is not None:
        print("\n".join(table(json.loads(line) for line in args.table if line.startswith("{"))))
        return 0
    met = True
    for name in args.name or BENCHMARKS:
        for line, good in run(name, args.dir, args.size, quick=args.quick):
            print(line, flush=True)
            met = met and good
    return 0 if met or args.quick else 1


def run(name: str, folder: Path, size: int | None, *, quick: bool) -> Iterator[tuple[str, bool]]:
    """Run one benchmark in a folder of its own and yield its lines, and whether each budget was met."""
    with tempfile.TemporaryDirectory(prefix="rightful-bench-", dir=folder) as own:
        for result in BENCHMARKS[name](Setting(Path(own), size, quick)):
            yield result.line(), result.met


def table(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the Markdown table of JSON lines."""
    yield "| benchmark | against | n | ours | floor | ratio (lowest to highest) | budget | met |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    for line in lines:
        unit, ratios = line["ours"]["unit"], line["ratios"]
        ratio = f"{line['ratio']:.3g} ({min(ratios):.3g} to {max(ratios):.3g})"
        sides = [f"{_plain(line[side]['median'])} {unit}" for side in ("ours", "floor")]
        wait = f"; worst wait {line['worst_wait_s']} s, {line['worst_wait_budget']}" if "worst_wait_s" in line else ""
        wait += "; p99 {} ms, <= {} ms".format(*line["p99_ms"]) if "p99_ms" in line else ""
        met = "yes" if line["met"] else "**no**"
        cells = [f"`{line['bench']}`", line["against"], f"{line['n']:,}", *sides, ratio, line["budget"] + wait, met]
        yield f"| {' | '.join(cells)} |"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the budgets of the design.")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"which; all if none: {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and one pair: only to see that it runs")
    parser.add_argument("--size", type=int, help="events instead of each benchmark's own number")
    parser.add_argument(
        "--dir", type=Path, default=Path.cwd(), help="a folder on the disk to be measured; the working folder"
    )
    parser.add_argument(
        "--table", type=argparse.FileType("r"), metavar="FILE", help="print FILE's JSON lines as a table; `-` is stdin"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
