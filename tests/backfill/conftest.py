"""A ledger with two graded sessions, and a tool's file with one of their arms."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.backfilling import FILE, ledger_with, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ledger_with(tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "state" / "bandit-state.json", FILE)
