"""Lines as Claude Code writes them, and what its reader makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rightful.identity import event_id
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.formats import End, Origin
from rightful.importers.sources.text_files import Found, Problem

A = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
B = "203a971d-e91f-4c53-bc91-065beaa5b283"
MTIME_US = 1_785_600_000_000_000
MTIME = "2026-08-01T16:00:00Z"

Row = dict[str, Any]


def line(kind: str, uuid: str, parent: str | None, message: object = None, **fields: Any) -> Row:
    """A line of a transcript; the digits of its `uuid`, if it has some, are its second."""
    second = int("".join(filter(str.isdigit, uuid)) or 0)
    row = {"parentUuid": parent, "isSidechain": False, "cwd": "/w", "sessionId": A, "version": "2.1", "type": kind}
    said = {} if message is None else {"message": message}
    return row | said | {"uuid": uuid, "timestamp": f"2026-08-01T10:00:{second:02d}.000Z"} | fields


def user(uuid: str, parent: str | None, content: object, **fields: Any) -> Row:
    return line("user", uuid, parent, {"role": "user", "content": content}, **fields)


def result(uuid: str, parent: str, call: str, output: object = "done", **fields: Any) -> Row:
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": call, "content": output}], **fields)


def model(uuid: str, parent: str, *blocks: Row | str, of: str = "msg_1", stop: str | None = None, **fields: Any) -> Row:
    """A line of the model's; a text is a block of text."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    usage = fields.pop("usage", None)
    message = {"id": of, "role": "assistant", "model": "opus", "content": content, "stop_reason": stop}
    return line("assistant", uuid, parent, message | ({} if usage is None else {"usage": usage}), **fields)


def call(call_id: str, name: str = "Bash", **arguments: Any) -> Row:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def boundary(uuid: str, logical: str | None = None, **fields: Any) -> Row:
    told: Row = {"compactMetadata": {"trigger": "auto", "preTokens": 9}}
    if logical is not None:
        told["logicalParentUuid"] = logical
    return line("system", uuid, None, subtype="compact_boundary", **told) | fields


def in_log(row: Row) -> Row:
    """The line of a stream log that says the same."""
    kept = {name: row[name] for name in ("type", "subtype", "message", "uuid") if name in row}
    return kept | {"parent_tool_use_id": None, "session_id": row["sessionId"]}


def read(rows: Iterable[Mapping[str, Any]], path: str = f"/p/{A}.jsonl") -> list[Any]:
    """What the reader yields of the lines, its last notes among them."""
    reader = ClaudeCode().reader(Origin(path, MTIME_US))
    said: list[Any] = []
    for number, row in enumerate(rows, 1):
        said += reader.events(Found(number, dict(row)))
    return [*said, *reader.finish(End("0" * 64, is_whole=True))]


def of(said: Iterable[Any], *types: str) -> list[Row]:
    """The events of these types, of all types without one."""
    return [one for one in said if not isinstance(one, Problem) and (not types or one["type"] in types)]


def told(said: Iterable[Any], kind: str, *names: str) -> list[Any]:
    """What the events of a type say in these fields."""
    rows = [[one.get(name) for name in names] for one in of(said, kind)]
    return [row[0] if len(names) == 1 else tuple(row) for row in rows]


def item(uuid: str, place: int = 0, session: str = A) -> list[Any]:
    """The id of an item of the history."""
    return [event_id("claude-code", json.dumps([session, uuid, place], separators=(",", ":"))), 0]


def written(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return path
