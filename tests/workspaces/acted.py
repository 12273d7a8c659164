"""A workspace in which sessions, the lesson hook, the newest-file selector and the bandit act on real files.

Written from the observed behaviour of gptme-contrib's `match-lessons.py` (its state file, trajectory log, dropout
log and lesson events), of gptme-sessions' records, and of the updater that picked the newest state file. It shares
no code with Rightful; the bandit is `tests.bandit`.
"""

from __future__ import annotations

import json
import os
import random
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.bandit import Bandit

ZONES = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-7)))
HARD_S = 0.0003  # from the save of a state file to the line of the trajectory log


@dataclass
class Session:
    """One agent session, and what the hook will do in it."""

    native: str
    label: str
    start_s: float
    end_s: float
    reward: float | None
    injections: list[tuple[float, str, list[str]]] = field(default_factory=list)
    draws: list[tuple[float, list[str]]] = field(default_factory=list)
    logged: bool = True
    """The trajectory log has its lines; else only its state file and its lesson events, or the file alone."""
    evented: bool = True
    """Its lesson events were written."""


@dataclass
class Paid:
    """What the updater did with one grade."""

    session: str
    source: str | None
    arms: list[str]
    reward: float
    day: str


@dataclass
class Acted:
    """The workspace after everything happened: the files, and what the updater did."""

    root: Path
    sessions: list[Session]
    paid: list[Paid]
    bandit: Bandit

    @property
    def foreign(self) -> list[Paid]:
        return [paid for paid in self.paid if paid.source is not None and paid.source != paid.session]

    @property
    def states(self) -> Path:
        return self.root / "tmp" / "claude-lesson-match"

    @property
    def places(self) -> list[str]:
        """What an import reads."""
        return [str(self.root / "state"), str(self.root / "tmp")]


