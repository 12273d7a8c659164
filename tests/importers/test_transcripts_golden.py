"""Event ids are for ever: a changed id would import every transcript a second time."""

from __future__ import annotations

import json

import pytest
from tests.importers.conftest import GOLDEN, Importer
from tests.importers.reading_lines import SAMPLES

from rightful.ledger import Ledger


@pytest.mark.parametrize("tool", ["codex", "copilot", "grok"])
def test_the_samples_of_a_tool_give_the_golden_ids(imported: Importer, ledger: Ledger, tool: str) -> None:
    imported(tool, SAMPLES / tool)

    ids = {row.id: [row.type, row.event.session] for row in ledger.read()}  # type: ignore[union-attr]
    assert ids == json.loads((GOLDEN / f"{tool}.ids").read_text())
