"""The kind `openai-agents`: the SQLite databases of the sessions of the OpenAI Agents SDK.

| in the database | events |
|---|---|
| a session | `session.started` of `openai-agents:<session_id>`, with its database and table |
| a message | `history.appended`, one per row; its time is the row's `created_at` (UTC) |
| an imported message that was deleted | `history.popped`: a pop, a clear or a compaction of the SDK deletes rows |
| a branch other than `main` | the session `openai-agents:<session_id>/branch/<branch_id>`, begun by `history.forked` if it shares its first messages with another one |
| the usage of a turn | `usage.recorded` |

So after an import the view of a session equals `get_items()` of the SDK, and its full history has everything that was
ever imported. The key of a row is the session, the row's id, a digest of its time and text, and how often it was
imported and deleted before: the same row id in another database is another row.

Only imported items are compared: items of other producers are never popped or moved. Once another producer has
written, the session continues in the ledger, and rows deleted from the database stay in the ledger's view.
"""  # noqa: E501 - a table

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.openai_agents.sdk_tables import stores_of
from rightful.importers.sources.sqlite_databases import WAL

if TYPE_CHECKING:
    from sqlite3 import Connection

    from rightful.importers.engine.file_import import FileImport
    from rightful.importers.engine.formats import Origin, Reader
    from rightful.importers.sources.sqlite_databases import Share
    from rightful.log.log import Log


class OpenAIAgents:
    """The kind `openai-agents`. A prefix of the SDK's ids allows two databases with the same ids."""

    NAME = "openai-agents"

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return False: no JSON object is of this kind."""
        del value
        return False

    def reader(self, origin: Origin) -> Reader:
        """Refuse a file that is not a database.

        Raises:
            InvalidEventError: Always.
        """
        del origin
        raise InvalidEventError("Expected a SQLite database of the OpenAI Agents SDK, got another file")

    def matches(self, connection: Connection) -> bool:
        """Return whether a database has sessions of the SDK."""
        return bool(stores_of(connection))

    def import_rows(self, run: FileImport, log: Log, origin: Origin, connection: Connection, share: Share) -> None:
        """Append the new rows of the database, and pop those that are no longer in it."""
        from rightful.importers.openai_agents.conversation_import import DatabaseImport
        from rightful.importers.openai_agents.conversations import conversations_of

        path = os.path.realpath(origin.path)
        source = os.fsencode(path).decode("utf-8", "backslashreplace")
        importing = DatabaseImport(run, log, connection, source, _time_of(path, origin.mtime_us or 0), self._prefix)
        found = list(conversations_of(run, connection, self._prefix))
        share.total = len(found)
        for conversation in found:
            importing.import_conversation(conversation)
            share.done += 1
        importing.remove_missing({conversation.name for conversation in found}, stores_of(connection))


def _time_of(path: str, mtime_us: int) -> dict[str, Any]:
    """Return when a database, or its `-wal` file, was last written."""
    with suppress(OSError):
        mtime_us = max(mtime_us, os.stat(f"{path}{WAL}").st_mtime_ns // 1_000)  # noqa: PTH116 - a suffix is appended to the path
    return {"at": times.text_of(mtime_us), "at_basis": "file"}
