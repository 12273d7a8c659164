"""A newer version of a tool, or a broken one, writes other shapes: problems come of it, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers import test_claude_code_growth, test_transcripts_growth
from tests.importers.growing import kind_of
from tests.importers.reading_lines import SAMPLES, Row

from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import End, Origin
from rightful.importers.sources.text_files import Found, Problem

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    float("nan"),
    2**70,
    "",
    "\0",
    "\ud800",
    "a\u2028\x1b[31m",
    "../..",
    "x" * 300,
]
ODD += [
    "x" * 300,
    [],
    {},
    [None],
    [[]],
    {"a": None},
    {"\ud800": 1},
    [{"type": "text", "text": 3}],
    [{"type": "tool_use"}],
]
ODD += ['{"a":1}', "{", "unknown", "9999-12-31T23:59:59Z", {"type": ["text"]}, [{"type": {}, "text": "a"}]]

CLAUDE, GPTME = (
    "rightful.importers.claude_code.claude_transcript:ClaudeCode",
    "rightful.importers.gptme.conversation:Gptme",
)
FOX = SAMPLES / "gptme" / "logs" / "2026-08-01-running-blue-fox"
READ: dict[str, tuple[str, Path]] = {
    "stream log": (CLAUDE, SAMPLES / "tmp" / "cc-session-20260801-1015.log"),
    "conversation": (GPTME, FOX / "conversation.jsonl"),
    "event log": (GPTME, FOX / "events.jsonl"),
    "branch": (GPTME, FOX / "branches" / "main-undo-0.jsonl"),
    "view": (GPTME, FOX / "views" / "compacted-001.jsonl"),
    "labels": (GPTME, FOX / "conv-checkpoints.jsonl"),
    "receipts": ("rightful.importers.gptme_records.receipts:GptmeReceipts", SAMPLES / "gptme" / "receipts.jsonl"),
}
MADE = test_transcripts_growth.FILES | {
    "claude-code": (CLAUDE, test_claude_code_growth.NAME, test_claude_code_growth.everything())
}


def rows_of(data: bytes) -> list[Row]:
    rows = []
    for line in data.split(b"\n"):
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


FILES = {name: (kind, str(path), rows_of(path.read_bytes())) for name, (kind, path) in READ.items()}
FILES |= {tool: (kind, f"/t/session-state/{name}", rows_of(data)) for tool, (kind, name, data) in MADE.items()}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a row, the row itself excepted."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(one, (*at, key))


def changed(rows: list[Row], number: int, at: tuple[Any, ...], to: Any) -> list[Row]:
    rows = copy.deepcopy(rows)
    inside: Any = rows[number]
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = to
    return rows


@pytest.mark.parametrize("name", list(FILES))
def test_whatever_stands_in_a_field_makes_events_or_problems(name: str) -> None:
    kind, path, rows = FILES[name]
    every = [(number, at) for number, row in enumerate(rows) for at in places(row)]

    @settings(max_examples=examples(150), deadline=None, database=None)
    @given(st.sampled_from(every), st.sampled_from(ODD))
    def check(place: tuple[int, tuple[Any, ...]], odd: Any) -> None:
        reader = kind_of(kind).reader(Origin(path, 5))
        for number, row in enumerate(changed(rows, *place, odd), 1):
            read(reader.events(Found(number, row)))
        read(reader.finish(End("0" * 64, is_whole=True)))
        reader.state()  # type: ignore[attr-defined]

    check()


def read(said: Any) -> None:
    with suppress(InvalidEventError):
        for item in said:
            if not isinstance(item, Problem):
                with suppress(InvalidEventError):
                    wire.check(item)
