"""Which publications of a file are ours: nobody else's word makes a backfill touch it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import FILE, applied, books, ledger_with, plan_of, taken_back, text, written

import rightful
from rightful.backfill.publication_status import status
from rightful.errors import UsageError
from rightful.identity import composite_key
from rightful.projections.publications import publications

ZEROS = "0" * 64


def foreign(target: Path, **more: Any) -> dict[str, Any]:
    """A tool says that it published what stands there, where no file was."""
    return {
        "type": "posterior.published", "producer": "runner", "key": "p", "at": "1970-01-01T12:30:00Z",
        "policy": ZEROS, "through": 1, "digest": ZEROS, "target": str(target),
        "new_sha256": hashlib.sha256(target.read_bytes()).hexdigest(), **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"producer": "backfill"},
        {"producer": "backfill", "key": composite_key("publish", "/elsewhere", "lesson-hook")},
        {"producer": "backfill", "extra": {"rolled_back": 7, "removed": True}},
    ],
)
def test_what_somebody_else_says_was_published_is_not_withdrawn(tmp_path: Path, more: dict[str, Any]) -> None:
    """It names no bytes before, so taking it back would remove the tool's file."""
    target, path = written(tmp_path / "state" / "b.json", FILE), ledger_with(tmp_path)
    with rightful.open(path) as ledger:
        assert [one.outcome for one in ledger.append([foreign(target, **more)])] == ["appended"]

    with pytest.raises(UsageError, match="nothing was published to"):
        taken_back(path, target)

    assert target.read_bytes() == text(FILE)
    with books(path) as found:
        assert status(found) == []


def test_a_foreign_publication_between_ours_is_skipped(tmp_path: Path) -> None:
    target, path = written(tmp_path / "state" / "b.json", FILE), ledger_with(tmp_path)
    first = applied(path, plan_of(path, target))
    with rightful.open(path) as ledger:
        ledger.append([foreign(target)])

    taken_back(path, target)

    assert target.read_bytes() == text(FILE)
    with books(path) as found:
        one, two = publications(found.projected.log)[str(target)]
    assert (one.id, two.rolled_back, two.event.supersedes) == (first.publication, first.publication, one.id)
