"""What the tests of the turn recorder share: a turn, what the ledger holds of it, and a gate before the log."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.contracts.support import PATIENCE_S

from rightful.ledger import Ledger
from rightful.log.log import Log
from rightful.projections.facts.completeness import Completeness, completeness_of
from rightful.recording.turn_recorder import TurnRecorder

SESSION = "runner:7f3a"


def turn(ledger: Ledger, name: str = "1", **options: Any) -> TurnRecorder:
    return ledger.producer("my-runner").turn(SESSION, name, **options)


def events(ledger: Ledger) -> list[Any]:
    return [row.event for row in ledger.read()]


def completeness(ledger: Ledger) -> Completeness:
    return completeness_of(row for page in ledger.log.scan() for row in page)


class Gate:
    """Stands before the log: lets nothing through, fails, or counts what comes."""

    def __init__(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: BaseException | None = None
        self.fails_with = ""
        self.sizes: list[int] = []
        self.entered = threading.Event()
        self.open = threading.Event()
        self.open.set()
        self._append = log.append
        monkeypatch.setattr(log, "append", self)

    def __call__(self, batch: Any, **more: Any) -> Any:
        self.entered.set()
        assert self.open.wait(PATIENCE_S)
        if self.error is not None and self.fails_with in str(batch):
            raise self.error
        self.sizes.append(len(batch))
        return self._append(batch, **more)
