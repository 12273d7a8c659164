"""Whatever stands in a line of Claude Code, it becomes valid events, or a problem with its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.formats import Origin
from rightful.importers.sources.text_files import Found, Problem

SAMPLES = Path(__file__).parents[1] / "samples"
FILES = [*SAMPLES.glob("claude/**/*.json*"), *SAMPLES.glob("tmp/cc-session-2*.log")]
LINES = [json.loads(line) for path in sorted(FILES) for line in path.read_bytes().splitlines()]
NAMES = [
    "7fbe4341-0d57-4016-8374-1ed5e8da4b1b.jsonl",
    "-",
    "s/subagents/agent-1.jsonl",
    "s/subagents/agent-1.meta.json",
]

TEXTS = ["", "x", "\ud800", "\x00", "y" * 600, "unknown", "2026-08-01T10:15:00Z"]
BLOCKS = [{}, {"type": "text"}, [{"type": "tool_result"}], [{"type": "tool_use", "id": "x"}], [], [None]]
ODD = st.sampled_from([None, True, 0, -1, 2**70, 1.5, float("nan"), *TEXTS, *BLOCKS])


def places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in a value something stands."""
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*place, key))


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Any]:
    """A line of a sample in which one or two things are others."""
    line: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from(list(places(line))))
        inside: Any = line
        for key in path:
            inside = inside[key]
        inside[last] = copy.deepcopy(draw(ODD))  # the next place may be within it
    return line


@given(st.lists(lines(), min_size=1, max_size=4), st.sampled_from(NAMES))
@example([{"type": "result", "session_id": "s", "num_turns": True}], "-")
def test_whatever_stands_in_a_line_it_becomes_valid_events_or_a_problem(rows: list[dict[str, Any]], name: str) -> None:
    reader = ClaudeCode().reader(Origin(f"/p/{name}", 1))
    for number, row in enumerate(rows, 1):
        said: list[Any] = []
        with suppress(InvalidEventError):
            said.extend(reader.events(Found(number, row)))
        for event in said:
            if not isinstance(event, Problem):
                wire.check(event)
        reader.restore(json.loads(json.dumps(reader.state())))
