"""A recorded state file, and a log to hold it against."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.projections.telling import exposed, graded, log_of
from tests.projections.telling import projected as of_log
from tests.strategies import Wire

from rightful.reports.audits.recorded_rule import Candidate, RecordedRule, compare_with_rules
from rightful.times import text_of

S = 1_000_000

TWO = [
    exposed("t:a", "x", at=10), exposed("t:b", "y", at=20), graded("t:a", 0.75, at=30), graded("t:b", 0.25, at=31),
]  # fmt: skip


def best(verdict: RecordedRule) -> Candidate:
    return verdict.candidates[0]


def document_of(found: RecordedRule) -> Any:
    """Return what `--json` prints."""
    return msgspec.json.decode(msgspec.json.encode(found))


def state(arms: dict[str, tuple[float, float, int]], last: float | None = None) -> bytes:
    held = {arm: {"alpha": alpha, "beta": beta, "total_selections": n} for arm, (alpha, beta, n) in arms.items()}
    when = {} if last is None else {"last_updated": text_of(round(last * S))}
    return json.dumps({"arms": held, **when}).encode()


def ask(data: bytes, *events: Wire, **more: Any) -> RecordedRule:
    return compare_with_rules(of_log(log_of(*events)), data, **more)
