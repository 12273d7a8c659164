"""A rebuilt file's old numbers are in it no more, so they do not count in the ledger's answers either."""

from __future__ import annotations

from pathlib import Path

from tests.backfilling import AFTER, GIT, OLD, applied, arm, ledger_with, plan_of, state, taken_back, written

import rightful
from rightful.events import PosteriorPublished


def believed(path: Path) -> dict[str, tuple[float, float, int]]:
    with rightful.open(path) as ledger:
        return {name: (one.alpha, one.beta, one.n) for name, one in ledger.posteriors().arms.items()}


def test_ledger_agrees_with_a_rebuilt_and_a_rolled_back_file(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    contaminated = state(arm(GIT, 9.0, 2.0, 9), arm(OLD, 4.0, 1.0, 3), last_updated="1970-01-01T13:00:00+00:00")
    target = written(tmp_path / "b.json", contaminated)

    applied(path, plan_of(path, target, old="rebuilt", force=True))
    assert believed(path) == AFTER

    taken_back(path, target)
    assert believed(path) == {GIT: (9.0, 2.0, 9), OLD: (4.0, 1.0, 3)}  # its grades are in the old numbers again

    applied(path, plan_of(path, target, old="rebuilt", force=True))
    assert believed(path) == AFTER


def test_a_rebuild_names_every_balance_of_its_file_and_no_other(tmp_path: Path) -> None:
    path = ledger_with(tmp_path)
    other = written(tmp_path / "other.json", state(arm(GIT, 5.0, 1.0, 4)))
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 1.0, 2)))
    applied(path, plan_of(path, other, "lesson-hook"))
    applied(path, plan_of(path, target))
    written(target, state(arm(GIT, 4.0, 1.0, 3), last_updated="1970-01-01T10:00:00+00:00"))  # its tool went on

    applied(path, plan_of(path, target, old="rebuilt"))

    with rightful.open(path) as ledger:
        balances = {row.id: row.event for row in ledger.read(types=["balance.opened"])}
        *_, last = (row.event for row in ledger.read(types=["posterior.published"]))
    assert isinstance(last, PosteriorPublished)
    mine = sorted(id_ for id_, one in balances.items() if getattr(one, "source", None) == str(target))
    assert (len(balances), len(mine)) == (3, 2)
    assert (last.extra or {})["retires"] == mine
