"""Many runs in few seconds, of which some left no transcript: what is given to a run is its own, always."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers import transcript_writers as write
from tests.locate.searching import WRITERS, pointer

from rightful import limits, times
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.record_lines import rows_of

START_US = times.us_from("2026-08-01T10:15:00Z")
SECOND_US = 1_000_000
LABELS = ["41c2", "36d9"]
RECORDED = {
    "claude-code": "x/.claude/projects/y/%s.jsonl",
    "codex": "x/rollout-2026-%s.jsonl",
    "copilot": "x/session-state/%s/events.jsonl",
    "gptme": "x/%s/conversation.jsonl",
}

_runs = st.lists(
    st.fixed_dictionaries(
        {
            "label": st.none() | st.sampled_from(LABELS),
            "start": st.integers(0, 4 * limits.LOCATE_WINDOW_S),
            "lag": st.integers(0, 8),
            "lasts": st.integers(5, 900),
            "tool": st.sampled_from(list(WRITERS)),
            "cwd": st.sampled_from([write.CWD, "/home/dev/my-proj"]),
            "known_by": st.sampled_from(["nothing", "nothing", "marker", "pointer", "record"]),
            "has_left_one": st.booleans(),
            "says_its_start": st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda one: (one["label"], one["start"]),
)


def make(root: Path, number: int, of: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Let a run happen; return its record and where its transcript stands."""
    native = f"b381dcfa-da0b-5cf5-849f-5787aaac92{number:02d}"
    label = of["label"] or f"0d1f2a3b-da0b-5cf5-849f-5787aaac92{number:02d}"
    start_us = START_US + of["start"] * SECOND_US
    end = times.text_of(start_us + of["lasts"] * SECOND_US)
    record = {"session_id": label, "timestamp": end, "duration_seconds": of["lasts"], "harness": of["tool"],
              "journal_path": f"{of['cwd']}/journal/x/autonomous-session-{number:04x}ff.md"}  # fmt: skip
    if of["says_its_start"]:
        record["start_time"] = times.text_of(start_us)
    if of["known_by"] == "record":
        folder = RECORDED[of["tool"]]
        record["trajectory_path"] = "/gone/" + folder % native
    if not of["has_left_one"]:
        return record, None
    prompt = write.marker(label, of["tool"]) if of["known_by"] == "marker" else "Fix it"
    at = times.text_of(start_us + of["lag"] * SECOND_US // 2)
    path = WRITERS[of["tool"]](root, native, at, prompt, cwd=of["cwd"])
    if of["known_by"] == "pointer" and of["tool"] == "gptme":
        pointer(root, f"gptme-traj-{label}.path", path)
    return record, str(path)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(runs=_runs)
def test_no_run_is_given_the_transcript_of_another(runs: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        made = [make(root, number, of) for number, of in enumerate(runs)]
        rows = rows_of("\n".join(json.dumps(record) for record, _ in made).encode(), "x").rows
        own = {row.session.name: path for row, (_, path) in zip(rows, made, strict=True) if row.session is not None}
        found = find_transcripts.find_missing(LedgerSessions(), rows, find_transcripts.search_folders([name], {}, root))
        given_to = {name: one.owner.file.path for name, one in found.answers.items() if one.owner is not None}
        assert given_to.items() <= own.items()
