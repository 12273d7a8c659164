"""Whatever stands in a file, reading whose it is ends with an answer or with none."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers.transcript_writers import marker

from rightful.locate.evidence import evidence_of

_NAMES = [
    "type",
    "timestamp",
    "payload",
    "sessionId",
    "session_id",
    "message",
    "content",
    "role",
    "data",
    "id",
    "cwd",
    "isSidechain",
    "context",
    "startTime",
    "text",
    "forked_from_id",
    "leafUuid",
    "toolCallId",
    "commands",
    "parent_tool_use_id",
]
_WORDS = [
    "user",
    "assistant",
    "system",
    "result",
    "session_meta",
    "response_item",
    "event_msg",
    "user_message",
    "message",
    "session.start",
    "user.message",
    "available_commands",
    "tool_call",
    "text",
    "summary",
    "file-history-snapshot",
    "2026-08-01T10:15:00Z",
    "0001-01-01",
]
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([*_WORDS, marker("41c2", "x")])
    | st.text()
)
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip
_lines = st.dictionaries(st.sampled_from(_NAMES), _values, max_size=8)


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    lines=st.lists(_lines, max_size=6),
    name=st.sampled_from(["conversation.jsonl", "events.jsonl", "x.jsonl", "rollout-x.jsonl", "agent-1.jsonl"]),
    cut=st.integers(0, 40),
    noise=st.binary(max_size=12),
)
def test_no_content_breaks_it(lines: list[dict[str, Any]], name: str, cut: int, noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        data = b"\n".join(json.dumps(line).encode() for line in lines)
        path.write_bytes(data[: len(data) - cut] + noise + data[:cut])
        (Path(folder) / "config.toml").write_bytes(noise)
        found = evidence_of(path)
        assert found is None or found.size == path.stat().st_size
        assert found is None or all(isinstance(one, str) for one in found.ids)
