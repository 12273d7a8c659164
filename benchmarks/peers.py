"""Appending beside what it replaces: the files that gptme-sessions keeps of each session.

At the end of a session the tool appends a record to its store and updates its bandit. Both are
written here anew and carry the same work:

- the session store appends a record of 67 fields to a JSONL file: an exclusive lock, the whole
  file read to see whether its last line is whole, the line written, flushed and synced. What it
  costs grows with the file, so it holds 20,000 records at the start, as the largest workspace
  known does;
- the bandit does what an updater does at the end of a session: it loads the state of 100 arms,
  changes five, and writes the whole state as indented JSON. It is neither synced nor locked,
  as the tool's is not.

Ours writes the same facts durably: an exposure of five arms and its grade, in one append. Its
ledger holds as many sessions at the start. A batch is a thousand sessions in one append. The
ratios beside each peer alone, and beside an empty store, are printed too.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.generator import Wire, arms
from benchmarks.harness import Result, Setting, in_turn, watch

import rightful
from rightful.ledger import Ledger

ACTIVE = 5
STATE_ARMS = 100
BATCH = 1_000


_FIELDS = """
session_id timestamp start_time end_time session_name project harness model context_tier ab_group tier_version
run_type trigger category recommended_category selector_mode cascade_intent outcome exit_code failure_reason error
duration_seconds token_count input_tokens output_tokens cache_creation_tokens cache_read_tokens sys_prompt_tokens
context_peak_tokens context_window sys_prompt_bytes first_turn_bytes context_peak_bytes session_total_bytes
deliverables deliverable_details trajectory_path journal_path grades grade_reasons trajectory_grade llm_judge_score
llm_judge_reason llm_judge_model smell_score harm_category dropout_selected dropout_reason dropout_depth
span_aggregates summarizer_fired ttft_ms_avg ttft_ms_p50 gen_ms_total tool_ms_total attempt_kind outcome_flip_reason
step_types lesson_events session_label parent_session_id provider cost_usd subagent_summary annotated_fields
duplicate_of archives
""".split()  # noqa: SIM905 - a list of words

Record = dataclasses.make_dataclass("Record", [(name, Any, None) for name in _FIELDS])
"""A session record; each field that is not given is null."""


class SessionStore:
    """Records as JSON lines in one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "session-records.jsonl"
        self.lock = folder / "session-records.jsonl.lock"

    def append(self, record: Any) -> None:  # noqa: ANN401 - a made dataclass
        """Add a record, on a line of its own even if the last one was cut."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(dataclasses.asdict(record), default=str).encode() + b"\n"
        with self.lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self.path.open("a+b") as file:
                file.seek(0)
                whole = file.read()
                if whole and not whole.endswith(b"\n"):
                    file.write(b"\n")
                file.write(line)
                file.flush()
                os.fsync(file.fileno())


@dataclasses.dataclass
class Arm:
    """One arm of the bandit, with the fields of the tool's file."""

    arm_id: str
    alpha: float = 1.0
    beta: float = 1.0
    total_selections: int = 0
    total_rewards: int = 0
    last_updated: str = ""


class Bandit:
    """The state of all arms in one file, written whole after each update."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bandit-state.json"
        self.arms = {arm: Arm(arm) for arm in arms[:STATE_ARMS]}
        self.sessions = 0
        if self.path.exists():
            state = json.loads(self.path.read_text(encoding="utf-8"))
            self.arms = {name: Arm(**arm) for name, arm in state["arms"].items()}
            self.sessions = state["total_sessions"]

    def update(self, active: list[str], reward: float) -> None:
        """Credit the active arms and save."""
        for name in active:
            arm = self.arms[name]
            arm.alpha += reward
            arm.beta += 1.0 - reward
            arm.total_selections += 1
            arm.total_rewards += reward > 0.5
            arm.last_updated = datetime.now(UTC).isoformat()
        self.sessions += 1
        self.save()

    def save(self) -> None:
        """Write the whole state."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "arms": {name: dataclasses.asdict(arm) for name, arm in self.arms.items()},
            "total_sessions": self.sessions,
            "created": "2026-01-01T00:00:00+00:00",
            "last_updated": datetime.now(UTC).isoformat(),
        }
        self.path.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")


class Facts:
    """Sessions with what is recorded of each, for both sides."""

    def __init__(self) -> None:
        self._rng = random.Random(1)
        self._number = count()

    def session(self) -> tuple[str, list[str], float]:
        """Return a new session, its arms and its reward."""
        return f"s{next(self._number):08}", self._rng.sample(arms[:STATE_ARMS], ACTIVE), self._rng.random()

    def update(self) -> list[Wire]:
        """Return the events of a session's end."""
        name, active, reward = self.session()
        shown = {
            "type": "exposure.recorded",
            "producer": "claude-code-hook",
            "key": f'["{name}","prompt",1]',
            "session": f"claude-code:{name}",
            "at": datetime.now(UTC).isoformat(),
            "arms": [{"arm": arm} for arm in active],
        }
        return [shown, _graded(name, reward)]

    def record(self) -> Any:  # noqa: ANN401 - a made dataclass
        """Return a session record with the fields that are mostly filled."""
        name, active, reward = self.session()
        return Record(
            session_id=name,
            timestamp=datetime.now(UTC).isoformat(),
            harness="claude-code",
            model="opus",
            run_type="autonomous",
            trigger="timer",
            category="code",
            outcome="productive",
            exit_code=0,
            duration_seconds=1_800,
            token_count=120_000,
            deliverables=active,
            trajectory_path=f"/home/agent/.claude/projects/-home-agent/{name}.jsonl",
            trajectory_grade=reward,
            grades={"productivity": reward},
        )


