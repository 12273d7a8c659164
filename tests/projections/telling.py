"""Short ways of telling a log and asking it."""

from __future__ import annotations

from typing import Any
from unittest import mock

from tests.projections.fake import FakeLog
from tests.strategies import Wire

from rightful.identity import event_id
from rightful.policies import policy_of
from rightful.projections.credit.posteriors import Posteriors
from rightful.projections.facts import fold
from rightful.projections.projected import Projected
from rightful.times import text_of

BINS = ("credited", "unmatched", "empty", "ambiguous", "conflicting", "retracted",
        "late_only", "unmapped", "in_balance", "erased")  # fmt: skip


def told(kind: str, session: str | None, at: float, more: dict[str, Any]) -> Wire:
    """A wire event; `by` is its producer, `key` its key, else the key is made of all it says."""
    by = more.pop("by", "hook")
    key = more.pop("key", None) or repr((kind, session, at, sorted(more.items())))
    of = {} if session is None else {"session": session}
    return {"type": kind, "producer": by, "key": key, "at": text_of(round(at * 1_000_000)), **of, **more}


def exposed(session: str, *arms: str, at: float = 100, withheld: tuple[str, ...] = (), **more: Any) -> Wire:
    listed = [{"arm": arm} for arm in arms]
    held = [{"arm": arm} for arm in withheld]
    return told("exposure.recorded", session, at, {"arms": listed, "withheld": held, **more})


def graded(session: str, reward: float | None = None, at: float = 200, seq: int = 1, **more: Any) -> Wire:
    said = {} if reward is None else {"reward": reward}
    return told("grade.recorded", session, at, {"seq": seq, "by": "judge", **said, **more})


def retracted(session: str, seq: int, at: float = 300, **more: Any) -> Wire:
    return told("grade.retracted", session, at, {"seq": seq, "by": "judge", **more})


def linked(session: str, other: str, relation: str = "native", evidence: str = "native-id", **more: Any) -> Wire:
    return told("session.linked", session, 50, {"other": other, "as": relation, "evidence": evidence, **more})


def unlinked(session: str, other: str, **more: Any) -> Wire:
    return told("session.unlinked", session, 50, {"other": other, **more})


def started(session: str, nonce: str) -> Wire:
    return told("session.started", session, 10, {"run_nonce": nonce})


def mentioned(session: str, **more: Any) -> Wire:
    return told("message.recorded", session, 10, {"role": "user", **more})


def withdrawn(key: str, revision: int, by: str = "hook") -> Wire:
    return told("event.withdrawn", "t:desk", 900, {"id": event_id(by, key), "revision": revision})


def opened(at: float = 90, source: str = "bandit.json", **more: Any) -> Wire:
    more = {"arms": {}, "sha256": "a" * 64, **more}
    return told("balance.opened", None, at, {"source": source, **more})


def published(sha256: str) -> Wire:
    zeros = "0" * 64
    more = {"policy": zeros, "through": 1, "digest": zeros, "target": "bandit.json", "new_sha256": sha256}
    return told("posterior.published", None, 95, more)


def decayed(gamma: float, at: float = 150, **more: Any) -> Wire:
    return told("bandit.decayed", "t:desk", at, {"gamma": gamma, **more})


def log_of(*events: Wire) -> FakeLog:
    """A log of these events, each of which must be stored."""
    log = FakeLog()
    outcomes = log.append(events)
    assert "invalid" not in outcomes
    return log


def projected(log: FakeLog) -> Projected:
    return Projected(log)  # type: ignore[arg-type]


def ask(*events: Wire, **policy: Any) -> Posteriors:
    """What a policy makes of these events, which is the same folded by page and row by row."""
    log, rule = log_of(*events), policy_of(policy)
    with mock.patch.object(fold, "is_plain", return_value=False):
        by_row = projected(log).posteriors(rule)
    by_page = projected(log).posteriors(rule)
    assert by_page == by_row
    return by_page


def bins(got: Posteriors) -> dict[str, int]:
    """How many grades ended where."""
    return {name: got.counters[f"{name}_grades"] for name in BINS if f"{name}_grades" in got.counters}


def alphas(got: Posteriors) -> dict[str, float]:
    return {arm: one.alpha for arm, one in got.arms.items()}
