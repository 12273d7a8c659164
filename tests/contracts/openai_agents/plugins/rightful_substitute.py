"""A pytest plugin that puts `LedgerSession` where the SDK's tests import the SDK's own stores.

It adapts how a session is made, what its parts are called and what it says when it is closed. All that a
session does is `LedgerSession`'s own. `agents.memory.sqlite_session` itself is left alone: the SDK's other stores
derive from the class there.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from rightful import Ledger
from rightful.errors import SessionClosedError
from rightful.integrations.openai_agents import LedgerSession


def pytest_configure() -> None:
    """Put them there, before any test is imported."""
    for name in ("agents", "agents.memory"):
        importlib.import_module(name).SQLiteSession = SQLiteSession  # type: ignore[attr-defined]
    importlib.import_module("tests.utils.simple_session").SimpleListSession = SimpleListSession  # type: ignore[attr-defined]


class SQLiteSession(LedgerSession):
    """Made as the SDK's `SQLiteSession`: in memory, each object has a ledger of its own; else it is beside the file."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        in_memory = str(db_path) == ":memory:"
        tables = f"{sessions_table}.{messages_table}"
        place = _new_place() if in_memory else Path(f"{db_path}.{tables}.rightful")
        super().__init__(session_id, place, session_settings=session_settings)
        self.db_path = db_path
        self.sessions_table = sessions_table
        self.messages_table = messages_table
        if in_memory:
            weakref.finalize(self, _forget, self.ledger, place)

    def _check_open(self) -> None:
        try:
            super()._check_open()
        except SessionClosedError as error:
            raise RuntimeError("SQLiteSession is closed") from error


class SimpleListSession(LedgerSession):
    """Made as the list in the SDK's tests, a store without private operations; what they look at in it is the view."""

    _ignore_ids_for_matching = False
    _get_compaction_snapshot = None  # type: ignore[assignment]
    _read_compaction_items = None  # type: ignore[assignment]
    _atomic_replace_items = None  # type: ignore[assignment]

    def __init__(self, session_id: str = "test", history: list[Any] | None = None) -> None:
        place = _new_place()
        super().__init__(session_id, place)
        weakref.finalize(self, _forget, self.ledger, place)
        if history:
            self.ledger.extend(self.name, history)

    @property
    def _items(self) -> list[Any]:
        return self.ledger.history(self.name).items

    @property
    def saved_items(self) -> list[Any]:
        """What the view shows."""
        return self._items


def _new_place() -> Path:
    return Path(tempfile.mkdtemp(prefix="session-", dir=os.environ["RIGHTFUL_SCRATCH"])) / "ledger"


def _forget(ledger: Ledger, place: Path) -> None:
    ledger.close()
    shutil.rmtree(place.parent, ignore_errors=True)
