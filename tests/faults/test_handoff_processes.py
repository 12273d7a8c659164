"""Handoffs of several processes at once, and of processes that die."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import amounts
from tests.faults.support import at_once, started

from rightful import ledger as app
from rightful.handoffs.handoffs import Handoffs
from rightful.ledger import Ledger

HANDING = "tests.faults.handing"
ROUNDS = amounts.either(3, 1)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with app.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def hand(ledger: Ledger) -> Handoffs:
    return Handoffs(ledger.log, environ={}, cwd=Path("/w"))


@pytest.mark.parametrize("count", [2, 8])
def test_of_takers_that_come_at_once_one_wins(ledger: Ledger, count: int) -> None:
    for number in range(ROUNDS):
        hand(ledger).put("meta", f"x{number}", session="t:giver")

        said = at_once(HANDING, [("race", str(ledger.path), f"t:taker-{at}", "") for at in range(count)])

        assert Counter(said) == {f"got x{number}": 1, "nothing": count - 1}
    assert Counter((row.type, row.outcome) for row in ledger.read()) == {
        ("handoff.written", "appended"): ROUNDS,
        ("handoff.taken", "appended"): ROUNDS,
    }


def test_the_same_take_that_comes_at_once_from_two_places_gets_the_same(ledger: Ledger) -> None:
    """They differ in their working folder, so in what is found of them."""
    for number in range(ROUNDS):
        hand(ledger).put("meta", f"x{number}", session="t:giver")

        said = at_once(HANDING, [("race", str(ledger.path), "t:taker", f"step-{number}")] * 4)

        assert said == [f"got x{number}"] * 4
    assert Counter(row.outcome for row in ledger.read(types=["handoff.taken"])) == {"appended": ROUNDS}


@pytest.mark.parametrize("count", [2, 5])
def test_sessions_that_use_one_name_at_once_each_get_their_own(ledger: Ledger, count: int) -> None:
    said = at_once(HANDING, [("rounds", str(ledger.path), f"t:{at}", f"n{at}", "15") for at in range(count)])

    assert said == ["0 0"] * count
    assert Counter(row.type for row in ledger.read()) == {"handoff.written": 15 * count, "handoff.taken": 15 * count}


def test_runs_that_share_even_their_sessions_name_never_get_anothers(ledger: Ledger) -> None:
    """Some are refused, as they are told; none gets a payload that is not its own."""
    said = at_once(HANDING, [("rounds", str(ledger.path), "t:shared", f"n{at}", "15") for at in range(3)])

    assert [one.split()[0] for one in said] == ["0"] * 3
    assert {row.outcome for row in ledger.read()} == {"appended"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_take_that_died_is_repeated_with_its_key(ledger: Ledger, moment: str) -> None:
    hand(ledger).put("meta", "x", session="t:a")
    process = started(HANDING, "dying", str(ledger.path), "take", moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL

    taken = hand(ledger).take("meta", session="t:a", key="k")

    assert (taken.payload, taken.repeated) == ("x", moment == "after")
    assert Counter(row.type for row in ledger.read()) == {"handoff.written": 1, "handoff.taken": 1}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_put_that_died_is_repeated_with_its_key(ledger: Ledger, moment: str) -> None:
    process = started(HANDING, "dying", str(ledger.path), "put", moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL

    receipt = hand(ledger).put("meta", "x", session="t:a", key="k")

    assert receipt.outcome == ("duplicate" if moment == "after" else "appended")
    assert Counter((row.type, row.outcome) for row in ledger.read()) == {("handoff.written", "appended"): 1}
