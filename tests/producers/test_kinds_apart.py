"""Every file of every tool is told by exactly one kind, whatever the order in which they are asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.producers.reading_lines import SAMPLES

from rightful.cli.import_ import AUTO, KINDS, kinds
from rightful.producers.importing.files import Found, objects_of

EXPECTED = {
    "claude": "claude-code",
    "codex": "codex",
    "copilot": "copilot",
    "grok": "grok",
    "tmp/cc-session-20260801-1015.log": "claude-code",
    "tmp/cc-session-7fbe4341-0d57-4016-8374-1ed5e8da4b1b-lessons.jsonl": "lesson-hook",
    "tmp/claude-lesson-match": "lesson-hook",
    "gptme": "gptme",
    "gptme/receipts.jsonl": "receipts",
    "gptme-runs": "gptme",
    "manifest": "manifest",
    "legacy": "bandit-state",
    "xdg": "bandit-state",
    "ws/state/bandit": "bandit-state",
    "ws/state/lesson-thompson/bandit-state.json": "bandit-state",
    "ws/state/pm-dispatch": "bandit-state",
    "ws/state/sessions": "session-records",
    "ws/state/lesson-trajectories": "lesson-hook",
    "ws/state/lesson-dropout": "lesson-hook",
}
"""Whose files stand where; the longest place that fits counts. Elsewhere nobody's."""

NOBODYS = {"prediction-model.json", "loo-results.json", "sessions.jsonl", "truncated.json"}
FILES = sorted(path for path in SAMPLES.rglob("*") if path.suffix in {".json", ".jsonl", ".log"})


def expected(path: Path) -> str | None:
    place = path.relative_to(SAMPLES).as_posix()
    fitting = [name for name in EXPECTED if place == name or place.startswith(f"{name}/")]
    return EXPECTED[max(fitting, key=len)] if fitting and path.name not in NOBODYS else None


def kinds_of(path: Path) -> list[set[str]]:
    """Of each object of a file that any kind knows, which kinds know it."""
    with path.open("rb") as stream:
        found = [item.value for item in objects_of(stream) if isinstance(item, Found)]
    told = [{kind.NAME for kind in kinds(AUTO) if kind.recognises(value)} for value in found]
    return [names for names in told if names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SAMPLES).as_posix())
def test_every_sample_file_is_told_by_exactly_one_kind(path: Path) -> None:
    wanted = expected(path)
    if wanted is not None and wanted not in KINDS:
        pytest.skip(f"the kind {wanted} is not here yet")

    told = kinds_of(path)
    if wanted is None:
        assert told == []
    else:
        assert told
        assert all(names == {wanted} for names in told), told
