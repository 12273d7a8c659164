"""Ctrl-C at any line of a session's call, as it ends a cell of a notebook: the session still works."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.interrupting import each_line

import rightful
from rightful.integrations.openai_agents import LedgerSession

WAIT_S = 5
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, where there is such a place: no power is cut here, and there are many syncs."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Path(folder)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def texts_of(items: list[Any]) -> list[str]:
    return [item["content"] for item in items]


@pytest.mark.parametrize("interrupted", ["add", "get", "pop"])
def test_session_works_after_an_interrupted_call(folder: Path, interrupted: str) -> None:
    """All calls in one event loop, which stays open. Another session object appends before each call."""
    loop = asyncio.new_event_loop()
    texts: list[str] = []

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(asyncio.wait_for(work, WAIT_S))

    with rightful.open(folder / "ledger", create=True) as ledger:
        session, other = LedgerSession("s", ledger), LedgerSession("s", ledger)
        for interruption in each_line(KeyboardInterrupt, room="integrations/openai_agents"):
            theirs, ours, later = (f"{who} {interruption.at}" for who in ("theirs", "ours", "later"))
            wait(other.add_items([user(theirs)]))
            before = [*texts, theirs]
            may = {"add": [*before, ours], "get": before, "pop": before[:-1]}[interrupted]

            async def call(text: str = ours) -> None:
                if interrupted == "add":
                    await session.add_items([user(text)])
                elif interrupted == "get":
                    await session.get_items()
                else:
                    await session.pop_item()

            interruption.run(lambda: loop.run_until_complete(call()))
            wait(session.add_items([user(later)]))
            texts = texts_of(wait(session.get_items()))
            assert texts in ([*before, later], [*may, later]), interruption.place
            assert texts_of(wait(other.get_items())) == texts, interruption.place
        wait(session.aclose())
        wait(other.aclose())
    loop.close()
    assert texts
