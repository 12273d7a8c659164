"""What the reader of a transcript makes of lines, without a ledger; and with one, in the ledger's order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rightful.identity import event_id
from rightful.importers.engine.formats import End, Origin, Reader
from rightful.importers.sources.text_files import Found, Problem

MTIME_US = 1_785_600_000_000_000
MTIME = "2026-08-01T16:00:00Z"
SAMPLES = Path(__file__).parents[1] / "samples"

Row = dict[str, Any]


def read(kind: Any, path: str, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """What a kind's reader yields of lines, its last notes among them."""
    return read_by(kind.reader(Origin(path, MTIME_US)), rows)


def read_by(reader: Reader, rows: Iterable[Mapping[str, Any]], first: int = 1) -> list[Any]:
    """What a reader yields of lines that begin with that number."""
    said: list[Any] = []
    for number, row in enumerate(rows, first):
        said += reader.events(Found(number, dict(row)))
    return [*said, *reader.finish(End("0" * 64, is_whole=True))]


def written(rows: Iterable[object]) -> bytes:
    """Lines as a file has them."""
    return b"".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for row in rows)


def of(said: Iterable[Any], *types: str) -> list[Row]:
    """The events of these types, of all types without one."""
    return [one for one in said if not isinstance(one, Problem) and (not types or one["type"] in types)]


def told(said: Iterable[Any], kind: str, *names: str) -> list[Any]:
    """What the events of a type say in these fields; in one field, its values."""
    rows = [tuple(one.get(name) for name in names) for one in of(said, kind)]
    return [row[0] for row in rows] if len(names) == 1 else rows


def data_of(said: Iterable[Any], name: str) -> list[Any]:
    """The data that is kept under a name."""
    return [one["data"] for one in of(said, "data.recorded") if one["name"] == name]


def notes(said: Iterable[Any]) -> list[str]:
    return [one.what for one in said if isinstance(one, Problem)]


def id_of(event: Mapping[str, Any]) -> str:
    """The event's id, as the ledger would give it."""
    return str(event["id"]) if "id" in event else event_id(event["producer"], event["key"])
