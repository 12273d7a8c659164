"""The whole loop: two runs in one second, each shown a lesson of its own, each paid for it and for nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.running import Place

import rightful

HOOK = """
mkdir -p state/lesson-trajectories
printf '{"ts": 1785579301.5, "session_id": "%s", "event": "UserPromptSubmit", "current_tool": "", "tool_seq": [], \
"tool_count": 0, "lessons": [{"path": "%s", "title": "x", "score": 2.0, "matched_by": ["x"]}]}\\n' \
  "$FAKE_NATIVE" "lessons/$LESSON.md" \
  >> "state/lesson-trajectories/$(date +%Y-%m-%d).jsonl"
printf '{"session_id": "%s", "hook_event_name": "Stop", "cwd": "%s", "transcript_path": "/t"}' "$FAKE_NATIVE" "$PWD" \
  | "$PY" -m rightful hook run claude-code --ledger "$RIGHTFUL_LEDGER"
"""
OWN = """
printf '{"type": "exposure.recorded", "producer": "skill", "key": "%s", "session": "%s", \
"at": "2026-08-01T10:15:00Z", "arms": [{"arm": "%s"}]}\\n' "$RIGHTFUL_SESSION" "$RIGHTFUL_SESSION" "own/$LESSON.md" \
  | "$PY" -m rightful ingest -
"""


def dispatched(place: Place, lesson: str, *words: str) -> str:
    report = place.root / lesson
    env = place.env(LESSON=lesson, FAKE_SHELL=HOOK + OWN, PY=sys.executable)
    process = place.start("--quiet", "--report", report, *words, "--", "claude", "-p", "x", env=env)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return str(json.loads(report.read_text())["session"])


def test_a_grade_of_a_run_pays_what_its_hook_and_its_own_words_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    good, bad = dispatched(place, "good"), dispatched(place, "bad")

    with rightful.open(place.ledger) as ledger:
        judge = ledger.producer("judge")
        judge.grade(good, 1.0, seq=1)
        judge.grade(bad, 0.0, seq=1)
        arms = {name: (arm.alpha, arm.beta) for name, arm in ledger.posteriors().arms.items()}

    assert arms == {
        "lessons/good.md": (2.0, 1.0), "own/good.md": (2.0, 1.0),
        "lessons/bad.md": (1.0, 2.0), "own/bad.md": (1.0, 2.0),
    }  # fmt: skip


def test_a_run_that_has_its_dispatchers_name_is_paid_under_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    session = dispatched(place, "good", "--session", "workspace:41c2")

    with rightful.open(place.ledger) as ledger:
        ledger.producer("credit").grade(session, 0.8, seq=1)
        arms = {name: arm.alpha for name, arm in ledger.posteriors().arms.items()}

    assert arms == {"lessons/good.md": 1.8, "own/good.md": 1.8}
