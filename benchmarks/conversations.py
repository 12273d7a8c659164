"""Conversations: the same items in a session of ours and in the Agents SDK's SQLiteSession, through one protocol.

Both are the real classes with their own defaults. An item has 370 bytes as JSON, as a short message has.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

WAYS = ("ledger", "sqlite")
"""Ours, and the peer."""

ITEM_BYTES = 370

Item = dict[str, Any]


def items(writer: int, call: int, count: int) -> list[Item]:
    """Return the items of one call; no two are alike."""
    return [_item(f"{writer:02} {call:07} {place:02} ") for place in range(count)]


def _item(start: str) -> Item:
    return {"role": "user", "content": start + "x" * (ITEM_BYTES - 37 - len(start))}


def session(way: str, path: Path, name: str) -> Any:  # noqa: ANN401 - what the SDK calls a session
    """Return a session of that name, opened as its users do."""
    if way == "ledger":
        from rightful.integrations.openai_agents import LedgerSession

        return LedgerSession(name, path)
    from agents import SQLiteSession

    return SQLiteSession(name, path)


def imported(way: str) -> None:
    """Import what a session of that way needs; the SDK itself, either way."""
    importlib.import_module("rightful.integrations.openai_agents" if way == "ledger" else "agents")


def place(folder: Path, way: str) -> Path:
    """Return where the store of one way is to be, in a folder of its own."""
    (folder / way).mkdir(parents=True, exist_ok=True)
    return folder / way / "store"


async def read(way: str, path: Path, name: str, limit: int | None = None) -> list[Item]:
    """Return what a session opened anew shows."""
    one = session(way, path, name)
    found: list[Item] = await one.get_items(limit)
    one.close()
    return found


async def fill(way: str, path: Path, name: str, calls: int, size: int) -> list[Item]:
    """Append so many calls of so many items; return all of them."""
    one, put = session(way, path, name), []
    for call in range(calls):
        batch = items(0, call, size)
        await one.add_items(batch)
        put += batch
    one.close()
    return put


class Work(NamedTuple):
    """What one process is to append.

    Attributes:
        way: To which store.
        path: Where that is.
        name: The session.
        writer: Its own number, which its items tell.
        size: Items of a call.
        seconds: How long.
    """

    way: str
    path: str
    name: str
    writer: int
    size: int
    seconds: float


def converse() -> None:
    """Do one piece of work after the other, each told by its line; say how long each call took, in seconds."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(_converse(Work(*json.loads(line))))), flush=True)


async def _converse(work: Work) -> list[float]:
    """Append one call after the other once told to go."""
    one = session(work.way, Path(work.path), work.name)
    waits: list[float] = []
    await one.add_items(items(work.writer, 0, work.size))
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.perf_counter() + work.seconds
    while time.perf_counter() < end:
        batch = items(work.writer, len(waits) + 1, work.size)
        begin = time.perf_counter()
        await one.add_items(batch)
        waits.append(time.perf_counter() - begin)
    one.close()
    return waits


def start_up(way: str, path: str, name: str) -> dict[str, Any]:
    """Read a whole history in a process that has nothing yet; return the seconds of each step, and the items."""
    begin = time.perf_counter()
    imported(way)
    ready = time.perf_counter()
    one = session(way, Path(path), name)
    opened = time.perf_counter()
    found = asyncio.run(one.get_items())
    return {
        "import_s": ready - begin,
        "open_s": opened - ready,
        "read_s": time.perf_counter() - opened,
        "items": len(found),
    }


def disk_bytes(path: Path) -> int:
    """Return what a store takes on the disk, with the files beside it."""
    return sum(one.stat().st_blocks * 512 for one in path.parent.rglob("*") if one.is_file())
