"""`python -m tests.sidebyside`: play every ordering on every store, and print what each kept."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import logging
import sys
import tempfile
from pathlib import Path

from tests.sidebyside import page
from tests.sidebyside.elsewhere import Elsewhere
from tests.sidebyside.kinds import KINDS
from tests.sidebyside.orderings import Ordering, all_orderings, played
from tests.sidebyside.world import Outcome, World

Results = dict[str, dict[str, Outcome]]


def results(kinds: tuple[str, ...] = KINDS) -> Results:
    """Play all; return what was kept, by ordering and store."""
    far = Elsewhere()
    try:
        return {one.name: {kind: _played(one, kind, far) for kind in kinds} for one in all_orderings()}
    finally:
        far.close()


def _played(one: Ordering, kind: str, far: Elsewhere) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(played(one, World(kind, Path(folder), far)))


def table(found: Results) -> str:
    """Return the results as a table in Markdown."""
    kinds = list(next(iter(found.values())))
    rows = [["ordering", "reported as", *kinds], ["---"] * (len(kinds) + 2)]
    rows += [[one.title, one.upstream, *(found[one.name][kind].words() for kind in kinds)] for one in all_orderings()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _parser() -> argparse.ArgumentParser:
    what = "Play every ordering on every store, and print what each kept as a table in Markdown. It takes a minute."
    parser = argparse.ArgumentParser(prog="python -m tests.sidebyside", description=what)
    named = f"one of {', '.join(map(repr, KINDS))}; can be repeated, and is all of them if not given"
    parser.add_argument("--store", action="append", choices=KINDS, metavar="STORE", help=named)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print everything that was measured, as JSON")
    how.add_argument("--write", action="store_true", help=f"put the table on {page.PAGE.name}")
    return parser


def main(arguments: list[str]) -> None:
    """Print the table, or all of it as JSON, or put it on the page."""
    asked = _parser().parse_args(arguments)
    logging.disable()  # the SDK tells of each compaction that it skips; the table says it
    found = results(tuple(asked.store or KINDS))
    if asked.json:
        plain = {name: {kind: dataclasses.asdict(kept) for kind, kept in of.items()} for name, of in found.items()}
        sys.stdout.write(json.dumps(plain, indent=2) + "\n")
    elif asked.write:
        page.write(table(found))
    else:
        sys.stdout.write(table(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
