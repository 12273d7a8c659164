from __future__ import annotations

from pathlib import Path

import pytest
from tests.contracts.suite import RecorderSuite
from tests.contracts.support import Place


class TestLMDB(RecorderSuite):
    """The recorder on LMDB, with plain events."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path / "store", "plain")
