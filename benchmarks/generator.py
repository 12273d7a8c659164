"""Wire events as several workers would write them: from a seed, one after the other, none twice.

A session writes 4.6 events on average:

| event | a session | by |
|---|---|---|
| `session.started` | 0.80 | runner |
| `session.linked`, of the run's `workspace:` name to its `claude-code:` name | 0.33 | runner |
| `exposure.recorded`: 0, 1 or 2 (5, 70, 25%), of 1 to 5 arms; 30% withhold one | 1.20 | claude-code-hook |
| `grade.recorded`, `session-records/overall`; one in ten by an outcome word alone | 0.85 | session-records |
| `grade.recorded`, `judge/alignment`; one in ten with rewards of single arms | 0.35 | judge |
| `grade.recorded`, `human/overall` | 0.05 | human |
| a regrade of `session-records/overall` with the next `seq` | 0.15 | session-records |
| `grade.retracted` of `judge/alignment` | 0.03 | judge |
| `session.ended` | 0.80 | runner |
| `bandit.decayed` | 0.01 | updater |

Half of the sessions without a link are `claude-code:<uuid>`, half `workspace:<id>@<start>`. One
grade in ten is late: it comes hundreds to thousands of events after its session. There are 500
arms, the k-th shown in proportion to 1/k; a context (category, model) stands in 60% of the
exposures. 24 workers write interleaved, about 5 seconds between two events.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count, islice
from typing import Any

Wire = dict[str, Any]

ARMS = 500
WORKERS = 24
MAX_EVENTS = 5_000_000
LINKED = 1 / 3
LATE = 0.1

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TOPICS = ("git", "shell", "review", "planning", "testing", "writing", "search", "tools", "memory", "release")
_CATEGORIES = ("code", "triage", "infrastructure", "content", "research", None)
_MODELS = ("opus", "sonnet", "gpt-5", "grok-4")
_OUTCOMES = ("productive", "productive", "noop", "failed")

arms = tuple(f"lessons/{_TOPICS[number % len(_TOPICS)]}/lesson-{number:03}.md" for number in range(ARMS))
"""The arms, the most frequent first."""

_cumulative = list(accumulate(1 / rank for rank in range(1, ARMS + 1)))


def events(size: int, seed: int = 1) -> Iterator[Wire]:
    """Yield that many wire events.

    Args:
        size: How many; at most `MAX_EVENTS`, the size that the mix is made for.
        seed: The same seed gives the same events.
    """
    if not 0 <= size <= MAX_EVENTS:
        raise ValueError(f"Expected a size from 0 to {MAX_EVENTS}, got {size}")
    return islice(_Workers(seed).run(), size)


class _Workers:
    """Sessions that run side by side."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._at = _START
        self._step = 0
        self._number = count()
        self._late: list[tuple[int, int, Wire]] = []

    def run(self) -> Iterator[Wire]:
        """Yield events without end."""
        rng, step_of = self._rng, timedelta(microseconds=1)
        live = [self._session() for _ in range(WORKERS)]
        while True:
            self._at += step_of * rng.randrange(1, 10_000_000)
            self._step += 1
            event = self._next(live)
            event["at"] = self._at.isoformat()
            yield event

    def _next(self, live: list[Iterator[Wire]]) -> Wire:
        if self._late and self._late[0][0] <= self._step:
            return heapq.heappop(self._late)[2]
        if self._rng.random() < 0.002:
            return self._decayed()
        worker = self._rng.randrange(WORKERS)
        while (event := next(live[worker], None)) is None:
            live[worker] = self._session()
        return event

    def _session(self) -> Iterator[Wire]:
        rng = self._rng
        number = next(self._number)
        native = f"{rng.getrandbits(128):032x}"
        uuid = "-".join((native[:8], native[8:12], native[12:16], native[16:20], native[20:]))
        workspace = f"workspace:{native[:4]}@{self._at.isoformat(timespec='seconds')}/{number}"
        linked = rng.random() < LINKED
        shown = f"claude-code:{uuid}" if linked or rng.random() < 0.5 else workspace
        run = workspace if linked else shown
        if rng.random() < 0.8:
            yield _event("session.started", "runner", f'["{uuid}","started"]', run, harness="claude-code", model="opus")
        link = _event("session.linked", "runner", f'["{uuid}","linked"]', run, other=shown, evidence="native-id") | {
            "as": "native"
        }
        link_late = linked and rng.random() < 0.3
        if linked and not link_late:
            yield link
        yield from self._exposures(uuid, shown)
        yield from self._grades(uuid, run)
        if link_late:
            yield link
        if rng.random() < 0.8:
            yield _event("session.ended", "runner", f'["{uuid}","ended"]', run, turns=rng.randrange(1, 90), exit_code=0)

    def _exposures(self, uuid: str, session: str) -> Iterator[Wire]:
        rng = self._rng
        times = rng.choices((0, 1, 2), (0.05, 0.7, 0.25))[0]
        for turn in range(1, times + 1):
            drawn = rng.choices(arms, cum_weights=_cumulative, k=rng.randrange(1, 6))
            event = _event(
                "exposure.recorded",
                "claude-code-hook",
                f'["{uuid}","prompt",{turn}]',
                session,
                arms=[{"arm": arm, "p_inject": 0.8} for arm in dict.fromkeys(drawn)],
            )
            if rng.random() < 1 / 3:
                held = rng.choices(arms, cum_weights=_cumulative)[0]
                if held not in drawn:
                    event["withheld"] = [{"arm": held, "p_inject": 0.8}]
            if rng.random() < 0.6:
                event["context"] = [rng.choice(_CATEGORIES), rng.choice(_MODELS)]
            yield event

    def _grades(self, uuid: str, session: str) -> Iterator[Wire]:
        rng = self._rng
        graded = rng.random() < 0.85
        if graded:
            yield from self._now_or_late(_grade("session-records", uuid, session, 1, self._verdict()))
        if rng.random() < 0.35:
            verdict: Wire = {"reward": rng.random()}
            if rng.random() < 0.1:
                verdict["per_arm"] = {arm: rng.random() for arm in rng.choices(arms, cum_weights=_cumulative, k=2)}
            yield from self._now_or_late(_grade("judge", uuid, session, 1, verdict, rubric="alignment"))
            if rng.random() < 0.03 / 0.35:
                yield _event("grade.retracted", "judge", f'["{uuid}","retracted"]', session, seq=2, rubric="alignment")
        if rng.random() < 0.05:
            yield _grade("human", uuid, session, 1, {"reward": rng.random()})
        if graded and rng.random() < 0.15 / 0.85:
            yield from self._now_or_late(_grade("session-records", uuid, session, 2, {"reward": rng.random()}))

    def _verdict(self) -> Wire:
        if self._rng.random() < 0.1:
            return {"outcome": self._rng.choice(_OUTCOMES)}
        return {"reward": self._rng.random()}

    def _now_or_late(self, event: Wire) -> Iterator[Wire]:
        if self._rng.random() < LATE:
            due = self._step + self._rng.randrange(200, 5_000)
            heapq.heappush(self._late, (due, next(self._number), event))
        else:
            yield event

    def _decayed(self) -> Wire:
        key = f'["decayed","{self._rng.getrandbits(64):016x}"]'
        return _event("bandit.decayed", "updater", key, "workspace:bandit@2026", gamma=0.99)


def _event(kind: str, producer: str, key: str, session: str, **fields: Any) -> Wire:  # noqa: ANN401 - wire fields
    return {"type": kind, "producer": producer, "key": key, "session": session, **fields}


def _grade(producer: str, uuid: str, session: str, seq: int, verdict: Wire, rubric: str = "overall") -> Wire:
    event = _event("grade.recorded", producer, f'["{uuid}","grade",{seq}]', session, seq=seq, rubric=rubric)
    return event | verdict
