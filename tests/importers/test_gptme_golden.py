"""Event ids are for ever: a changed id would import everything a second time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.importers.conftest import GOLDEN, Importer
from tests.importers.test_gptme import zone  # noqa: F401 - the machine's time is UTC

from rightful.ledger import Ledger

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.mark.parametrize(
    ("kind", "name", "ids"),
    [
        ("gptme", "gptme/logs", "gptme-logs.ids"),
        ("gptme", "gptme-runs", "gptme-runs.ids"),
        ("manifest", "manifest", "gptme-manifest.ids"),
        ("receipts", "gptme/receipts.jsonl", "gptme-receipts.ids"),
    ],
)
def test_the_samples_of_gptme_give_the_golden_ids(
    ledger: Ledger, imported: Importer, kind: str, name: str, ids: str
) -> None:
    imported(kind, SAMPLES / name)

    assert {row.id: [row.type, row.session] for row in ledger.read()} == json.loads((GOLDEN / ids).read_text())
