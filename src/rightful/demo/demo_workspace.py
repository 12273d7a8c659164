"""The demo's workspace: ten sessions in the real formats, side by side, where the newest-file rule goes wrong.

All names, times and grades are fixed. Long sessions that quote their paths do well, short sessions that retry blindly
do badly. Each session is graded just after the next one was shown its lessons, so the newest exposure nearly always
belongs to another session. The last session has only a state file and no grade. The bandit's state file is what the
historical updater wrote: each grade credited to the lessons that were shown last. The first session has a transcript of
Claude Code and the log that its run printed. There is also the database of an app on the OpenAI Agents SDK.
"""

from __future__ import annotations

import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rightful.demo import demo_history, demo_transcripts

START = datetime(2026, 8, 1, 10, 0, tzinfo=UTC)
"""When the first session began."""

LESSONS = "/home/dev/lessons"
"""Where the demo's lessons would be."""

_HALF = 0.5  # of the reward

GOOD = ("quote-paths.md", "small-commits.md")
BAD = ("retry-blindly.md",)


class Session(NamedTuple):
    """One session of the demo.

    Attributes:
        label: The workspace's short id; it is used again, as real ones are.
        start: When it began; minutes after `START`.
        end: When it ended and was graded; minutes after `START`.
        lessons: What it was shown a minute after it began.
        grade: The reward; None for a session without a grade.
        harness: What ran it.
    """

    label: str
    start: int
    end: int
    lessons: tuple[str, ...]
    grade: float | None
    harness: str = "claude-code"

    @property
    def native(self) -> str:
        """The UUID under which the harness knows it."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"demo.rightful.{self.label}.{self.start}"))


SESSIONS = (
    Session("41c2", 0, 30, GOOD, 0.9),
    Session("8be0", 20, 50, BAD, 0.15),
    Session("c7d9", 40, 70, GOOD, 0.85),
    Session("0f3a", 60, 90, BAD, 0.1),
    Session("41c2", 80, 110, GOOD, 0.95),
    Session("d21e", 100, 130, BAD, 0.2),
    Session("77b4", 120, 150, GOOD, 0.8),
    Session("5e6f", 140, 170, BAD, 0.05),
    Session("a90c", 172, 175, (), 0.7, "codex"),
    Session("e1d8", 180, 200, BAD, None),
)


class Workspace(NamedTuple):
    """Where the demo's files are.

    Attributes:
        lesson_hook: The paths that the lesson hook wrote.
        session_records: The session records.
        bandit_state: What the updater left, as gptme_sessions reads it.
        transcripts: The folder of Claude Code's transcripts, and the log of a run.
        database: The database of an app on the OpenAI Agents SDK.
    """

    lesson_hook: tuple[Path, ...]
    session_records: Path
    bandit_state: Path
    transcripts: tuple[Path, Path]
    database: Path


def write(folder: Path) -> Workspace:
    """Write the workspace below a folder and return where things are.

    Raises:
        OSError: It cannot be written.
    """
    state_files = folder / "tmp" / "claude-lesson-match"
    trajectories = folder / "state" / "lesson-trajectories"
    dropouts = folder / "state" / "lesson-dropout"
    records = folder / "state" / "sessions"
    bandit = folder / "state" / "bandit"
    for made in (state_files, trajectories, dropouts, records, bandit):
        made.mkdir(parents=True)
    first, *_, last = SESSIONS
    logged = [session for session in SESSIONS if session.lessons and session is not last]
    _write_lines(trajectories / "2026-08-01.jsonl", [_trajectory(session) for session in logged])
    _write_state(state_files / f"{last.native}.json", last)
    _write_lines(dropouts / f"{first.native}.jsonl", [_dropout(first)])
    path = records / "session-records.jsonl"
    _write_lines(path, [_record(session) for session in SESSIONS if session.grade is not None])
    (bandit / "bandit-state.json").write_text(json.dumps(_bandit_state(), indent=2) + "\n", "utf-8")
    transcripts = folder / "claude" / "projects", folder / "tmp" / "cc-session-20260801-1000.log"
    demo_transcripts.write(*transcripts, first.native, _at(first.start))
    database = folder / "app" / "sessions.db"
    database.parent.mkdir()
    demo_history.write(database, START)
    hook_folders = (state_files, trajectories, dropouts)
    return Workspace(hook_folders, path, bandit / "bandit-state.json", transcripts, database)


def _at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def _lesson(name: str) -> dict[str, Any]:
    title = Path(name).stem.replace("-", " ").title()
    return {"path": f"{LESSONS}/{name}", "title": title}


def _trajectory(session: Session) -> dict[str, Any]:
    lessons = [_lesson(name) | {"score": 2.0, "matched_by": [Path(name).stem]} for name in session.lessons]
    return {
        "ts": _at(session.start + 1).timestamp(),
        "session_id": session.native,
        "event": "UserPromptSubmit",
        "current_tool": "",
        "tool_seq": [],
        "tool_count": 0,
        "lessons": lessons,
    }


def _dropout(session: Session) -> dict[str, Any]:
    ts = _at(session.start + 1).timestamp()
    return {"ts": ts, "session_id": session.native, "epsilon": 0.3, "withheld": [_lesson("run-tests-first.md")]}


def _write_state(path: Path, session: Session) -> None:
    shown_at_s = _at(session.start + 1).timestamp()
    state = {"injected": [f"{LESSONS}/{name}" for name in session.lessons], "last_pretool": shown_at_s}
    path.write_text(json.dumps(state), "utf-8")
    os.utime(path, (shown_at_s, shown_at_s))


def _record(session: Session) -> dict[str, Any]:
    path = f"/home/dev/.claude/projects/-home-dev-proj/{session.native}.jsonl"
    return {
        "session_id": session.label,
        "timestamp": _at(session.end).isoformat(),
        "start_time": _at(session.start).isoformat(),
        "end_time": _at(session.end).isoformat(),
        "harness": session.harness,
        "model": "opus",
        "outcome": "productive" if (session.grade or 0.0) > _HALF else "noop",
        "duration_seconds": (session.end - session.start) * 60,
        "trajectory_path": path if session.harness == "claude-code" else None,
        "trajectory_grade": session.grade,
    }


def _bandit_state() -> dict[str, Any]:
    """Return the state of an updater that joins each grade with the newest exposure."""
    arms: dict[str, dict[str, Any]] = {}
    graded = sorted((session for session in SESSIONS if session.grade is not None), key=lambda session: session.end)
    for session in graded:
        reward, now = session.grade or 0.0, _at(session.end).isoformat()
        earlier = [other for other in SESSIONS if other.lessons and other.start + 1 <= session.end]
        for name in max(earlier, key=lambda other: other.start).lessons:
            arm = f"{LESSONS}/{name}"
            empty = {"arm_id": arm, "alpha": 1.0, "beta": 1.0, "total_selections": 0, "total_rewards": 0}
            state = arms.setdefault(arm, empty)
            state["alpha"] += reward
            state["beta"] += 1.0 - reward
            state["total_selections"] += 1
            state["total_rewards"] += reward > _HALF
            state["last_updated"] = now
    times = {"created": START.isoformat(), "last_updated": _at(graded[-1].end).isoformat()}
    return {"arms": arms, "total_sessions": len(graded), **times}


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
