"""The demo's app on the OpenAI Agents SDK: the database that its `SQLiteSession` keeps, with one conversation."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "openai-agents:support-17"
"""The conversation, as the ledger names it."""

_TABLES = """\
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL,
    created_at TIMESTAMP, FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE);
"""

_SAID: tuple[tuple[int, dict[str, Any]], ...] = (
    (0, {"role": "user", "content": "Order 2231 has not come."}),
    (3, {"type": "function_call", "call_id": "call_1", "name": "find_order", "arguments": '{"order": 2231}'}),
    (4, {"type": "function_call_output", "call_id": "call_1", "output": "sent on 28 July, with the parcel service"}),
    (7, {"role": "assistant", "content": "It was sent on 28 July. I ask the parcel service."}),
    (60, {"role": "user", "content": "Please send it to my office instead."}),
    (63, {"type": "function_call", "call_id": "call_2", "name": "redirect", "arguments": '{"to": "office"}'}),
    (65, {"type": "function_call_output", "call_id": "call_2", "output": "done"}),
    (68, {"role": "assistant", "content": "Done: it comes to your office tomorrow."}),
)
"""Seconds after the start, and the item."""

SUMMARY = {"role": "assistant", "content": "In short: order 2231, sent on 28 July, now goes to the office."}
"""What the provider makes of it."""

MEANWHILE = {"role": "user", "content": "One more thing: ring twice."}
"""What another run appends while the provider works."""


def write(path: Path, start: datetime) -> None:
    """Write the database.

    Args:
        path: The file; it does not exist yet.
        start: When the conversation began.

    Raises:
        OSError: It cannot be written.
    """
    name = SESSION.partition(":")[2]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_TABLES)
        database.execute("INSERT INTO agent_sessions VALUES (?, ?, ?)", (name, _text(start, 0), _text(start, 68)))
        database.executemany(
            "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)",
            [(name, json.dumps(item), _text(start, after)) for after, item in _SAID],
        )


def _text(start: datetime, after_s: int) -> str:
    return (start + timedelta(seconds=after_s)).strftime("%Y-%m-%d %H:%M:%S")
