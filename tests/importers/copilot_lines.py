"""Records as Copilot CLI writes them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tests.importers import reading_lines
from tests.importers.reading_lines import Row

from rightful.identity import event_id
from rightful.importers.copilot.copilot_session import Copilot
from rightful.importers.shared.foreign_fields import key_of

SID = "be6aa57a-2f5f-4831-9583-727114d79be7"
SESSION = f"copilot:{SID}"
ASKED, ASKED_AGAIN = "7ec83367-09bf-4a8d-b1d0-ffff69127903", "0d2f7c5e-3b1a-4c8d-9e6f-5a4b3c2d1e0f"
PATH = f"/c/session-state/{SID}/events.jsonl"


def uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def eid(name: str) -> str:
    """The id of the one event that the record of that name is."""
    return event_id("copilot", key_of(SID, uid(name), "record"))


def record(kind: str, name: str, /, *, agent: str | None = None, **data: Any) -> Row:
    """A record; its name gives its id, and the digits of that its second."""
    second = int("".join(filter(str.isdigit, name)) or 0)
    row = {"type": kind, "data": data, "id": uid(name), "timestamp": f"2026-08-01T10:15:{second:02d}.000Z"}
    return row | {"parentId": None} | ({} if agent is None else {"agentId": agent})


def start(name: str = "s0", **data: Any) -> Row:
    said: Row = {"sessionId": SID, "version": 1, "producer": "copilot-agent", "selectedModel": "gpt-5"}
    whole: Row = said | {"context": {"cwd": "/w", "branch": "main"}} | data
    return record("session.start", name, **whole)


def asked(name: str, content: str, of: str = ASKED, **data: Any) -> Row:
    return record("user.message", name, content=content, attachments=[], interactionId=of, **data)


def turn(name: str, number: str = "0", of: str | None = ASKED, agent: str | None = None) -> Row:
    where = {} if of is None else {"interactionId": of}
    return record("assistant.turn_start", name, agent=agent, turnId=number, **where)


def turned(name: str, number: str = "0", agent: str | None = None) -> Row:
    return record("assistant.turn_end", name, agent=agent, turnId=number)


def answer(name: str, content: str, *calls: Row, agent: str | None = None, **data: Any) -> Row:
    said = {"messageId": uid(f"m-{name}"), "content": content, "toolRequests": list(calls)}
    return record("assistant.message", name, agent=agent, **(said | data))


def request(call: str, name: str = "bash", **arguments: Any) -> Row:
    return {"toolCallId": call, "name": name, "arguments": arguments, "type": "function"}


def started(name: str, call: str, agent: str | None = None, **arguments: Any) -> Row:
    return record("tool.execution_start", name, agent=agent, toolCallId=call, toolName="bash", arguments=arguments)


def completed(name: str, call: str, output: str = "ok", agent: str | None = None, **data: Any) -> Row:
    said = {"toolCallId": call, "success": True, "result": {"content": output}}
    return record("tool.execution_complete", name, agent=agent, **(said | data))


def read(*rows: Mapping[str, Any], path: str = PATH, whole: bool = False) -> list[Any]:
    """What is read of records; of the session's own start only where the whole is asked for."""
    said_of = reading_lines.read(Copilot(), path, rows if whole else [start(), *rows])
    return said_of if whole else said_of[1:]
