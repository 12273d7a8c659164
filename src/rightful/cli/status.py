"""Say what a ledger holds and who has it open.

How many events, when the last one was written, what it takes on disk, how far the projections
have folded it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightful.cli import common
from rightful.recorders import locks

if TYPE_CHECKING:
    import argparse

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the disk's own is


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes: nothing of its own."""


def run(args: argparse.Namespace) -> int:
    """Print the facts."""
    with common.opened(args, readonly=True) as ledger:
        status = ledger.status()
        folder = Path(status.path)
        facts: dict[str, Any] = {
            "path": status.path,
            "id": status.id,
            "events": status.events,
            "last_recorded_at": status.last_recorded_at,
            "watermark": status.watermark,
            "bytes": _bytes_on_disk(folder),
            "openers": [who for who in locks.holders(folder / "ledger.lock") if who != f"pid {os.getpid()}"],
        }
    if args.json:
        common.print_json(facts)
    else:
        _show(facts)
    return common.DONE


def _bytes_on_disk(folder: Path) -> int:
    """What the folder takes, by the blocks that are allocated: the map is sparse. Opens no file."""
    found = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_blocks * _BLOCK_BYTES for path in found)


def _show(facts: dict[str, Any]) -> None:
    from rightful.cli import tables

    last = facts["last_recorded_at"]
    tables.show_facts(
        {
            "ledger": facts["path"],
            "id": facts["id"],
            "events": f"{facts['events']:,}",
            "last recorded": last.isoformat(" ", "seconds") if last else "never",
            "projected": f"{facts['watermark']:,} of {facts['events']:,}",
            "on disk": tables.size(facts["bytes"]),
            "also open in": ", ".join(facts["openers"]) or "no other process",
        }
    )