def safe(native: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", native)


class Workspace:
    """Acts a plan out, in the order of time."""

    def __init__(self, root: Path, sessions: list[Session], zone: timezone, *, bandit_file: bool = False) -> None:
        self.root, self.sessions, self.zone, self.bandit_file = root, sessions, zone, bandit_file
        self.states = root / "tmp" / "claude-lesson-match"
        self.records = root / "state" / "sessions" / "session-records.jsonl"
        for folder in (self.states, self.records.parent, root / "state" / "lesson-trajectories",
                       root / "state" / "lesson-dropout", root / "state" / "bandit"):  # fmt: skip
            folder.mkdir(parents=True, exist_ok=True)
        self.now_s = 0.0
        self.disk: dict[str, str] = {}
        self.paid: list[Paid] = []

    def _steps(self) -> Iterator[tuple[float, int, Any]]:
        for session in self.sessions:
            for at_s, kind, lessons in session.injections:
                yield at_s, 0, lambda s=session, k=kind, lessons=lessons: self.inject(s, k, lessons)
            for at_s, withheld in session.draws:
                yield at_s, 1, lambda s=session, withheld=withheld: self.draw(s, withheld)
            if session.reward is not None:
                yield session.end_s, 2, lambda s=session: self.grade(s)

    def act(self) -> Acted:
        for at_s, _, step in sorted(self._steps(), key=lambda step: step[:2]):
            self.now_s = at_s
            step()
        if self.bandit_file:
            (self.root / "state" / "bandit" / "bandit-state.json").write_text(self.disk["file"])
        return Acted(self.root, self.sessions, self.paid, self._bandit())

    def _bandit(self) -> Bandit:
        return Bandit(self.disk, lambda: datetime.fromtimestamp(self.now_s, UTC))

    def inject(self, session: Session, kind: str, lessons: list[str]) -> None:
        """`main` of the hook: what is new is saved, then logged, then printed."""
        path = self.states / f"{safe(session.native)}.json"
        state: dict[str, Any] = {"injected": [], "last_pretool": 0}
        if path.exists():
            state = json.loads(path.read_text())
        new = [lesson for lesson in lessons if lesson not in state["injected"]]
        if not new and (lessons or path.exists()):
            return
        state["injected"] = list({*state["injected"], *new})
        if kind == "PreToolUse":
            state["last_pretool"] = self.now_s
        path.write_text(json.dumps(state))
        os.utime(path, ns=(0, round(self.now_s * 1e9)))
        if new and session.logged:
            self._log_trajectory(session, kind, new)
        if new and session.evented:
            self._log_events(session, kind, new)

    def _log_trajectory(self, session: Session, kind: str, new: list[str]) -> None:
        day = datetime.fromtimestamp(self.now_s, self.zone).date().isoformat()
        listed = [{"path": one, "title": "T", "score": 1.5, "matched_by": ["git"]} for one in new]
        row = {"ts": self.now_s + HARD_S, "session_id": session.native, "event": kind, "current_tool": "",
               "tool_seq": [], "tool_count": 0, "lessons": listed}  # fmt: skip
        _add(self.root / "state" / "lesson-trajectories" / f"{day}.jsonl", row)

    def _log_events(self, session: Session, kind: str, new: list[str]) -> None:
        stamp = datetime.fromtimestamp(self.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for number, lesson in enumerate(new):
            row = {"lesson_name": Path(lesson).stem, "lesson_file": lesson, "match_type": "keyword",
                   "injection_point": kind, "sequence_order": number, "timestamp_inject": stamp}  # fmt: skip
            _add(self.root / "tmp" / f"cc-session-{safe(session.native)}-lessons.jsonl", row)

    def draw(self, session: Session, withheld: list[str]) -> None:
        """A match that dropout withheld, or that was shown before: a line of the dropout log, and no write."""
        row = {"ts": self.now_s, "session_id": session.native, "epsilon": 0.2,
               "withheld": [{"path": one, "title": "T"} for one in withheld]}  # fmt: skip
        _add(self.root / "state" / "lesson-dropout" / f"{session.native}.jsonl", row)

    def grade(self, session: Session) -> None:
        """The end of a session: its record, then the updater, which picks the newest file that lists anything."""
        assert session.reward is not None
        start, end = (datetime.fromtimestamp(at, self.zone) for at in (session.start_s, session.end_s))
        row = {"session_id": session.label, "start_time": start.isoformat(), "end_time": end.isoformat(),
               "timestamp": start.isoformat(), "harness": "claude-code", "model": "opus", "outcome": "productive",
               "trajectory_grade": session.reward,
               "trajectory_path": f"/home/dev/.claude/projects/-w/{session.native}.jsonl"}  # fmt: skip
        _add(self.records, row)
        source, arms = newest(self.states)
        if arms:
            self._bandit().update(arms, session.reward)
        day = end.astimezone(UTC).date().isoformat()
        self.paid.append(Paid(session.native, source, sorted(arms), session.reward, day))


def newest(states: Path) -> tuple[str | None, list[str]]:
    """The historical selector: the newest state file by its time that lists anything."""
    found: list[tuple[int, str, list[str]]] = []
    for path in states.iterdir():
        injected = json.loads(path.read_text())["injected"]
        if injected:
            found.append((path.stat().st_mtime_ns, path.stem, injected))
    if not found:
        return None, []
    _, name, injected = max(found)
    return name, injected


def _add(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def copy_changes_times(acted: Acted, at_s: float) -> None:
    """A clone, a copy or an rsync without -t: every file has the time of the copy."""
    for path in acted.states.iterdir():
        os.utime(path, (at_s, at_s))


# -- plans

LESSONS = tuple(f"/w/lessons/{name}.md" for name in ("git", "tests", "paths", "retry", "docs", "types"))
_BASE_S = 1_785_600_000


def random_plan(seed: int) -> tuple[list[Session], timezone]:
    """2 to 20 sessions that overlap and share lessons; some without exposures, some with an empty file.

    All moments have a second of their own, so that the order does not hang on a rounded time.
    """
    rng = random.Random(seed)
    count = rng.randint(2, 20)
    span_s = rng.choice((3_600, 40_000, 300_000))
    seconds = iter(rng.sample(range(60, span_s), min(count * 12, span_s - 60)))
    sessions = []
    for number in range(count):
        moments = sorted(_BASE_S + next(seconds) + rng.random() for _ in range(rng.randint(3, 8)))
        start_s, *between, end_s = moments
        reward = None if rng.random() < 0.1 else round(rng.random(), rng.randint(1, 16))
        session = Session(str(uuid.UUID(int=rng.getrandbits(128), version=4)), f"{number:04x}", start_s, end_s, reward)
        sort = rng.random()
        if sort < 0.1:  # nothing was ever shown, and no file written
            between = []
        elif sort < 0.2:  # an empty file
            session.injections.append((between[0], "PreToolUse", []))
            between = []
        elif sort < 0.35:  # one write, and nothing but the file tells of it
            session.logged = session.evented = False
            session.injections.append((between[0], rng.choice(_KINDS), rng.sample(LESSONS, rng.randint(1, 3))))
            between = between[1:] if rng.random() < 0.5 else []
            session.draws += [(at_s, rng.sample(LESSONS, 1)) for at_s in between]
            between = []
        elif sort < 0.45:
            session.logged = False
        else:
            session.evented = rng.random() < 0.5
        for at_s in between:
            if rng.random() < 0.25:
                session.draws.append((at_s, rng.sample(LESSONS, rng.randint(0, 2))))
            else:
                lessons = rng.sample(LESSONS, rng.randint(1, 3))
                session.injections.append((at_s, rng.choice(_KINDS), lessons))
        sessions.append(session)
    return sessions, rng.choice(ZONES)


_KINDS = ("UserPromptSubmit", "PreToolUse")


def pairs_plan(seed: int, pairs: int = 12) -> list[Session]:
    """Pairs of sessions side by side: the first is graded while the file of the second is the newest.

    Each pays the lessons of the second: 12 of 24 grades are foreign.
    """
    rng = random.Random(seed)
    plan = []
    for number in range(pairs):
        at_s = _BASE_S + number // 2 * 86_400 + number % 2 * 9_000 + rng.random()
        first, second = (str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(2))
        a = Session(first, f"a{number:03x}", at_s, at_s + 1_800 + rng.random(), round(0.7 + 0.3 * rng.random(), 3))
        b = Session(
            second, f"b{number:03x}", at_s + 90, at_s + 3_600 + rng.random(), round(0.3 + 0.3 * rng.random(), 3)
        )
        a.injections = [(at_s + 2, "UserPromptSubmit", [LESSONS[0]]), (at_s + 60, "PreToolUse", [LESSONS[1]])]
        b.injections = [(at_s + 95, "PreToolUse", [LESSONS[2]]), (at_s + 2_400, "UserPromptSubmit", [LESSONS[1]])]
        a.draws = [(at_s + 1_500, [LESSONS[2]]), (at_s + 1_600, [])]
        b.draws = [(at_s + 400, [])]
        plan += [a, b]
    return plan
