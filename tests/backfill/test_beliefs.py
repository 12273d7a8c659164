"""The numbers that tools keep beside a belief, and the digest of what it is made of."""

from __future__ import annotations

import json
from pathlib import Path

from tests.backfilling import (
    GIT,
    applied,
    arm,
    ledger_with,
    plan_of,
    state,
    written,
)
from tests.projections.telling import decayed, exposed, graded
from tests.readers_of_tools import Bandit


def test_the_gptme_policy_counts_again_what_was_pruned(tmp_path: Path) -> None:
    events = [
        exposed("t:a", GIT, at=100), graded("t:a", 1.0, at=200),
        {**decayed(0.5, at=300), "type": "bandit.pruned", "arms": [GIT]},
        exposed("t:b", GIT, at=400), graded("t:b", 0.25, at=500),
    ]  # fmt: skip
    del events[2]["gamma"]
    target = tmp_path / "b.json"
    path = ledger_with(tmp_path, events)

    applied(path, plan_of(path, target, policy="gptme"))

    git = Bandit(target).arms[GIT]
    assert (git.alpha, git.beta, git.total_selections, git.total_rewards) == (1.25, 1.75, 1, 0)


def test_contexts_and_single_dimensions_are_written_with_their_own_counts(tmp_path: Path) -> None:
    events = [
        exposed("t:a", GIT, context=["code", "opus"]), graded("t:a", 0.75),
        exposed("t:b", GIT, context=["code", "haiku"]), graded("t:b", 0.25, at=250),
    ]  # fmt: skip
    target = tmp_path / "b.json"
    path = ledger_with(tmp_path, events)

    applied(path, plan_of(path, target, policy={"marginals": True}))

    inside = Bandit(target).contexts[GIT]
    numbers = {
        key: (one.alpha, one.total_selections, one.total_rewards, one.last_updated[-13:]) for key, one in inside.items()
    }
    assert numbers == {
        ("code",): (2.0, 2, 1, "0:04:10+00:00"),
        ("haiku",): (1.25, 1, 0, "0:04:10+00:00"),
        ("opus",): (1.75, 1, 1, "0:03:20+00:00"),
        ("code", "haiku"): (1.25, 1, 0, "0:04:10+00:00"),
        ("code", "opus"): (1.75, 1, 1, "0:03:20+00:00"),
    }  # fmt: skip


def test_the_digest_is_that_of_the_exact_statistics(tmp_path: Path) -> None:
    """Written from the reference: [arm, context, n, mass, success], the sums in units of 2**-1126."""
    import hashlib
    from fractions import Fraction

    path = ledger_with(tmp_path, [exposed("t:a", GIT), graded("t:a", 0.1), exposed("t:b", GIT), graded("t:b", 0.2)])
    success = (Fraction(0.1) + Fraction(0.2)) * 2**1126
    assert success.denominator == 1
    rows_ = [[GIT, None, 2, f"{2 << 1126:x}", f"{success.numerator:x}"]]

    plan = plan_of(path, tmp_path / "b.json")

    assert plan.digest == hashlib.sha256(json.dumps(rows_, separators=(",", ":")).encode()).hexdigest()


def test_the_digest_holds_balances_and_the_statistics_of_sequential_sums(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))

    bare, whole = plan_of(path, tmp_path / "new.json"), plan_of(path, target)
    same = plan_of(path, tmp_path / "new.json", policy={"arithmetic": "sequential"})

    assert bare.digest != whole.digest
    assert bare.digest == same.digest  # these rewards are sums of powers of two


def test_dropped_updates_of_the_tool_keep_their_time(tmp_path: Path) -> None:
    """A file never gets older: of two states of it that are opened, the one with the later time counts."""
    path, target = ledger_with(tmp_path, []), written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3)))
    applied(path, plan_of(path, target))
    before = target.read_bytes()
    Bandit(target).update([GIT], 1.0, "1970-01-01T13:00:00+00:00")

    applied(path, plan_of(path, target, old="kept"))

    assert (Bandit(target).last_updated, Bandit(target).arms[GIT].last_updated) == ("1970-01-01T13:00:00+00:00",) * 2
    assert (Bandit(target).arms[GIT].alpha, Bandit(target).total_sessions) == (3.0, 7)
    assert json.loads(target.read_bytes())["created"] == json.loads(before)["created"]
