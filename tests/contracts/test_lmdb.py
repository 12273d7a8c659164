from __future__ import annotations

from pathlib import Path

import pytest
from tests.contracts.suite import RecorderSuite
from tests.contracts.support import Place
from tests.storage.turns import served

from rightful import limits
from rightful.storage.port import Decision, LedgerRecorder
from rightful.storage.recorder import LMDBRecorder


class TestLMDB(RecorderSuite):
    """The recorder on LMDB, with plain events."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path / "store", "plain")


class ServedHere(LMDBRecorder):
    """Each append is made by a thread that has its own turns, as those of a session do."""

    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        result = served(lambda: super(ServedHere, self).decide(decision, timeout_s=timeout_s, inline=True))
        if isinstance(result, BaseException):
            raise result
        position: int = result
        return position


class PlaceServedHere(Place):
    def open(self) -> LedgerRecorder:
        return ServedHere(self.folder, kind=self.kind, create=True)


class TestLMDBServedHere(RecorderSuite):
    """The same, by threads that have their own turns."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return PlaceServedHere(tmp_path / "store", "plain")