def _graded(name: str, reward: float) -> Wire:
    return {
        "type": "grade.recorded",
        "producer": "session-records",
        "key": f'["{name}","grade",1]',
        "session": f"claude-code:{name}",
        "at": datetime.now(UTC).isoformat(),
        "reward": reward,
        "seq": 1,
    }


class Peer:
    """The store and the bandit of one workspace; each turn ends so many sessions.

    Args:
        folder: Where their files are.
        facts: The sessions.
        turn: How many sessions a turn ends.
    """

    def __init__(self, folder: Path, facts: Facts, turn: int) -> None:
        self.folder = folder
        self.store = SessionStore(folder)
        self.facts = facts
        self.turn = turn
        folder.mkdir(parents=True)

    def fill(self, size: int) -> None:
        """Write that many records at once."""
        records = (self.facts.record() for _ in range(size))
        self.store.path.write_text("".join(json.dumps(dataclasses.asdict(record)) + "\n" for record in records))

    def both(self) -> float:
        """Append to the store and update the bandit; return how many sessions a second."""
        return self._rate(store=True, bandit=True)

    def only_store(self) -> float:
        """Append to the store; return how many sessions a second."""
        return self._rate(store=True, bandit=False)

    def only_bandit(self) -> float:
        """Update the bandit; return how many sessions a second."""
        return self._rate(store=False, bandit=True)

    def _rate(self, *, store: bool, bandit: bool) -> float:
        records = [self.facts.record() for _ in range(self.turn)]
        with watch() as taken:
            for record in records:
                if store:
                    self.store.append(record)
                if bandit:
                    Bandit(self.folder).update(record.deliverables, record.trajectory_grade)
        return self.turn / taken.seconds

    def check(self, records: int, updates: int) -> None:
        """See that the files hold that many records and updates."""
        assert self.store.path.read_bytes().count(b"\n") == records
        bandit = Bandit(self.folder)
        assert bandit.sessions == updates
        assert sum(arm.total_selections for arm in bandit.arms.values()) == ACTIVE * updates


def peer(setting: Setting) -> Iterator[Result]:
    """Append beside the store's append and `Bandit.update` with save, single and batched."""
    size, turn = setting.events(20_000, 50), 20 if setting.quick else 200
    facts, turns = Facts(), turn * (setting.pairs + 1)
    full, empty = Peer(setting.folder / "full", facts, turn), Peer(setting.folder / "empty", facts, turn)
    full.fill(size)
    with rightful.open(setting.folder / "ledger", create=True) as ledger:
        fill(ledger, facts, size)

        def single() -> float:
            return appended(ledger, facts.update, turn)

        def ratio(floor: Callable[[], float]) -> float:
            return round(median(pair.ours / pair.floor for pair in in_turn(single, floor, setting.pairs)), 3)

        pairs = in_turn(single, full.both, setting.pairs)
        alone = {"ratio_store_alone": ratio(full.only_store), "ratio_bandit_alone": ratio(full.only_bandit)}
        detail = {"sessions_before": size, **alone, "ratio_beside_empty_store": ratio(empty.both)}
        what = "gptme-sessions' store append and Bandit.update with save"
        yield Result("append-peer", what, "sessions/s", 5, turn, pairs, detail=detail)
        batched = in_turn(lambda: appended_at_once(ledger, facts.update, BATCH), full.both, setting.pairs)
        yield Result("append-peer-batched", what, "sessions/s", 20, BATCH, batched, detail={"sessions_before": size})
    full.check(size + 3 * turns, 3 * turns)
    empty.check(turns, turns)


def fill(ledger: Ledger, facts: Facts, sessions: int) -> None:
    """Append the history of that many sessions."""
    for at in range(0, sessions, BATCH):
        appended_at_once(ledger, facts.update, min(BATCH, sessions - at))


def appended(ledger: Ledger, fact: Callable[[], list[Wire]], turn: int) -> float:
    """Append a turn's facts, a commit for each, and return how many a second."""
    facts = [fact() for _ in range(turn)]
    with watch() as taken:
        receipts = [receipt for one in facts for receipt in ledger.append(one)]
    assert {receipt.outcome for receipt in receipts} == {"appended"}
    return turn / taken.seconds


def appended_at_once(ledger: Ledger, fact: Callable[[], list[Wire]], batch: int) -> float:
    """Append facts in one commit and return how many a second."""
    wires = [wire for _ in range(batch) for wire in fact()]
    with watch() as taken:
        receipts = ledger.append(wires)
    assert {receipt.outcome for receipt in receipts} == {"appended"}
    return batch / taken.seconds
