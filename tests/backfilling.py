"""A ledger with a few grades, and tools' files beside it, to backfill into."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.projections.telling import exposed, graded
from tests.strategies import Wire

import rightful
from rightful.backfill.apply_plan import Done, apply, rollback
from rightful.backfill.plan_document import Plan, PlanRequest
from rightful.backfill.planning import Books, make_plan
from rightful.backfill.publication_status import TargetStatus, status
from rightful.policies import policy_of

GIT, TESTS, OLD = "/ws/lessons/git.md", "/ws/lessons/tests.md", "/ws/lessons/old.md"
NOON = 12 * 3600

EVENTS: list[Wire] = [
    exposed("t:a", GIT, TESTS, at=NOON, context=["code", None]),
    graded("t:a", 0.75, at=NOON + 60),
    exposed("t:b", GIT, at=NOON + 100),
    graded("t:b", 0.25, at=NOON + 200),
]
"""Two sessions after every balance's time: git.md gets 0.75 and 0.25, tests.md 0.75."""

AFTER = {GIT: (2.0, 2.0, 2), TESTS: (1.75, 1.25, 1)}
"""What the log alone gives."""


def arm(name: str, alpha: float, beta: float, n: int, **more: Any) -> dict[str, Any]:
    updated = "1970-01-01T08:00:00+00:00"
    six = {
        "arm_id": name,
        "alpha": alpha,
        "beta": beta,
        "total_selections": n,
        "total_rewards": n,
        "last_updated": updated,
    }
    return six | more


def state(*arms: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A state of gptme_sessions; an arm is named by its `arm_id`."""
    top = {"total_sessions": 7, "created": "1970-01-01T01:00:00+00:00", "last_updated": "1970-01-01T09:00:00+00:00"}
    return {"arms": {one["arm_id"]: one for one in arms}, **top, **more}


FILE = state(arm(GIT, 3.0, 2.0, 3))
"""A file with one arm of `EVENTS`."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def written(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text(document))
    return path


def ledger_with(folder: Path, events: Iterable[Wire] = EVENTS) -> Path:
    path = folder / "ledger"
    with rightful.open(path, create=True) as ledger:
        receipts = ledger.append(list(events))
        assert {one.outcome for one in receipts} <= {"appended"}
    return path


@contextmanager
def books(path: Path) -> Iterator[Books]:
    with rightful.open(path) as ledger:
        yield Books(ledger.projected(), ledger.path, ledger.id)


_ticks = itertools.count(2_000_000_000_000_000)


def clock() -> int:
    return next(_ticks)


def asked(target: Path, reader: str = "gptme-sessions", policy: Any = "bound", **more: Any) -> PlanRequest:
    return PlanRequest(str(target), reader, policy_of(policy), **more)


def plan_of(path: Path, target: Path, reader: str = "gptme-sessions", policy: Any = "bound", **more: Any) -> Plan:
    with books(path) as found:
        return make_plan(found, asked(target, reader, policy, **more)).plan


def bytes_of(path: Path, target: Path, reader: str = "gptme-sessions", policy: Any = "bound", **more: Any) -> bytes:
    with books(path) as found:
        return make_plan(found, asked(target, reader, policy, **more)).data


def applied(path: Path, plan: Plan) -> Done:
    with books(path) as found:
        return apply(found, plan, clock)


def taken_back(path: Path, target: Path, **more: Any) -> Done:
    with books(path) as found:
        return rollback(found, str(target), clock, **more)


def rows(path: Path, kind: str) -> list[Any]:
    """The events of a type that stand in the ledger."""
    with rightful.open(path, readonly=True) as ledger:
        return [row.event for row in ledger.read(types=[kind])]


def stands(path: Path, target: Path) -> TargetStatus:
    """How a file stands to what was published to it."""
    with books(path) as found:
        [one] = status(found, str(target))
        return one
