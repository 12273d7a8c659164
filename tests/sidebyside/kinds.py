"""The stores that stand side by side, and how each is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from agents import OpenAIResponsesCompactionSession, SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import SessionSettings

SESSION = "one"
ROWS = "rows.db"


class LinesSession:
    """The least that the public protocol asks for: four methods over a file of lines."""

    def __init__(self, session_id: str, path: Path, session_settings: SessionSettings | None = None) -> None:
        self.session_id, self.session_settings = session_id, session_settings
        self._path = path
        path.touch()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the last items."""
        items = [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]
        bound = limit if limit is not None or self.session_settings is None else self.session_settings.limit
        return items if bound is None else items[max(len(items) - bound, 0) :]

    async def add_items(self, items: list[Any]) -> None:
        """Add lines at the end, in one write."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(one)}\n" for one in items))

    async def pop_item(self) -> Any:
        """Remove the last line."""
        lines = self._path.read_text("utf-8").splitlines(keepends=True)
        self._path.write_text("".join(lines[:-1]), "utf-8")
        return json.loads(lines[-1]) if lines else None

    async def clear_session(self) -> None:
        """Remove all lines."""
        self._path.write_text("", "utf-8")


class Options(NamedTuple):
    """How a session is opened.

    Attributes:
        client: Its provider.
        mode: Its compaction mode.
        limit: How many items it reads; all if None.
        trigger: Whether its decision hook asks for automatic compaction.
        run_key: The key of the run, where a store knows such a thing.
    """

    client: Any
    mode: Any = "auto"
    limit: int | None = None
    trigger: bool = True
    run_key: str | None = None

    def settings(self) -> SessionSettings:
        """Return the SDK's settings."""
        return SessionSettings(limit=self.limit)

    def hook(self, _context: Any) -> bool:
        """Decide about a compaction as the SDK asks for it."""
        return self.trigger


def _wrapped(store: Any, options: Options) -> Any:
    return OpenAIResponsesCompactionSession(
        SESSION,
        store,
        client=options.client,
        compaction_mode=options.mode,
        should_trigger_compaction=options.hook,
    )


def _sqlite(folder: Path, options: Options) -> Any:
    return _wrapped(SQLiteSession(SESSION, folder / ROWS, session_settings=options.settings()), options)


def _advanced(folder: Path, options: Options) -> Any:
    store = AdvancedSQLiteSession(
        session_id=SESSION, db_path=folder / ROWS, create_tables=True, session_settings=options.settings()
    )
    return _wrapped(store, options)


def _lines(folder: Path, options: Options) -> Any:
    return _wrapped(LinesSession(SESSION, folder / "rows.jsonl", options.settings()), options)


THEIRS: dict[str, Callable[[Path, Options], Any]] = {
    "SQLiteSession": _sqlite,
    "AdvancedSQLiteSession": _advanced,
    "four methods": _lines,
}
"""The SDK's stores, and one that knows the public protocol alone; each in the SDK's compaction wrapper."""

OURS = "LedgerSession"
KINDS = (OURS, *THEIRS)


def ours(ledger: Any, options: Options) -> Any:
    """Return our session on an open ledger."""
    from rightful.integrations.openai_agents import LedgerSession

    return LedgerSession(
        SESSION,
        ledger,
        run_key=options.run_key,
        session_settings=options.settings(),
        client=options.client,
        compaction_mode=options.mode,
        should_trigger_compaction=options.hook,
    )


def close(session: Any) -> None:
    """Close a session, and the store that it wraps."""
    for one in (session, getattr(session, "underlying_session", None)):
        ending = getattr(one, "close", None)
        if callable(ending):
            ending()
