from __future__ import annotations

import json
from pathlib import Path

from tests.backfilling import GIT, NOON, applied, arm, ledger_with, plan_of, state, written
from tests.projections.telling import exposed, graded, told

PRUNED = told("bandit.pruned", "t:p", NOON, {"arms": [GIT], "contexts": []})


def test_what_was_pruned_takes_its_successes_with_it(tmp_path: Path) -> None:
    """A file never holds more successes of an arm than selections."""
    path = ledger_with(tmp_path, [PRUNED, exposed("t:a", GIT, at=NOON + 1), graded("t:a", 0.25, at=NOON + 2)])
    target = written(tmp_path / "b.json", state(arm(GIT, 4.0, 1.0, 3)))

    applied(path, plan_of(path, target, policy="gptme", force=True))

    found = json.loads(target.read_bytes())["arms"][GIT]
    assert (found["alpha"], found["total_selections"], found["total_rewards"]) == (1.25, 1, 0)
