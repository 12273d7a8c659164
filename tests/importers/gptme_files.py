"""Conversations of gptme as its files have them, and what a ledger then shows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rightful import content
from rightful.events import (
    EventWithdrawn,
    HistoryCompacted,
    HistoryPopped,
    MessageRecorded,
    ToolCallSnapshotted,
    ToolResultSnapshotted,
)
from rightful.ledger import Ledger

SESSION = "gptme:fox"

Message = dict[str, Any]


def at(second: int) -> str:
    return f"2026-08-01T10:15:{second:02}.000001"


def said(second: int, role: str, text: str, **fields: Any) -> Message:
    return {"role": role, "content": text, "timestamp": at(second)} | fields


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def event(seq: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"seq": seq, "ts": f"2026-08-01T10:16:{seq:02}.000001+00:00", "type": kind, "payload": payload}


def appended(seq: int, message: Message) -> dict[str, Any]:
    return event(seq, "message_append", message=message)


def rows(ledger: Ledger, session: str = SESSION) -> set[tuple[str, str, bytes | None]]:
    """What there is, whatever its order."""
    return {
        (row.envelope.id, row.envelope.outcome, row.body)
        for page in ledger.log.scan()
        for row in page
        if row.envelope.session == session
    }


def history(ledger: Ledger, session: str = SESSION) -> list[str]:
    """What the model would see next: a plain reading of the design's rules, over rows in their order."""
    shown: list[tuple[tuple[str, int], str]] = []
    gone: set[tuple[str, int]] = set()
    withdrawn = {row.event.id for row in ledger.read(session=session) if isinstance(row.event, EventWithdrawn)}
    for row in ledger.read(session=session):
        if row.id in withdrawn:
            continue
        match row.event:
            case MessageRecorded() as one:
                shown.append(((row.id, 0), str(one.content)))
            case ToolCallSnapshotted() as one:
                shown.append(((row.id, 0), f"call {one.name} {json.dumps(content.restore(one.arguments))}"))
            case ToolResultSnapshotted() as one:
                shown.append(((row.id, 0), f"result {one.output}"))
            case HistoryPopped() as one:
                gone |= {(item[0], item[1]) for item in one.items if isinstance(item, tuple)}
            case HistoryCompacted() as one:
                covers = {(item[0], item[1]) for item in one.covers if isinstance(item, tuple)}
                place = next((n for n, (item, _) in enumerate(shown) if item in covers), len(shown))
                put = [((row.id, n), str(item["content"])) for n, item in enumerate(one.items)]
                shown[place:place] = put
                gone |= covers
            case _:
                pass
    return [text for item, text in shown if item not in gone]


def said_in(ledger: Ledger, session: str = SESSION) -> list[str]:
    """The texts of all messages, in the order of their rows."""
    events = [row.event for row in ledger.read(session=session)]
    return [str(one.content) for one in events if isinstance(one, MessageRecorded)]
