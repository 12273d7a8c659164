"""The demo's transcript: what Claude Code keeps of a session, and the log that its run printed of the same."""

from __future__ import annotations

import json
import os
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_CWD = "/home/dev/proj"
_SAID: tuple[tuple[int, str, list[dict[str, Any]]], ...] = (
    (0, "user", [{"type": "text", "text": "The build breaks on a file name with a space."}]),
    (4, "assistant", [{"type": "text", "text": "I look for names that are not quoted."}]),
    (5, "assistant", [{"type": "tool_use", "id": "toolu_01", "name": "Grep", "input": {"pattern": "cp [$]"}}]),
    (6, "user", [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "build.sh:7: cp $name out/"}]),
    (9, "assistant", [{"type": "tool_use", "id": "toolu_02", "name": "Bash", "input": {"command": "sh build.sh"}}]),
    (12, "user", [{"type": "tool_result", "tool_use_id": "toolu_02", "content": "exit 1", "is_error": True}]),
    (15, "assistant", [{"type": "text", "text": "Line 7 lacks the quotes; with them the build is whole."}]),
)
"""Seconds after the start, who, and what."""


def write(projects: Path, log: Path, native: str, start: datetime) -> None:
    """Write a session's transcript and the log of its run.

    Args:
        projects: The folder of all projects; made.
        log: The file of the log.
        native: The session's id.
        start: When it began.

    Raises:
        OSError: They cannot be written.
    """
    project = projects / "-home-dev-proj"
    project.mkdir(parents=True)
    records = [_record(native, place, start) for place in range(len(_SAID))]
    opened = {"type": "system", "subtype": "init", "cwd": _CWD, "session_id": native, "model": "opus"}
    _write(project / f"{native}.jsonl", records, start)
    _write(log, [opened, *map(_streamed, records)], start)


def _record(native: str, place: int, start: datetime) -> dict[str, Any]:
    after, role, content = _SAID[place]
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        message = {"id": f"msg_{place}", "model": "opus", **message}
    return {
        "type": role,
        "uuid": _uuid(native, place),
        "parentUuid": _uuid(native, place - 1) if place else None,
        "sessionId": native,
        "isSidechain": False,
        "cwd": _CWD,
        "timestamp": (start + timedelta(seconds=after)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "message": message,
    }


def _streamed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as the run prints it: without times and without the chain."""
    kept = {name: record[name] for name in ("type", "message", "uuid")}
    return kept | {"session_id": record["sessionId"], "parent_tool_use_id": None}


def _uuid(native: str, place: int) -> str:
    return str(uuid.uuid5(uuid.UUID(native), str(place)))


def _write(path: Path, rows: list[dict[str, Any]], start: datetime) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    end = (start + timedelta(seconds=_SAID[-1][0])).timestamp()
    os.utime(path, (end, end))
