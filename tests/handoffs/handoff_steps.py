"""Steps that hand something over, and what stands in a ledger after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rightful.handoffs.handoffs import Handoffs
from rightful.handoffs.writer_identity import SameRun
from rightful.ledger import Ledger

A, B, RUN = "claude-code:a", "claude-code:b", "run:mine"
AT = "2026-08-01T10:00:00Z"
AT_US = 1_785_578_400_000_000

Step = Callable[..., Handoffs]


def step_of(ledger: Ledger) -> Step:
    """A step of some session, with an environment of its own."""

    def made(*, same_run: SameRun | None = None, cwd: str = "/w", **environ: str) -> Handoffs:
        return Handoffs(ledger.log, clock=lambda: AT_US, environ=environ, cwd=Path(cwd), same_run=same_run)

    return made


def rows(ledger: Ledger) -> list[tuple[str, str]]:
    return [(row.type, row.outcome) for row in ledger.read()]
