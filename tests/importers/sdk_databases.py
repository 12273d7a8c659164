"""What the tests of the import of the SDK's databases share: sessions of the real SDK, and what the ledger shows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession

from rightful import content
from rightful.ledger import Ledger

PRODUCER = "openai-agents-import"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{text}",
        "content": [{"type": "output_text", "text": text}],
    }


def name(session_id: str = "s") -> str:
    return f"openai-agents:{session_id}"


def put(path: Path, *items: Any, session_id: str = "s", **options: Any) -> None:
    """Add items by the SDK, and close its session."""
    session = SQLiteSession(session_id, path, **options)
    asyncio.run(session.add_items(list(items)))
    session.close()


def items(path: Path, session_id: str = "s") -> list[Any]:
    """What the SDK shows."""
    session = SQLiteSession(session_id, path)
    try:
        return asyncio.run(session.get_items())
    finally:
        session.close()


def advanced(path: Path, session_id: str = "s") -> AdvancedSQLiteSession:
    return AdvancedSQLiteSession(session_id=session_id, db_path=path, create_tables=True)


def shown(ledger: Ledger, session: str = "openai-agents:s") -> list[Any]:
    return ledger.history(session).items


def everything(ledger: Ledger, session: str = "openai-agents:s") -> list[Any]:
    """All that the ledger ever had of a session, in order, by the events themselves."""
    events = (row.event for row in ledger.read(session=session, types=["history.appended"]))
    return [content.restore(item) for event in events for item in event.items]  # type: ignore[union-attr]


def types(ledger: Ledger, session: str = "openai-agents:s") -> list[str]:
    return [row.type for row in ledger.read(session=session)]


def execute(path: Path, *statements: str, values: Iterable[Any] = ()) -> None:
    """Change a database behind the SDK's back; the values are those of the last statement."""
    connection = sqlite3.connect(path)
    for statement in statements[:-1]:
        connection.execute(statement)
    connection.execute(statements[-1], tuple(values))
    connection.commit()
    connection.close()
