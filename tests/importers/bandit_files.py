"""State files of bandits, and what a ledger holds of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.importers.conftest import MTIME_S

from rightful.events import BalanceOpened
from rightful.ledger import Ledger

ARM = {"arm_id": "x", "alpha": 2.5, "beta": 1.5, "total_selections": 2}
LAST = "2026-08-01T10:15:11+00:00"
LEFT_OUT = "exclude one with the policy's field `balances`"


def write(path: Path, value: object, **json_options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, **json_options))
    os.utime(path, (MTIME_S, MTIME_S))
    return path


def state(**fields: Any) -> dict[str, Any]:
    return {"arms": {"x": ARM}, "last_updated": LAST} | fields


def balances(ledger: Ledger) -> list[BalanceOpened]:
    return [row.event for row in ledger.read(types=["balance.opened"]) if isinstance(row.event, BalanceOpened)]


def means(ledger: Ledger, **policy: Any) -> dict[str, tuple[float, float, int]]:
    arms = ledger.posteriors(policy or "bound").arms
    return {arm: (one.alpha, one.beta, one.n) for arm, one in arms.items()}
