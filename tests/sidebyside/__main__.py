"""Plays every ordering on every store, and prints what each kept.

`python -m tests.sidebyside [--json | --write]`."""

from __future__ import annotations

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
from tests.sidebyside.orderings import all_orderings, played
from tests.sidebyside.world import Outcome, World

Results = dict[str, dict[str, Outcome]]


def results(kinds: tuple[str, ...] = KINDS) -> Results:
    """Play all; return what was kept, by ordering and store."""
    far = Elsewhere()
    try:
        return {one.name: {kind: _played(one.name, kind, far) for kind in kinds} for one in all_orderings()}
    finally:
        far.close()


def _played(name: str, kind: str, far: Elsewhere) -> Outcome:
    [one] = [one for one in all_orderings() if one.name == name]
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(played(one, World(kind, Path(folder), far)))


def table(found: Results) -> str:
    """Return the results as a table in Markdown."""
    kinds = list(next(iter(found.values())))
    rows = [["ordering", "reported as", *kinds], ["---"] * (len(kinds) + 2)]
    rows += [[one.title, one.upstream, *(found[one.name][kind].words() for kind in kinds)] for one in all_orderings()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str]) -> None:
    """Print the table, or all of it as JSON, or put it on the page."""
    logging.disable()
    kinds = tuple(one for one in arguments if one in KINDS) or KINDS
    found = results(kinds)
    if "--json" in arguments:
        plain = {name: {kind: dataclasses.asdict(kept) for kind, kept in of.items()} for name, of in found.items()}
        sys.stdout.write(json.dumps(plain, indent=2) + "\n")
    elif "--write" in arguments:
        page.write(table(found))
    else:
        sys.stdout.write(table(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
