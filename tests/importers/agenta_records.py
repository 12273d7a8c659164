"""Bodies of Agenta's ingest endpoint, as short as a test needs them, and what is asked of their import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rightful.importers.engine.file_report import FileReport
from rightful.ledger import Ledger
from rightful.log.rows import Stored

AT = "2026-08-01T10:00:00.120Z"
TOOL_CALL = {"type": "tool_call", "id": "call_1", "name": "bash", "input": {"command": "ls"}}

Taker = Callable[..., FileReport]


def body(kind: str, attributes: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    common = {"session_id": "sess-1", "record_index": 0, "timestamp": AT, "record_source": "agent", "turn_id": "turn-1"}
    return common | {"record_type": kind, "attributes": {"type": kind} | (attributes or {})} | fields


def outcomes(report: FileReport) -> list[str]:
    return [one["outcome"] for one in report.as_dict()["receipts"]]


def said(report: FileReport) -> list[str]:
    return [problem.what for problem in report.problems]


def rows(ledger: Ledger) -> list[Stored]:
    return [row for page in ledger.log.scan() for row in page]


def only(ledger: Ledger) -> Any:
    [row] = ledger.read()
    return row.event
